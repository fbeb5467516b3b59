"""What things are called in ArangoDB: collections of a client, keys of documents and entities. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import quote

from crds import scope

_KEY_CHARS = 200
# What ArangoDB allows in a `_key` beside letters and digits.
_KEY_SAFE = "_-:.@()+,=;$!*'"


FENCES = "jervis_fences"
"""The collection of the fences of all documents (`kb.ingest.document_locks`); no client's begins so."""
# Of a client's objects: the present, and the versions that were replaced.
_PRESENT, _HISTORY = "c", "h"


def nodes(client: str, *, history: bool = False) -> str:
    """The collection of a client's documents and entities."""
    return f"{_HISTORY if history else _PRESENT}{client}_nodes"


def edges(client: str, *, history: bool = False) -> str:
    """The collection of a client's mentions and relationships."""
    return f"{_HISTORY if history else _PRESENT}{client}_edges"


def graph(client: str, *, history: bool = False) -> str:
    """The named graph over both."""
    return f"{_HISTORY if history else _PRESENT}{client}_graph"


def client_of(graph_name: str, edge_collections: Iterable[str]) -> str | None:
    """The client whose present graph is called so and lies in these collections; None for any other graph."""
    if not (graph_name.startswith(_PRESENT) and graph_name.endswith("_graph")):
        return None
    client = graph_name[len(_PRESENT) : -len("_graph")]
    ours = re.fullmatch(scope.OPTIONAL_IDENTIFIER, client) and list(edge_collections) == [edges(client)]
    return client if ours else None


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
    """The `_key` of a document, or of a version by its id."""
    # No entity's key starts with "$": a namespace is made of letters, digits, "_" and "-".
    return safe_key(f"$document::{document_id}")


def paired(node_keys: Iterable[str]) -> list[list[str]]:
    """Keys as the queries take them: beside what ArangoDB calls them."""
    return [[key, safe_key(key)] for key in sorted(node_keys)]
