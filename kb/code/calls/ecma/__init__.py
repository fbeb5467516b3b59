"""Calls of TypeScript and JavaScript. I own the facts of a file about its scopes and calls, and how calls are
resolved over modules."""

from kb.code.calls.ecma.read import read
from kb.code.calls.ecma.resolve import resolve

__all__ = ["read", "resolve"]
