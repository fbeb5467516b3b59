"""Vectors and content in memory: stand-ins for Weaviate and MongoDB that pass the same contract suites.

They serve the tests that are about something else and must run without the data services. `away` makes a store answer
as if it were down; `fail_after` lets that many calls through first, to stop an ingest at a chosen step. `Kept` lets a
store outlive the process that uses it.
"""

from __future__ import annotations

import asyncio
import math
import pickle
from collections import Counter, defaultdict
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from crds import scope
from kb import api, errors, identity, selection, visibility
from kb.vectors import model
from text import words

T = TypeVar("T", model.Chunk, model.Sentence)


class Switch:
    """Of a store: it records the calls, and lets them fail."""

    def __init__(self, component: str) -> None:
        self._component = component
        self.away = False
        self.fail_after: int | None = None
        self.calls: list[str] = []

    def check(self, call: str) -> None:
        self.calls.append(call)
        if self.fail_after is not None:
            if self.fail_after == 0:
                raise errors.Away(self._component, f"switched off before {call}")
            self.fail_after -= 1
        if self.away:
            raise errors.Away(self._component, "switched off")

    async def refuse(self, call: Awaitable[object]) -> None:
        """Let the call meet the store while it is away."""
        self.away = True
        with pytest.raises(errors.Away, match=self._component):
            await call
        self.away = False


class Kept:
    """A store in memory that lies in the file `path` between two calls, as one with a server of its own does."""

    def __init__(self, path: Path, empty: Any) -> None:
        self._path = path
        self._inner = pickle.loads(path.read_bytes()) if path.exists() else empty

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **more: Any) -> Any:
            try:
                return await found(*args, **more)
            finally:
                self._path.write_bytes(pickle.dumps(self._inner))

        return call


