"""Answers without a model: every word of them comes from the prompt.

Owns: finding the prompt's tag and parts (`prompt`), reading text (`text`, `mail`, `dates`, `people`), and one module
per known prompt (`extract`, `hints`, `respond`, `vision`), with `generic` for every other schema. Entry:
`answering.answer`. Deterministic: the same prompt gives the same bytes. Callers: `server.generation`. Never does I/O;
the only heavy thing is the embedder handed in as an argument.
"""
