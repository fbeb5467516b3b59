"""The graph: which things are mentioned where, how they relate, and the sentence that proves it.

I own: the `store.Store` port, its embedded implementation (`sqlite`) and the production one (`arango`).
Who may call me: `kb.ingest` and `kb.retrieve`, through the port; `kb.__main__` builds one.
A node exists while something mentions it and an edge while something proves it: there are no orphans to sweep.
Replacing a document is one transaction and the commit point of an ingest: a chunk that no committed document holds is
never shown.
"""
