"""Connection: what the operator can say about a source of items.

Fetching items is not part of this controller; its Ready condition says so instead of pretending. `decide` is pure,
`reconcile` is the shell.
"""
