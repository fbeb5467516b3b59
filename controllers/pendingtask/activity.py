"""When did a user last ask the router for something? Asked only while Background work waits, off every hot path.

A router that does not answer leaves that open: `in_doubt_since` says since when, and Background work is held up by it
no longer than by a user. The router counts requests of priority P0 except those of Background runs (`X-Jervis-Mode`).
Source: seed 000 "Preemption" (active user requests), blueprint section 4 "Execution".
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

EVERY_SECONDS = 3.0
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


class Users:
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
        every: float = EVERY_SECONDS,
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
