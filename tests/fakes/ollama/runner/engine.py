"""The pool's shell: asyncio timers for its wake-ups, futures for its waiting requests."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.fakes.ollama import catalogue
from tests.fakes.ollama.runner import pool

_log = logging.getLogger("fake.ollama.runner")


class Busy(Exception):  # noqa: N818 -- an ordinary answer of a full server
    """The line is full; Ollama's own words."""

    def __init__(self) -> None:
        super().__init__("server busy, please try again.  maximum pending requests exceeded")


class Gone(Exception):  # noqa: N818 -- an ordinary answer of a server whose runner has ended
    """The runner ended while the request waited for it; Ollama's own words."""

    def __init__(self) -> None:
        super().__init__("llama runner process no longer running: -1 ")


class NotLoaded(Exception):  # noqa: N818 -- an ordinary answer of a server whose runner has ended
    """The runner ended while it loaded the model for the request."""


@dataclass
class Slot:
    """What a request holds of a runner. `crashed`: the runner has ended under it."""

    crashed: bool = False


class Engine:
    """Hands out slots. The loop's steady clock is the pool's time."""

    def __init__(self, limits: pool.Limits, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool.Pool(limits)
        self._loop = loop
        self._ids = itertools.count(1)
        self._futures: dict[int, asyncio.Future[None]] = {}
        self._slots: dict[int, Slot] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.counters: Counter[str] = Counter()

    @asynccontextmanager
    async def slot(
        self,
        model: catalogue.Model,
        num_ctx: int,
        keep_alive: float | None,
        *,
        load_only: bool = False,
        fails: bool = False,
    ) -> AsyncIterator[Slot]:
        """Wait for the model and a slot of it, hold it for the block. Raises Busy when the line is full, Gone when the
        runner ends meanwhile, NotLoaded when it `fails` to load the model."""
        ticket = pool.Ticket(next(self._ids), model, num_ctx, keep_alive, load_only, fails)
        future: asyncio.Future[None] = self._loop.create_future()
        self._futures[ticket.id] = future
        try:
            self._apply(self._pool.submit(ticket, self._loop.time()))
            await future
            held = self._slots[ticket.id] = Slot()
            yield held
        finally:
            self._futures.pop(ticket.id, None)
            self._slots.pop(ticket.id, None)
            self._apply(self._pool.leave(ticket.id, self._loop.time()))

    def expel(self, key: str) -> None:
        """Unload the model as soon as nobody uses it."""
        self._apply(self._pool.expel(key, self._loop.time()))

    def crash(self, key: str) -> None:
        """The model's runner ends."""
        self._apply(self._pool.crash(key, self._loop.time()))

    def set_pace(self, load_seconds_per_gib: float | None, unload_seconds: float | None) -> None:
        """Change how long loads and unloads take, from the next one on."""
        limits = self._pool.limits
        if load_seconds_per_gib is not None:
            limits = replace(limits, load_seconds_per_gib=load_seconds_per_gib)
        if unload_seconds is not None:
            limits = replace(limits, unload_seconds=unload_seconds)
        self._pool.limits = limits

    def finish_loads(self) -> None:
        """End the loads under way now, whatever they would have taken."""
        for runner in self._pool.runners.values():
            runner.ready_at = min(runner.ready_at, self._loop.time())
        self._apply(self._pool.tick(self._loop.time()))

    def loaded(self) -> list[dict[str, Any]]:
        """One record per model in memory: {model, num_ctx, size, size_vram, ready, active, waiting, expires_in}.

        `expires_in` is in seconds; infinite for a pinned model.
        """
        now = self._loop.time()
        return [
            {
                "model": runner.model,
                "num_ctx": runner.num_ctx,
                "size": runner.size,
                "size_vram": runner.size_vram,
                "ready": runner.ready,
                "active": len(runner.active),
                "waiting": len(runner.waiting),
                "expires_in": runner.keep_alive if runner.users or not runner.ready else runner.expires_at - now,
            }
            for runner in self._pool.runners.values()
        ]

    def pending(self) -> list[str]:
        """Models that requests in the line wait for, head first."""
        return [ticket.model.name for ticket in self._pool.pending]

    def _apply(self, events: list[pool.Event]) -> None:
        for event in events:
            self.counters[event.what.value] += 1
            if event.what is pool.What.CRASHED and event.ticket in self._slots:
                self._slots[event.ticket].crashed = True
            if event.what not in (pool.What.GRANTED, pool.What.REFUSED):
                _log.info("%s %s", event.what.value, event.model)
            future = self._futures.get(event.ticket) if event.ticket is not None else None
            if future is None or future.done():
                continue
            if event.what is pool.What.GRANTED:
                future.set_result(None)
            elif event.what is pool.What.REFUSED:
                future.set_exception(Busy())
            elif event.what is pool.What.CRASHED:
                future.set_exception(Gone())
            elif event.what is pool.What.FAILED:
                future.set_exception(NotLoaded())
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        moment = self._pool.next_wakeup()
        if moment is not None and math.isfinite(moment):
            self._timer = self._loop.call_at(moment, self._ring)

    def _ring(self) -> None:
        self._timer = None
        # call_at may fire up to a clock tick early; the pool must not be asked twice for the same moment.
        moment = self._pool.next_wakeup()
        self._apply(self._pool.tick(max(self._loop.time(), moment if moment is not None else 0.0)))
