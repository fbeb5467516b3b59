"""Upkeep: do the stores agree, and what is done where they do not.

I own: the comparison of graph and vectors, its repair, and moving a project's data into its new group.
Who may call me: `kb.service.http` for a look; `kb.__main__` runs the reconciler. What cannot be repaired is reported.
"""
