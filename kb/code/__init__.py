"""What source code consists of: its types, functions, methods and imports, without a model and without a store.

I own: the grammars, what a declaration is called (`kb.code.naming`), the facts of a file, and the processes that read
hostile sources. Callers: `kb.ingest`, and `python -m kb.code` on the command line. I never write to a store, and no
source is parsed in the process of a service: it stalls the event loop and may not end (decision 0127).

Source: seed 001 "Tree-sitter Pipeline" and "Node Types" (CODE, VCS).
"""

VERSION = "5"
"""Of what is read out of a file and of how it is resolved. Facts of another version are not used."""
