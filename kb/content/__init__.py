"""Content too large for a custom resource, kept as it came.

I own: the `store.Store` port and its implementation on MongoDB's GridFS.
Who may call me: `kb.service.http` and `kb.ingest`, through the port; `kb.__main__` builds one.
I never look into content.
"""
