"""What the process with the duty does for a reindex: it prepares, copies, verifies, switches and drops.

A pass goes over all that the graph has committed, the replaced versions too, and copies what the new index lacks or
holds in another revision: text from the old index, sentences from the graph. A document is copied with its turn held
and its scope open to writes, so that no copy comes after a deletion. Nothing but the phase is remembered: what is
there is passed over, so a process that was killed goes on where it was, at the price of a look.

The new index is whole when a pass finds nothing to copy, after every process writes to both. A document that the new
model refuses is not copied, as a new one would not be stored: it counts as lost and holds nothing up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass

import structlog

from crds import errors as root
from crds import priority, scope
from kb import errors, metrics
from kb.graph import model as graph_model
from kb.graph import store as graph
from kb.ingest import document_locks
from kb.reindex.indexes import Indexes
from kb.reindex.phase import Book, Phase, View
from kb.vectors import embedding, model
from router import client

log = structlog.get_logger(__name__)
_PAGE = 500
# Documents that are copied at once: their texts travel to the model in common batches.
_AT_ONCE = 8
_PROBE = "Is this model there?"

Writing = Callable[[scope.Scope, str], AbstractAsyncContextManager[document_locks.Turn]]
"""The turn of an owner's document, unless its scope is being erased."""


@dataclass
class Pass:
    """What a pass has done so far; the fields are those of `kb.api.Reindex`."""

    passes: int = 0
    clients: int = 0
    clients_done: int = 0
    chunks: int = 0
    checked: int = 0
    copied: int = 0
    left: int = 0
    lost: int = 0


