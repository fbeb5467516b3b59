"""Counts the delegations of runs for Prometheus: each once, whatever is restarted.

A run is a Job of minutes, which no Prometheus reads; it leaves what its delegations took in `delegation_metrics`. I own
the field `counted` there and my release's document of `delegation_totals`. `totals` is pure and has what is exported,
`reconcile` the loop, `store` the two collections. My root is operator/main.py.
"""
