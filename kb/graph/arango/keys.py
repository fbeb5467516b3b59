"""What things are called in ArangoDB: collections of a client, keys of documents and entities. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from urllib.parse import quote

_KEY_CHARS = 200
# What ArangoDB allows in a `_key` beside letters and digits.
_KEY_SAFE = "_-:.@()+,=;$!*'"


def nodes(client: str) -> str:
    """The collection of a client's documents and entities."""
    return f"c{client}_nodes"


def edges(client: str) -> str:
    """The collection of a client's mentions and relationships."""
    return f"c{client}_edges"


def graph(client: str) -> str:
    """The named graph over both."""
    return f"c{client}_graph"


def client_of(graph_name: str) -> str | None:
    """The client whose graph is called so; None for a graph of somebody else."""
    ours = graph_name.startswith("c") and graph_name.endswith("_graph")
    return graph_name[1 : -len("_graph")] if ours else None


def safe_key(text: str) -> str:
    """A `_key` for any text: other characters escaped, at most 200 long with a SHA-256 suffix (seed 001).

    ArangoDB takes 254 bytes; two texts never share a key.
    """
    # `quote` never escapes "~", which ArangoDB refuses.
    escaped = quote(text, safe=_KEY_SAFE).replace("~", "%7E")
    if len(escaped) <= _KEY_CHARS:
        return escaped
    suffix = hashlib.sha256(text.encode()).hexdigest()
    return f"{escaped[: _KEY_CHARS - len(suffix) - 1]}:{suffix}"


def document(document_id: str) -> str:
    """The `_key` of a document."""
    # No entity's key starts with "$": a namespace is made of letters, digits, "_" and "-".
    return safe_key(f"$document::{document_id}")


def paired(node_keys: Iterable[str]) -> list[list[str]]:
    """Keys as the queries take them: beside what ArangoDB calls them."""
    return [[key, safe_key(key)] for key in sorted(node_keys)]
