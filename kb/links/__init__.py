"""Links that documents hold: where they stand, whether one may be opened, and what becomes of it.

I own: the extractor, the table of links that are never opened, the patterns of clients, the reading of one link. Who
may call me: `kb.service.http`. Nothing is downloaded where a document is read; a link is opened once, for a task of its
own, by `kb.crawl.fetch`, and the links of its page are mentioned and never followed.
"""
