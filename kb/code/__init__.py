"""The code graph in the knowledge base: branches as they are stored, and how questions about them reach a worker.

I own: the record of a branch and of its facts (`book`), which branch a question is about (`service`), the commits that
changed a declaration (`history`), ad-hoc queries of Joern (`joern_queries`), and figures (`branch_metrics`,
`pass_figures`). What source code consists of, the worker process and the documents are `codegraph`'s. Callers:
`kb.ingest`, `kb.agent`, `kb.erasure`, `kb.service`.

Source: seed 001 "Tree-sitter Pipeline" and "Node Types" (CODE, VCS).
"""
