"""The loop that tells the knowledge base about finished runs, oldest first, one at a time. On the leader alone.

Told means acknowledged: the answer is written into the archived task, and what has no answer there is told again. The
knowledge base keeps one document per task, so a repetition after a lost answer changes nothing. What the knowledge base
refuses for good is written down as refused and left alone.

A report that gets no answer is put aside, with a patience of its own, and the next one is tried: one that always times
out holds nobody up. When that one gets none either the knowledge base is away: the loop tries again later, further and
further apart, and goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import structlog

from controllers import admission, backoff, backpressure, metrics
from controllers.archive import mongo
from controllers.archive.query import Place
from controllers.outcomes import report
from crds import errors
from kb import client, writing

log = structlog.get_logger(__name__)

AT_ONCE = 50
"""Archived tasks read per question to MongoDB, with content and result each."""
AWAY = 2
"""Failures in a row, of different reports, that mean the knowledge base and not the report."""
MOST_ASIDE = 1000
"""Reports that are put aside at the same time; beyond that the line waits, as while the knowledge base is away."""


class Told(StrEnum):
    """What became of one report; the label of the metric."""

    REMEMBERED = "remembered"
    INSIGNIFICANT = "insignificant"
    REFUSED = "refused"
    POSTPONED = "postponed"


@dataclass(frozen=True, slots=True)
class Pace:
    """`every` in seconds between two looks. What was archived longer ago than `window` is not told any more."""

    every: float = 30.0
    window: timedelta = timedelta(days=7)


@dataclass(slots=True)
class Aside:
    """A report without an answer: how often, and when it is tried again."""

    failures: int
    due: datetime


class Reporter:
    """Reads from the archive, tells through `tell` (the door of the knowledge base); `polite` to the work. `admitted`
    knows what namespaces may have, None: anything. `sleep` is asyncio's."""

    def __init__(
        self,
        archive: mongo.Archive,
        tell: Callable[[writing.Outcome], Awaitable[writing.OutcomeReply]],
        *,
        namespaces: Collection[str],
        admitted: admission.Admission | None = None,
        pace: Pace,
        measured: metrics.Metrics,
        wall: Callable[[], datetime],
        polite: backpressure.Backpressure,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._archive, self._tell, self._namespaces = archive, tell, namespaces
        self._admission = admitted
        self._pace, self._metrics, self._wall, self._sleep = pace, measured, wall, sleep
        self._polite = polite
        self._patience = backoff.Doubling(first=pace.every, cap=max(pace.every, backoff.QUALIFICATION.cap))
        self._from: Place | None = None
        self._aside: dict[str, Aside] = {}
        self._in_a_row = 0
        self.may_act = asyncio.Event()
        """Set once the lease is held; losing it ends the process."""

    async def work(self) -> None:
        """Tell until cancelled."""
        await self.may_act.wait()
        failures = 0
        while True:
            try:
                await self.once()
                failures = 0
            except errors.Operational as error:
                failures += 1
                self._metrics.outcomes.labels(Told.POSTPONED).inc()
                log.info("outcomes are told later", reason=error.message, failures=failures)
            except Exception:
                # The edge of a round: a bug of ours here must not stop the tasks.
                failures += 1
                self._metrics.failures.inc()
                log.exception("telling outcomes failed")
            await self._sleep(self._patience.delay(failures) if failures else self._pace.every)

    async def once(self) -> int:
        """Tell everything that is not told yet; how many. Raises what says "later": the rest waits until then."""
        number, since = 0, self._wall() - self._pace.window
        while True:
            found = await self._archive.untold(self._namespaces, report.ENDS, since, self._from, AT_ONCE)
            for document in found:
                begun = self._polite.begin()
                number += await self._first(document)
                # Only what is done with or put aside is passed by: what was archived meanwhile comes after it.
                self._from = Place(document["archivedAt"], document["_id"])
                await self._polite.after(begun)
            if len(found) < AT_ONCE:
                return number + await self._again(since)

    async def _first(self, document: Mapping[str, Any]) -> bool:
        """The first try; False when it is put aside. Raises when the knowledge base is away."""
        try:
            told = await self._said(document)
        except errors.Operational as error:
            self._in_a_row += 1
            if self._in_a_row >= AWAY or len(self._aside) >= MOST_ASIDE:
                raise
            self._put_aside(document["_id"], error)
            return False
        await self._note(document, *told)
        return True

    async def _again(self, since: datetime) -> int:
        """One of those that were put aside, the one that is due first: each may take as long as a timeout."""
        now = self._wall()
        due = [(one.due, uid) for uid, one in self._aside.items() if one.due <= now]
        if not due:
            return 0
        uid = min(due)[1]
        document = await self._archive.one(uid)
        if document is None or "outcome" in document or document["archivedAt"] < since:
            del self._aside[uid]
            return 0
        try:
            told = await self._said(document)
        except errors.Operational as error:
            self._put_aside(uid, error)
            return 0
        await self._note(document, *told)
        del self._aside[uid]
        return 1

    def _put_aside(self, uid: str, error: errors.Operational) -> None:
        failures = self._aside[uid].failures + 1 if uid in self._aside else 1
        self._aside[uid] = Aside(failures, self._wall() + timedelta(seconds=self._patience.delay(failures)))
        self._metrics.outcomes.labels(Told.POSTPONED).inc()
        log.info("outcome is told later", uid=uid, reason=error.message, failures=failures)

    async def _note(self, document: Mapping[str, Any], told: Told, reason: str) -> None:
        self._in_a_row = 0
        now = self._wall()
        await self._archive.told(document["_id"], {"told": told.value, "reason": reason, "at": now})
        self._metrics.outcomes.labels(told.value).inc()
        log.info(
            "outcome told",
            uid=document["_id"],
            task=document["name"],
            namespace=document["namespace"],
            outcome=told.value,
            reason=reason,
        )

    async def _said(self, document: Mapping[str, Any]) -> tuple[Told, str]:
        """What the knowledge base makes of it. Raises `crds.errors.Operational` when it does not answer."""
        try:
            outcome = report.of(document)
            if outcome is None:
                return Told.INSIGNIFICANT, "the task has never run"
            if self._admission and (
                refusal := self._admission.refuses_client(document["namespace"], document["clientId"])
            ):
                # It may have been written by anybody before its namespace was served: no other client learns from it.
                return Told.REFUSED, refusal.message[:1024]
            reply = await self._tell(outcome)
        except report.UnfitError as error:
            return Told.REFUSED, str(error)[:1024]
        except client.Rejected as error:
            return Told.REFUSED, error.message[:1024]
        return (Told.REMEMBERED if reply.remembered else Told.INSIGNIFICANT), reply.reason[:1024]
