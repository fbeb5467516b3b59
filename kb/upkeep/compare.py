"""Where graph and vectors disagree, from what each holds of the same chunks. Pure.

The graph commits a document last, so it decides what is there; the vectors follow it:

    ChunkTextMissing         the graph has a chunk whose text is gone: only another ingest of its source brings it back
    SentenceVectorsMissing   sentences of a chunk have no vector, and so cannot rank; their text is in the graph
    GraphRefsDiffer          a chunk's graphRefs are not the nodes that the graph says it mentions
    OwnerDiffers             the two say different owners (a project changed its group)
    ChunkNotInGraph          a chunk that the graph never committed, left by an ingest that broke off
    StraySentence            a sentence of no committed chunk
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from crds import scope
from kb import api
from kb.graph import model as graph
from kb.vectors import model as vectors


@dataclass(frozen=True)
class Finding:
    """A disagreement about `chunk_id`. `owner` is whose data it is, as the side says that has it.

    `subject` is the chunk, or the sentence of a StraySentence.
    """

    kind: api.Kind
    owner: scope.Scope
    document_id: str
    source_urn: str
    subject: str
    detail: str
    chunk_id: str


def committed(
    page: Collection[graph.Committed], stored: Mapping[str, vectors.Stored], lines: Collection[str]
) -> list[Finding]:
    """What is wrong with the vectors' copies of chunks that the graph holds; `lines` are the stored sentences' ids."""
    findings: list[Finding] = []
    for one in page:
        copy = stored.get(one.chunk_id)
        if copy is None and one.document.until_ms is not None:
            # Of a version that was replaced: no ingest brings it back, and it goes when its time is over.
            continue
        if copy is None:
            findings.append(_of(one, "ChunkTextMissing", "its text and vector are gone; ingest its source again"))
            continue
        if copy.owner != one.owner:
            groups = f"group {copy.owner.group_id or 'none'} instead of {one.owner.group_id or 'none'}"
            findings.append(_of(one, "OwnerDiffers", f"the vectors say {groups}"))
        lost = [line for line in one.sentence_ids if line not in lines]
        # Of a version that was replaced they stay missing: what was said then is found by its chunks.
        if lost and one.document.until_ms is None:
            detail = f"{len(lost)} of its {len(one.sentence_ids)} sentences have no vector"
            findings.append(_of(one, "SentenceVectorsMissing", detail))
        if set(copy.graph_refs) != set(one.node_keys):
            extra, missing = set(copy.graph_refs) - set(one.node_keys), set(one.node_keys) - set(copy.graph_refs)
            detail = f"{len(missing)} nodes are missing and {len(extra)} too many"
            findings.append(_of(one, "GraphRefsDiffer", detail))
    return findings


def stored(page: Collection[vectors.Stored], held: Mapping[str, graph.Committed]) -> list[Finding]:
    """Chunks that no committed document has."""
    return [
        Finding(
            "ChunkNotInGraph",
            one.owner,
            one.document_id,
            one.source_urn,
            one.chunk_id,
            "no committed document has it",
            one.chunk_id,
        )
        for one in page
        if one.chunk_id not in held
    ]


def sentences(page: Collection[vectors.StoredSentence], held: Mapping[str, graph.Committed]) -> list[Finding]:
    """Sentences that no committed chunk has."""
    findings = []
    for one in page:
        chunk = held.get(one.chunk_id)
        if chunk is None or one.sentence_id not in chunk.sentence_ids:
            urn = chunk.document.source_urn if chunk else ""
            detail = f"the chunk {one.chunk_id} does not say it"
            findings.append(
                Finding("StraySentence", one.owner, one.document_id, urn, one.sentence_id, detail, one.chunk_id)
            )
    return findings


def _of(one: graph.Committed, kind: api.Kind, detail: str) -> Finding:
    return Finding(kind, one.owner, one.document.id, one.document.source_urn, one.chunk_id, detail, one.chunk_id)