class Vectors:
    """Implements `kb.vectors.store.Store`."""

    def __init__(self) -> None:
        self.switch = Switch("weaviate")
        self._chunks: dict[str, tuple[scope.Scope, model.Chunk, model.Vector]] = {}
        self._sentences: dict[str, tuple[scope.Scope, model.Sentence, model.Vector]] = {}
        # Of versions that were replaced; of a sentence with the time when it was.
        self._past: dict[str, tuple[scope.Scope, model.Chunk, model.Vector]] = {}
        self._past_sentences: dict[str, tuple[scope.Scope, model.Sentence, model.Vector]] = {}
        self._ends: dict[str, int] = {}

    async def ready(self) -> None:
        self.switch.check("ready")

    async def known(self, owner: scope.Scope, document_id: str) -> dict[str, str]:
        self.switch.check("known")
        return {
            chunk.id: chunk.revision(where)
            for where, chunk, _ in self._chunks.values()
            if chunk.document_id == document_id and where.client_id == owner.client_id
        }

    async def known_sentences(self, owner: scope.Scope, sentence_ids: Collection[str]) -> set[str]:
        self.switch.check("known_sentences")
        return {key for key in sentence_ids if key in self._sentences and self._sentences[key][0] == owner}

    async def put(
        self,
        owner: scope.Scope,
        chunks: Sequence[tuple[model.Chunk, model.Vector]],
        sentences: Sequence[tuple[model.Sentence, model.Vector]],
    ) -> None:
        for chunk, vector in chunks:
            self.switch.check("put")
            kept = self._chunks if chunk.until_ms is None else self._past
            kept[chunk.id] = (owner, chunk, vector)
        for sentence, vector in sentences:
            self.switch.check("put")
            lines = self._sentences if sentence.until_ms is None else self._past_sentences
            lines[sentence.id] = (owner, sentence, vector)
            if sentence.until_ms is not None:
                self._ends[sentence.id] = sentence.until_ms

    async def touch(self, owner: scope.Scope, chunks: Sequence[model.Chunk]) -> None:
        self.switch.check("touch")
        for chunk in chunks:
            kept = self._chunks if chunk.until_ms is None else self._past
            kept[chunk.id] = (owner, chunk, kept[chunk.id][2])

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
        self.switch.check("keep")
        begun = selection.ALWAYS if since_ms is None else since_ms
        for key in chunk_ids:
            if key in self._chunks:
                where, chunk, vector = self._chunks[key]
                own = identity.past(version_id, key)
                self._past[own] = (where, replace(chunk, id=own, since_ms=begun, until_ms=until_ms), vector)
        for key in sentence_ids:
            if key in self._sentences:
                where, line, vector = self._sentences[key]
                own = identity.past(version_id, key)
                chunk_id = identity.past(version_id, line.chunk_id)
                self._past_sentences[own] = (where, replace(line, id=own, chunk_id=chunk_id), vector)
                self._ends[own] = until_ms

    async def expire(self, client_id: str, before_ms: int, *, document_id: str | None = None) -> None:
        self.switch.check("expire")

        def old(where: scope.Scope, document: str, until_ms: int | None) -> bool:
            mine = where.client_id == client_id and document_id in (None, document)
            return mine and until_ms is not None and until_ms < before_ms

        for key, (where, chunk, _) in list(self._past.items()):
            if old(where, chunk.document_id, chunk.until_ms):
                del self._past[key]
        for key, (where, line, _) in list(self._past_sentences.items()):
            if old(where, line.document_id, self._ends[key]):
                del self._past_sentences[key]

    async def vacate(self, client_id: str) -> None:
        self.switch.check("vacate")

    async def drop(
        self,
        owner: scope.Scope,
        document_id: str,
        *,
        keep: Collection[str] = (),
        known: Mapping[str, str] | None = None,
    ) -> None:
        self.switch.check("drop")
        forgotten = not keep
        if known is not None:
            # What is kept are the chunks that were not known, and those that changed since.
            there = await self.known(owner, document_id)
            others = {one.chunk_id for _, one, _ in self._sentences.values() if one.document_id == document_id}
            changed = {key for key, revision in there.items() if known.get(key) != revision}
            keep = {*keep, *changed, *(others - known.keys())}
        chunks = (self._chunks, self._past) if forgotten else (self._chunks,)
        for kept in chunks:
            for key, (where, chunk, _) in list(kept.items()):
                if where.client_id == owner.client_id and chunk.document_id == document_id and key not in keep:
                    del kept[key]
        sentences = (self._sentences, self._past_sentences) if forgotten else (self._sentences,)
        for lines in sentences:
            for key, (where, sentence, _) in list(lines.items()):
                mine = where.client_id == owner.client_id and sentence.document_id == document_id
                if mine and sentence.chunk_id not in keep:
                    del lines[key]

    async def dense(
        self, viewer: scope.Scope, vector: model.Vector, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        self.switch.check("dense")
        seen = self._seen(viewer, chosen)
        return _best([model.Hit(chunk.id, _cosine(vector, known)) for chunk, known in seen], limit)

    async def lexical(
        self, viewer: scope.Scope, query: str, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        """BM25 of the heading and of the text, added, with Weaviate's own k1 and b."""
        self.switch.check("lexical")
        seen = [chunk for chunk, _ in self._seen(viewer, chosen)]
        scores: defaultdict[str, float] = defaultdict(float)
        for texts in ({one.id: one.heading for one in seen}, {one.id: one.text for one in seen}):
            counted = {key: Counter(words.terms(text)) for key, text in texts.items()}
            mean = sum(found.total() for found in counted.values()) / max(len(counted), 1) or 1.0
            for term, asked in Counter(words.asked(query)).items():
                having = [key for key, found in counted.items() if found[term]]
                rarity = math.log(1 + (len(counted) - len(having) + 0.5) / (len(having) + 0.5))
                for key in having:
                    often, length = counted[key][term], counted[key].total()
                    scores[key] += asked * rarity * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * length / mean))
        return _best([model.Hit(key, score) for key, score in scores.items()], limit)

    async def chunks(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> dict[str, model.Chunk]:
        self.switch.check("chunks")
        return {chunk.id: chunk for chunk, _ in self._seen(viewer, history=history) if chunk.id in chunk_ids}

    async def chosen(self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection) -> set[str]:
        self.switch.check("chosen")
        return {chunk.id for chunk, _ in self._seen(viewer, chosen) if chunk.id in chunk_ids}

    async def newest(self, viewer: scope.Scope, chosen: selection.Selection, *, limit: int) -> list[model.Chunk]:
        self.switch.check("newest")

        def age(chunk: model.Chunk) -> tuple[float, str, int]:
            observed = selection.moment(chunk.observed_at)
            return math.inf if observed is None else -observed, chunk.document_id, chunk.ordinal

        return sorted((chunk for chunk, _ in self._seen(viewer, chosen)), key=age)[:limit]

    async def cosines(
        self, viewer: scope.Scope, vector: model.Vector, sentence_ids: Collection[str], *, history: bool = False
    ) -> dict[str, float]:
        self.switch.check("cosines")
        lines = self._sentences | (self._past_sentences if history else {})
        return {
            key: _cosine(vector, lines[key][2])
            for key in sentence_ids
            if key in lines and visibility.sees(viewer, lines[key][0])
        }

    async def regroup(self, owner: scope.Scope) -> int:
        self.switch.check("regroup")
        moved = 0
        for kept in (self._chunks, self._sentences, self._past, self._past_sentences):
            for key, (where, thing, vector) in list(kept.items()):
                mine = (where.client_id, where.project_id) == (owner.client_id, owner.project_id)
                if mine and where.group_id != owner.group_id:
                    kept[key] = (owner, thing, vector)  # type: ignore[assignment]  # each dict keeps its own kind
                    moved += 1
        return moved

    async def audit(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.Stored], str | None]:
        self.switch.check("audit")
        page, last = _page(self._chunks | self._past, client_id, after, limit, document_ids)
        return [
            model.Stored(key, where, chunk.document_id, chunk.source_urn, chunk.graph_refs, chunk.revision(where))
            for key, (where, chunk, _) in page
        ], last

    async def audit_sentences(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.StoredSentence], str | None]:
        self.switch.check("audit_sentences")
        page, last = _page(self._sentences | self._past_sentences, client_id, after, limit, document_ids)
        return [
            model.StoredSentence(key, where, sentence.document_id, sentence.chunk_id)
            for key, (where, sentence, _) in page
        ], last

    async def held(self, client_id: str, chunk_ids: Collection[str]) -> dict[str, model.Stored]:
        page, _ = await self.audit(client_id, limit=1_000_000)
        return {one.chunk_id: one for one in page if one.chunk_id in chunk_ids}

    async def held_sentences(self, client_id: str, sentence_ids: Collection[str]) -> set[str]:
        self.switch.check("held_sentences")
        everything = self._sentences | self._past_sentences
        mine = {key for key, (where, _, _) in everything.items() if where.client_id == client_id}
        return mine & set(sentence_ids)

    async def discard(self, client_id: str, *, chunk_ids: Collection[str], sentence_ids: Collection[str]) -> None:
        self.switch.check("discard")
        for kept, gone in (
            (self._chunks, chunk_ids),
            (self._past, chunk_ids),
            (self._sentences, sentence_ids),
            (self._past_sentences, sentence_ids),
        ):
            for key in gone:
                if key in kept and kept[key][0].client_id == client_id:
                    del kept[key]

    async def counts(self, viewer: scope.Scope) -> tuple[int, int]:
        self.switch.check("counts")
        sentences = sum(visibility.sees(viewer, where) for where, _, _ in self._sentences.values())
        return len(self._seen(viewer)), sentences

    async def size(self, client_id: str) -> tuple[int, int]:
        self.switch.check("size")
        kept = ((self._chunks, self._past), (self._sentences, self._past_sentences))
        chunks, sentences = (
            sum(where.client_id == client_id for rows in both for where, _, _ in rows.values()) for both in kept
        )
        return chunks, sentences

    async def dimension(self) -> int | None:
        self.switch.check("dimension")
        return next((len(vector) for _, _, vector in (*self._chunks.values(), *self._past.values())), None)

    async def destroy(self) -> None:
        self.switch.check("destroy")
        for kept in (self._chunks, self._sentences, self._past, self._past_sentences, self._ends):
            kept.clear()

    async def close(self) -> None:
        return None

    def _seen(
        self, viewer: scope.Scope, chosen: selection.Selection = selection.ALL, *, history: bool = False
    ) -> list[tuple[model.Chunk, model.Vector]]:
        past = history or chosen.as_of is not None
        return [
            (chunk, vector)
            for owner, chunk, vector in (*self._chunks.values(), *(self._past.values() if past else ()))
            if visibility.sees(viewer, owner)
            and visibility.shows(viewer, chunk.labels())
            and chosen.admits(
                chunk.kind, chunk.source_urn, selection.moment(chunk.observed_at), chunk.since_ms, chunk.until_ms
            )
            and chosen.carries(selection.labels(chunk.said()))
        ]


