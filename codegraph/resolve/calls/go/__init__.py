"""Calls of Go. I own the facts of a file about its declarations and calls, and how calls are resolved over packages."""

from codegraph.resolve.calls.go.read import read
from codegraph.resolve.calls.go.resolve import resolve

__all__ = ["read", "resolve"]
