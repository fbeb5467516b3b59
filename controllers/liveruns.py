"""`/api/v1/live-runs` beside the history: which runs there are, for the services that take run tokens.

GET /api/v1/live-runs    a list that the key of run tokens signs (`crds.liveruns`); needs no ticket, it has only uids

Each replica answers from its own task cache, as of the last time that the apiserver answered it. A task that is being
deleted has no run any more, whatever its pods still do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from aiohttp import web

import kube
from controllers.archive import http
from controllers.pendingtask.slots import bookings
from crds import errors, labels, liveruns, runtoken

FRESH_SECONDS = 1.0
"""How long an answer is given again."""
SILENT_SECONDS = 15.0
"""A replica that the apiserver has not answered for so long does not know which runs there are."""


class LiveRuns:
    """Makes and serves the list. `booked` raises `errors.Operational` before everything has been read; `analyses` are
    the ids of Jobs that analyze code; `silent_for` gives the seconds since the apiserver answered."""

    def __init__(
        self,
        booked: Callable[[], bookings.Bookings],
        analyses: Callable[[], Awaitable[frozenset[str]]],
        keys: Callable[[], runtoken.Ring],
        *,
        silent_for: Callable[[], float],
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._booked, self._analyses, self._keys = booked, analyses, keys
        self._silent_for, self._wall, self._monotonic = silent_for, wall, monotonic
        self._answer: tuple[float, str] | None = None
        self._making = asyncio.Lock()

    def serve(self, application: web.Application) -> None:
        """Add the path."""
        application.router.add_get(liveruns.PATH, http.answering(self._show))

    def check(self, run: runtoken.Claims) -> None:
        """Raises `runtoken.Ended` for a run that is over, `errors.Operational` where that is not known."""
        live = self._live(frozenset())
        if not live.has(run) and run.issued_at < live.as_of - liveruns.YOUNG:
            raise runtoken.Ended(f"run {run.attempt} of task {run.task_uid} is over")

    async def _show(self, _: web.Request) -> web.Response:
        async with self._making:
            now = self._monotonic()
            if self._answer is None or now - self._answer[0] >= FRESH_SECONDS:
                # Before the tasks: what is listed may end meanwhile, what begins meanwhile has a younger token.
                analyses = await self._analyses()
                self._answer = now, liveruns.sign(self._live(analyses), self._keys())
            answer = self._answer[1]
        return web.Response(text=answer, content_type="application/jwt")

    def _live(self, analyses: frozenset[str]) -> liveruns.Live:
        silent = self._silent_for()
        if silent > SILENT_SECONDS:
            raise errors.Operational("the Kubernetes API does not answer: which runs there are is not known")
        booked = self._booked()
        return liveruns.Live(
            as_of=self._wall() - timedelta(seconds=silent),
            runs={uid: run.attempt for uid, run in booked.runs.items()},
            stopped=frozenset(booked.stopped),
            analyses=analyses,
        )


def analyses(api: kube.Kube, namespace: str, monotonic: Callable[[], float]) -> Callable[[], Awaitable[frozenset[str]]]:
    """The ids of the Jobs of `namespace` that analyze code and have not ended, read every `EVERY_SECONDS`."""
    kept: tuple[float, frozenset[str]] | None = None

    async def find() -> frozenset[str]:
        nonlocal kept
        now = monotonic()
        if kept is None or now - kept[0] >= liveruns.EVERY_SECONDS:
            found = [raw async for raw in api.each(kube.JOBS, namespace, labels.CODE_ANALYSIS)]
            kept = now, frozenset(raw["metadata"]["labels"][labels.CODE_ANALYSIS] for raw in found if not _ended(raw))
        return kept[1]

    return find


def _ended(job: kube.Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    over = any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)
    return over or bool(job["metadata"].get("deletionTimestamp"))
