"""Questions that the decision agent works on: who reads, who has hung up, and what is kept of them.

A question is a task of its own. Its reader takes events from memory; where the reader allows to be away
(`resumeSeconds`), they are written to MongoDB too, and any process gives them to a reader that comes back. One that is
gone for longer, or did not allow it, ends the task, and with it the call of a model that is under way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from crds import errors as root
from crds import priority, scope
from kb import api, errors, metrics
from kb.agent import answering, orchestrator, retrieving, store, turn_sources
from kb.agent.environment import tokens
from kb.agent.tree import TreeData, Turn
from kb.rules import enforce

log = structlog.get_logger(__name__)
_FLUSH, _LIFE_SIGN, _POLL = 0.2, 5.0, 0.25
"""Seconds between two writes of events, between two of none, and between two looks of a reader of another process."""
_PATIENCE = 10.0
"""Seconds in which a process that was kept from writing writes again, once the store is back."""
_RETRY, _LAST_ATTEMPTS = 1.0, 3
"""Seconds between two attempts to write, and how many there are once the last event is there."""
_READERS = 2
"""So many that came back for each question that this process may work on."""
_RULES_PART = 2
"""Characters of rules for each token of the answer's context: half of it."""
_HISTORY_TOKENS = 2000
_PURGE_SECONDS = 60.0
"""Seconds between two looks for what is over."""


@dataclass(frozen=True)
class Bounds:
    """`seconds`: of one question. `at_once`: questions of this process, of which one client has half at most, and so
    has one token with the same principals."""

    seconds: float = 600.0
    at_once: int = 200
    answer_tokens: int = answering.CONTEXT_TOKENS


class Running:
    """One question. `stream` is its name, `done` whether its last event is there."""

    def __init__(self, stream: str, owner: scope.Scope, who: str = "") -> None:
        self.stream = stream
        self.owner = owner
        principals = owner.principals if isinstance(owner, scope.Viewer) else ()
        self.asker = (who, *sorted(principals)) if who or principals else None
        """Who asks, in whatever scope; None where that is not known."""
        self.events: list[api.AgentEvent] = []
        self.done = False
        self.task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def put(self, event: api.AgentEvent) -> None:
        """The next event; it gets its id."""
        self.events.append(event.model_copy(update={"id": len(self.events) + 1}))
        self._news.set()

    def end(self) -> None:
        """There are no more."""
        self.done = True
        self._news.set()

    async def follow(self) -> AsyncGenerator[api.AgentEvent, None]:
        """All events, those that come too."""
        at = 0
        while True:
            self._news.clear()
            while at < len(self.events):
                yield self.events[at]
                at += 1
            if self.done:
                return
            await self._news.wait()


