"""Objects of callers that write at the same time travel together.

Who comes alone is sent at once. While requests are under way, what comes in for the same place gathers, and the next
one takes as much of it as a request may hold. A caller hears of the errors of its own objects alone; when a whole
request fails, all of its callers hear why.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Place = TypeVar("_Place")
_Object = TypeVar("_Object")

_PARALLEL = 2


@dataclass(eq=False)
class _Parcel(Generic[_Object]):
    """Objects of one caller, which waits for `done`: the message of the first of them that was refused, or None."""

    objects: Sequence[_Object]
    done: asyncio.Future[str | None]


@dataclass
class _Line(Generic[_Object]):
    waiting: deque[_Parcel[_Object]] = field(default_factory=deque)
    sending: set[asyncio.Task[Mapping[int, str]]] = field(default_factory=set)


class Gathering(Generic[_Place, _Object]):
    """`send(place, objects)` stores objects and answers the messages of those refused, by their index.

    At most `most` objects travel together, unless one caller has more, and at most two requests per place at once.
    """

    def __init__(self, send: Callable[[_Place, Sequence[_Object]], Awaitable[Mapping[int, str]]], *, most: int) -> None:
        self._send = send
        self._most = most
        self._lines: dict[_Place, _Line[_Object]] = {}

    async def store(self, place: _Place, objects: Sequence[_Object]) -> str | None:
        """Wait until all are stored; the message of the first that was refused, or None. Raises what `send` raises."""
        if not objects:
            return None
        line = self._lines.setdefault(place, _Line())
        parcel = _Parcel(objects, asyncio.get_running_loop().create_future())
        line.waiting.append(parcel)
        self._pump(place, line)
        try:
            return await parcel.done
        finally:
            # A caller that was cancelled must not have its objects written later, when they may have been deleted.
            if parcel in line.waiting:
                line.waiting.remove(parcel)

    def _pump(self, place: _Place, line: _Line[_Object]) -> None:
        while line.waiting and len(line.sending) < _PARALLEL:
            parcels = self._take(line)
            task = asyncio.get_running_loop().create_task(self._go(place, parcels))
            line.sending.add(task)

            def sent(task: asyncio.Task[Mapping[int, str]], parcels: list[_Parcel[_Object]] = parcels) -> None:
                line.sending.discard(task)
                _tell(parcels, task)
                self._pump(place, line)

            task.add_done_callback(sent)
        if not line.waiting and not line.sending:
            self._lines.pop(place, None)

    def _take(self, line: _Line[_Object]) -> list[_Parcel[_Object]]:
        parcels = [line.waiting.popleft()]
        size = len(parcels[0].objects)
        while line.waiting and size + len(line.waiting[0].objects) <= self._most:
            parcels.append(line.waiting.popleft())
            size += len(parcels[-1].objects)
        return parcels

    async def _go(self, place: _Place, parcels: Sequence[_Parcel[_Object]]) -> Mapping[int, str]:
        return await self._send(place, [one for parcel in parcels for one in parcel.objects])


def _tell(parcels: Sequence[_Parcel[_Object]], task: asyncio.Task[Mapping[int, str]]) -> None:
    """Give each caller the outcome of its own objects."""
    error = None if task.cancelled() else task.exception()
    start = 0
    for parcel in parcels:
        end = start + len(parcel.objects)
        if parcel.done.done():
            pass  # cancelled
        elif task.cancelled():
            parcel.done.cancel()
        elif error is not None:
            parcel.done.set_exception(error)
        else:
            refused = [at for at in sorted(task.result()) if start <= at < end]
            parcel.done.set_result(task.result()[refused[0]] if refused else None)
        start = end
