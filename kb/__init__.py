"""The knowledge base: what Jervis knows, with the sentence that proves it.

I own: ingest (chunks, extraction, normalisation, routing hints), retrieval, the graph, the vectors and stored content,
and the HTTP service around them. Every read and every write carries a `crds.scope.Scope`; there is no unscoped call.

Who may call me: every package, but only through `kb.client` and the wire models of `kb.api`.
I never import another room except `crds` and `router.client`, and I never decide what happens to a task: I hint.

My root is `kb/__main__.py` (`python -m kb`), which alone reads the environment. The process itself is
put together by `kb/service/serving.py`.
"""
