"""Vectors and content in memory: stand-ins for Weaviate and MongoDB that pass the same contract suites.

They serve the tests that are about something else and must run without the data services. `away` makes a store answer
as if it were down; `fail_after` lets that many calls through first, to stop an ingest at a chosen step.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence

from crds import scope
from kb import errors, identity, selection, visibility, wire
from kb.vectors import model

_WORD = re.compile(r"\w+")


class _Switch:
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


class Vectors:
    """Implements `kb.vectors.store.Store`."""

    def __init__(self) -> None:
        self.switch = _Switch("weaviate")
        self._chunks: dict[str, tuple[scope.Scope, model.Chunk, model.Vector]] = {}
        self._sentences: dict[str, tuple[scope.Scope, model.Sentence, model.Vector]] = {}

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
            self._chunks[chunk.id] = (owner, chunk, vector)
        for sentence, vector in sentences:
            self.switch.check("put")
            self._sentences[sentence.id] = (owner, sentence, vector)

    async def touch(self, owner: scope.Scope, chunks: Sequence[model.Chunk]) -> None:
        self.switch.check("touch")
        for chunk in chunks:
            self._chunks[chunk.id] = (owner, chunk, self._chunks[chunk.id][2])

    async def drop(self, owner: scope.Scope, document_id: str, *, keep: Collection[str] = ()) -> None:
        self.switch.check("drop")
        for key, (where, chunk, _) in list(self._chunks.items()):
            if where.client_id == owner.client_id and chunk.document_id == document_id and key not in keep:
                del self._chunks[key]
        for key, (where, sentence, _) in list(self._sentences.items()):
            mine = where.client_id == owner.client_id and sentence.document_id == document_id
            if mine and sentence.chunk_id not in keep:
                del self._sentences[key]

    async def dense(
        self, viewer: scope.Scope, vector: model.Vector, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        self.switch.check("dense")
        seen = self._seen(viewer, chosen)
        return _best([model.Hit(chunk.id, _cosine(vector, known)) for chunk, known in seen], limit)

    async def lexical(
        self, viewer: scope.Scope, query: str, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        """Shared words over length: enough of BM25 to order what has the words before what has not."""
        self.switch.check("lexical")
        asked = set(_words(query))
        hits = []
        for chunk, _ in self._seen(viewer, chosen):
            words = Counter(_words(chunk.embedded_text()))
            score = sum(min(words[word], 3) for word in asked) / (10 + words.total())
            if score > 0:
                hits.append(model.Hit(chunk.id, score))
        return _best(hits, limit)

    async def chunks(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> dict[str, model.Chunk]:
        self.switch.check("chunks")
        return {chunk.id: chunk for chunk, _ in self._seen(viewer) if chunk.id in chunk_ids}

    async def newest(self, viewer: scope.Scope, chosen: selection.Selection, *, limit: int) -> list[model.Chunk]:
        self.switch.check("newest")

        def age(chunk: model.Chunk) -> tuple[float, str, int]:
            observed = selection.moment(chunk.observed_at)
            return math.inf if observed is None else -observed, chunk.document_id, chunk.ordinal

        return sorted((chunk for chunk, _ in self._seen(viewer, chosen)), key=age)[:limit]

    async def cosines(
        self, viewer: scope.Scope, vector: model.Vector, sentence_ids: Collection[str]
    ) -> dict[str, float]:
        self.switch.check("cosines")
        return {
            key: _cosine(vector, self._sentences[key][2])
            for key in sentence_ids
            if key in self._sentences and visibility.sees(viewer, self._sentences[key][0])
        }

    async def regroup(self, owner: scope.Scope) -> int:
        self.switch.check("regroup")
        moved = 0
        for kept in (self._chunks, self._sentences):
            for key, (where, thing, vector) in list(kept.items()):
                mine = (where.client_id, where.project_id) == (owner.client_id, owner.project_id)
                if mine and where.group_id != owner.group_id:
                    kept[key] = (owner, thing, vector)  # type: ignore[assignment]  # each dict keeps its own kind
                    moved += 1
        return moved

    async def audit(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.Stored], str | None]:
        self.switch.check("audit")
        mine = sorted(key for key, (where, _, _) in self._chunks.items() if where.client_id == client_id)
        page = [key for key in mine if after is None or key > after][:limit]
        found = [
            model.Stored(key, where, chunk.document_id, chunk.source_urn, chunk.graph_refs)
            for key in page
            for where, chunk, _ in [self._chunks[key]]
        ]
        return found, page[-1] if len(page) == limit else None

    async def audit_sentences(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.StoredSentence], str | None]:
        self.switch.check("audit_sentences")
        mine = sorted(key for key, (where, _, _) in self._sentences.items() if where.client_id == client_id)
        page = [key for key in mine if after is None or key > after][:limit]
        found = [
            model.StoredSentence(key, where, sentence.document_id, sentence.chunk_id)
            for key in page
            for where, sentence, _ in [self._sentences[key]]
        ]
        return found, page[-1] if len(page) == limit else None

    async def held(self, client_id: str, chunk_ids: Collection[str]) -> dict[str, model.Stored]:
        page, _ = await self.audit(client_id, limit=1_000_000)
        return {one.chunk_id: one for one in page if one.chunk_id in chunk_ids}

    async def discard(self, client_id: str, *, chunk_ids: Collection[str], sentence_ids: Collection[str]) -> None:
        self.switch.check("discard")
        for key in chunk_ids:
            if key in self._chunks and self._chunks[key][0].client_id == client_id:
                del self._chunks[key]
        for key in sentence_ids:
            if key in self._sentences and self._sentences[key][0].client_id == client_id:
                del self._sentences[key]

    async def counts(self, viewer: scope.Scope) -> tuple[int, int]:
        self.switch.check("counts")
        sentences = sum(visibility.sees(viewer, where) for where, _, _ in self._sentences.values())
        return len(self._seen(viewer)), sentences

    async def close(self) -> None:
        return None

    def _seen(
        self, viewer: scope.Scope, chosen: selection.Selection = selection.ALL
    ) -> list[tuple[model.Chunk, model.Vector]]:
        return [
            (chunk, vector)
            for owner, chunk, vector in self._chunks.values()
            if visibility.sees(viewer, owner)
            and chosen.admits(chunk.kind, chunk.source_urn, selection.moment(chunk.observed_at))
        ]


class Content:
    """Implements `kb.content.store.Store`."""

    def __init__(self) -> None:
        self.switch = _Switch("mongodb")
        self._kept: dict[str, tuple[scope.Scope, bytes]] = {}

    async def ready(self) -> None:
        self.switch.check("ready")

    async def save(self, owner: scope.Scope, body: bytes, media_type: str) -> wire.ContentRef:
        self.switch.check("save")
        sha256 = identity.digest_bytes(body)
        key = identity.content(owner, sha256)
        self._kept[key] = (owner, body)
        return wire.ContentRef(key=key, sha256=sha256, bytes=len(body))

    async def load(self, viewer: scope.Scope, key: str) -> bytes:
        self.switch.check("load")
        found = self._kept.get(key)
        if found is None or not visibility.sees(viewer, found[0]):
            raise errors.NotFound(f"no content {key!r}", field="key")
        return found[1]

    async def close(self) -> None:
        return None


def _best(hits: list[model.Hit], limit: int) -> list[model.Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:limit]


def _cosine(left: model.Vector, right: model.Vector) -> float:
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / ((math.hypot(*left) * math.hypot(*right)) or 1.0)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
