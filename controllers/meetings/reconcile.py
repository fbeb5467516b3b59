"""From uploaded recordings to Jobs: MongoDB says what is to be done, the apiserver what became of it.

The attempt is written before its Job is made, and the Job's name is the attempt's: a kill in between is made up for,
and a Job is never made twice. The pod hands over what it heard, or why it did not, itself; a Job that ended without a
word, or vanished, costs a try. Every look compares, so nothing depends on having seen an event.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

import structlog

import kube
from contracts.api import meeting
from controllers import job_tracker, metrics
from controllers.meetings import job
from crds import errors
from kube import lease
from sources.providers.meetings import store

log = structlog.get_logger(__name__)
EVERY_SECONDS = 5.0


class Transcriptions:
    """`at_once` Jobs run at the same time. `fence` is asked before each write to MongoDB; `wall` is UTC."""

    def __init__(
        self,
        api: kube.Kube,
        meetings: store.Meetings,
        template: job.Template,
        *,
        at_once: int,
        token: Callable[[], lease.FencingToken],
        fence: Callable[[], None],
        measured: metrics.Metrics,
        wall: Callable[[], datetime],
    ) -> None:
        self._meetings, self._template = meetings, template
        self._jobs = job_tracker.JobTracker(api, template.run.namespace, meeting.MEETING_LABEL)
        self._at_once, self._token, self._fence = at_once, token, fence
        self._metrics, self._wall = measured, wall
        self._turns: dict[str, int] = {}
        """By namespace: the number of its last turn."""

    async def reconcile_once(self) -> None:
        """Do what can be done now; one meeting whose Job is refused holds up no other. Raises `Unavailable`."""
        running = [row["namespace"] for row in await self._meetings.transcribing() if await self._runs(row)]
        for _ in range(self._at_once - len(running)):
            queued = await self._meetings.queued(self._wall())
            if not queued:
                return
            # In turns: recordings last for hours, and one namespace may have many.
            chosen = min(queued, key=lambda name: (running.count(name), self._turns.get(name, 0)))
            self._turns[chosen] = 1 + max(self._turns.values(), default=0)
            running.append(chosen)
            for row in await self._meetings.waiting(1, self._wall(), chosen):
                self._fence()
                begun = await self._meetings.begin(row, self._template.run.namespace)
                if begun is not None:
                    await self._runs(begun)

    async def _runs(self, row: store.Row) -> bool:
        """Whether its Job still runs, or may."""

        async def refused(error: errors.Permanent) -> None:
            await self._missed(row, "JobRefused", f"Its Job is refused: {error.message}")

        return await self._jobs.reconcile_job(row["job"], partial(self._reconcile_job, row), refused)

    async def _reconcile_job(self, row: store.Row) -> bool:
        async def record_made() -> None:
            self._fence()
            await self._meetings.made(row)

        if row["jobNamespace"] != self._template.run.namespace:
            return await self._missed(row, "JobLost", "Its Job was made by another release.")
        raw = await self._jobs.ensure(
            job_tracker.Wanted(
                row["job"],
                row["_id"],
                row["jobMade"],
                manifest=lambda: job.manifest(row, self._template, self._token()),
                secret=lambda uid: job.secret(row, self._template, uid),
                record_made=record_made,
                created=self._metrics.transcriptions.labels("begun").inc,
            )
        )
        if raw is None:
            return await self._missed(row, "JobLost", "Its Job vanished.")
        end = job_tracker.ended(raw)
        return True if end is None else await self._missed(row, *_outcome(end))

    async def _missed(self, row: store.Row, outcome: str, reason: str) -> bool:
        self._fence()
        state = await self._meetings.missed(row, reason, self._wall())
        self._metrics.transcriptions.labels(outcome).inc()
        log.info("transcription failed", meeting=row["_id"], attempt=row["attempt"], reason=reason, state=state.value)
        return False


def _outcome(end: job_tracker.JobEnd) -> tuple[str, str]:
    """(outcome, why) of a Job that has ended while its meeting still waits for it."""
    if end.complete:
        return "JobFailed", "Its Job ended without a transcript."
    reason, late = end.reason or "Failed", end.reason == "DeadlineExceeded"
    why = "took longer than transcription.deadlineSeconds" if late else "failed"
    return (
        "DeadlineExceeded" if late else "JobFailed",
        f"Its Job {why} ({reason}): {end.message or 'without a message'}",
    )
