"""Calls of Rust. I own the facts of a file about its items and calls, and how they are resolved over crates."""

from kb.code.calls.rust.items import read
from kb.code.calls.rust.resolve import resolve

__all__ = ["read", "resolve"]
