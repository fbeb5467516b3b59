"""Calls of TypeScript and JavaScript. I own the facts of a file about its scopes and calls, and how they are resolved.

Source: the TypeScript handbook; beside its type checker: `bench/codegraph/resolution.py`.
"""

from codegraph.resolve.calls.ecma.read import read
from codegraph.resolve.calls.ecma.resolve import resolve

__all__ = ["read", "resolve"]
