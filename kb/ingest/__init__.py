"""Ingest: chunk -> extract -> normalise -> vectors -> graph; the intent is written first, the graph commits.

I own: the pipeline, the intent record, the turns of writers and the commit. What is read out of a document is
`kb.extract`, what it is `kb.extract.qualifier`.
Who may call me: `kb.service.http` and `kb.__main__`. I call the stores only through their ports.
"""
