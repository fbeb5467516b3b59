"""Ingestions under way: one asyncio task each, at most one per PendingTask, their outcome as an observation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from datetime import datetime

import pydantic
import structlog

from controllers import clients, kube, tracing
from controllers.memory import document, mongo
from controllers.pendingtask import attachments, directive, ingestion, order
from controllers.pendingtask.world import Ingested, Observation, Reading, Trouble, trouble
from crds import errors, pendingtask, trace
from crds.priority import Priority
from kb import client, wire

log = structlog.get_logger(__name__)

Fetch = Callable[[str], Awaitable[pendingtask.PendingTask | None]]


class Qualifier:
    """`fetch` reads the whole task from the API; `done(uid, observation)` is called in the loop at the end."""

    def __init__(
        self,
        kb: client.Client,
        memory: mongo.Memory,
        *,
        known: clients.Clients,
        fetch: Fetch,
        done: Callable[[str, Observation | None], None],
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._kb, self._memory, self._clients = kb, memory, known
        self._fetch, self._done, self._clock, self._monotonic = fetch, done, clock, monotonic
        self._running: dict[str, asyncio.Task[None]] = {}
        self._begun: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, uid: str) -> bool:
        return uid in self._running

    def start(self, uid: str, raw: kube.Object | None = None, before: Observation | None = None) -> None:
        """Begin, unless it is under way. `raw` is the whole task as the API has just served it; else it is fetched.

        `before` is what a reading of an earlier generation brought; it is used again when the input is the same.
        """
        if uid not in self._running:
            self._running[uid] = asyncio.create_task(self._run(uid, raw, before), name=f"qualify {uid}")
            self._begun[uid] = self._monotonic()

    def running(self) -> Collection[str]:
        """Uids of what is under way."""
        return self._running.keys()

    def seconds(self, uid: str) -> float | None:
        """For how long it is under way; None when it is not."""
        return self._monotonic() - self._begun[uid] if uid in self._running else None

    def cancel(self, uid: str) -> None:
        """The task is gone; nobody wants the outcome."""
        self._begun.pop(uid, None)
        running = self._running.pop(uid, None)
        if running is not None:
            running.cancel()

    async def close(self) -> None:
        """Cancel all; they are repeated after the next start."""
        running = list(self._running.values())
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, uid: str, raw: kube.Object | None, before: Observation | None) -> None:
        found: Observation | None = None
        try:
            found = await self._read(uid, raw, before)
        except errors.JervisError as error:
            found = trouble(error)
        except Exception as error:
            log.exception("qualification failed", uid=uid)
            found = _bug(error)
        finally:
            if self._running.get(uid) is asyncio.current_task():
                del self._running[uid], self._begun[uid]
        self._done(uid, found)

    async def _read(self, uid: str, raw: kube.Object | None, before: Observation | None) -> Observation | None:
        task = await self._fetch(uid) if raw is None else pendingtask.PendingTask.model_validate(raw)
        if task is None:
            return None
        generation, digest = task.metadata.generation, ingestion.digest(task)
        if isinstance(before, Ingested) and before.digest == digest:
            return replace(before, generation=generation)
        try:
            found = await self._ingest(uid, task)
        except errors.JervisError as error:
            found = trouble(error)
        except Exception as error:
            log.exception("qualification failed", uid=uid)
            found = _bug(error)
        return replace(found, generation=generation, digest=digest)

    async def _ingest(self, uid: str, task: pendingtask.PendingTask) -> Reading:
        tracing.current.set(trace.parent(uid) if task.status.trace_id else "")
        urgency = Priority.P0 if order.foreground(task.spec) else Priority.P3
        if task.spec.type in directive.CHAT:
            # A question is no knowledge; the files that came with it are.
            asked = pendingtask.Hints(has_actionable_content=True)
            return Ingested(hints=asked, attached=await attachments.ingest(self._kb, task, urgency))
        try:
            request = ingestion.request(task, self._clients.of(task.spec.client_id).team)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            return Trouble(f"the content cannot be ingested: {first['msg']}", operational=False, field=f"spec.{where}")
        reply = await self._kb.ingest(request, urgency=urgency)
        attached = await attachments.ingest(self._kb, task, urgency) if task.spec.attachments else None
        chunk_ids = [*reply.chunk_ids, *(attached.chunk_ids if attached else ())]
        hints = _hints(reply.hints)
        asks = bool(reply.hints.questions or reply.hints.failure)
        if asks or hints.has_actionable_content or task.spec.type in directive.ORDERED:
            # Before the route is persisted: once it is, nobody asks the knowledge base for these again.
            now = self._clock()
            await self._memory.write(uid, document.of_findings(task, reply.summary, reply.node_keys, chunk_ids, now))
        return Ingested(
            hints=hints,
            reason=reply.hints.reason,
            summary=reply.summary,
            chunk_ids=tuple(chunk_ids),
            node_keys=tuple(reply.node_keys),
            attached=attached,
            questions=tuple(reply.hints.questions),
            failure=reply.hints.failure,
        )


def _bug(error: Exception) -> Trouble:
    """The edge of a reading: a bug of ours must end in a status that a person sees, not in silence."""
    return Trouble(f"qualification failed: {error!r}", operational=False, remedy="Report it with the logs.")


def _hints(found: wire.Hints) -> pendingtask.Hints:
    """As the status keeps them. A deadline that no calendar of ours holds (a model's 9999-12-31) is none."""
    said = found.model_dump()
    try:
        return pendingtask.Hints.model_validate(said)
    except pydantic.ValidationError as error:
        log.info("deadline left out", reason=str(error.errors(include_url=False)[0]["msg"]))
        return pendingtask.Hints.model_validate({**said, "has_future_deadline": False, "suggested_deadline": None})
