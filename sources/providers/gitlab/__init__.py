"""GitLab: its issues and merge requests, and what checks say of a commit."""
