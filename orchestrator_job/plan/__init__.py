"""Plans: steps towards an answer, delegations to agents, goals with steps, and procedures.

`run_plan` is the advice to the run's own model, `execution_plan` what agents carry out, `goals` the paths of orders
(seed 000 "Legacy graph (default)"). A module ending in `_nodes` or `_steps`, and `plan_delegations`, has nodes of the
graph.
"""
