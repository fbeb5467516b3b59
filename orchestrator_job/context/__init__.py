"""The hierarchical context of a round that has goals: step, goal, epic. Seed 000 "MongoDB context store", seed 001
`app/context`.

`entries` keeps it in `orchestrator_context`, `retention` decides how long and what the knowledge base is given,
`summarizer` makes what is long shorter without cutting it, `reading` gives an agent the full text.
"""