class Content:
    """Implements `kb.content.store.Store`."""

    def __init__(self) -> None:
        self.switch = Switch("mongodb")
        self._kept: dict[str, tuple[scope.Scope, bytes]] = {}
        self._parts: dict[str, str] = {}

    async def ready(self) -> None:
        self.switch.check("ready")

    async def save(self, owner: scope.Scope, body: bytes, media_type: str, *, part_of: str = "") -> api.ContentRef:
        self.switch.check("save")
        sha256 = identity.digest_bytes(body)
        key = identity.part(part_of, sha256) if part_of else identity.content(owner, sha256)
        self._kept[key] = (owner, body)
        if part_of:
            self._parts[key] = part_of
        return api.ContentRef(key=key, sha256=sha256, bytes=len(body))

    async def load(self, viewer: scope.Scope, key: str) -> bytes:
        self.switch.check("load")
        found = self._kept.get(key)
        if found is None or not visibility.sees(viewer, found[0]):
            raise errors.NotFound(f"no content {key!r}", field="key")
        return found[1]

    async def drop_parts(
        self,
        document_id: str,
        *,
        keep: Collection[str] = (),
        only: Collection[str] | None = None,
        before: datetime | None = None,
    ) -> int:
        """`before` is not looked at: no time is kept here."""
        self.switch.check("drop_parts")
        gone = [key for key, part_of in self._parts.items() if part_of == document_id and key not in keep]
        gone = [key for key in gone if only is None or key in only]
        for key in gone:
            del self._kept[key], self._parts[key]
        return len(gone)

    async def part_clients(self) -> list[str]:
        self.switch.check("part_clients")
        return sorted({self._kept[key][0].client_id for key in self._parts})

    async def parts(self, client_id: str, *, before: datetime) -> list[str]:
        self.switch.check("parts")
        return sorted({self._parts[key] for key in self._parts if self._kept[key][0].client_id == client_id})

    def lose(self, key: str) -> None:
        """As if it had been deleted."""
        del self._kept[key]

    async def regroup(self, owner: scope.Scope) -> int:
        self.switch.check("regroup")
        mine = (owner.client_id, owner.project_id)
        other = {
            key: (owner, body)
            for key, (known, body) in self._kept.items()
            if (known.client_id, known.project_id) == mine and known != owner
        }
        self._kept |= other
        return len(other)


def _page(
    rows: Mapping[str, tuple[scope.Scope, T, model.Vector]],
    client_id: str,
    after: str | None,
    limit: int,
    document_ids: Collection[str] | None,
) -> tuple[list[tuple[str, tuple[scope.Scope, T, model.Vector]]], str | None]:
    """A page of the client's rows by id, and the id after which the next one begins."""
    mine = sorted(
        key
        for key, (where, one, _) in rows.items()
        if where.client_id == client_id and (document_ids is None or one.document_id in document_ids)
    )
    page = [key for key in mine if after is None or key > after][:limit]
    return [(key, rows[key]) for key in page], page[-1] if len(page) == limit else None


def _best(hits: list[model.Hit], limit: int) -> list[model.Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:limit]


def _cosine(left: model.Vector, right: model.Vector) -> float:
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / ((math.hypot(*left) * math.hypot(*right)) or 1.0)
