"""A GPU is kept for the runs that a user waits for: announced to the router when the first one has a slot, so that the
model is loaded while the pod starts, renewed as long as there is one, and given back after the last.

One owner for all of them, because the router gives a GPU to one; the next operator renews what this one announced. An
operator that ends gives nothing back. Nothing depends on it: without a reservation, or with a router that does not
answer, the run's own first request has the model loaded.
Source: seed 000 "Orchestrator Pre-announcement Protocol"; decision 0016.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from crds import errors
from router import client

log = structlog.get_logger(__name__)

EVERY_SECONDS = 1.0
RENEW_SECONDS = 60.0
"""Under the shortest time after which the router takes an idle reservation back."""
LINGER_SECONDS = 30.0
"""A person who has an answer often asks again: two changes of model sets cost more than this."""
READY_SECONDS = 10.0
"""How long one announcement waits for the models; the router goes on loading without it."""


class Keeper:
    """`wanted` says whether a user's run has a slot and keeping a GPU for it takes nothing from the others."""

    def __init__(
        self,
        router: client.Client,
        *,
        owner: str,
        model: str,
        wanted: Callable[[], bool],
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._router, self._owner, self._model = router, owner, model
        self._wanted, self._monotonic, self._sleep = wanted, monotonic, sleep
        self._renew_at = float("-inf")
        self._release_at = float("-inf")
        self._told = ""
        self.held = False
        """Something may be reserved in our name."""

    async def run(self) -> None:
        """Look again and again; for ever."""
        while True:
            await self.once()
            await self._sleep(EVERY_SECONDS)

    async def once(self) -> None:
        """Announce, renew or release, if it is time to."""
        now = self._monotonic()
        if self._wanted():
            self._release_at = now + LINGER_SECONDS
            if now >= self._renew_at:
                await self._announce()
        elif self.held and now >= self._release_at:
            await self._release()

    async def _announce(self) -> None:
        self.held = True
        try:
            async with asyncio.timeout(READY_SECONDS):
                ready = await self._router.announce(self._owner, self._model)
        except TimeoutError:
            self._renew_at = self._monotonic() + EVERY_SECONDS
            self._say("a GPU is reserved and its models are being loaded")
        except errors.JervisError as error:
            self.held = not isinstance(error, client.Taken | client.Rejected)
            self._renew_at = self._monotonic() + max(RENEW_SECONDS / 4, getattr(error, "retry_after", None) or 0.0)
            self._say("no GPU is reserved", reason=error.message)
        else:
            self._renew_at = self._monotonic() + RENEW_SECONDS
            self._say("a GPU is reserved", backend=ready.backend, model_set=ready.model_set)

    async def _release(self) -> None:
        self._renew_at = float("-inf")
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._router.release(self._owner)
        except (errors.JervisError, TimeoutError) as error:
            # The router takes it back itself after some idle minutes; until then we ask once more now and then.
            self._release_at = self._monotonic() + RENEW_SECONDS / 4
            self._say("the GPU is not given back", reason=str(error) or "no answer in time")
        else:
            self.held = False
            self._say("the GPU is given back")

    def _say(self, event: str, **facts: str) -> None:
        if event != self._told:
            self._told = event
            log.info(event, **facts)
