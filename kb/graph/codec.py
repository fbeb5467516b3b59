"""From the graph's values to the embedded store's rows and back, and what a query binds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from pydantic import JsonValue

from crds import scope
from kb import selection, visibility
from kb.graph import model

_SEPARATOR = "\x1f"
# The history of a client lies in a partition of its own; no client's id begins so.
_PAST = "~"


Labels = tuple[tuple[str, ...], ...]


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
        labels = None if patch.labels is None else json.dumps(patch.labels)
        self.document = (
            me,
            client,
            document.id,
            *place,
            *facts,
            document.since_ms,
            patch.revision,
            patch.given,
            labels,
        )
        self.chunks = [(chunks[chunk_id], me, chunk_id) for chunk_id in patch.chunk_ids]
        self.sentences = [(texts[key], chunks[one.chunk_id], key, one.sentence) for key, one in said.items()]
        self.nodes = [
            (nodes[key], client, key, kind, model.name_of(key), model.stem_of(key)) for key, kind in types.items()
        ]
        self.mentions = [
            (
                nodes[one.node_key],
                1.0 - one.salience,
                chunks[one.chunk_id],
                texts[one.sentence_id],
                me,
                one.name,
                one.description,
                _places(one),
                one.properties,
            )
            for one in patch.mentions
        ]
        self.evidence = [
            (
                nodes[one.source],
                one.type,
                nodes[one.target],
                texts[one.sentence_id],
                chunks[one.chunk_id],
                me,
                _places(one),
                one.properties,
            )
            for one in patch.evidence
        ]
        self.keep: dict[str, Any] | None = None
        if patch.keep is not None:
            version = patch.keep.id
            numbers = {"document": me, "number": number(past(client), version)}
            self.keep = {"past": past(client), "version": version, "until": patch.keep.until_ms, **numbers}


def _places(one: model.Mention | model.Evidence) -> str:
    return json.dumps(one.places) if one.places else ""


def past(client_id: str) -> str:
    """The partition in which the history of a client lies."""
    return _PAST + client_id


def viewer_of(viewer: scope.Scope, *, history: bool = False) -> dict[str, Any]:
    """Whose sight it is, of the present or of the history alone: the parameters of `kb.visibility.sql`."""
    wanted = visibility.wanted(viewer)
    where = {
        "project": viewer.project_id,
        "grp": viewer.group_id,
        "principals": None if wanted is None else json.dumps(wanted),
    }
    if history:
        return {"world": past(""), "client": past(viewer.client_id), **where}
    return {"world": "", "client": viewer.client_id, **where}


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
        "moment": chosen.moment(),
        "labels": json.dumps(chosen.labels) if chosen.labels else None,
    }


def document_of(row: Row) -> model.Document:
    facts = (row["source_urn"], row["kind"], row["title"], row["observed"], row["since"], row["until"])
    return model.Document(row["document_id"], *facts)


def all_said(rows: Iterable[Row]) -> list[model.Statement]:
    """One sentence a row, about a node or proving an edge."""
    documents: dict[tuple[str, int | None], model.Document] = {}  # many sentences, few documents
    found = []
    for row in rows:
        version = row["document_id"], row["until"]
        document = documents.get(version)
        if document is None:
            document = documents[version] = document_of(row)
        found.append(_said(row, document))
    return found


def _said(row: Row, document: model.Document) -> model.Statement:
    proven = edge_of(row) if row["source"] else None
    places = tuple(json.loads(row["places"])) if row["places"] else ()
    said = (proven, row["sentence_id"], row["sentence"], places, row["properties"])
    return model.Statement(row["chunk_id"], document, row["node_key"], *said)


def version_of(row: Row, version_id: str, chunk_ids: Sequence[str]) -> model.Version:
    labels = None if row["labels"] is None else tuple(json.loads(row["labels"]))
    return model.Version(version_id, document_of(row), row["revision"], tuple(chunk_ids), row["given"], labels)


def node_of(key: str, node_type: str, mentions: int, described: Sequence[Row]) -> model.Node:
    """A node from the rows of its mentions."""
    names = dict.fromkeys(said["name"] for said in described if said["name"])
    descriptions = dict.fromkeys(said["description"] for said in described if said["description"])
    chunks = dict.fromkeys(said["chunk_id"] for said in described)
    given = properties((row["observed"], row["source_urn"], row["properties"]) for row in described)
    return model.Node(key, node_type, tuple(names), tuple(descriptions), tuple(chunks), mentions, given)


def properties(given: Iterable[tuple[int | None, str, str]]) -> dict[str, JsonValue]:
    """The properties of a node from (time, source URN, JSON object or "") of each mention.

    Of one that several give, the value of the latest counts; of equally late ones, that of the last source by its URN.
    """
    found: dict[str, JsonValue] = {}
    for _, _, text in sorted({(selection.ALWAYS if at is None else at, urn, text) for at, urn, text in given if text}):
        found |= json.loads(text)
    return dict(sorted(found.items()))


def fragments(having: Labels) -> list[str]:
    """What the properties of a mention must contain one of, as text, to give what is asked for: the names' ends."""
    names = {selection.key(one).rpartition(".")[2] for group in having for one in group}
    return sorted(json.dumps(name, ensure_ascii=False)[1:] for name in names)


def has(node: model.Node, having: Labels) -> bool:
    """Whether the node's properties have a label (`kb.selection.labels`) of each group."""
    return selection.Selection(labels=having).carries(selection.labels(node.properties))


def edge_of(row: Row) -> model.Edge:
    return model.Edge(row["source"], row["type"], row["target"])


def listed(values: Iterable[str]) -> str:
    """A JSON array in one order, whatever the collection's."""
    return json.dumps(sorted(values))


def numbers(chunk_ids: Iterable[str]) -> str:
    """The row ids of chunks, as a JSON array."""
    return json.dumps([number(chunk_id) for chunk_id in chunk_ids])
