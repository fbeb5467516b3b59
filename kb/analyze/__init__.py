"""Ad-hoc queries of Joern about a repository: they wait here until the operator makes a Job for each.

I own: the rows in MongoDB, from the question to its result. Who may call me: `kb.service.http`. What I never do: run a
query. Source: seed 001 "Code Analysis" (`POST /analyze/code`, ad-hoc queries).
"""
