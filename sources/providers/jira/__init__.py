"""Jira: each version of an issue as an item."""
