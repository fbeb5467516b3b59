"""What the delegating run promises, measured beside a reference in the same run; `python -m bench.agents CASE`.

Owns: random runs by seed (`shapes`), killing them at each write and around each effect (`crashes`), the same steps as a
plain LangGraph graph (`plain`), trees on one budget (`trees`), and times of stopping, resuming and stepping (`times`,
`steps`). The stores are real, only the models are simulated. Callers: `python -m bench.agents`, tests/bench/agents.
"""
