"""The atomic tools of seed 002: what there is (`registry`), and what a call comes to.

I own: the list of tools with their schemas, what tools that concern a task make of its judgement (`task`), how a model
is asked with them (`calling`), and the documents of tools that store (`storing`). Callers:
`kb.extract.qualifier.phases` and `kb.service.http`. I never write to a store and never move a task: what tools store
goes the way of all documents, and what they say of a task is the directive that the operator executes.

See docs/decisions/0105.
"""
