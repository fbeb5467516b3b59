"""The legacy graph's paths beside the answer: one thing to do, goals with steps, a design before the goals.

Seed 000 "Legacy graph (default)": four categories. `paths` says which nodes follow which, `goals` is what a model says
of goals and steps, `nodes` has the nodes; agents, their loops, tools and effects are those of `delegation`.
"""
