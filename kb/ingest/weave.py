"""Chunks and what was found in them, woven into what the stores keep. Pure and deterministic.

Every chunk mentions the entities that its sentences name; the document's anchor is mentioned by its first chunk and has
an edge `mentions` to every entity, proven by the first sentence that names it. An edge's ends are always mentioned by
the sentence that proves the edge, so that no edge can outlive its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kb import identity, selection, wire, writing
from kb.graph import model as graph
from kb.ingest import anchor, draft, extraction, reference, relation, sentence
from kb.vectors import model as vectors

# A name in every second sentence of a chunk proves no more with the twentieth than with the eighth.
_MENTIONS_PER_CHUNK = 8
_MENTIONS = "mentions"
_HAS_ATTACHMENT = "has_attachment"


@dataclass(frozen=True)
class Woven:
    """What goes to the graph and, not yet embedded, to the vectors; `dropped` counts relationships without proof."""

    patch: graph.Patch
    chunks: tuple[vectors.Chunk, ...]
    sentences: tuple[vectors.Sentence, ...]
    dropped: int


@dataclass
class _Loom:
    request: wire.IngestRequest
    made: draft.Draft
    mentions: dict[tuple[str, str, str], graph.Mention] = field(default_factory=dict)
    evidence: dict[tuple[str, str, str, str, str], graph.Evidence] = field(default_factory=dict)
    linked: set[str] = field(default_factory=set)
    ids: dict[tuple[str, str], str] = field(default_factory=dict)
    saliences: dict[str, float] = field(default_factory=dict)
    dropped: int = 0

    def mention(self, key: str, piece: draft.Piece, text: str, name: str, description: str = "") -> None:
        """Record that `text` names the node; the first record of a sentence stays."""
        sentence_id = self.sentence_id(piece, text)
        if (key, piece.id, sentence_id) in self.mentions:
            return
        if name not in self.saliences:
            self.saliences[name] = graph.salience(self.request.title, name)
        kind, salience = reference.kind_of(key), self.saliences[name]
        made = graph.Mention(key, piece.id, sentence_id, text, kind, name, description, salience)
        self.mentions[key, piece.id, sentence_id] = made

    def prove(self, source: str, kind: str, target: str, piece: draft.Piece, text: str) -> None:
        """Record that `text` proves the edge, and that it mentions both ends."""
        sentence_id = self.sentence_id(piece, text)
        made = graph.Evidence(source, kind, target, piece.id, sentence_id, text)
        self.evidence.setdefault((source, kind, target, piece.id, sentence_id), made)
        for end in (source, target):
            self.mention(end, piece, text, end.partition(":")[2].strip(":"))

    def sentence_id(self, piece: draft.Piece, text: str) -> str:
        """Hashed once: a sentence names many things."""
        known = self.ids.get((piece.id, text))
        if known is None:
            known = self.ids[piece.id, text] = identity.sentence(piece.id, text)
        return known

    def link(self, key: str, piece: draft.Piece, text: str) -> None:
        """The document mentions the node; its first sentence that does is proof enough."""
        if key != self.made.anchor.key and key not in self.linked:
            self.linked.add(key)
            self.prove(self.made.anchor.key, _MENTIONS, key, piece, text)


def weave(request: wire.IngestRequest, made: draft.Draft, extractions: Mapping[str, extraction.Extraction]) -> Woven:
    """Put a draft and the extractions of its chunks (by chunk id; one may be missing) together."""
    loom = _Loom(request, made)
    first = made.pieces[0]
    opening = request.title.strip() or first.sentences[0].text
    loom.mention(made.anchor.key, first, opening, opening)
    _attached(loom, first, opening)
    for piece in made.pieces:
        found = extractions.get(piece.id)
        if found is not None:
            _entities(loom, piece, found)
        for stated in relation.find(piece.chunk.text, anchor=made.anchor.key, where=request.scope):
            loom.prove(stated.source, stated.type, stated.target, piece, stated.evidence)
            loom.link(stated.source, piece, stated.evidence)
            loom.link(stated.target, piece, stated.evidence)
    return _finish(loom)


def _attached(loom: _Loom, first: draft.Piece, opening: str) -> None:
    """A file that came with a document: its title proves it, because it names both."""
    urn = writing.attached_to(loom.request.source_urn)
    if urn is not None:
        parent = anchor.derive(urn, "", loom.request.scope).key
        loom.prove(parent, _HAS_ATTACHMENT, loom.made.anchor.key, first, opening)


def _entities(loom: _Loom, piece: draft.Piece, found: extraction.Extraction) -> None:
    # The prompt shows the title, so a model may speak of the document by it.
    title = _fold(loom.request.title)
    keys: dict[str, str] = {title: loom.made.anchor.key} if title else {}
    for entity in found.entities:
        key = _key(loom, entity.type, entity.name)
        sentences = extraction.naming(piece.sentences, entity.name)[:_MENTIONS_PER_CHUNK]
        texts = [named.text for named in sentences] or _titled(loom, piece, entity.name)
        if key is None or not texts:
            # A name that the chunk does not contain was invented, or is a paraphrase that nothing here proves.
            continue
        if sentences or _fold(entity.name) not in keys:
            keys[_fold(entity.name)] = key
        for text in texts:
            loom.mention(key, piece, text, entity.name, entity.description)
        loom.link(key, piece, texts[0])
    for stated in found.relationships:
        _relationship(loom, piece, stated, keys)


def _titled(loom: _Loom, piece: draft.Piece, name: str) -> list[str]:
    """The title as evidence, where it names the entity and the chunk does not: a page about a thing is titled by it."""
    title = loom.request.title.strip()
    own = sentence.Sentence(title, 0, len(title))
    first = piece.id == loom.made.pieces[0].id
    return [title] if first and title and extraction.naming([own], name) else []


def _relationship(loom: _Loom, piece: draft.Piece, stated: extraction.Relationship, keys: Mapping[str, str]) -> None:
    proof: sentence.Sentence | None = extraction.prove(piece.sentences, stated)
    source, target = (
        keys.get(_fold(name)) or reference.normalise(name, loom.request.scope)
        for name in (stated.source, stated.target)
    )
    kind = reference.edge_type(stated.type)
    if proof is None or source is None or target is None or not kind or source == target:
        loom.dropped += 1
        return
    loom.prove(source, kind, target, piece, proof.text)


def _key(loom: _Loom, kind: str, name: str) -> str | None:
    """The key of an entity; a name that is itself a reference (`jira:TASK-1`, `JERV-123`) says more than its type."""
    where = loom.request.scope
    own = reference.issue(name)
    return own or reference.known(name, where) or reference.key(kind, name, where)


def _finish(loom: _Loom) -> Woven:
    request, made = loom.request, loom.made
    refs: dict[str, set[str]] = {piece.id: set() for piece in made.pieces}
    texts: dict[str, vectors.Sentence] = {}
    everything: list[graph.Mention | graph.Evidence] = [*loom.mentions.values(), *loom.evidence.values()]
    for said in everything:
        texts.setdefault(
            said.sentence_id, vectors.Sentence(said.sentence_id, said.chunk_id, made.document_id, said.sentence)
        )
    for mention in loom.mentions.values():
        refs[mention.chunk_id].add(mention.node_key)
    chunks = tuple(
        vectors.Chunk(
            id=piece.id,
            document_id=made.document_id,
            source_urn=request.source_urn,
            kind=request.kind,
            title=request.title,
            heading=made.heading,
            text=piece.chunk.text,
            ordinal=ordinal,
            start=piece.chunk.start,
            end=piece.chunk.end,
            observed_at=request.observed_at.isoformat() if request.observed_at else "",
            graph_refs=tuple(sorted(refs[piece.id])),
        )
        for ordinal, piece in enumerate(made.pieces)
    )
    patch = graph.Patch(
        document=graph.Document(
            made.document_id,
            request.source_urn,
            request.kind,
            request.title,
            None if request.observed_at is None else selection.millis(request.observed_at),
        ),
        chunk_ids=tuple(piece.id for piece in made.pieces),
        mentions=tuple(sorted(loom.mentions.values())),
        evidence=tuple(sorted(loom.evidence.values())),
    )
    return Woven(patch, chunks, tuple(sorted(texts.values(), key=lambda line: line.id)), loom.dropped)


def _fold(name: str) -> str:
    return " ".join(name.split()).casefold()
