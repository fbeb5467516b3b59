"""Two indexes as one vector store, and the embedders that go with it.

A write goes into each index that the phase names. A process that is stopped between the two leaves a chunk that only
one of them has: `known` says so, and the commit that is resumed puts it again into both.

Questions go to the index that serves. A vector carries the name of its model (`kb.vectors.model.Made`), so a question
that was embedded just before the switch is still asked of the index of its own model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from crds import priority, scope
from kb import errors, selection
from kb.reindex.phase import Phase, View
from kb.vectors import embedding, model
from kb.vectors import store as vectors

_OTHER = "other:"


@dataclass(frozen=True)
class Index:
    """The vectors of one embedding model: of stored texts by `embedder`, of questions by `questions`.

    `instruction` goes before each question.
    """

    store: vectors.Store
    embedder: embedding.Port
    questions: embedding.Port
    instruction: str = ""

    @property
    def name(self) -> str:
        """The model's identity."""
        return self.embedder.name


class Indexes:
    """Implements `kb.vectors.store.Store` over the index of the model before and that of the new one.

    Raises what the two raise, and `kb.errors.Away` while it is not known which of them serves.
    """

    def __init__(self, before: Index, new: Index, view: View) -> None:
        self.before = before
        self.new = new
        self._view = view

    @property
    def serving(self) -> Index:
        """The index that questions go to."""
        return self._serves(self._view.phase)

    def asked(self) -> Index:
        """The same, for a question that is embedded now: its index stays until the question is answered."""
        return self._serves(self._view.asked())

    @property
    def written(self) -> Sequence[Index]:
        """The indexes that take writes."""
        return self._writes(self._view.phase)

    def _serves(self, phase: Phase) -> Index:
        return self.new if phase >= Phase.SWITCHED else self.before

    def _writes(self, phase: Phase) -> Sequence[Index]:
        if phase is Phase.PREPARING:
            return (self.before,)
        return (self.new, self.before) if phase <= Phase.SWITCHED else (self.new,)

    @contextmanager
    def _reading(self, vector: model.Vector | None = None) -> Iterator[vectors.Store]:
        with self._view.using() as phase:
            index = self._serves(phase)
            if isinstance(vector, model.Made) and vector.model != index.name:
                usable = [one for one in self._writes(phase) if one.name == vector.model]
                if not usable:
                    raise errors.Away("weaviate", "another vector index serves now", retry_after=1)
                [index] = usable
            yield index.store

    @contextmanager
    def _writing(self) -> Iterator[Sequence[Index]]:
        with self._view.using() as phase:
            yield self._writes(phase)

    async def ready(self) -> None:
        with self._reading() as store:
            await store.ready()

    async def known(self, owner: scope.Scope, document_id: str) -> dict[str, str]:
        with self._writing() as indexes:
            found = await asyncio.gather(*(one.store.known(owner, document_id) for one in indexes))
        said = {key: {one.get(key, "") for one in found} for one in found for key in one}
        return {key: revisions.pop() if len(revisions) == 1 else "" for key, revisions in said.items()}

    async def known_sentences(self, owner: scope.Scope, sentence_ids: Collection[str]) -> set[str]:
        with self._writing() as indexes:
            found = await asyncio.gather(*(one.store.known_sentences(owner, sentence_ids) for one in indexes))
        return set.intersection(*found)

    async def put(
        self,
        owner: scope.Scope,
        chunks: Sequence[tuple[model.Chunk, model.Vector]],
        sentences: Sequence[tuple[model.Sentence, model.Vector]],
    ) -> None:
        with self._writing() as indexes:
            ready = [
                (one, [(row, _of(one, v)) for row, v in chunks], [(row, _of(one, v)) for row, v in sentences])
                for one in indexes
            ]
            for index, rows, lines in ready:
                await index.store.put(owner, rows, lines)

    async def touch(self, owner: scope.Scope, chunks: Sequence[model.Chunk]) -> None:
        with self._writing() as indexes:
            for index in indexes:
                there = await index.store.held(owner.client_id, [chunk.id for chunk in chunks])
                await index.store.touch(owner, [chunk for chunk in chunks if chunk.id in there])

    async def keep(
        self,
        owner: scope.Scope,
        version_id: str,
        since_ms: int | None,
        until_ms: int,
        *,
        chunk_ids: Collection[str],
        sentence_ids: Collection[str],
    ) -> None:
        with self._writing() as indexes:
            for index in indexes:
                await index.store.keep(
                    owner, version_id, since_ms, until_ms, chunk_ids=chunk_ids, sentence_ids=sentence_ids
                )

    async def expire(self, client_id: str, before_ms: int, *, document_id: str | None = None) -> None:
        with self._writing() as indexes:
            for index in indexes:
                await index.store.expire(client_id, before_ms, document_id=document_id)

    async def vacate(self, client_id: str) -> None:
        with self._writing() as indexes:
            # What lets go of one index may let go of the client's place in all of them.
            for index in indexes:
                if any(await index.store.size(client_id)):
                    return
            for index in indexes:
                await index.store.vacate(client_id)

    async def drop(
        self,
        owner: scope.Scope,
        document_id: str,
        *,
        keep: Collection[str] = (),
        known: Mapping[str, str] | None = None,
    ) -> None:
        # A copied chunk has the revision of its original.
        with self._writing() as indexes:
            for index in indexes:
                await index.store.drop(owner, document_id, keep=keep, known=known)

    async def dense(
        self, viewer: scope.Scope, vector: model.Vector, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        with self._reading(vector) as store:
            return await store.dense(viewer, vector, limit=limit, chosen=chosen)

    async def lexical(
        self, viewer: scope.Scope, query: str, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        with self._reading() as store:
            return await store.lexical(viewer, query, limit=limit, chosen=chosen)

    async def newest(self, viewer: scope.Scope, chosen: selection.Selection, *, limit: int) -> list[model.Chunk]:
        with self._reading() as store:
            return await store.newest(viewer, chosen, limit=limit)

    async def chunks(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> dict[str, model.Chunk]:
        with self._reading() as store:
            return await store.chunks(viewer, chunk_ids, history=history)

    async def chosen(self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection) -> set[str]:
        with self._reading() as store:
            return await store.chosen(viewer, chunk_ids, chosen)

    async def cosines(
        self, viewer: scope.Scope, vector: model.Vector, sentence_ids: Collection[str], *, history: bool = False
    ) -> dict[str, float]:
        with self._reading(vector) as store:
            return await store.cosines(viewer, vector, sentence_ids, history=history)

    async def regroup(self, owner: scope.Scope) -> int:
        with self._writing() as indexes:
            return [await index.store.regroup(owner) for index in indexes][-1]

    async def audit(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.Stored], str | None]:
        # Each index after the other: what is left in one of them alone must be found too.
        with self._writing() as indexes:
            index, place = _cursor(indexes, after)
            rows, following = await index.store.audit(client_id, after=place, limit=limit, document_ids=document_ids)
            return rows, _next(indexes, index, following)

    async def audit_sentences(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.StoredSentence], str | None]:
        with self._writing() as indexes:
            index, place = _cursor(indexes, after)
            rows, following = await index.store.audit_sentences(
                client_id, after=place, limit=limit, document_ids=document_ids
            )
            return rows, _next(indexes, index, following)

    async def held(self, client_id: str, chunk_ids: Collection[str]) -> dict[str, model.Stored]:
        with self._reading() as store:
            return await store.held(client_id, chunk_ids)

    async def held_sentences(self, client_id: str, sentence_ids: Collection[str]) -> set[str]:
        with self._reading() as store:
            return await store.held_sentences(client_id, sentence_ids)

    async def discard(self, client_id: str, *, chunk_ids: Collection[str], sentence_ids: Collection[str]) -> None:
        with self._writing() as indexes:
            for index in indexes:
                await index.store.discard(client_id, chunk_ids=chunk_ids, sentence_ids=sentence_ids)

    async def counts(self, viewer: scope.Scope) -> tuple[int, int]:
        with self._reading() as store:
            return await store.counts(viewer)

    async def size(self, client_id: str) -> tuple[int, int]:
        with self._reading() as store:
            return await store.size(client_id)

    async def dimension(self) -> int | None:
        with self._reading() as store:
            return await store.dimension()

    async def destroy(self) -> None:
        with self._writing() as indexes:
            for index in indexes:
                await index.store.destroy()

    async def close(self) -> None:
        await self.before.store.close()
        await self.new.store.close()


class Documents:
    """Implements `kb.vectors.embedding.Port` for what is stored: a vector of each model whose index takes writes."""

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes

    @property
    def name(self) -> str:
        return self._indexes.serving.name

    async def embed(self, texts: Sequence[str], urgency: priority.Priority) -> list[model.Vector]:
        written = self._indexes.written
        found = await asyncio.gather(*(one.embedder.embed(texts, urgency) for one in written))
        names = [one.name for one in written]
        return [model.Made(row[-1], names[-1], dict(zip(names, row, strict=True))) for row in zip(*found, strict=True)]


class Questions:
    """Implements `kb.vectors.embedding.Port` for questions: the vector of the model whose index serves."""

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes

    @property
    def name(self) -> str:
        return self._indexes.serving.name

    def instruction(self) -> str:
        """What goes before a question that is embedded next."""
        return self._indexes.serving.instruction

    async def embed(self, texts: Sequence[str], urgency: priority.Priority) -> list[model.Vector]:
        index = self._indexes.asked()
        return [model.Made(vector, index.name) for vector in await index.questions.embed(texts, urgency)]


def _of(index: Index, vector: model.Vector) -> model.Vector:
    """The vector that the index's model made of the same text."""
    if not isinstance(vector, model.Made) or index.name not in vector.by_model:
        raise errors.Away("weaviate", "another vector index takes writes now", retry_after=1)
    return vector.by_model[index.name]


def _cursor(indexes: Sequence[Index], after: str | None) -> tuple[Index, str | None]:
    """The index in which a look goes on, and where; the last of them comes first."""
    if after is not None and after.startswith(_OTHER):
        return indexes[0], after.removeprefix(_OTHER) or None
    return indexes[-1], after


def _next(indexes: Sequence[Index], index: Index, following: str | None) -> str | None:
    if index is indexes[-1]:
        return following if following is not None or len(indexes) == 1 else _OTHER
    return following and f"{_OTHER}{following}"
