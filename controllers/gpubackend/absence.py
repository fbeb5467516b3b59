"""GPU backends that stopped serving: when their slots and their runs are given up. Two questions, two classes.

`Absence`: are new runs to wait for it? For `patience` seconds a missing backend still counts as present, with no free
slots. One failed probe, or a replaced object, is no reason to start users' runs without a GPU. This state is lost with
the process; the limit of runs without a GPU does not depend on it.

`ServedBackends`: do the runs that have booked it move? Runs send their requests to the router, so the operator's probe
alone does not decide. A run moves only when the probe has missed its backend for `patience` seconds and the router does
not serve it either. The router spreads requests over all backends: most runs lose nothing by going on while it serves
this one. Where the router does not answer, the probe decides alone after `UNHEARD_FACTOR` times the patience.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pydantic
import structlog

from controllers import periodic
from crds import errors
from router import client


class Absence:
    """Missing backends by name. `patience` and all times are in seconds; `monotonic` is the clock."""

    def __init__(self, monotonic: Callable[[], float], patience: float) -> None:
        self._monotonic, self.patience = monotonic, patience
        self._offered: dict[str, int] = {}
        self._left: dict[str, tuple[int, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def offered(self, slots: Mapping[str, int]) -> bool:
        """Note what is offered now, by name, without zeros. True when a backend offers nothing any more that did."""
        now = self._monotonic()
        left = {name: (count, now) for name, count in self._offered.items() if name not in slots}
        self._left = {name: one for name, one in (self._left | left).items() if name not in slots}
        self._offered = dict(slots)
        return bool(left)

    def expected(self) -> Mapping[str, int]:
        """Backends that offer nothing and are expected back -> the slots that they had."""
        now = self._monotonic()
        self._left = {name: one for name, one in self._left.items() if now < one[1] + self.patience}
        return {name: count for name, (count, _) in self._left.items()}

    def call_at_end(self, changed: Callable[[], None]) -> None:
        """Call `changed` once for each end of a patience, not before it. Replaces the callback of the last call.

        The clock decides, not the timer: uvloop counts from the start of the loop's round, so its timers can be early.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._wait_for_end(self.expected(), changed)

    def _wait_for_end(self, expected: Mapping[str, int], changed: Callable[[], None]) -> None:
        self._timer = None
        if not expected:
            return
        seconds = min(self._left[name][1] for name in expected) + self.patience - self._monotonic()

        def end() -> None:
            # Read once: an end between two readings would never be reported.
            left = self.expected()
            self._wait_for_end(left, changed)
            if left != expected:
                changed()

        self._timer = asyncio.get_running_loop().call_later(max(seconds, 0), end)


log = structlog.get_logger(__name__)

EVERY_SECONDS = 5.0
ANSWER_SECONDS = 2.0
UNHEARD_FACTOR = 3.0

Ask = Callable[[], Awaitable[frozenset[str] | None]]


def of_router(router: client.Client) -> Ask:
    """Ask that router which backends it serves; None from a standby, which does not probe them."""

    async def ask() -> frozenset[str] | None:
        async with asyncio.timeout(ANSWER_SECONDS):
            status = await router.status()
        return frozenset(one.name for one in status.backends if one.healthy) if status.active else None

    return ask


class ServedBackends:
    """`missing(name)`: is that backend deleted or not Ready by the operator's probe? `booked` names the backends with
    runs. `changed` is called when the answer for one of them may have changed. Seconds are monotonic."""

    def __init__(
        self,
        missing: Callable[[str], bool],
        ask: Ask,
        *,
        booked: Callable[[], frozenset[str]],
        changed: Callable[[], None],
        patience: float,
        monotonic: Callable[[], float],
        every: float = EVERY_SECONDS,
    ) -> None:
        self._missing, self._ask, self._booked, self._changed = missing, ask, booked, changed
        self._patience, self._monotonic, self._every = patience, monotonic, every
        self._since: dict[str, float] = {}
        self._served: frozenset[str] | None = None
        self._asked_at: float | None = None
        self.asked_for = asyncio.Event()
        """Set when a booked backend is missing."""
        self._asking = False

    def gone_in(self, name: str) -> float | None:
        """Seconds until the runs on that backend move, 0: now; None: it serves. "" is no backend."""
        if not name or not self._missing(name):
            self._since.pop(name, None)
            return None
        now = self._monotonic()
        since = self._since.setdefault(name, now)
        self._asking = True
        self.asked_for.set()
        fresh = self._asked_at is not None and self._served is not None and now - self._asked_at < 3 * self._every
        if fresh and self._served is not None and name in self._served:
            return None
        patience = self._patience if fresh else UNHEARD_FACTOR * self._patience
        return max(0.0, since + patience - now)

    async def reconcile_once(self) -> periodic.RequeueAfter:
        """Ask the router while a booked backend is missing, not more often than each `every` seconds."""
        self._asking = self._asking and any(map(self._missing, self._booked()))
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
        try:
            served = await self._ask()
        except (errors.JervisError, TimeoutError, pydantic.ValidationError) as error:
            served = None
            log.info("router does not report which backends it serves", reason=str(error) or "no answer in time")
        known, self._served, self._asked_at = self._served, served, self._monotonic()
        if served != known:
            self._changed()
