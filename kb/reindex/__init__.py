"""A new embedding model takes the place of the one before, while that one serves (decision 0071).

    phase      what all processes agree on, kept in MongoDB: which index is read, which are written
    indexes    the two indexes as one vector store, and one embedder that makes the vectors of both
    copying    what the process with the duty does: it copies, verifies, switches and drops

I own: the collection `kb_reindex`. Who may call me: `kb.service.assembly` and `kb.service.serving`, where the settings
name a model before; everything else knows the ports `kb.vectors.store` and `kb.vectors.embedding`.
"""
