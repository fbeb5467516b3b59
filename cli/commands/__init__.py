"""One module per command: parse, ask the cluster, hand the answer to a view.

What a patch says is decided in `edits`, how things look in `views`.
"""
