"""Calls of Python. I own the facts of a file about its scopes and calls, and how calls are resolved over files."""
