"""Qualification measured from outside: the set of `examples/qualify`, a real knowledge base, and the operator's route.

Owns: reading the set (`items`), the knowledge base under measurement as a process with the set's date (`site`,
`served`), the record of every call to a model (`spy`), one pass over items (`passes`) and what is printed (`report`).
Callers: `python -m bench.qualify`, tests. `cost` compares prompts.
Never judges by rules of its own: what is right stands in the items.
"""
