"""What the operator asks of the router: users' activity, and the reservation of a GPU for users' runs.

- `UserActivity` asks when a user last had a request at the router. It asks only while Background work waits, outside
  every hot path. While the router does not answer, the activity is unknown (`in_doubt_since`); that delays Background
  work no longer than a user's request does. The router counts requests of priority P0 except those of Background runs
  (`X-Jervis-Mode`).
- `GpuReservation` announces a reservation when the first run for a user has a slot, so that the model loads while the
  pod starts. It renews the reservation while there is such a run, and releases it after the last one. All runs share
  one owner, because the router reserves a GPU for one owner only. An operator that stops does not release it: the next
  leader renews it. The reservation is optional: without it, the run's first request loads the model.

Source: seed 000 "Preemption" (active user requests), "Orchestrator Pre-announcement Protocol"; blueprint section 4
"Execution"; decision 0016.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import pydantic
import structlog

from controllers import periodic
from crds import errors
from router import client

log = structlog.get_logger(__name__)

ASK_EVERY_SECONDS = 3.0
ANSWER_SECONDS = 2.0


class Seen(NamedTuple):
    """`last`: time of the last user request; `on`: by backend, time of the last one routed to it."""

    last: datetime | None = None
    on: Mapping[str, datetime] = MappingProxyType({})


Ask = Callable[[], Awaitable[Seen]]


def of_router(router: client.Client) -> Ask:
    """The activity as that router reports it; raises TimeoutError after `ANSWER_SECONDS`."""

    async def ask() -> Seen:
        async with asyncio.timeout(ANSWER_SECONDS):
            found = await router.status()
        on = {one.name: one.last_user_p0 for one in found.backends if one.last_user_p0 is not None}
        return Seen(found.last_user_p0, on)

    return ask


class UserActivity:
    """`ask` returns the users' activity at the router; None: tasks alone show it.

    `last_on` is by backend; `unplaced` is the last request without a known backend.

    `needed` returns whether Background work waits. After each request to the router, `answered` receives whether it
    answered, and `changed` is called, since Background work may now have to start or to wait.
    """

    def __init__(
        self,
        ask: Ask | None,
        *,
        needed: Callable[[], bool],
        changed: Callable[[], None],
        answered: Callable[[bool], None],
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        every: float = ASK_EVERY_SECONDS,
    ) -> None:
        self._ask, self._needed, self._changed, self._answered = ask, needed, changed, answered
        self._wall, self._monotonic, self._every = wall, monotonic, every
        self.asked_for = asyncio.Event()
        """Set while an answer is wanted."""
        self._asking = False
        self._asked_at: float | None = None
        self._pending = False
        self._answers: bool | None = None
        self.last: datetime | None = None
        self.last_on: Mapping[str, datetime] = {}
        self.unplaced: datetime | None = None
        self.in_doubt_since: datetime | None = None

    def wanted(self) -> None:
        """Background work waits: ask soon. Until then an old answer counts as unknown."""
        if self._ask is None:
            return
        recent = self._asked_at is not None and self._monotonic() - self._asked_at < 2 * self._every
        if not recent and not self._pending:
            self._pending = True
            self.in_doubt_since = self._wall()
        self._asking = True
        self.asked_for.set()

    async def reconcile_once(self) -> periodic.RequeueAfter:
        """Ask the router where an answer is wanted and still needed, not more often than each `every` seconds."""
        self._asking = self._asking and self._needed()
        if not self._asking:
            return periodic.WHEN_WOKEN
        now = self._monotonic()
        due = now if self._asked_at is None else self._asked_at + self._every
        if now >= due:
            await self.ask_router()
            return periodic.RequeueAfter(self._every)
        return periodic.RequeueAfter(due - now)

    async def ask_router(self) -> None:
        """Ask once."""
        assert self._ask is not None
        try:
            seen = await self._ask()
        except (errors.JervisError, TimeoutError, pydantic.ValidationError) as error:
            self.in_doubt_since = self.in_doubt_since or self._wall()
            self._report(False, str(error) or "no answer in time")
        else:
            # The clocks may differ: no time is later than now.
            now = self._wall()
            self.last = None if seen.last is None else min(seen.last, now)
            self.last_on = {name: min(at, now) for name, at in seen.on.items()}
            placed = max(seen.on.values(), default=None)
            self.unplaced = self.last if placed is None or (seen.last is not None and placed < seen.last) else None
            self.in_doubt_since = None
            self._report(True, "")
        self._asked_at, self._pending = self._monotonic(), False
        self._changed()

    def _report(self, answers: bool, reason: str) -> None:
        self._answered(answers)
        if answers is not self._answers:
            self._answers = answers
            log.info("user activity known" if answers else "user activity unknown", reason=reason)


CHECK_SECONDS = 1.0
RENEW_SECONDS = 60.0
"""At most, between two announcements; the router asks for less where it releases a reservation sooner."""
LINGER_SECONDS = 30.0
"""Delay of the release: users often ask again, and two changes of model sets cost more than this."""
READY_SECONDS = 10.0
"""How long one announcement waits for the models; after that the router continues to load them."""


class GpuReservation:
    """`wanted` returns whether a user's run has a slot and a reservation takes no GPU from other work."""

    def __init__(
        self,
        router: client.Client,
        *,
        owner: str,
        model: str,
        wanted: Callable[[], bool],
        monotonic: Callable[[], float],
    ) -> None:
        self._router, self._owner, self._model = router, owner, model
        self._wanted, self._monotonic = wanted, monotonic
        self._renew_at = float("-inf")
        self._release_at = float("-inf")
        self._logged = ""
        self._lease_id = ""
        self.held = False
        """The router may hold a reservation of this owner."""

    async def reconcile_once(self) -> None:
        """Announce, renew or release, if due."""
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
                ready = await self._router.announce(self._owner, self._model, self._lease_id)
        except TimeoutError:
            self._renew_at = self._monotonic() + CHECK_SECONDS
            self._log("a GPU is reserved and its models are being loaded")
        except errors.JervisError as error:
            self.held = not isinstance(error, client.Taken | client.Rejected)
            self._renew_at = self._monotonic() + max(RENEW_SECONDS / 4, getattr(error, "retry_after", None) or 0.0)
            self._log("no GPU is reserved", reason=error.message)
        else:
            self._renew_at = self._monotonic() + min(RENEW_SECONDS, ready.renew_seconds)
            self._lease_id = ready.lease_id
            self._log("a GPU is reserved", backend=ready.backend, model_set=ready.model_set)

    async def _release(self) -> None:
        self._renew_at = float("-inf")
        try:
            async with asyncio.timeout(READY_SECONDS):
                # Without a token of its own a caller releases by the lease's id. It is not known after an announcement
                # that got no answer, nor is the former leader's: announcing again returns it.
                if not self._lease_id:
                    self._lease_id = (await self._router.announce(self._owner, self._model)).lease_id
                await self._router.release(self._owner, self._lease_id)
        except (errors.JervisError, TimeoutError) as error:
            # The router releases an idle reservation itself after some minutes; until then the release is retried.
            self._release_at = self._monotonic() + RENEW_SECONDS / 4
            self._log("the GPU is not released", reason=str(error) or "no answer in time")
        else:
            self.held, self._lease_id = False, ""
            self._log("the GPU is released")

    def _log(self, event: str, **facts: str) -> None:
        if event != self._logged:
            self._logged = event
            log.info(event, **facts)
