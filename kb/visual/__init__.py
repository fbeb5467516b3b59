"""Pages as they are seen: images of the pages of PDFs and of images, their multi-vectors, and the search by both.

I own: the images, layouts and vectors of pages (collections `kb_pages`, `kb_page_works` and `pageChoices` in MongoDB,
contents that are parts of documents, the collection of pages in Weaviate), the port `embedder.Port` and what implements
it, and the search that answers with pages. Who may call me: `kb.service.http` (search, settings, uploads), `kb.ingest`
(a document that is deleted), `kb.erasure` and `kb.upkeep`, each through `pages.Pages`, `search.Search` or
`choice.Registry`; `kb.visual.assembly` builds them.

Pages are derived from a document and are never its truth: the graph says which documents there are, in which version,
and who sees them. A page is shown only where the graph shows the very version that it was drawn from.
"""
