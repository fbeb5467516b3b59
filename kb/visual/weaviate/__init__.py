"""Pages in Weaviate: one collection per schema version and model, native tenants as of the chunks.

Who may call me: `kb.visual.assembly` builds a `store.Store`; all others know the port `kb.visual.index` alone.
"""
