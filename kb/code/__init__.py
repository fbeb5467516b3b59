"""The code graph in the knowledge base: branches as they are stored, as documents, and questions about them.

I own: the record of a branch and of its facts (`book`), its documents (`documents`), the process that resolves and
answers (`analyst`, `worker`), and how questions reach it (`service`, `history`). What source code consists of is
`codegraph`'s. Callers: `kb.ingest`, `kb.agent`, `kb.service`.

Source: seed 001 "Tree-sitter Pipeline" and "Node Types" (CODE, VCS).
"""
