"""What checks say of a commit: GitHub, GitLab and Gitea, read for a run through a Connection.

I own: the route, its models (`wire`), and what hosts share (`hosts`); how a host is read stands in its provider. Called
by `sources.__main__` and, for the models, by `sources.client`. What I never do: start, cancel or repeat a check, or
read its whole log.
"""
