"""From the graph's values to the embedded store's rows and back, and what a query binds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from crds import scope
from kb import selection
from kb.graph import model

_SEPARATOR = "\x1f"


class Row(Protocol):
    """Values by the names of their columns."""

    def __getitem__(self, column: str, /) -> Any: ...


def number(*parts: str) -> int:
    """The row id of what is called so: 63 bits of a hash (two of ten million names share one once in 10^5 stores)."""
    digest = hashlib.blake2b(_SEPARATOR.join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class Rows:
    """What a patch becomes in the tables; made outside the writing thread."""

    def __init__(self, owner: scope.Scope, patch: model.Patch) -> None:
        client, document = owner.client_id, patch.document
        me = self.document_number = number(client, document.id)
        place = (owner.project_id, owner.group_id)
        facts = (document.source_urn, document.kind, document.title, document.observed_ms)
        nodes = {one.node_key: number(client, one.node_key) for one in patch.mentions}
        chunks = {chunk_id: number(chunk_id) for chunk_id in patch.chunk_ids}
        everything: tuple[model.Mention | model.Evidence, ...] = (*patch.mentions, *patch.evidence)
        said = {one.sentence_id: one for one in everything}
        texts = {sentence_id: number(sentence_id) for sentence_id in said}
        types = {one.node_key: one.node_type for one in patch.mentions}
        self.document = (me, client, document.id, *place, *facts)
        self.chunks = [(chunks[chunk_id], me, chunk_id) for chunk_id in patch.chunk_ids]
        self.sentences = [(texts[key], chunks[one.chunk_id], key, one.sentence) for key, one in said.items()]
        self.nodes = [(nodes[key], client, key, kind, model.name_of(key)) for key, kind in types.items()]
        self.mentions = [
            (
                nodes[one.node_key],
                1.0 - one.salience,
                chunks[one.chunk_id],
                texts[one.sentence_id],
                me,
                one.name,
                one.description,
            )
            for one in patch.mentions
        ]
        self.evidence = [
            (nodes[one.source], one.type, nodes[one.target], texts[one.sentence_id], chunks[one.chunk_id], me)
            for one in patch.evidence
        ]


def viewer_of(viewer: scope.Scope) -> dict[str, Any]:
    """Whose sight it is, for `:client`, `:project` and `:grp`."""
    return {"client": viewer.client_id, "project": viewer.project_id, "grp": viewer.group_id}


def selection_of(chosen: selection.Selection) -> dict[str, Any]:
    """Which documents count: lists as JSON arrays, times in milliseconds, None for what is not asked."""
    earliest, latest = chosen.span()
    sources = chosen.sources
    return {
        "kinds": None if chosen.kinds is None else json.dumps(chosen.kinds),
        "sources": None if sources is None else json.dumps([one for one in sources if not one.endswith("*")]),
        "beginnings": json.dumps([one[:-1] for one in sources or () if one.endswith("*")]),
        "dated": chosen.dated,
        "earliest": earliest,
        "latest": latest,
    }


def document_of(row: Row) -> model.Document:
    return model.Document(row["document_id"], row["source_urn"], row["kind"], row["title"], row["observed"])


def all_said(rows: Iterable[Row]) -> list[model.Said]:
    """One sentence a row, about a node or proving an edge."""
    documents: dict[str, model.Document] = {}  # many sentences, few documents
    found = []
    for row in rows:
        document = documents.get(row["document_id"])
        if document is None:
            document = documents[row["document_id"]] = document_of(row)
        found.append(_said(row, document))
    return found


def _said(row: Row, document: model.Document) -> model.Said:
    proven = edge_of(row) if row["source"] else None
    return model.Said(row["chunk_id"], document, row["node_key"], proven, row["sentence_id"], row["sentence"])


def node_of(row: Row, described: Sequence[Row]) -> model.Node:
    names = dict.fromkeys(said["name"] for said in described if said["name"])
    descriptions = dict.fromkeys(said["description"] for said in described if said["description"])
    chunks = dict.fromkeys(said["chunk_id"] for said in described)
    return model.Node(
        row["node_key"], row["node_type"], tuple(names), tuple(descriptions), tuple(chunks), row["mentions"]
    )


def edge_of(row: Row) -> model.Edge:
    return model.Edge(row["source"], row["type"], row["target"])


def listed(values: Iterable[str]) -> str:
    """A JSON array in one order, whatever the collection's."""
    return json.dumps(sorted(values))


def numbers(chunk_ids: Iterable[str]) -> str:
    """The row ids of chunks, as a JSON array."""
    return json.dumps([number(chunk_id) for chunk_id in chunk_ids])
