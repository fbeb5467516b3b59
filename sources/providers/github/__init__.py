"""GitHub: its issues and pull requests, and what checks say of a commit."""
