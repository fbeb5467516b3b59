"""`kubectl jervis`: the operator's objects from a person's point of view.

I own: what a person types, what they read, and the exit status that a script goes by. `commands/` has one module per
command, `views/` turns objects into tables and text without any I/O, `edits` turns an intention into a patch.

Who may call me: people and their scripts. No other package imports me. I call the knowledge base by `kb.client`, the
router by `router.client` and Kubernetes by `kube`, with the rights of the caller; I never write a status.

My root is `__main__`.
"""
