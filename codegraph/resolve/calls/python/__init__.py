"""Calls of Python. I own the facts of a file about its scopes and calls, and how calls are resolved over files."""

from codegraph.resolve.calls.python.resolve import resolve
from codegraph.resolve.calls.python.statements import read

__all__ = ["read", "resolve"]
