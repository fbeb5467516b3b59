"""Calls of Java and Kotlin, which may call each other. I own the facts of a file, and how calls are resolved."""

from __future__ import annotations

import tree_sitter

from kb.code.calls.jvm import java, kotlin
from kb.code.calls.jvm.facts import JvmFacts
from kb.code.calls.jvm.resolve import resolve

__all__ = ["read", "resolve"]


def read(tree: tree_sitter.Tree, source: bytes) -> JvmFacts:
    """The facts of a file; the root of its tree says which language it is."""
    return (kotlin if tree.root_node.type == "source_file" else java).read(tree, source)
