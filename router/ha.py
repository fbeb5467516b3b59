"""One router decides, the others stand by: a Lease, renewed from here.

Two schedulers would book each slot twice. So a router serves only while it holds the Lease; a standby watches its
backends all the same and can serve at once. Clocks of machines are not compared: a standby takes the Lease when it has
not seen it change for as long as it lasts; the holder stops `margin` seconds before that, counted from the moment when
it began the last renewal that succeeded. Requests that run when a Lease is lost run on; nothing new is dispatched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

import structlog

from router import kube

_log = structlog.get_logger("router.ha")


class Leases(Protocol):
    """`kube.Apiserver`, as far as it matters here. Blocking."""

    def lease(self, name: str) -> kube.Lease | None:
        """As it is."""

    def hold(self, name: str, before: kube.Lease | None, holder: str, seconds: int) -> kube.Lease:
        """Write it."""


class Terms(NamedTuple):
    """Seconds. A holder that died is succeeded after at most `seconds` + 2 * `every`; `margin` allows for the time
    that a step down takes, `handover` for a successor to appear."""

    name: str
    seconds: int = 3
    every: float = 0.5
    margin: float = 0.5
    handover: float = 30.0


class Sight(NamedTuple):
    """What a standby saw of the Lease, and when (by its own clock) that changed last."""

    renewed: str
    since: float


def may_take(lease: kube.Lease | None, me: str, sight: Sight | None, now: float) -> bool:
    """Is the Lease mine, free, or left alone for longer than it lasts?"""
    if lease is None or lease.holder in ("", me):
        return True
    return sight is not None and sight.renewed == lease.renewed and now - sight.since > lease.seconds


def identity(name: str, address: str) -> str:
    """What a router writes into the Lease; `address` is host:port, where it is reached by other routers, or empty."""
    return f"{name}@{address}"


def address(holder: str) -> str:
    """The address in a holder's identity, empty when it gave none."""
    return holder.rpartition("@")[2] if "@" in holder else ""


class Candidate:
    """`changed` hears whenever `active` turned. `now` is monotonic seconds."""

    def __init__(
        self, leases: Leases, terms: Terms, me: str, *, now: Callable[[], float], changed: Callable[[bool], None]
    ) -> None:
        self._leases = leases
        self._terms = terms
        self._me = me
        self._now = now
        self._changed = changed
        self._sight: Sight | None = None
        self._held: kube.Lease | None = None
        self._until = 0.0
        self._told = False
        self._leaving = False
        self._search: asyncio.Task[str] | None = None

    @property
    def active(self) -> bool:
        """Holds the Lease at this moment."""
        return self._now() < self._until

    async def run(self) -> None:
        """Take and renew, for ever."""
        while not self._leaving:
            await self.step()
            await asyncio.sleep(self._terms.every)

    async def step(self) -> None:
        """One look at the Lease. Never longer than the Lease lasts: the holder's time runs meanwhile."""
        begun = self._now()
        renewal = asyncio.create_task(asyncio.to_thread(self._renew, begun))
        while not renewal.done():
            left = max(0.05, self._until - self._now()) if self._told else None
            await asyncio.wait([renewal], timeout=left)
            self._tell()
        try:
            held = renewal.result()
        except (kube.Trouble, kube.Lost) as error:
            _log.warning("lease", name=self._terms.name, error=error.message)
        else:
            if held is not None and not self._leaving:
                self._held = held
                self._until = begun + self._terms.seconds - self._terms.margin
            elif held is None:
                self._until = 0.0
        self._tell()

    async def leave(self) -> None:
        """The process goes: give the Lease back, so that nobody has to wait for its end."""
        self._leaving = True
        held, self._until = self._held if self.active else None, 0.0
        self._tell()
        if held is not None:
            try:
                await asyncio.to_thread(self._leases.hold, self._terms.name, held, "", self._terms.seconds)
            except (kube.Trouble, kube.Lost) as error:
                _log.warning("lease not given back", name=self._terms.name, error=error.message)

    async def successor(self) -> str:
        """Where the router answers that decides now (host:port), for whoever waited here; empty when that is this one,
        or none has come in time, or it cannot be reached by others. All who ask at once share one search."""
        if self._search is None or self._search.done():
            self._search = asyncio.get_running_loop().create_task(self._find())
        return await asyncio.shield(self._search)

    async def _find(self) -> str:
        begun = self._now()
        while not self.active and self._now() - begun < self._terms.handover:
            try:
                lease = await asyncio.to_thread(self._leases.lease, self._terms.name)
            except kube.Trouble as error:
                _log.warning("successor not found yet", name=self._terms.name, error=error.message)
            else:
                if lease is not None and lease.holder not in ("", self._me):
                    return address(lease.holder)
            await asyncio.sleep(self._terms.every)
        return ""

    def _renew(self, begun: float) -> kube.Lease | None:
        """In a thread: the Lease when it is mine now, None when it is somebody else's."""
        lease = self._leases.lease(self._terms.name)
        if not may_take(lease, self._me, self._sight, begun):
            assert lease is not None
            if self._sight is None or self._sight.renewed != lease.renewed:
                self._sight = Sight(lease.renewed, self._now())
            return None
        return self._leases.hold(self._terms.name, lease, self._me, self._terms.seconds)

    def _tell(self) -> None:
        active = self.active
        if active != self._told:
            self._told = active
            _log.info("active" if active else "standing by", lease=self._terms.name, me=self._me)
            self._changed(active)
