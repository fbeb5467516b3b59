"""Chunks and what was found in them, built into what the stores keep. Pure and deterministic.

Every chunk mentions the entities that its sentences name; the document's anchor is mentioned by its first chunk and has
an edge `mentions` to every entity, proven by the first sentence that names it. An edge's ends are always mentioned by
the sentence that proves the edge, so that no edge can outlive its nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kb import api, identity, paging, selection, visibility
from kb.extract import caller_facts, document_node, draft, extraction, reference, relation, sentence
from kb.graph import model as graph
from kb.ingest import history
from kb.vectors import model as vectors
from text import words

# A name in every second sentence of a chunk proves no more with the twentieth than with the eighth.
_MENTIONS_PER_CHUNK = 8
_MENTIONS = "mentions"
_HAS_ATTACHMENT = "has_attachment"
PART_OF = "part_of"
"""The place of the mention by which a chunk is part of its document's base node."""


@dataclass(frozen=True)
class Built:
    """What goes to the graph and, not yet embedded, to the vectors; `dropped` counts relationships without proof, and
    `problems` say what of the text is left out."""

    patch: graph.Patch
    chunks: tuple[vectors.Chunk, ...]
    sentences: tuple[vectors.Sentence, ...]
    dropped: int
    problems: list[str] = field(default_factory=list)

    @property
    def edges(self) -> set[tuple[str, str, str]]:
        """(source, type, target) of each, however often it is proved."""
        return {(proof.source, proof.type, proof.target) for proof in self.patch.evidence}


@dataclass
class _Builder:
    request: api.IngestRequest
    made: draft.Draft
    mentions: dict[tuple[str, str, str], graph.Mention] = field(default_factory=dict)
    evidence: dict[tuple[str, str, str, str, str], graph.Evidence] = field(default_factory=dict)
    linked: set[str] = field(default_factory=set)
    ids: dict[tuple[str, str], str] = field(default_factory=dict)
    saliences: dict[str, float] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    dropped: int = 0

    def mention(
        self,
        key: str,
        piece: draft.ChunkDraft,
        text: str,
        name: str,
        description: str = "",
        *,
        properties: str = "",
        places: tuple[str, ...] = (),
    ) -> None:
        """Record that `text` names the node; of a sentence the first record stays, and what it lacks is added."""
        place = (key, piece.id, self.sentence_id(piece, text))
        known = self.mentions.get(place)
        if known is not None:
            self.mentions[place] = replace(
                known,
                description=known.description or description,
                properties=known.properties or properties,
                places=tuple(sorted({*known.places, *places})),
            )
            return
        if name not in self.saliences:
            self.saliences[name] = graph.salience(self.request.title, name)
        kind, salience = self.types.get(key) or reference.kind_of(key), self.saliences[name]
        self.mentions[place] = graph.Mention(*place, text, kind, name, description, salience, properties, places)

    def prove(self, source: str, kind: str, target: str, piece: draft.ChunkDraft, text: str) -> None:
        """Record that `text` proves the edge, and that it mentions both ends."""
        sentence_id = self.sentence_id(piece, text)
        made = graph.Evidence(source, kind, target, piece.id, sentence_id, text)
        self.evidence.setdefault((source, kind, target, piece.id, sentence_id), made)
        for end in (source, target):
            self.mention(end, piece, text, caller_facts.name_of(end))

    def place(self, stated: caller_facts.Relationship, piece: draft.ChunkDraft, text: str) -> None:
        """Record where the source states the edge that `text` proves; several places of one edge are one proof."""
        at = (stated.source, stated.type, stated.target, piece.id, self.sentence_id(piece, text))
        known = self.evidence[at]
        places = tuple(sorted({*known.places, stated.place}))
        self.evidence[at] = replace(known, places=places, properties=known.properties or stated.properties)

    def sentence_id(self, piece: draft.ChunkDraft, text: str) -> str:
        """Hashed once: a sentence names many things."""
        known = self.ids.get((piece.id, text))
        if known is None:
            known = self.ids[piece.id, text] = identity.sentence(piece.id, text)
        return known

    def link(self, key: str, piece: draft.ChunkDraft, text: str) -> None:
        """The document mentions the node; its first sentence that does is proof enough."""
        if key != self.made.anchor.key and key not in self.linked:
            self.linked.add(key)
            self.prove(self.made.anchor.key, _MENTIONS, key, piece, text)


