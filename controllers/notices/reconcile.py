"""The loop that reports tasks to webhooks. On the leader only.

Events are seen in the state: tasks that wait for a person in the task cache, ended ones in the archive. So nothing that
writes a task knows about webhooks, and events of a time without a leader are seen afterwards. Each event makes its
notices once, however often it is seen; a notice is sent until the webhook takes it or `WINDOW` has passed. A webhook
can get a notice twice, when this process ends between the webhook's answer and the record of it: with the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import pydantic
import structlog

from clients import backoff
from controllers import admission, metrics
from controllers.archive import mongo as archives
from controllers.archive.query import Place
from controllers.notices import mongo, notice, sender
from controllers.pendingtask import task_index
from crds import pendingtask, scope
from crds.phases import Phase
from kb import api

log = structlog.get_logger(__name__)

WINDOW = timedelta(days=1)
"""What happened longer ago makes no notice any more, and no notice is tried for longer."""
AT_ONCE = 100
"""Archived tasks per MongoDB query, and notices that one round sends."""
CALLS = 8
"""Webhooks called at the same time."""
RETRY = backoff.Doubling(first=15.0, cap=3600.0)


class Result(StrEnum):
    """What became of a call; the label of the metric."""

    DELIVERED = "delivered"
    POSTPONED = "postponed"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class Pace:
    """`every`: seconds between two rounds. `window`: at most as long as a task's leftovers are kept, its notices among
    them: without those it would be reported again."""

    every: float = 15.0
    window: timedelta = WINDOW


class Notifier:
    """`rules` gives those in force for a scope."""

    def __init__(
        self,
        tasks: task_index.Tasks,
        archive: archives.Archive,
        outbox: mongo.Outbox,
        rules: Callable[[scope.Scope], Awaitable[list[api.Rule]]],
        calls: sender.Sender,
        *,
        namespaces: Collection[str],
        admitted: admission.Admission | None = None,
        pace: Pace,
        measured: metrics.Metrics,
        wall: Callable[[], datetime],
    ) -> None:
        self._tasks, self._archive, self._outbox = tasks, archive, outbox
        self._rules, self._sender = rules, calls
        self._namespaces, self._admission = namespaces, admitted
        self._pace, self._metrics, self._wall = pace, measured, wall
        self._asked: dict[str, str] = {}
        self._from: Place | None = None

    async def reconcile_once(self) -> None:
        """Note what has happened, then send what is due. Raises `Operational`: the rest waits."""
        try:
            known: dict[scope.Scope, list[api.Rule]] = {}
            await self._look_at_waiting(known)
            await self._look_at_ended(known)
        finally:
            # What is known is sent, whatever is away.
            await self._send()
            self._metrics.notices_waiting.set(await self._outbox.waiting())

    async def _look_at_waiting(self, known: dict[scope.Scope, list[api.Rule]]) -> None:
        uids = set(self._tasks.phase(Phase.USER_TASK))
        self._asked = {uid: asked for uid, asked in self._asked.items() if uid in uids}
        for uid in uids:
            task = self._tasks.get(uid)
            if task is None or self._asked.get(uid) == task.status.request_id:
                continue
            await self._note(notice.happened(task), known)
            self._asked[uid] = task.status.request_id

    async def _look_at_ended(self, known: dict[scope.Scope, list[api.Rule]]) -> None:
        phases = (Phase.COMPLETED.value, Phase.ERROR.value)
        while True:
            since = self._wall() - self._pace.window
            found = await self._archive.ended(self._namespaces, phases, since, self._from, AT_ONCE)
            for document in found:
                try:
                    task = pendingtask.PendingTask.model_validate(document["object"])
                except pydantic.ValidationError as error:
                    log.warning("no notice of an unreadable task", uid=document["_id"], reason=str(error)[:300])
                else:
                    await self._note(notice.happened(task), known)
                self._from = Place(document["archivedAt"], document["_id"])
            if len(found) < AT_ONCE:
                return

    async def _note(self, happening: notice.Happening | None, known: dict[scope.Scope, list[api.Rule]]) -> None:
        now = self._wall()
        if happening is None or happening.at < now - self._pace.window:
            return
        where, owner = happening.task.metadata.namespace, happening.owner
        if self._admission and self._admission.refuses_client(where, owner.client_id):
            return  # written before its namespace was limited: it hears nothing of that client
        if owner not in known:
            known[owner] = await self._rules(owner)
        for one in notice.of(happening, known[owner]):
            await self._outbox.add(one, now)

    async def _send(self) -> None:
        slots = asyncio.Semaphore(CALLS)

        async def one(waiting: mongo.Waiting) -> None:
            async with slots:
                await self._deliver(waiting)

        calls = [one(waiting) for waiting in await self._outbox.due(self._wall(), AT_ONCE)]
        # All are awaited even when one fails: what a webhook has taken is recorded.
        for found in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(found, BaseException):
                raise found

    async def _deliver(self, waiting: mongo.Waiting) -> None:
        why = await self._sender.send(waiting.url, waiting.id, waiting.event, waiting.body)
        now, attempts = self._wall(), waiting.attempts + 1
        if not why:
            result = Result.DELIVERED
            await self._outbox.delivered(waiting.id, now)
        elif now - waiting.created >= self._pace.window:
            result = Result.GIVEN_UP
            await self._outbox.give_up(waiting.id, now, why)
        else:
            result = Result.POSTPONED
            await self._outbox.postpone(waiting.id, now + timedelta(seconds=RETRY.delay(attempts)), why)
        self._metrics.notices.labels(result.value).inc()
        # The address may hold a secret in its path.
        say = log.info if not why else log.warning
        say("notice", id=waiting.id, notice=waiting.event, result=result.value, attempts=attempts, reason=why)
