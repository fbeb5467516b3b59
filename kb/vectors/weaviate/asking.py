"""Questions about single keys that are asked at the same time travel together.

Who comes alone asks at once. While requests are under way, what is asked about the same place gathers, and the next one
asks for as many keys as a request may name. When a request fails, all of its callers hear why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Place = TypeVar("_Place")
_Answer = TypeVar("_Answer")

_PARALLEL = 2


@dataclass
class _Line(Generic[_Answer]):
    waiting: dict[str, list[asyncio.Future[_Answer]]] = field(default_factory=dict)
    asking: set[asyncio.Task[Mapping[str, _Answer]]] = field(default_factory=set)


class Asking(Generic[_Place, _Answer]):
    """`ask(place, keys)` answers every one of the keys. At most `most` keys travel together, two requests at once."""

    def __init__(self, ask: Callable[[_Place, Sequence[str]], Awaitable[Mapping[str, _Answer]]], *, most: int) -> None:
        self._ask = ask
        self._most = most
        self._lines: dict[_Place, _Line[_Answer]] = {}

    async def about(self, place: _Place, key: str) -> _Answer:
        """The answer for one key. Raises what `ask` raises."""
        line = self._lines.setdefault(place, _Line())
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        line.waiting.setdefault(key, []).append(answer)
        self._pump(place, line)
        return await answer

    def _pump(self, place: _Place, line: _Line[_Answer]) -> None:
        while line.waiting and len(line.asking) < _PARALLEL:
            keys = list(line.waiting)[: self._most]
            asked = {key: line.waiting.pop(key) for key in keys}
            task = asyncio.get_running_loop().create_task(self._go(place, keys))
            line.asking.add(task)

            def answered(
                task: asyncio.Task[Mapping[str, _Answer]],
                asked: Mapping[str, list[asyncio.Future[_Answer]]] = asked,
            ) -> None:
                line.asking.discard(task)
                _tell(asked, task)
                self._pump(place, line)

            task.add_done_callback(answered)
        if not line.waiting and not line.asking:
            self._lines.pop(place, None)

    async def _go(self, place: _Place, keys: Sequence[str]) -> Mapping[str, _Answer]:
        return await self._ask(place, keys)


def _tell(asked: Mapping[str, list[asyncio.Future[_Answer]]], task: asyncio.Task[Mapping[str, _Answer]]) -> None:
    error = None if task.cancelled() else task.exception()
    for key, answers in asked.items():
        for answer in answers:
            if answer.done():
                pass  # cancelled
            elif task.cancelled():
                answer.cancel()
            elif error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(task.result()[key])
