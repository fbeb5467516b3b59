"""The GPU that a run keeps for itself: announced before the first model call, renewed while the run works, given back
when it ends, waits for a person or is asked to stop.

The reservation is a courtesy: a run works as well without it, only later. No failure of the router, an old one
included, is one of the run. One reservation for a model is enough, and none is made where one backend serves all: the
router refuses both (`spareOnly`), and the run asks again later.

Source: seed 000 "Orchestrator Pre-announcement Protocol"; the design's router page, "Announce/release".
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable

import pydantic
import structlog

from crds import errors
from router import client as router_client

READY_SECONDS = 10.0
"""How long the first call waits for the announcement's answer: the router loads the model all the same, and the call
itself waits for it there."""
RELEASE_SECONDS = 5.0
"""How long the end of a run waits for the router; a reservation that is not released ends there when it is idle."""
RENEW_SECONDS = 60.0
"""At most, between two announcements; the router asks for less where it gives an idle GPU back sooner."""
AGAIN_SECONDS = 15.0
"""Between two tries while there is no reservation."""

_log = structlog.get_logger("orchestrator_job.run.reservation")


class Reservation:
    """Of one run. `owner` is the same for each process of a task, so the one that resumes takes the reservation over.

    `model` is the run's own; one whose calls are below P0 reserves nothing and has no Reservation.
    """

    def __init__(
        self,
        router: router_client.Client,
        *,
        owner: str,
        model: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._router, self._owner, self._model, self._sleep = router, owner, model, sleep
        self._keeping: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        self._over = False
        self._lease_id = ""
        self.held = False
        """The router may hold a reservation of this owner."""

    async def hold(self) -> None:
        """Announce before the first call; for a later one this does nothing. Raises nothing of the router's."""
        if self._keeping is None and not self._over:
            self._keeping = asyncio.create_task(self._keep(), name="reservation")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READY_SECONDS):
                await self._answered.wait()
        self._answered.set()  # one call waits, not each

    async def release(self) -> None:
        """Give the GPU back, for good: a call after this announces nothing. Raises nothing of the router's."""
        self._over = True
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
            self._keeping = None
        if not self.held:
            return
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                released = await self._router.release(self._owner, self._lease_id)
        except (errors.JervisError, pydantic.ValidationError, TimeoutError) as error:
            _log.info("the GPU is not released", reason=str(error) or "no answer in time")
        else:
            self.held, self._lease_id = False, ""
            _log.info("the GPU is released", released=released)

    async def _keep(self) -> None:
        pause = 0.0
        while pause < math.inf:
            pause = await self._once()
            self._answered.set()
            await self._sleep(min(pause, RENEW_SECONDS))

    async def _once(self) -> float:
        """Announce or renew; seconds until the next time, infinite for never."""
        before, self.held = self.held, True  # until an answer says otherwise: it may be lost
        try:
            ready = await self._router.announce(self._owner, self._model, self._lease_id, spare_only=True)
        except router_client.Taken as error:
            self.held, self._lease_id = False, ""
            return max(AGAIN_SECONDS, error.retry_after or 0.0)
        except (router_client.Rejected, pydantic.ValidationError) as error:
            # A router without this path, one that wants a more urgent caller, or an answer of another kind.
            self.held = before
            _log.info("no GPU is reserved", reason=str(error))
            return math.inf
        except errors.JervisError as error:
            _log.info("no GPU is reserved", reason=error.message)
            return max(AGAIN_SECONDS, getattr(error, "retry_after", None) or 0.0)
        if ready.lease_id != self._lease_id:
            self._lease_id = ready.lease_id
            _log.info("a GPU is reserved", backend=ready.backend, model_set=ready.model_set)
        return ready.renew_seconds
