"""`/api/v1/live-runs` beside the history: which runs there are, for the services that take run tokens.

GET /api/v1/live-runs    a list that the key of run tokens signs (`contracts.tokens.live_runs`); it has only uids,
                         so it needs no ticket

The leader answers, from its own task cache and as of the last time that the apiserver answered it: it has what it
wrote itself, and no run begins without it. Another replica says 503, and who asks comes to the leader by another
connection. A task that is being deleted has no run any more, whatever its pods still do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from aiohttp import web

import kube
from contracts.tokens import live_runs, runtoken
from controllers.archive import http
from controllers.pendingtask import workloads
from controllers.pendingtask.observed import JobState
from controllers.pendingtask.slots import bookings
from crds import errors, labels

FRESH_SECONDS = 1.0
"""How long an answer is given again, also one that says why there is none."""
SILENT_SECONDS = 15.0
"""A replica that the apiserver has not answered for so long does not know which runs there are."""
LAG_SECONDS = 90.0
"""How far the task cache of a replica that does not lead, or has begun to, may be behind."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """`runs`: uid of a task -> the attempt that is at work; `stopped`: tasks that wait for a slot after one."""

    runs: Mapping[str, int]
    stopped: frozenset[str]


def attempts(booked: bookings.Bookings, jobs: workloads.Workloads, seen: Container[str]) -> Attempts:
    """By the tasks; and by their Jobs, which others let go before the task says so (Kueue), and which go on where the
    operator does not see the tasks of a namespace at the moment (`effects.orphans` ends them later). `seen`: the
    namespaces whose tasks it sees."""
    runs = {uid: run.attempt for uid, run in booked.runs.items()}
    for uid, views in jobs.jobs():
        for view in views:
            waits = booked.stopped.get(uid) == view.attempt
            unseen = bool(view.task[1]) and view.task[1] not in seen and uid not in jobs.abandoned
            if view.state is JobState.ACTIVE and (waits or unseen):
                runs.setdefault(uid, view.attempt)
    return Attempts(runs, frozenset(booked.stopped))


class LiveRuns:
    """Makes and serves the list. `attempts` raises `errors.Operational` before everything has been read; `analyses` are
    the ids of Jobs that analyze code; `silent_for` gives the seconds since the apiserver answered."""

    def __init__(
        self,
        attempts: Callable[[], Attempts],
        analyses: Callable[[], Awaitable[frozenset[str]]],
        keys: Callable[[], runtoken.Ring],
        *,
        leading: Callable[[], bool],
        silent_for: Callable[[], float],
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._attempts, self._analyses, self._keys, self._leading = attempts, analyses, keys, leading
        self._silent_for, self._wall, self._monotonic = silent_for, wall, monotonic
        self._led, self._led_since = False, 0.0
        self._made: tuple[float, str | errors.Operational] | None = None
        self._making = asyncio.Lock()

    def serve(self, application: web.Application) -> None:
        """Add the path."""
        application.router.add_get(live_runs.PATH, http.answering(self._show))

    def check(self, run: runtoken.Claims) -> None:
        """Raises `runtoken.Ended` for a run that is over, `errors.Operational` where that is not known."""
        if self._live(frozenset()).ends(run):
            raise runtoken.Ended(f"run {run.attempt} of task {run.task_uid} is over")

    async def _show(self, _: web.Request) -> web.Response:
        async with self._making:
            now = self._monotonic()
            if self._made is None or now - self._made[0] >= FRESH_SECONDS:
                self._made = now, await self._answer()
            made = self._made[1]
        if isinstance(made, errors.Operational):
            raise made
        return web.Response(text=made, content_type="application/jwt")

    async def _answer(self) -> str | errors.Operational:
        try:
            if not self._leads():
                raise errors.Operational("another replica leads, and knows which runs there are")
            # Before the tasks: what is listed may end meanwhile, what begins meanwhile has a younger token.
            analyses = await self._analyses()
            return live_runs.sign(self._live(analyses), self._keys())
        except errors.Operational as error:
            return error

    def _live(self, analyses: frozenset[str]) -> live_runs.Live:
        silent = self._silent_for()
        if silent > SILENT_SECONDS:
            raise errors.Operational("the Kubernetes API does not answer: which runs there are is not known")
        found = self._attempts()
        as_of = self._wall() - timedelta(seconds=silent)
        young = live_runs.YOUNG.total_seconds()
        if not self._leads() or self._monotonic() - self._led_since < LAG_SECONDS:
            young = LAG_SECONDS
        return live_runs.Live(as_of=as_of, runs=found.runs, stopped=found.stopped, analyses=analyses, young=young)

    def _leads(self) -> bool:
        leading = self._leading()
        if leading and not self._led:
            self._led_since = self._monotonic()
        self._led = leading
        return leading


def analyses(api: kube.Kube, namespace: str, monotonic: Callable[[], float]) -> Callable[[], Awaitable[frozenset[str]]]:
    """The ids of the Jobs of `namespace` that analyze code and have not ended, read every `EVERY_SECONDS`; as they were
    where the apiserver does not answer."""
    kept: tuple[float, frozenset[str]] | None = None

    async def find() -> frozenset[str]:
        nonlocal kept
        now = monotonic()
        if kept is None or now - kept[0] >= live_runs.EVERY_SECONDS:
            try:
                found = [raw async for raw in api.each(kube.JOBS, namespace, labels.CODE_ANALYSIS)]
            except errors.Operational:
                if kept is None:
                    raise
                return kept[1]
            kept = now, frozenset(raw["metadata"]["labels"][labels.CODE_ANALYSIS] for raw in found if not _ended(raw))
        return kept[1]

    return find


async def none() -> frozenset[str]:
    """Where no code is analyzed."""
    return frozenset()


def _ended(job: kube.Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    over = any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)
    return over or bool(job["metadata"].get("deletionTimestamp"))
