"""From uploaded recordings to Jobs: MongoDB says what is to be done, the apiserver what became of it.

The attempt is written before its Job is made, and the Job's name is the attempt's: a kill in between is made up for,
and a Job is never made twice. The pod hands over what it heard, or why it did not, itself; a Job that ended without a
word, or vanished, costs a try. Every look compares, so nothing depends on having seen an event.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

import structlog

import kube
from controllers import metrics
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
        self._api, self._meetings, self._template = api, meetings, template
        self._at_once, self._token, self._fence = at_once, token, fence
        self._metrics, self._wall = measured, wall
        self._turns: dict[str, int] = {}
        """By namespace: the number of its last turn."""

    async def reconcile_once(self) -> None:
        """Do what can be done now; one meeting whose Job is refused holds up no other. Raises `Unavailable`."""
        running = [row["namespace"] for row in await self._meetings.transcribing() if await self._guarded(row)]
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
                    await self._guarded(begun)

    async def _guarded(self, row: store.Row) -> bool:
        """Whether its Job still runs, or may."""
        try:
            return await self._tend(row)
        except errors.Operational as error:
            log.info("meeting not looked at", meeting=row["_id"], reason=error.message)
            return True
        except errors.Permanent as error:
            # A quota, an admission policy, a manifest that the settings spoil. A Job without its token would wait.
            with suppress(errors.JervisError):
                await self._api.delete(kube.JOBS, row["jobNamespace"], row["job"])
            return await self._missed(row, "JobRefused", f"Its Job is refused: {error.message}")

    async def _tend(self, row: store.Row) -> bool:
        if row["jobNamespace"] != self._template.run.namespace:
            return await self._missed(row, "JobLost", "Its Job was made by another release.")
        try:
            found = await self._api.get(kube.JOBS, row["jobNamespace"], row["job"])
        except kube.NotFound:
            if row["jobMade"]:
                return await self._missed(row, "JobLost", "Its Job vanished.")
            await self._make(row)
            return True
        if not row["jobMade"]:
            await self._give_token(row, found)
        ended = _ended(found)
        return True if not ended else await self._missed(row, *ended)

    async def _make(self, row: store.Row) -> None:
        try:
            made = await self._api.create(
                kube.JOBS, row["jobNamespace"], job.manifest(row, self._template, self._token())
            )
        except kube.AlreadyExists:
            made = await self._api.get(kube.JOBS, row["jobNamespace"], row["job"])
        self._metrics.transcriptions.labels("begun").inc()
        await self._give_token(row, made)

    async def _give_token(self, row: store.Row, made: kube.Object) -> None:
        """The pod waits for the Secret. It exists already after a kill before `made` was noted."""
        body = job.secret(row, self._template, made["metadata"]["uid"])
        with suppress(kube.AlreadyExists):
            await self._api.create(kube.SECRETS, row["jobNamespace"], body)
        self._fence()
        await self._meetings.made(row)

    async def _missed(self, row: store.Row, outcome: str, reason: str) -> bool:
        self._fence()
        state = await self._meetings.missed(row, reason, self._wall())
        self._metrics.transcriptions.labels(outcome).inc()
        log.info("transcription failed", meeting=row["_id"], attempt=row["attempt"], reason=reason, state=state.value)
        return False


def _ended(found: Any) -> tuple[str, str] | None:
    """(outcome, why) of a Job that has ended while its meeting still waits for it; None while it runs."""
    for one in (found.get("status") or {}).get("conditions") or ():
        if one.get("status") != "True":
            continue
        if one.get("type") == "Failed":
            reason = str(one.get("reason") or "Failed")
            why = "took longer than transcription.deadlineSeconds" if reason == "DeadlineExceeded" else "failed"
            return (
                "DeadlineExceeded" if reason == "DeadlineExceeded" else "JobFailed",
                f"Its Job {why} ({reason}): {one.get('message') or 'without a message'}",
            )
        if one.get("type") == "Complete":
            return "JobFailed", "Its Job ended without a transcript."
    return None
