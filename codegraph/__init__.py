"""The code graph: what source code consists of, and what leads from one declaration to another, without a model.

    parse/      the facts of one file from its bytes: declarations, imports, words, and what differs between languages
    resolve/    what leads from file to file of a project: calls, imports, bases; names and keys of declarations
    extract/    the facts of many files, read in worker processes within a budget: what they read is hostile
    answer/     what can be asked of a project: callers, what a change breaks, files for an issue, a map

I never write to a store and parse no source in the process of a service: it stalls the event loop and may not end
(decision 0127). `python -m codegraph extract DIR` prints what is read. I import nothing of ours but `contracts`,
`text` and `crds`.
"""

VERSION = "5"
"""Of what is read out of a file and of how it is resolved. Facts of another version are not used."""
