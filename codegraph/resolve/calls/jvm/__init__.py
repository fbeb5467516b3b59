"""Calls of Java and Kotlin, which may call each other. I own the facts of a file, and how calls are resolved."""

from __future__ import annotations

import tree_sitter

from codegraph.resolve.calls.jvm import java, kotlin
from codegraph.resolve.calls.jvm.facts import JvmFacts
from codegraph.resolve.calls.jvm.resolve import resolve

__all__ = ["read", "resolve"]


def read(tree: tree_sitter.Tree, source: bytes) -> JvmFacts:
    """The facts of a file; the kinds of nodes that its grammar has say which language it is."""
    is_kotlin = tree.language.id_for_node_kind("package_header", True) is not None
    return kotlin.read(tree, source) if is_kotlin else java.read(tree, source)
