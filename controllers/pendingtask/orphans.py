"""Pods that hold a slot though no task of theirs does: are they really still there?

A watch that has lost its place lists anew and never tells what went away meanwhile. A task that is gone is found out
when it is written to; a pod of a task that is gone is written to by nobody, and would hold its slot for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

import structlog

from controllers import kube
from controllers.pendingtask import index, job
from crds import errors

log = structlog.get_logger(__name__)

EVERY_SECONDS = 30.0


class Orphans:
    """Reads only; `changed` is called when a slot may have become free."""

    def __init__(
        self,
        api: kube.Kube,
        namespaces: Iterable[str],
        tasks: index.Tasks,
        workloads: index.Workloads,
        *,
        changed: Callable[[], None],
        wall: Callable[[], datetime],
    ) -> None:
        self._api, self._namespaces = api, tuple(namespaces)
        self._tasks, self._workloads = tasks, workloads
        self._changed, self._wall = changed, wall

    async def run(self) -> None:
        """Ask now and then; for ever."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            try:
                await self.verify()
            except errors.JervisError as error:
                log.info("pods without a run not verified", reason=error.message)

    async def verify(self) -> None:
        """Ask the API about each of them. Raises `kube.Unavailable`."""
        doubtful = self._workloads.occupied(self._wall(), but=self._tasks.bookings.runs.keys())
        for uid in doubtful:
            labels = f"{job.UID_LABEL}={uid}"
            found = [raw for place in self._namespaces async for raw in self._api.each(kube.PODS, place, labels)]
            self._workloads.replace_pods(uid, found)
            if self._tasks.entry(uid) is None:
                self._workloads.forget_task(uid)
        if doubtful:
            self._changed()
