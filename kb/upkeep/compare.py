"""Where graph and vectors disagree, from what each holds of the same chunks. Pure.

The graph commits a document last, so it decides what is there; the vectors follow it:

    ChunkTextMissing   the graph has a chunk whose text is gone: only another ingest of its source can bring it back
    GraphRefsDiffer    a chunk's graphRefs are not the nodes that the graph says it mentions
    OwnerDiffers       the two say different owners (a project changed its group)
    ChunkNotInGraph    a chunk that the graph never committed, left by an ingest that broke off
    StraySentence      a sentence of no committed chunk
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from crds import scope
from kb import reading
from kb.graph import model as graph
from kb.vectors import model as vectors


@dataclass(frozen=True)
class Finding:
    """A disagreement. `owner` is whose data it is, as the side says that has it."""

    kind: reading.Kind
    owner: scope.Scope
    document_id: str
    source_urn: str
    subject: str
    detail: str


def committed(page: Sequence[graph.Committed], stored: Mapping[str, vectors.Stored]) -> list[Finding]:
    """What is wrong with the vectors' copies of chunks that the graph holds."""
    findings: list[Finding] = []
    for one in page:
        copy = stored.get(one.chunk_id)
        if copy is None:
            findings.append(_of(one, "ChunkTextMissing", "its text and vector are gone; ingest its source again"))
            continue
        if copy.owner != one.owner:
            groups = f"group {copy.owner.group_id or 'none'} instead of {one.owner.group_id or 'none'}"
            findings.append(_of(one, "OwnerDiffers", f"the vectors say {groups}"))
        if set(copy.graph_refs) != set(one.node_keys):
            extra, missing = set(copy.graph_refs) - set(one.node_keys), set(one.node_keys) - set(copy.graph_refs)
            detail = f"{len(missing)} nodes are missing and {len(extra)} too many"
            findings.append(_of(one, "GraphRefsDiffer", detail))
    return findings


def stored(
    page: Sequence[vectors.Stored], held: Mapping[str, graph.Committed], working: Collection[str]
) -> list[Finding]:
    """Chunks that no committed document has; those of documents in work are not yet wrong."""
    return [
        Finding(
            "ChunkNotInGraph", one.owner, one.document_id, one.source_urn, one.chunk_id, "no committed document has it"
        )
        for one in page
        if one.chunk_id not in held and one.document_id not in working
    ]


def sentences(
    page: Sequence[vectors.StoredSentence], held: Mapping[str, graph.Committed], working: Collection[str]
) -> list[Finding]:
    """Sentences that no committed chunk has."""
    findings = []
    for one in page:
        chunk = held.get(one.chunk_id)
        known = chunk is not None and one.sentence_id in chunk.sentence_ids
        if not known and one.document_id not in working:
            urn = chunk.document.source_urn if chunk else ""
            detail = f"the chunk {one.chunk_id} does not say it"
            findings.append(Finding("StraySentence", one.owner, one.document_id, urn, one.sentence_id, detail))
    return findings


def _of(one: graph.Committed, kind: reading.Kind, detail: str) -> Finding:
    return Finding(kind, one.owner, one.document.id, one.document.source_urn, one.chunk_id, detail)
