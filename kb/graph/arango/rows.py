"""A patch as documents of the two collections. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crds import scope
from kb import identity
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
        "sinceMs": document.since_ms,
        "untilMs": None,
        "labels": None if patch.labels is None else list(patch.labels),
    }
    version = {"revision": patch.revision, "given": patch.given}
    types = {mention.node_key: mention.node_type for mention in patch.mentions}
    entities = [_entity(key, kind) for key, kind in sorted(types.items())]
    rows = Rows({"_key": me, "type": "document", "chunkIds": list(patch.chunk_ids), **origin, **version}, entities, {})

    def add(source: str, kind: str, target: str, start: str, proof: dict[str, Any]) -> None:
        key = keys.safe_key(f"{kind}::{source}->{target}::{document.id}")
        ends = {"_from": place + start, "_to": place + keys.safe_key(target), "structural": start == me}
        facts = {"edgeType": kind, "source": source, "target": target, "evidence": [], "evidenceChunkIds": []}
        row = rows.edges.setdefault(key, {"_key": key, **ends, **facts, **origin})
        row["evidence"].append(proof)
        row["evidenceChunkIds"] = sorted({*row["evidenceChunkIds"], proof["chunkId"]})

    for mention in patch.mentions:
        said = _given(mention) | {
            "name": mention.name,
            "description": mention.description,
            "salience": mention.salience,
        }
        add(me, "mentions", mention.node_key, me, said)
    for stated in patch.evidence:
        add(stated.source, stated.type, stated.target, keys.safe_key(stated.source), _given(stated))
    return rows


def of_version(client: str, keep: model.Keep, document: dict[str, Any], edges: Sequence[dict[str, Any]]) -> Rows:
    """The rows of a document in the present as those of a version of its history (`kb.identity.past`)."""
    place, me = f"{keys.nodes(client, history=True)}/", keys.document(keep.id)

    def past(of: str) -> str:
        return identity.past(keep.id, of)

    ends = {"untilMs": keep.until_ms}
    chunk_ids = [past(one) for one in document["chunkIds"]]
    rows = Rows({**_own(document), **ends, "_key": me, "chunkIds": chunk_ids}, [], {})
    entities: dict[str, dict[str, Any]] = {}
    for edge in edges:
        source = edge["source"] if not edge["structural"] else keep.id
        key = keys.safe_key(f"{edge['edgeType']}::{source}->{edge['target']}::{keep.id}")
        start = me if edge["structural"] else keys.safe_key(edge["source"])
        proofs = [
            {**proof, "chunkId": past(proof["chunkId"]), "sentenceId": past(proof["sentenceId"])}
            for proof in edge["evidence"]
        ]
        rows.edges[key] = {
            **_own(edge),
            **ends,
            "_key": key,
            "_from": place + start,
            "_to": place + keys.safe_key(edge["target"]),
            "evidence": proofs,
            "evidenceChunkIds": sorted({proof["chunkId"] for proof in proofs}),
        }
        if edge["structural"]:
            entities[edge["target"]] = _entity(edge["target"], edge["targetType"])
    rows.entities.extend(entities.values())
    return rows


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what the server adds."""
    return {name: value for name, value in row.items() if name not in ("_id", "_rev", "targetType")}


def _entity(key: str, kind: str) -> dict[str, Any]:
    return {
        "_key": keys.safe_key(key),
        "type": kind,
        "key": key,
        "name": model.name_of(key),
        "stem": model.stem_of(key),
    }


def _given(stated: model.Mention | model.Evidence) -> dict[str, Any]:
    return _proof(stated) | {"places": list(stated.places), "properties": stated.properties}


def _proof(said: model.Mention | model.Evidence) -> dict[str, Any]:
    return {"chunkId": said.chunk_id, "sentenceId": said.sentence_id, "sentence": said.sentence}