def build(
    request: api.IngestRequest,
    made: draft.Draft,
    extractions: Mapping[str, extraction.Extraction],
    *,
    most: int = 2000,
) -> Built:
    """Put a draft and the extractions of its chunks (by chunk id; one may be missing) together; of the relationships
    that the text itself states the first `most` are read."""
    typed = made.given.nodes if made.given.base is None else (*made.given.nodes, made.given.base)
    builder = _Builder(request, made, types={node.key: node.type for node in typed})
    first = made.pieces[0]
    opening = request.title.strip() or first.sentences[0].text
    builder.mention(made.anchor.key, first, opening, opening)
    if request.kind in api.STRUCTURED:
        _structured(builder, opening)
        return _finish(builder)
    _base(builder, opening)
    _attached(builder, first, opening)
    _given(builder, opening)
    read: set[tuple[str, str, str]] = set()
    left_out: set[tuple[str, str, str]] = set()
    for piece in made.pieces:
        found = extractions.get(piece.id)
        if found is not None:
            _entities(builder, piece, found)
        for stated in relation.find(piece.chunk.text, anchor=made.anchor.key, where=request.scope):
            edge = (stated.source, stated.type, stated.target)
            if edge not in read and len(read) >= most:
                left_out.add(edge)
                continue
            read.add(edge)
            builder.prove(*edge, piece, stated.evidence)
            builder.link(stated.source, piece, stated.evidence)
            builder.link(stated.target, piece, stated.evidence)
    problems = []
    if left_out:
        problems.append(
            f"{len(left_out)} relationships that the text states are left out: of a document {most} are read "
            "at most; split it, or give them as `relationships`"
        )
    return replace(_finish(builder), problems=problems)


def _structured(builder: _Builder, opening: str) -> None:
    """A document whose facts are all given. Its text is data, a diff as a rule, and states no relationships.

    A fact that stands in a file (file@commit:line) has the document's title for its sentence: each sentence costs an
    embedding, and a commit has thousands of such facts.
    """
    made = builder.made
    first, own = made.pieces[0], made.anchor.key
    for number, piece in enumerate(made.pieces):
        builder.mention(own, piece, piece.sentences[0].text if number else opening, opening, places=(PART_OF,))
    for node in made.given.nodes:
        builder.mention(node.key, first, opening, node.name, properties=node.properties, places=(node.place,))
    for stated in made.given.relationships:
        names = [caller_facts.name_of(end) for end in (stated.source, stated.target) if end != own]
        found = None if "@" in stated.place else _naming(made.pieces, *names)
        piece, text = found or (first, opening)
        builder.prove(stated.source, stated.type, stated.target, piece, text)
        builder.place(stated, piece, text)


def _attached(builder: _Builder, first: draft.ChunkDraft, opening: str) -> None:
    """A file that came with a document: its title proves it, because it names both."""
    urn = api.attached_to(builder.request.source_urn)
    if urn is not None:
        parent = document_node.derive(urn, "", builder.request.scope).key
        builder.prove(parent, _HAS_ATTACHMENT, builder.made.anchor.key, first, opening)


def _base(builder: _Builder, opening: str) -> None:
    """Every chunk is part of the document's base node: it mentions it, by the sentence with which the chunk begins."""
    made = builder.made
    base = made.given.base
    if base is None:
        return
    for number, piece in enumerate(made.pieces):
        text, properties = (piece.sentences[0].text, "") if number else (opening, base.properties)
        builder.mention(base.key, piece, text, opening, properties=properties, places=(PART_OF,))
    if base.place:
        builder.mention(base.key, made.pieces[0], opening, opening, places=(base.place,))


def _given(builder: _Builder, opening: str) -> None:
    """The caller's facts, each at the sentence that names it, where there is one.

    A relationship that no sentence states is put into words, so that a search by vectors meets it. One that stands in a
    file (file@commit:line) is not: there are thousands, and they are walked and not searched for.
    """
    made = builder.made
    first = made.pieces[0]
    for node in made.given.nodes:
        piece, text = _naming(made.pieces, node.name) or (first, opening)
        builder.mention(node.key, piece, text, node.name, properties=node.properties, places=(node.place,))
        builder.link(node.key, piece, text)
    for stated in made.given.relationships:
        found = _naming(made.pieces, caller_facts.name_of(stated.source), caller_facts.name_of(stated.target))
        piece, text = found or (first, opening if "@" in stated.place else stated.words())
        builder.prove(stated.source, stated.type, stated.target, piece, text)
        builder.place(stated, piece, text)
        builder.link(stated.source, piece, text)
        builder.link(stated.target, piece, text)


def _naming(pieces: Sequence[draft.ChunkDraft], *names: str) -> tuple[draft.ChunkDraft, str] | None:
    """The first sentence that names all of them."""
    for piece in pieces:
        found = [one.text for one in extraction.naming(piece.sentences, names[0])]
        for name in names[1:]:
            known = {one.text for one in extraction.naming(piece.sentences, name)}
            found = [text for text in found if text in known]
        if found:
            return piece, found[0]
    return None


