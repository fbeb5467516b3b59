"""One router decides, the others stand by: a Lease, renewed in a thread of its own (`kube.lease`).

Two schedulers would book each slot twice. So a router serves only while it holds the Lease; a standby watches its
backends all the same and can serve at once. Requests that run when a Lease is lost run on; nothing new is dispatched,
and the router competes again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import structlog

from crds import errors
from kube import lease

_log = structlog.get_logger("router.ha")

TERMS = lease.Terms(duration=3.0, renew_every=0.5, margin=0.5)
_HANDOVER = 30.0
"""Seconds that one that leaves looks for the next: ten times as long as a Lease lasts."""
"""A holder that died is succeeded after at most `duration` + 2 * `renew_every`; `margin` allows for the time that a
step down takes."""


def identity(name: str, address: str) -> str:
    """What a router writes into the Lease; `address` is host:port, where it is reached by other routers, or empty."""
    return f"{name}@{address}"


def address(holder: str) -> str:
    """The address in a holder's identity, empty when it gave none."""
    return holder.rpartition("@")[2] if "@" in holder else ""


class Candidate:
    """`holder` reads whose the Lease is, "" when it is free; it raises `crds.errors.JervisError`. `handover`: seconds
    for a successor to appear; `now`: monotonic seconds."""

    def __init__(
        self,
        store: lease.Store,
        me: str,
        *,
        holder: Callable[[], Awaitable[str]],
        handover: float = _HANDOVER,
        terms: lease.Terms = TERMS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._me, self._holder, self._handover, self._every = me, holder, handover, terms.renew_every
        self._now = now
        self._listeners: list[Callable[[bool], object]] = []
        self._loop, self._turned, self._ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._lease = lease.Lease(
            store,
            me,
            terms,
            monotonic=now,
            lost=lambda _: self._set(self._turned),
            acquired=lambda: self._set(self._turned),
            ended=lambda: self._set(self._ended),
        )
        self._told = False
        self._search: asyncio.Task[str] | None = None

    def listen(self, listener: Callable[[bool], object]) -> None:
        """Call `listener` on the event loop whenever `active` turned."""
        self._listeners.append(listener)

    @property
    def active(self) -> bool:
        """Holds the Lease at this moment; to be asked on the event loop. The Lease is won in another thread. Another
        router may read it and hand its requests over before the loop has a turn, so the listeners are called first: a
        scheduler that knows no backends yet would refuse them."""
        if not self._told and self._lease.leading:
            self._tell()
        return self._told and self._lease.leading

    def check(self) -> None:
        """Raise `kube.lease.Fenced` unless this process holds the Lease at this moment."""
        self._lease.check()

    @property
    def epoch(self) -> int:
        """leaseTransitions of the Lease while it is held; 0 otherwise."""
        return self._lease.epoch

    def heed(self, epoch: int) -> None:
        """That epoch was seen on an object, see `kube.lease.Lease.heed`."""
        self._lease.heed(epoch)

    async def run(self) -> None:
        """Compete, for ever."""
        self._lease.start()
        try:
            while True:
                self._turned.clear()
                self._tell()
                # The holder's time runs out by itself, also while its thread waits for the apiserver. And it comes back
                # by itself when that renewal was sent in time and answered late: the Lease was never lost then.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._lease.left() if self._told else self._every):
                        await self._turned.wait()
        finally:
            self._lease.release(0)

    async def leave(self) -> None:
        """The process goes: give the Lease back, so that no standby has to wait for its end."""
        self._lease.release(0)
        self._tell()
        if self._lease.alive():
            await self._ended.wait()

    async def successor(self) -> str:
        """Address (host:port) of the router that decides now, for requests that waited here; empty when that is this
        one, or none has come in time, or it cannot be reached by others. Callers at the same time share one search."""
        if self._search is None or self._search.done():
            self._search = asyncio.get_running_loop().create_task(self._find())
        return await asyncio.shield(self._search)

    async def _find(self) -> str:
        begun = self._now()
        while not self.active and self._now() - begun < self._handover:
            try:
                holder = await self._holder()
            except errors.JervisError as error:
                _log.warning("successor not found yet", error=error.message)
            else:
                if holder not in ("", self._me):
                    return address(holder)
            await asyncio.sleep(self._every)
        return ""

    def _set(self, event: asyncio.Event) -> None:
        """From the Lease's thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended: nothing is left that waits
            self._loop.call_soon_threadsafe(event.set)

    def _tell(self) -> None:
        active = self._lease.leading
        if active != self._told:
            self._told = active
            _log.info("active" if active else "standing by", me=self._me)
            for listener in self._listeners:
                listener(active)
