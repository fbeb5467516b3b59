"""What GpuBackend objects say of themselves, written on change only: the sets in memory, the reservation, the circuit.

A reservation outlives the router through this status: the next one reads it (`Held`) before it decides anything.
Writes are merge patches of the router's own fields, one at a time, repeated until the apiserver has taken them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from crds import errors, gpubackend
from router.backends import book, records
from router.effects import Held, Load, Unload, WriteStatus

_log = structlog.get_logger("router.statuses")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
# A model comes and goes in seconds: what is written is what has stood for so long.
_CALM = 0.5
_MOST_MODELS = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,255}").fullmatch

Patch = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class Writer:
    """`patch(name, status)` raises JervisError. `wall` is the time of day, `now` the scheduler's clock, `active`
    whether this router decides (a standby writes nothing)."""

    def __init__(
        self,
        backends: book.Book,
        patch: Patch,
        *,
        wall: Callable[[], datetime],
        now: Callable[[], float],
        active: Callable[[], bool],
    ) -> None:
        self._book, self._patch = backends, patch
        self._wall, self._now, self._active = wall, now, active
        self._told: dict[str, dict[str, Any]] = {}
        self._written: dict[str, dict[str, Any]] = {}
        self._something = asyncio.Event()

    def perform(self, effect: Load | Unload | WriteStatus) -> None:
        """The scheduler says what a status should say."""
        if isinstance(effect, WriteStatus):
            reservation = None if effect.held is None else self._holder(effect.held)
            self._told[effect.backend] = {"activeSet": ",".join(effect.sets), "reservation": reservation}
            self._something.set()

    def notice(self) -> None:
        """The book changed."""
        self._something.set()

    async def run(self) -> None:
        """Write, for ever."""
        pause = _FIRST_PAUSE
        while True:
            await self._something.wait()
            await asyncio.sleep(_CALM)
            self._something.clear()
            if await self._write():
                pause = _FIRST_PAUSE
                continue
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            self._something.set()

    async def _write(self) -> bool:
        """Whether everything that should be written was."""
        entries = {entry.name: entry for entry in self._book.entries()}
        for name in self._written.keys() - entries.keys():
            del self._written[name]
            self._told.pop(name, None)
        if not self._active():
            self._written.clear()  # another router writes meanwhile
            self._told.clear()
            return True
        good = True
        for name, entry in entries.items():
            wanted = self._facts(entry) | self._told.get(name, {})
            before = self._written.get(name, {})
            changed = {key: value for key, value in wanted.items() if key not in before or before[key] != value}
            if not changed:
                continue
            try:
                await self._patch(name, changed)
            except errors.JervisError as error:
                _log.warning("status not written", backend=name, error=error.message)
                good = False
            else:
                self._written[name] = before | changed
        return good

    def _facts(self, entry: book.Entry) -> dict[str, Any]:
        if not entry.reachable:
            return {"circuit": entry.circuit.value}
        # A name that the schema refuses would hold up everything else that is to be written.
        loaded = [
            {"name": name, "vram": str(records.size(record, "size_vram"))}
            for record in entry.ps
            if _NAME(name := records.name(record))
        ]
        return {
            "circuit": entry.circuit.value,
            "loadedModels": sorted(loaded, key=lambda one: one["name"])[:_MOST_MODELS],
        }

    def _holder(self, held: Held) -> dict[str, Any]:
        until = self._wall() + timedelta(seconds=held.until - self._now())
        holder = gpubackend.Holder(holder=held.owner, until=until, lease_id=held.lease_id, model_set=held.model_set)
        return holder.wire()


def restored(status: gpubackend.Status, *, wall: datetime, now: float) -> Held | None:
    """The reservation that a status tells of, in the scheduler's time; None when there is none or it is over."""
    holder = status.reservation
    if holder is None or not holder.lease_id:
        return None
    left = (holder.until.astimezone(UTC) - wall.astimezone(UTC)).total_seconds()
    if left <= 0:
        return None
    return Held(holder.holder, holder.lease_id, now + left, holder.model_set)
