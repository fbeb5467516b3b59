"""Forgetting a whole scope: a client with all its projects and groups, one project, or what a group itself owns.

I own: the record of an erasure, the scopes that are closed meanwhile, and the work. Who may call me: `kb.http`, and
`kb.ingest`, which asks whether a scope is closed. What the operator and its runs keep of tasks is theirs, not mine.
"""
