"""When did a user last ask the router for something? Asked only while Background work waits, off every hot path.

A router that does not answer leaves that open: `in_doubt_since` says since when, and Background work is held up by it
no longer than by a user. The router counts requests of priority P0 except those of Background runs (`X-Jervis-Mode`).
Source: seed 000 "Preemption" (active user requests), blueprint section 4 "Execution".

A GPU is kept for the runs that a user waits for: announced to the router when the first one has a slot, so that the
model is loaded while the pod starts, renewed as long as there is one, and given back after the last.

One owner for all of them, because the router gives a GPU to one; the next operator renews what this one announced. An
operator that ends gives nothing back. Nothing depends on it: without a reservation, or with a router that does not
answer, the run's own first request has the model loaded.
Source: seed 000 "Orchestrator Pre-announcement Protocol"; decision 0016.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import pydantic
import structlog

from crds import errors
from router import client

log = structlog.get_logger(__name__)

ASK_EVERY_SECONDS = 3.0
ANSWER_SECONDS = 2.0


class Seen(NamedTuple):
    """`last`: the last user request; `on`: by backend, when one was last given to it."""

    last: datetime | None = None
    on: Mapping[str, datetime] = MappingProxyType({})


Ask = Callable[[], Awaitable[Seen]]


def of_router(router: client.Client) -> Ask:
    """Ask that router, for two seconds at most."""

    async def ask() -> Seen:
        async with asyncio.timeout(ANSWER_SECONDS):
            found = await router.status()
        on = {one.name: one.last_user_p0 for one in found.backends if one.last_user_p0 is not None}
        return Seen(found.last_user_p0, on)

    return ask


class UserActivity:
    """`ask` brings what the router has seen of users; without one tasks alone tell of them.

    `last_on` is by backend; `unplaced` is the last request that no backend is known to serve.

    `needed` says whether Background work waits; `changed` is called when it may go on, or not, because of an answer;
    `heard` is told whether the router answered.
    """

    def __init__(
        self,
        ask: Ask | None,
        *,
        needed: Callable[[], bool],
        changed: Callable[[], None],
        heard: Callable[[bool], None],
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        every: float = ASK_EVERY_SECONDS,
    ) -> None:
        self._ask, self._needed, self._changed, self._heard = ask, needed, changed, heard
        self._wall, self._monotonic, self._every = wall, monotonic, every
        self._wanted = asyncio.Event()
        self._asked_at: float | None = None
        self._pending = False
        self._answers: bool | None = None
        self.last: datetime | None = None
        self.last_on: Mapping[str, datetime] = {}
        self.unplaced: datetime | None = None
        self.in_doubt_since: datetime | None = None

    def wanted(self) -> None:
        """Background work waits: ask soon. What was heard too long ago is doubtful until then."""
        if self._ask is None:
            return
        recent = self._asked_at is not None and self._monotonic() - self._asked_at < 2 * self._every
        if not recent and not self._pending:
            self._pending = True
            self.in_doubt_since = self._wall()
        self._wanted.set()

    async def run(self) -> None:
        """Ask whenever it is needed; for ever."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._ask is not None and self._needed():
                await self.once()
                await asyncio.sleep(self._every)

    async def once(self) -> None:
        """Ask once."""
        assert self._ask is not None
        try:
            seen = await self._ask()
        except (errors.JervisError, TimeoutError, pydantic.ValidationError) as error:
            self.in_doubt_since = self.in_doubt_since or self._wall()
            self._tell(False, str(error) or "no answer in time")
        else:
            # The router's clock is not ours: what it says is never later than now.
            now = self._wall()
            self.last = None if seen.last is None else min(seen.last, now)
            self.last_on = {name: min(at, now) for name, at in seen.on.items()}
            placed = max(seen.on.values(), default=None)
            self.unplaced = self.last if placed is None or (seen.last is not None and placed < seen.last) else None
            self.in_doubt_since = None
            self._tell(True, "")
        self._asked_at, self._pending = self._monotonic(), False
        self._changed()

    def _tell(self, answers: bool, reason: str) -> None:
        self._heard(answers)
        if answers is not self._answers:
            self._answers = answers
            log.info("router tells of users" if answers else "router does not tell of users", reason=reason)


log = structlog.get_logger(__name__)

LOOK_EVERY_SECONDS = 1.0
RENEW_SECONDS = 60.0
"""Under the shortest time after which the router takes an idle reservation back."""
LINGER_SECONDS = 30.0
"""A person who has an answer often asks again: two changes of model sets cost more than this."""
READY_SECONDS = 10.0
"""How long one announcement waits for the models; the router goes on loading without it."""


class GpuReservation:
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
            await self._sleep(LOOK_EVERY_SECONDS)

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
            self._renew_at = self._monotonic() + LOOK_EVERY_SECONDS
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