def _entities(builder: _Builder, piece: draft.ChunkDraft, found: extraction.Extraction) -> None:
    # The prompt shows the title, so a model may speak of the document by it.
    title = words.plain(builder.request.title)
    keys: dict[str, str] = {title: builder.made.anchor.key} if title else {}
    for entity in found.entities:
        key = _key(builder, entity.type, entity.name)
        sentences = extraction.naming(piece.sentences, entity.name)[:_MENTIONS_PER_CHUNK]
        texts = [named.text for named in sentences] or _titled(builder, piece, entity.name)
        if key is None or not texts:
            # A name that the chunk does not contain was invented, or is a paraphrase that nothing here proves.
            continue
        if sentences or words.plain(entity.name) not in keys:
            keys[words.plain(entity.name)] = key
        for text in texts:
            builder.mention(key, piece, text, entity.name, entity.description)
        builder.link(key, piece, texts[0])
    for stated in found.relationships:
        _relationship(builder, piece, stated, keys)


def _titled(builder: _Builder, piece: draft.ChunkDraft, name: str) -> list[str]:
    """The title as evidence, where it names the entity and the chunk does not: a page about a thing is titled by it."""
    title = builder.request.title.strip()
    own = sentence.Sentence(title, 0, len(title))
    first = piece.id == builder.made.pieces[0].id
    return [title] if first and title and extraction.naming([own], name) else []


def _relationship(
    builder: _Builder, piece: draft.ChunkDraft, stated: extraction.Relationship, keys: Mapping[str, str]
) -> None:
    proof: sentence.Sentence | None = extraction.prove(piece.sentences, stated, builder.request.title)
    source, target = (
        keys.get(words.plain(name)) or reference.normalise(name, builder.request.scope)
        for name in (stated.source, stated.target)
    )
    kind = reference.edge_type(stated.type)
    if proof is None or source is None or target is None or not kind or source == target:
        builder.dropped += 1
        return
    builder.prove(source, kind, target, piece, proof.text)


def _key(builder: _Builder, kind: str, name: str) -> str | None:
    """The key of an entity; a name that is itself a reference (`jira:TASK-1`) says more than its type."""
    where = builder.request.scope
    own = reference.issue(kind, name)
    return own or reference.known(name, where) or reference.key(kind, name, where)


def _metadata(of_document: Mapping[str, object], piece: draft.ChunkDraft) -> str:
    pages = {paging.METADATA: piece.chunk.pages} if piece.chunk.pages else {}
    known = {**of_document, **pages}
    return json.dumps(known, sort_keys=True, ensure_ascii=False) if known else ""


def _finish(builder: _Builder) -> Built:
    request, made = builder.request, builder.made
    refs: dict[str, set[str]] = {piece.id: set() for piece in made.pieces}
    texts: dict[str, vectors.Sentence] = {}
    everything: list[graph.Mention | graph.Evidence] = [*builder.mentions.values(), *builder.evidence.values()]
    for said in everything:
        texts.setdefault(
            said.sentence_id, vectors.Sentence(said.sentence_id, said.chunk_id, made.document_id, said.sentence)
        )
    for mention in builder.mentions.values():
        refs[mention.chunk_id].add(mention.node_key)
    told: dict[str, object] = dict(request.metadata)
    if request.access is not None:
        told[visibility.ACCESS] = visibility.stored(request.access)
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
            observed_at=selection.utc(request.observed_at).isoformat() if request.observed_at else "",
            graph_refs=tuple(sorted(refs[piece.id])),
            metadata=_metadata(told, piece),
        )
        for ordinal, piece in enumerate(made.pieces)
    )
    chunk_ids = tuple(piece.id for piece in made.pieces)
    patch = graph.Patch(
        document=graph.Document(
            made.document_id,
            request.source_urn,
            request.kind,
            request.title,
            None if request.observed_at is None else selection.millis(request.observed_at),
        ),
        chunk_ids=chunk_ids,
        mentions=tuple(sorted(builder.mentions.values())),
        evidence=tuple(sorted(builder.evidence.values())),
        # What a commit says never changes; in which branches it is has no history.
        revision=history.revision(chunk_ids, "" if request.kind in api.STRUCTURED else made.given.stated),
        given=made.given.text,
        labels=selection.labels(told),
    )
    return Built(patch, chunks, tuple(sorted(texts.values(), key=lambda line: line.id)), builder.dropped)
