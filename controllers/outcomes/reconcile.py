"""The loop that reports finished runs to the knowledge base, oldest first, one at a time. On the leader only.

The knowledge base's answer is stored in the archived task; a task without one is reported again. The knowledge base
keeps one document per task, so a repetition after a lost answer changes nothing. A permanent refusal is stored as
`refused` and not repeated.

A report without an answer is deferred, with its own backoff, and the next one is tried: one that always times out does
not block the others. If the next one gets no answer either, the knowledge base counts as unavailable: the loop retries
with backoff and continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import structlog

from controllers import admission, backpressure, metrics, periodic
from controllers.archive import mongo
from controllers.archive.query import Place
from controllers.outcomes import report
from crds import errors
from kb import api, client

log = structlog.get_logger(__name__)

AT_ONCE = 50
"""Archived tasks per MongoDB query, each with content and result."""
UNAVAILABLE_AFTER = 2
"""Consecutive failures, of different reports, after which the knowledge base counts as unavailable."""
MAX_DEFERRED = 1000
"""Deferred reports at the same time; beyond that the loop retries, as while the knowledge base is unavailable."""


class Result(StrEnum):
    """The result of one report; the label of the metric."""

    REMEMBERED = "remembered"
    INSIGNIFICANT = "insignificant"
    REFUSED = "refused"
    POSTPONED = "postponed"


@dataclass(frozen=True, slots=True)
class Pace:
    """`every`: seconds between two rounds. A task archived longer ago than `window` is not reported any more."""

    every: float = 30.0
    window: timedelta = timedelta(days=7)


@dataclass(slots=True)
class Deferred:
    """A report without an answer: the number of failures, and the time of the next attempt."""

    failures: int
    due: datetime


class Reporter:
    """Reads from the archive and reports through `send`, a call of the knowledge base. `throttle` is backpressure by
    active tasks; `admitted` knows what namespaces may have, None: anything."""

    def __init__(
        self,
        archive: mongo.Archive,
        send: Callable[[api.Outcome], Awaitable[api.OutcomeReply]],
        *,
        namespaces: Collection[str],
        admitted: admission.Admission | None = None,
        pace: Pace,
        measured: metrics.Metrics,
        wall: Callable[[], datetime],
        throttle: backpressure.Backpressure,
    ) -> None:
        self._archive, self._send, self._namespaces = archive, send, namespaces
        self._admission = admitted
        self._pace, self._metrics, self._wall = pace, measured, wall
        self._throttle = throttle
        self._backoff = periodic.growing(pace.every)
        self._from: Place | None = None
        self._deferred: dict[str, Deferred] = {}
        self._consecutive = 0

    async def reconcile_once(self) -> None:
        """Report every unreported outcome. Raises `Operational`: the rest waits."""
        try:
            await self.report_due()
        except errors.Operational:
            self._metrics.outcomes.labels(Result.POSTPONED).inc()
            raise

    async def report_due(self) -> int:
        """Report every unreported outcome; returns their number. Raises `Operational`: the rest waits."""
        number, since = 0, self._wall() - self._pace.window
        while True:
            found = await self._archive.unreported(self._namespaces, report.ENDS, since, self._from, AT_ONCE)
            for document in found:
                begun = self._throttle.begin()
                number += await self._report_first(document)
                # The cursor passes only reported and deferred tasks; tasks archived meanwhile come after it.
                self._from = Place(document["archivedAt"], document["_id"])
                await self._throttle.after(begun)
            if len(found) < AT_ONCE:
                return number + await self._retry_one(since)

    async def _report_first(self, document: Mapping[str, Any]) -> bool:
        """The first attempt; False if deferred. Raises `Operational` if the knowledge base is unavailable."""
        try:
            answer = await self._report(document)
        except errors.Operational as error:
            self._consecutive += 1
            if self._consecutive >= UNAVAILABLE_AFTER or len(self._deferred) >= MAX_DEFERRED:
                raise
            self._defer(document["_id"], error)
            return False
        await self._record(document, *answer)
        return True

    async def _retry_one(self, since: datetime) -> int:
        """Retry one deferred report, the earliest due: each may take as long as a timeout."""
        now = self._wall()
        due = [(one.due, uid) for uid, one in self._deferred.items() if one.due <= now]
        if not due:
            return 0
        uid = min(due)[1]
        document = await self._archive.one(uid)
        if document is None or "outcome" in document or document["archivedAt"] < since:
            del self._deferred[uid]
            return 0
        try:
            answer = await self._report(document)
        except errors.Operational as error:
            self._defer(uid, error)
            return 0
        await self._record(document, *answer)
        del self._deferred[uid]
        return 1

    def _defer(self, uid: str, error: errors.Operational) -> None:
        failures = self._deferred[uid].failures + 1 if uid in self._deferred else 1
        self._deferred[uid] = Deferred(failures, self._wall() + timedelta(seconds=self._backoff.delay(failures)))
        self._metrics.outcomes.labels(Result.POSTPONED).inc()
        log.info("outcome report postponed", uid=uid, reason=error.message, failures=failures)

    async def _record(self, document: Mapping[str, Any], result: Result, reason: str) -> None:
        self._consecutive = 0
        now = self._wall()
        await self._archive.record_outcome(document["_id"], {"told": result.value, "reason": reason, "at": now})
        self._metrics.outcomes.labels(result.value).inc()
        log.info(
            "outcome reported",
            uid=document["_id"],
            task=document["name"],
            namespace=document["namespace"],
            outcome=result.value,
            reason=reason,
        )

    async def _report(self, document: Mapping[str, Any]) -> tuple[Result, str]:
        """The knowledge base's answer and its reason. Raises `crds.errors.Operational` if it does not answer."""
        try:
            outcome = report.of(document)
            if outcome is None:
                why = "the task ran on behalf of a user" if report.private(document) else "the task has never run"
                return Result.INSIGNIFICANT, why
            if self._admission and (
                refusal := self._admission.refuses_client(document["namespace"], document["clientId"])
            ):
                # Written before its namespace was served, perhaps for a client that it may not have.
                return Result.REFUSED, refusal.message[:1024]
            reply = await self._send(outcome)
        except report.UnfitError as error:
            return Result.REFUSED, str(error)[:1024]
        except client.Rejected as error:
            return Result.REFUSED, error.message[:1024]
        return (Result.REMEMBERED if reply.remembered else Result.INSIGNIFICANT), reply.reason[:1024]
