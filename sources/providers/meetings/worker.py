"""What becomes of a transcript: it is corrected, its Connection is polled, and INDEXED is noted once its task exists.

A correction that fails for good is no obstacle: what was heard is indexed. One that cannot be asked for now is tried
again, `MOST_TRIES` times. Several replicas share the transcripts by claims that end by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

import structlog

from clients import mongo
from contracts.api import meeting
from crds import errors, priority, scope
from kb import client as kb
from router import client as router
from router.client import asking
from sources.providers.meetings import correction, metrics, store

log = structlog.get_logger("sources")
EVERY_SECONDS = 2.0
MOST_TRIES = 5
_NODES = 200


class Lost(errors.Operational):
    """Another process has the transcript, or the meeting is gone."""


class Worker:
    """`model` corrects through `route` in a window of `num_ctx` tokens; without a model nothing is to be corrected.
    `wall` is UTC."""

    def __init__(
        self,
        meetings: store.Meetings,
        knowledge: kb.Client,
        route: router.Client,
        model: str,
        measured: metrics.Metrics,
        *,
        wall: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        num_ctx: int | None = None,
    ) -> None:
        self._meetings, self._kb, self._route, self._model = meetings, knowledge, route, model
        self._metrics, self._wall, self._sleep = measured, wall, sleep
        self._num_ctx = num_ctx

    async def run(self) -> None:
        """Both loops, until cancelled."""
        await asyncio.gather(self._again(self.index), self._again(self.correct))

    async def _again(self, step: Callable[[], Awaitable[bool]]) -> None:
        while True:
            try:
                found = await step()
            except errors.JervisError as error:
                log.info("meetings not looked at", reason=error.message)
                found = False
            except Exception:
                # The edge of a round: one meeting that triggers a bug of ours must not stop the others.
                log.exception("a round for meetings failed")
                found = False
            if not found:
                await self._sleep(EVERY_SECONDS)

    async def index(self) -> bool:
        """Note what is indexed; False: sleep now."""
        count = await self._meetings.index()
        self._metrics.meetings.labels(meeting.State.INDEXED.value).inc(count)
        return False

    async def correct(self) -> bool:
        """Correct one transcript; False: there is none. Raises `Operational` where it is tried again."""
        row = await self._meetings.correct(self._wall())
        if row is None:
            return False
        if int(row["correctTries"]) > MOST_TRIES:
            # Each of them ended this process, or in an error of ours.
            await self._end(row, None, f"It was tried {MOST_TRIES} times, and never came to an end.")
            return True
        told = await self._meetings.told(row["_id"])
        if told is None:
            await self._end(row, None, "The transcript is gone.")
            return True
        claimed = row

        async def renew() -> None:
            nonlocal claimed
            again = await self._meetings.renew(claimed, self._wall())
            if again is None:
                raise Lost(f"The transcript of meeting {row['_id']} is another process's now.")
            claimed = again

        try:
            made = await correction.correct(told.transcript, await self._terms(row), self._ask, renew)
        except Lost:
            raise
        except errors.Operational as error:
            if int(row["correctTries"]) < MOST_TRIES:
                await self._meetings.later(claimed, error.message, self._wall())
                raise
            await self._end(claimed, None, error.message)
        except errors.Permanent as error:
            await self._end(claimed, None, error.message)
        else:
            try:
                await self._end(claimed, made)
            except mongo.Refused as error:
                await self._end(claimed, None, f"The corrected transcript is too large. {error.message}")
        return True

    async def _end(self, row: store.Row, told: meeting.Told | None, reason: str = "") -> None:
        await self._meetings.corrected(row, told, reason)
        await self._meetings.due(row)
        self._metrics.corrections.labels("Failed" if told is None else "Done").inc()
        if told is None:
            log.info("transcript not corrected", meeting=row["_id"], reason=reason)
        else:
            self._metrics.changes.labels("changed").inc(len({one.segment for one in told.changes}))
            self._metrics.changes.labels("refused").inc(told.refused)

    async def _ask(self, each: asking.Try, num_predict: int) -> router.Reply:
        return await self._route.converse(
            self._model,
            each.messages,
            priority.Priority.P3,
            each.format_schema,
            self._num_ctx,
            num_predict,
            temperature=each.temperature,
        )

    async def _terms(self, row: store.Row) -> list[correction.Term]:
        """Who was there, and the names that the client's knowledge base has seen most, with their aliases."""
        viewer: scope.Scope = store.owner(row)
        nodes = (await self._kb.looking.nodes(viewer, limit=_NODES)).nodes
        aliases: dict[str, list[str]] = {}
        for one in await self._kb.aliases.listed(viewer):
            aliases.setdefault(one.canonical, []).append(one.alias.partition(":")[2])
        found = {name: correction.Term(name) for name in row["participants"]}
        for node in nodes:
            if node.names and node.type != "document":
                name, *others = node.names
                found.setdefault(name, correction.Term(name, tuple([*others, *aliases.get(node.key, ())][:5])))
        return list(found.values())
