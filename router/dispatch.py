"""The shell around the scheduler: requests wait here as futures; decisions become wake-ups and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from crds import errors
from router import models, scheduler


class Turned(errors.Operational):
    """The scheduler refused a request."""

    def __init__(self, reason: scheduler.Reason) -> None:
        super().__init__(f"refused: {reason}")
        self.reason = reason


class Dispatcher:
    """One per process, used from its event loop alone."""

    def __init__(self, plan: scheduler.Scheduler) -> None:
        self._plan = plan
        self._sleepers: dict[int, asyncio.Future[str]] = {}

    async def acquire(self, request: scheduler.Request) -> str:
        """Wait for a slot; returns the backend's name. Raises Turned.

        A caller that is cancelled while it waits gives its place (or the slot it was just given) back.
        """
        outcome = self._plan.offered(request)
        if isinstance(outcome, scheduler.Granted):
            return outcome.backend
        if isinstance(outcome, scheduler.Refused):
            raise Turned(outcome.reason)
        sleeper: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._sleepers[request.id] = sleeper
        try:
            return await sleeper
        except asyncio.CancelledError:
            self._apply(self._plan.withdrawn(request.id))
            raise
        finally:
            self._sleepers.pop(request.id, None)

    def release(self, request_id: int) -> None:
        """The slot is free again: to be called exactly once for every acquired request."""
        self._apply(self._plan.released(request_id))

    def reconfigure(self, backends: Iterable[scheduler.Backend], table: models.Table) -> None:
        """The book changed."""
        self._apply(self._plan.reconfigured(backends, table.cpu_allowed))

    def elsewhere(self, request: scheduler.Request) -> bool:
        """Could a request with these backends to avoid run anywhere at all?"""
        return self._plan.possible(request)

    def turn_away(self) -> int:
        """Refuse everybody who waits (the process is going); returns how many."""
        waiting = list(self._plan.waiting())
        for request in waiting:
            self._plan.withdrawn(request.id)
            self._apply([scheduler.Refused(request, scheduler.Reason.UNAVAILABLE)])
        return len(waiting)

    def _apply(self, outcomes: Iterable[scheduler.Outcome]) -> None:
        for outcome in outcomes:
            sleeper = self._sleepers.get(outcome.request.id)
            # A sleeper that is done was cancelled in this very turn of the loop; its own path gives the slot back.
            if sleeper is None or sleeper.done():
                continue
            if isinstance(outcome, scheduler.Granted):
                sleeper.set_result(outcome.backend)
            else:
                sleeper.set_exception(Turned(outcome.reason))