class Questions:
    """Starts questions and ends them. `fresh_id` gives ids that cannot be guessed; `sleep` waits so many seconds.

    `committed`: which of some chunks are there and visible (`kb.graph.store.Store.committed`); `pages` the same of
    pages as they are seen (`kb.visual.search.Search.visible`), None where there are none.
    """

    def __init__(
        self,
        agent: orchestrator.AgentOrchestrator,
        rules: enforce.Port,
        streams: store.Streams,
        conversations: store.Conversations,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        fresh_id: Callable[[], str],
        sleep: Callable[[float], Awaitable[None]],
        committed: Callable[[scope.Scope, Collection[str]], Awaitable[set[str]]],
        *,
        bounds: Bounds | None = None,
        pages: Callable[[scope.Scope, Collection[str]], Awaitable[set[str]]] | None = None,
    ) -> None:
        self._pages = pages
        self._agent = agent
        self._rules = rules
        self._streams = streams
        self._conversations = conversations
        self._meters = meters
        self._clock = clock
        self._fresh_id = fresh_id
        self._sleep = sleep
        self._committed = committed
        self._bounds = bounds or Bounds()
        self._open: set[Running] = set()
        self._recordings: set[asyncio.Task[None]] = set()
        self.readers = 0
        """Those that have come back, in this process."""

    async def ask(
        self, asked: api.AgenticSearch, urgency: priority.Priority, *, who: str = "", reviewed: bool = False
    ) -> Running:
        """Start a question; the caller follows it, and calls `leave` when it reads no more. `who` is the token's name,
        `reviewed` as in `kb.agent.retrieving.in_force`.

        The hard rules are read before that. Raises what `kb.agent.retrieving.in_force` raises, `kb.errors.Away`,
        `Erasing` or `Crowded`.
        """
        running = Running(self._fresh_id(), asked.scope, who)
        self._room(running)
        self._open.add(running)
        try:
            tree = TreeData(asked.query, asked.scope, urgency, repository=asked.repository)
            rules = await self._rules.in_force(asked.scope)
            most = _RULES_PART * self._bounds.answer_tokens
            retrieving.in_force(rules, tree, most, reviewed=reviewed)
            talk = recorder = None
            if asked.resume_seconds:
                # Before the first line names the stream: who has read it may come back at once.
                recorder = await self._streams.open(running.stream, asked.scope)
            if asked.conversation is not None:
                talk = await self._conversations.open(asked.scope, asked.conversation)
                if tree.permits(retrieving.SEARCH) and tree.held.shows_all:
                    # An answer does not say which sources it is from: a rule that keeps one back keeps all back.
                    tree.conversation_history = _latest(await self._visible(asked.scope, talk.turns))
        except BaseException:
            self._open.discard(running)
            raise
        running.put(api.AgentEvent(type="status", message="Looking at the question...", stream=running.stream))
        work = self._work(running, asked, tree, talk, recorder)
        running.task = asyncio.create_task(work, name=f"agent {running.stream}")
        # Also of a task that is cancelled before it has begun.
        running.task.add_done_callback(lambda _: self._over(running))
        return running

    @property
    def count(self) -> int:
        """Questions that are being answered."""
        return len(self._open)

    def leave(self, running: Running, resume_seconds: float = 0.0) -> None:
        """The reader is gone: everything ends, now or when no reader has come back for so many seconds."""
        if running.task is None or running.done:
            return
        if not resume_seconds:
            running.task.cancel()
            return
        waiting = asyncio.create_task(self._await_return(running, resume_seconds))
        running.task.add_done_callback(lambda _: waiting.cancel())

    async def resume(self, viewer: scope.Scope, stream: str, after: int) -> AsyncGenerator[api.AgentEvent, None]:
        """The events of a stream after one of them, and those that come.

        Raises what `Streams.read` raises, and `kb.errors.Crowded`.
        """
        if self.readers >= _READERS * self._bounds.at_once:
            raise errors.Crowded(f"{self.readers} readers have come back to answers", retry_after=5)
        self.readers += 1
        try:
            async for event in self._read(viewer, stream, after):
                yield event
        finally:
            self.readers -= 1

    async def stop(self, viewer: scope.Scope, stream: str) -> None:
        """End a question that a reader may come back to: here at once, in another process at its next write, within
        some seconds. One that is over stays as it is. Raises what `Streams.stop` raises."""
        await self._streams.stop(viewer, stream)
        for one in self._open:
            if one.stream == stream and one.task is not None and not one.task.cancelling():
                one.task.cancel()

    async def _read(self, viewer: scope.Scope, stream: str, after: int) -> AsyncIterator[api.AgentEvent]:
        silent = 0.0
        while True:
            page = await self._streams.read(viewer, stream, after)
            for event in page.events:
                after = event.id
                yield event
            if page.done:
                return
            silent = silent + _POLL if page.silent else 0.0
            if silent > _PATIENCE:
                why = "The process that worked on the question has ended."
                yield api.AgentEvent(id=after + 1, type="error", message=why, recoverable=True, suggestion="Ask again.")
                yield api.AgentEvent(id=after + 2, type="complete", outcome="failed", reason=why)
                return
            await self._sleep(_POLL)

    async def run(self) -> None:
        """Delete the streams and conversations that are over, until cancelled."""
        while True:
            try:
                for rows in (self._streams, self._conversations):
                    await rows.purge()
            except root.Operational as error:
                log.warning("what is over of questions cannot be deleted", reason=error.message)
            await self._sleep(_PURGE_SECONDS)

    async def close(self) -> None:
        """End all questions. What readers may come back for is written first."""
        tasks = [one.task for one in self._open if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._recordings, return_exceptions=True)

    async def _visible(self, viewer: scope.Scope, turns: Sequence[Turn]) -> list[Turn]:
        """The turns that rest on nothing that was deleted, changed or taken from the viewer since."""
        asked = turn_sources.of(turns, [one for one in turns if one.answer])
        chunks = await self._committed(viewer, asked.chunks) if asked.chunks else set()
        pages = await self._pages(viewer, asked.pages) if asked.pages and self._pages is not None else set()
        return turn_sources.standing(turns, turn_sources.TurnSources(frozenset(chunks), frozenset(pages)))

    def _over(self, running: Running) -> None:
        running.end()
        self._open.discard(running)

    def _room(self, new: Running) -> None:
        most = self._bounds.at_once
        of_client = sum(one.owner.client_id == new.owner.client_id for one in self._open)
        of_asker = sum(one.asker == new.asker for one in self._open if new.asker is not None)
        if len(self._open) >= most or max(of_client, of_asker) >= max(1, most // 2):
            raise errors.Crowded(
                f"{len(self._open)} questions are being answered, {of_client} of this client, {of_asker} of this token",
                retry_after=5,
            )

    async def _work(
        self,
        running: Running,
        asked: api.AgenticSearch,
        tree: TreeData,
        talk: store.Talk | None,
        recorder: store.Recorder | None,
    ) -> None:
        recording = None
        if recorder is not None:
            recording = asyncio.create_task(self._record(running, recorder))
            self._recordings.add(recording)
            recording.add_done_callback(self._recordings.discard)
        outcome = "failed"
        try:
            with self._meters.agent_running.track_inprogress():
                async with (
                    asyncio.timeout(self._bounds.seconds),
                    contextlib.aclosing(self._events(tree, asked)) as events,
                ):
                    async for event in events:
                        if event.type == "complete":
                            outcome = event.outcome or outcome
                            await self._remember(running, tree, talk)
                        running.put(event)
        except TimeoutError:
            self._fail(running, tree, f"The question took more than {self._bounds.seconds:g} seconds.", "failed")
        except asyncio.CancelledError:
            outcome = "cancelled"
            self._fail(running, tree, "The question was cancelled.", "cancelled")
            raise
        except Exception:
            # The edge of a task: it is logged, and the reader is answered.
            log.exception("a question ended with an error that was not foreseen", stream=running.stream)
            self._fail(running, tree, "The question ended with an error of this service.", "failed")
        finally:
            self._meters.agent_questions.labels(outcome).inc()
            self._over(running)
            if recording is not None:
                # It writes the rest; a cancelled question has a reader that may still ask why.
                await asyncio.shield(recording)

    async def _events(self, tree: TreeData, asked: api.AgenticSearch) -> AsyncGenerator[api.AgentEvent, None]:
        async for event in self._agent.run(tree, iterations=asked.max_iterations, tokens=asked.max_tokens):
            yield event

    def _fail(self, running: Running, tree: TreeData, why: str, outcome: str) -> None:
        if not any(one.type == "complete" for one in running.events):
            running.put(api.AgentEvent(type="error", message=why, recoverable=True, suggestion="Ask again."))
            said = {"outcome": outcome, "reason": why, "calls": tree.calls, "tokens": tree.tokens}
            running.put(api.AgentEvent.model_validate({"type": "complete", **said}))

    async def _remember(self, running: Running, tree: TreeData, talk: store.Talk | None) -> None:
        """Keep the turn before the reader knows that it is over: a next question finds it."""
        if talk is None or not tree.answer:
            return
        found = tree.environment.evidence.values()
        chunks = tuple(one.chunk_id for one in found if one.chunk_id)
        pages = tuple(one.page_id for one in found if one.page_id)
        turn = Turn(tree.user_prompt, tree.answer, chunks, pages)
        # The answer may repeat an earlier one: it rests on what that rests on.
        turn = turn_sources.added(turn, talk.turns, tree.conversation_history)
        try:
            kept = await self._conversations.add(tree.viewer, talk, turn)
        except root.Operational as error:
            log.warning("a turn of a conversation was not kept", reason=error.message)
            kept = False
        if not kept:
            running.put(api.AgentEvent(type="status", message="The conversation does not remember this answer."))

    async def _record(self, running: Running, recorder: store.Recorder) -> None:
        """Write events until the last one, again and again where the store is away; a stream that cannot be kept is
        answered all the same."""
        written, idle, failed = 0, 0.0, 0
        while True:
            done = running.done
            new = running.events[written:]
            if new or done or idle >= _LIFE_SIGN:
                try:
                    kept = await recorder.write(new, done=done)
                    if kept is store.Kept.GONE:
                        return
                    task = running.task
                    if kept is store.Kept.STOPPED and not done and task is not None and not task.cancelling():
                        task.cancel()
                except root.Operational as error:
                    failed += done
                    if failed == _LAST_ATTEMPTS:
                        log.warning("a stream cannot be resumed", stream=running.stream, reason=error.message)
                        return
                    await self._sleep(_RETRY)
                    continue
                except Exception:
                    # The edge of a task: the answer itself goes on.
                    log.exception("a stream cannot be resumed", stream=running.stream)
                    return
                written, idle, failed = written + len(new), 0.0, 0
            if done:
                return
            await self._sleep(_FLUSH)
            idle += _FLUSH

    async def _await_return(self, running: Running, seconds: float) -> None:
        """End the question when no one has read it for so long, in any process."""
        left = self._clock()
        while not running.done:
            await self._sleep(min(1.0, seconds))
            try:
                read = await self._streams.read_at(running.stream)
            except root.Operational:
                # Whether it was read is not known.
                continue
            left = max(left, read or left)
            if self._clock() - left >= timedelta(seconds=seconds):
                break
        if running.task is not None:
            running.task.cancel()


def _latest(turns: Sequence[Turn]) -> list[Turn]:
    """The latest turns that have room, the oldest first."""
    kept: list[Turn] = []
    left = _HISTORY_TOKENS
    for one in reversed(turns):
        left -= tokens(one.question) + tokens(one.answer)
        if left < 0 or not one.answer:
            break
        kept.append(one)
    return kept[::-1]
