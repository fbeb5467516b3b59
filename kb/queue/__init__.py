"""The extraction queue: documents that can be found by their words already; their entities are still to be extracted.

I own: the jobs on disk, their order (manual position, then priority, then age) and the workers that do them.
Who may call me: `kb.ingest` puts and drops jobs, `kb.service.http` lists and reorders them, `kb.__main__` runs the
workers. I never look into a document: `kb.ingest.pipeline` does what a job asks.
"""
