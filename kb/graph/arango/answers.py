"""What the queries of `kb.graph.aql` answer, as the port's values, and a selection as they take it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crds import scope
from kb import identity, selection
from kb.graph import codec, model


def selected(chosen: selection.Selection) -> dict[str, Any]:
    """The values bound for `kb.graph.aql`'s clause of a selection."""
    earliest, latest = chosen.span()
    sources = chosen.sources
    return {
        "kinds": None if chosen.kinds is None else list(chosen.kinds),
        "sources": None if sources is None else [one for one in sources if not one.endswith("*")],
        "beginnings": [one[:-1] for one in sources or () if one.endswith("*")],
        "dated": chosen.dated,
        "earliest": earliest,
        "latest": latest,
        "moment": chosen.moment(),
        "labels": [list(group) for group in chosen.labels] or None,
    }


def edge(row: dict[str, Any]) -> model.Edge:
    """A relationship."""
    return model.Edge(row["source"], row["edgeType"], row["target"])


def document(row: dict[str, Any]) -> model.Document:
    """The document that a row carries with it."""
    # A list of documents has neither of the last two.
    times = (row["observedMs"], row.get("sinceMs"), row.get("untilMs"))
    return model.Document(row["documentId"], row["sourceUrn"], row["kind"], row["title"], *times)


def said(row: dict[str, Any]) -> model.Statement:
    """One proof of an edge document: of a relationship, or of a mention."""
    proven = None if row["structural"] else edge(row)
    node = row["target"] if proven is None else row["source"]
    proof = row["proof"]
    given = (tuple(proof.get("places") or ()), proof.get("properties") or "")
    return model.Statement(
        proof["chunkId"], document(row), node, proven, proof["sentenceId"], proof["sentence"], *given
    )


def version(row: dict[str, Any]) -> model.Version:
    """A document's own row."""
    found, revision = document(row), row.get("revision") or ""
    replaced = identity.version(found.id, revision, found.start_ms)
    own = found.id if found.until_ms is None else replaced
    return model.Version(own, found, revision, tuple(sorted(row["chunkIds"])), row.get("given") or "", _labels(row))


def _labels(row: dict[str, Any]) -> tuple[str, ...] | None:
    found = row.get("labels")
    return None if found is None else tuple(found)


def node(key: str, kind: str, said: int, rows: Sequence[dict[str, Any]]) -> model.Node:
    """A node from the rows of its mentions."""
    words = {name: tuple(dict.fromkeys(row[name] for row in rows if row[name])) for name in ("name", "description")}
    chunks = tuple(dict.fromkeys(row["chunkId"] for row in rows))
    given = codec.properties((row["observedMs"], row["sourceUrn"], row["properties"] or "") for row in rows)
    return model.Node(key, kind, words["name"], words["description"], chunks, said, given)


def committed(client_id: str, row: dict[str, Any]) -> list[model.Committed]:
    """A document's row of an audit, by chunk."""
    owner = scope.Scope(client_id=client_id, project_id=row["projectId"], group_id=row["groupId"])
    nodes: dict[str, set[str]] = {}
    sentences: dict[str, set[str]] = {}
    for one in row["mentions"]:
        sentences.setdefault(one["chunk"], set()).add(one["sentence"])
        if one["node"] is not None:
            nodes.setdefault(one["chunk"], set()).add(one["node"])
    return [
        model.Committed(
            chunk_id,
            owner,
            document(row),
            tuple(sorted(nodes.get(chunk_id, ()))),
            tuple(sorted(sentences.get(chunk_id, ()))),
        )
        for chunk_id in row["chunkIds"]
    ]