class Reindexer:
    """Call `step` until it says that all is done, or `run` for ever. `drop`: the old index goes without being asked."""

    def __init__(
        self,
        book: Book,
        view: View,
        indexes: Indexes,
        graph_store: graph.Store,
        writing: Writing,
        meters: metrics.Metrics,
        *,
        drop: bool = True,
    ) -> None:
        self._book = book
        self._view = view
        self._before = indexes.before
        self._new = indexes.new
        self._graph = graph_store
        self._writing = writing
        self._meters = meters
        self._drop = drop
        self._passes = 0

    async def step(self, turn: document_locks.Turn) -> bool:
        """Do what the phase wants next; whether that may be followed by another step at once.

        `turn` is that of the duty. Raises what the stores and the model raise, and `kb.errors.Outrun`.
        """
        turn.check()
        phase = await self._view.look()
        self._meters.reindex_phase.set(phase)
        if phase is Phase.DONE:
            return False
        if phase is Phase.PREPARING:
            found = await self._book.find()
            if self._view.may_begin(found):
                await self._book.begin(self._view.before, self._view.model, turn.fence)
                return True
            if found is None or (found.before, found.model) != (self._view.before, self._view.model):
                # The reindex before this one is not done.
                return False
            [vector] = await self._new.embedder.embed([_PROBE], priority.Priority.P3)
            await self._new.store.ready()
            log.info("the new model answers", model=self._view.model, dimension=len(vector))
        elif awaited := await self._view.awaited():
            await self._note(turn, phase, Pass(passes=self._passes), f"waits for {', '.join(awaited)}")
            return False
        elif phase is Phase.COPYING:
            done = await self._pass(turn)
            if done.copied or done.left:
                return not done.left
        elif phase is Phase.SWITCHED and not (self._drop or await self._asked()):
            await self._note(turn, phase, Pass(passes=self._passes), "the old index is kept until it is dropped")
            return False
        elif phase is Phase.DROPPING:
            turn.check()
            await self._before.store.destroy()
        await self._book.advance(phase, turn.fence)
        await self._view.look()
        return True

    async def run(self, turn: document_locks.Turn, *, interval: float) -> None:
        """Go on until it is done, and look every `interval` seconds; until cancelled."""
        while True:
            more = False
            try:
                more = await self.step(turn)
            except errors.Outrun as error:
                log.warning("the reindex is another process's now", reason=error.message)
            except (root.Operational, root.Permanent) as error:
                log.warning("the reindex waits", reason=error.message)
                await self._excuse(turn, error.message)
            if not more:
                await asyncio.sleep(interval)

    async def _asked(self) -> bool:
        found = await self._book.find()
        return found is not None and found.drop_asked

    async def _excuse(self, turn: document_locks.Turn, reason: str) -> None:
        try:
            await self._note(turn, self._view.phase, Pass(passes=self._passes), reason)
        except root.Operational as error:
            log.warning("the reindex cannot be recorded", reason=error.message)

    async def _note(self, turn: document_locks.Turn, phase: Phase, done: Pass, reason: str = "") -> None:
        self._meters.reindex_chunks.labels("checked").set(done.checked)
        self._meters.reindex_chunks.labels("total").set(done.chunks)
        await self._book.note(phase, turn.fence, progress=asdict(done), reason=reason)

    async def _pass(self, turn: document_locks.Turn) -> Pass:
        """Go over everything once; the new index is whole when nothing was copied or left."""
        self._passes += 1
        clients = await self._graph.clients()
        done = Pass(passes=self._passes, clients=len(clients))
        done.chunks = sum([(await self._before.store.size(client_id))[0] for client_id in clients])
        for client_id in clients:
            after: str | None = None
            while True:
                turn.check()
                await self._note(turn, Phase.COPYING, done)
                page, after = await self._graph.audit(client_id, after=after, limit=_PAGE)
                await self._page(client_id, page, turn, done)
                if after is None:
                    break
            done.clients_done += 1
        await self._note(turn, Phase.COPYING, done)
        log.info("reindex pass", **asdict(done))
        return done

    async def _page(
        self, client_id: str, page: Sequence[graph_model.Committed], turn: document_locks.Turn, done: Pass
    ) -> None:
        ids = [row.chunk_id for row in page]
        lines = {line for row in page for line in row.sentence_ids}
        there, has, said = await asyncio.gather(
            self._before.store.held(client_id, ids),
            self._new.store.held(client_id, ids),
            self._new.store.held_sentences(client_id, lines),
        )
        documents: dict[tuple[scope.Scope, str], list[str]] = {}
        for row in page:
            copy, source = has.get(row.chunk_id), there.get(row.chunk_id)
            if copy is None and source is None:
                done.lost += row.document.until_ms is None
            elif not said.issuperset(row.sentence_ids) or copy is None or not _same(row, copy, source):
                documents.setdefault((row.owner, row.document.id), []).append(row.chunk_id)
        waiting = list(documents.items())

        async def work() -> None:
            while waiting:
                (owner, document_id), chunk_ids = waiting.pop()
                try:
                    async with self._writing(owner, document_id) as own:
                        done.copied += await self._copy(client_id, document_id, chunk_ids, (turn, own))
                except errors.Erasing:
                    # What is erased is not copied; the next pass does not find it, or finds it open again.
                    done.left += 1
                except client.Rejected as error:
                    # It is the document's fault where the model has a vector of another text. Where it has none, no
                    # document may be passed over: the old index would go in the end.
                    await self._new.embedder.embed([_PROBE], priority.Priority.P3)
                    done.lost += len(chunk_ids)
                    log.warning("the new model refuses a document", document=document_id, reason=error.message)

        # All are awaited even when one fails, so that none goes on behind the back of the next step.
        ended = await asyncio.gather(*(work() for _ in range(min(_AT_ONCE, len(waiting)))), return_exceptions=True)
        for one in ended:
            if isinstance(one, BaseException):
                raise one
        done.checked += len(page)

    async def _copy(
        self, client_id: str, document_id: str, chunk_ids: Collection[str], held: Sequence[document_locks.Turn]
    ) -> int:
        """With the document's turn held: look again, and copy what is still missing. How many chunks and sentences."""
        rows = {
            key: row
            for key, row in (await self._graph.held(client_id, chunk_ids)).items()
            if row.document.id == document_id
        }
        has = await self._new.store.held(client_id, rows)
        said = await self._new.store.held_sentences(
            client_id, {one for row in rows.values() for one in row.sentence_ids}
        )
        copied = 0
        for owner in {row.owner for row in rows.values()}:
            mine = {key: row for key, row in rows.items() if row.owner == owner}
            texts = await self._before.store.chunks(owner, mine, history=True)
            chunks = [chunk for key, chunk in texts.items() if not _copied(mine[key], has.get(key), chunk)]
            stored = has.keys() | texts.keys()
            lines = await self._sentences(owner, {key: row for key, row in mine.items() if key in stored}, said)
            for part in embedding.slices([*chunks, *lines]):
                copied += await self._put(owner, part, held)
        return copied

    async def _sentences(
        self, owner: scope.Scope, rows: Mapping[str, graph_model.Committed], stored: Collection[str]
    ) -> list[model.Sentence]:
        """The sentences of the chunks that are not `stored`; the graph has their text."""
        missing = {line: row for row in rows.values() for line in row.sentence_ids if line not in stored}
        if not missing:
            return []
        found = await self._graph.mentioned(owner, rows.keys(), history=True)
        texts = {one.sentence_id: one.sentence for one in found}
        return [
            model.Sentence(line, row.chunk_id, row.document.id, texts[line], row.document.until_ms)
            for line, row in missing.items()
            if line in texts
        ]

    async def _put(
        self, owner: scope.Scope, part: Sequence[model.Chunk | model.Sentence], held: Sequence[document_locks.Turn]
    ) -> int:
        texts = [one.embedded_text() if isinstance(one, model.Chunk) else one.text for one in part]
        made = list(zip(part, await self._new.embedder.embed(texts, priority.Priority.P3), strict=True))
        for turn in held:
            turn.check()
        await self._new.store.put(
            owner,
            [(one, vector) for one, vector in made if isinstance(one, model.Chunk)],
            [(one, vector) for one, vector in made if isinstance(one, model.Sentence)],
        )
        self._meters.reindexed.inc(len(part))
        return len(part)


def _same(row: graph_model.Committed, copy: model.Stored, source: model.Stored | None) -> bool:
    """Whether the new index's copy is that of the old one. A version that was replaced changes its owner alone."""
    if copy.owner != row.owner:
        return False
    return source is None or row.document.until_ms is not None or copy.revision == source.revision


def _copied(row: graph_model.Committed, copy: model.Stored | None, chunk: model.Chunk) -> bool:
    if copy is None or copy.owner != row.owner:
        return False
    return chunk.until_ms is not None or copy.revision == chunk.revision(row.owner)
