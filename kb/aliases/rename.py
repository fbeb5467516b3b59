"""Put canonical keys in the place of aliases in what a document says. Pure.

Only keys change: the sentence, and the name by which it calls the thing, stay as they were written. An edge whose two
ends have become one thing says nothing any more and goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kb.extract import reference
from kb.graph import model as graph
from kb.vectors import model as vectors


def patch(said: graph.Patch, mapping: Mapping[str, str]) -> graph.Patch:
    """`said` in canonical keys."""
    if not mapping:
        return said
    mentions = {
        (key := mapping.get(one.node_key, one.node_key), one.chunk_id, one.sentence_id): replace(
            one, node_key=key, node_type=reference.kind_of(key) if key != one.node_key else one.node_type
        )
        # The canonical name's own mention, where a sentence has both, is the one that stays.
        for one in sorted(said.mentions, key=lambda one: one.node_key not in mapping)
    }
    evidence = {
        (one.source, one.type, one.target, one.chunk_id, one.sentence_id): one
        for old in said.evidence
        if (one := replace(old, source=mapping.get(old.source, old.source), target=mapping.get(old.target, old.target)))
        and one.source != one.target
    }
    return replace(said, mentions=tuple(sorted(mentions.values())), evidence=tuple(sorted(evidence.values())))


def chunks(kept: tuple[vectors.Chunk, ...], mapping: Mapping[str, str]) -> tuple[vectors.Chunk, ...]:
    """The chunks with canonical graph references."""
    if not mapping:
        return kept
    return tuple(
        replace(one, graph_refs=tuple(sorted({mapping.get(ref, ref) for ref in one.graph_refs}))) for one in kept
    )
