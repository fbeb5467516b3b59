"""Forgetting a whole scope: a client with all its projects and groups, one project, or what a group itself owns.

I own: the record of an erasure, the scopes that are closed meanwhile, and the work. Who may call me: `kb.service.http`,
and `kb.ingest`, which asks whether a scope is closed. What is kept of tasks in MongoDB goes with the scope; the tasks'
own objects are the apiserver's, and `kubectl jervis erase` deletes them.
"""
