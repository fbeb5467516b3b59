"""A patch as documents of the two collections. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crds import scope
from kb.graph import model
from kb.graph.arango import keys


@dataclass
class Rows:
    """What a patch becomes in the two collections."""

    document: dict[str, Any]
    entities: list[dict[str, Any]]
    edges: dict[str, dict[str, Any]]


def of_patch(owner: scope.Scope, patch: model.Patch) -> Rows:
    """A document, the entities that it names, and one edge document per relationship, by its key."""
    document, place = patch.document, f"{keys.nodes(owner.client_id)}/"
    me = keys.document(document.id)
    origin = {
        "documentId": document.id,
        "projectId": owner.project_id,
        "groupId": owner.group_id,
        "sourceUrn": document.source_urn,
        "kind": document.kind,
        "title": document.title,
        "observedMs": document.observed_ms,
    }
    types = {mention.node_key: mention.node_type for mention in patch.mentions}
    entities = [
        {"_key": keys.safe_key(key), "type": kind, "key": key, "name": model.name_of(key)}
        for key, kind in sorted(types.items())
    ]
    rows = Rows({"_key": me, "type": "document", "chunkIds": list(patch.chunk_ids), **origin}, entities, {})

    def add(source: str, kind: str, target: str, start: str, proof: dict[str, Any]) -> None:
        key = keys.safe_key(f"{kind}::{source}->{target}::{document.id}")
        ends = {"_from": place + start, "_to": place + keys.safe_key(target), "structural": start == me}
        facts = {"edgeType": kind, "source": source, "target": target, "evidence": [], "evidenceChunkIds": []}
        row = rows.edges.setdefault(key, {"_key": key, **ends, **facts, **origin})
        row["evidence"].append(proof)
        row["evidenceChunkIds"] = sorted({*row["evidenceChunkIds"], proof["chunkId"]})

    for mention in patch.mentions:
        said = _proof(mention) | {
            "name": mention.name,
            "description": mention.description,
            "salience": mention.salience,
        }
        add(me, "mentions", mention.node_key, me, said)
    for stated in patch.evidence:
        add(stated.source, stated.type, stated.target, keys.safe_key(stated.source), _proof(stated))
    return rows


def _proof(said: model.Mention | model.Evidence) -> dict[str, Any]:
    return {"chunkId": said.chunk_id, "sentenceId": said.sentence_id, "sentence": said.sentence}
