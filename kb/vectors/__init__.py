"""The vectors: the text of every chunk, its embedding, and the embedding of every sentence that proves something.

I own: the `store.Store` port, its implementation on Weaviate, and the call that embeds.
Who may call me: `kb.ingest` and `kb.retrieve`, through the port; `kb.__main__` builds one.
What I hold is shown only where the graph has committed it; I never decide that.
"""
