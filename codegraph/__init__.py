"""The code graph: what source code consists of, and what leads from one declaration to another, without a model.

    parse/      the facts of one file from its bytes: declarations, imports, words, and what differs between languages
    resolve/    what leads from file to file of a project: calls, imports, bases; names and keys of declarations
    extract/    the facts of many files, read in worker processes within a budget: what they read is hostile
    branch/     a branch in its worker process: what Joern adds to it, and its documents for the knowledge base
    answer/     what can be asked of a branch: callers, what a change breaks, files for an issue, a map
    api/        the wire models
    routes      the routes, a row each
    client/     typed calls of them

I never write to a store and parse no source in the process of a service: it stalls the event loop and may not end
(decision 0127). `python -m codegraph extract DIR` prints what is read. I import nothing of ours but `clients`,
`contracts`, `text` and `crds`. Callers use `client` and `api`; `kb` keeps branches, reads them by the rest, and serves
the routes (decision 0194).
"""

VERSION = "5"
"""Of what is read out of a file and of how it is resolved. Facts of another version are not used."""
