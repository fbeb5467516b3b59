"""Ingest: chunk -> extract -> normalise -> vectors -> graph; the intent is written first, the graph commits.

I own: the pipeline and its pure steps, the prompts, the intent record and the cache of model answers.
Who may call me: `kb.http` and `kb.__main__`. I call the stores only through their ports.
"""
