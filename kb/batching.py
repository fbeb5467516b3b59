"""The micro-batcher: items of callers that come at the same time travel in one request.

An item that comes alone is sent at once. While the requests of its lane are under way, items gather, and the next
request takes as many of one key as it may hold. Used for embeddings (`kb.vectors.embedding`) and for what is written to
and asked of Weaviate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

_Key = TypeVar("_Key", bound=Any)
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


@dataclass
class _Lane(Generic[_Key, _Item, _Answer]):
    waiting: dict[_Key, deque[tuple[_Item, asyncio.Future[_Answer]]]] = field(default_factory=dict)
    running: set[asyncio.Task[Sequence[_Answer]]] = field(default_factory=set)


class Batcher(Generic[_Key, _Item, _Answer]):
    """`send(key, items)` gives one answer per item, in order. At most `most` items of one key travel together.

    A lane has at most `parallel` requests under way, and its smallest key goes first; `lane` gives the lane of a key,
    each key has its own without it. Keys whose lane is None never wait.
    """

    def __init__(
        self,
        send: Callable[[_Key, Sequence[_Item]], Awaitable[Sequence[_Answer]]],
        *,
        most: int,
        parallel: int = 2,
        lane: Callable[[_Key], Hashable] = lambda key: key,
    ) -> None:
        self._send = send
        self._most = most
        self._parallel = parallel
        self._lane = lane
        self._lanes: dict[Hashable, _Lane[_Key, _Item, _Answer]] = {}

    async def ask(self, key: _Key, items: Sequence[_Item]) -> list[_Answer]:
        """The answers for the items, in order. Raises what `send` raises; a failed request fails all of its callers.

        What a cancelled caller still had waiting is never sent.
        """
        if not items:
            return []
        loop = asyncio.get_running_loop()
        asked = [(item, loop.create_future()) for item in items]
        name = self._lane(key)
        lane = self._lanes.setdefault(name, _Lane())
        lane.waiting.setdefault(key, deque()).extend(asked)
        self._pump(name, lane)
        try:
            return [await answer for _, answer in asked]
        finally:
            for _, answer in asked:
                if answer.done() and not answer.cancelled():
                    answer.exception()
                else:
                    answer.cancel()

    def _pump(self, name: Hashable, lane: _Lane[_Key, _Item, _Answer]) -> None:
        """Send what may be sent now."""
        for key in sorted(lane.waiting):
            while (name is None or len(lane.running) < self._parallel) and (batch := self._take(lane, key)):
                task = asyncio.get_running_loop().create_task(self._request(key, [item for item, _ in batch]))
                lane.running.add(task)

                def ended(task: asyncio.Task[Sequence[_Answer]], batch: list[Any] = batch) -> None:
                    lane.running.discard(task)
                    _answer([answer for _, answer in batch], task)
                    self._pump(name, lane)

                task.add_done_callback(ended)
        if not lane.waiting and not lane.running:
            self._lanes.pop(name, None)

    def _take(self, lane: _Lane[_Key, _Item, _Answer], key: _Key) -> list[tuple[_Item, asyncio.Future[_Answer]]]:
        waiting = lane.waiting.get(key, ())
        batch: list[tuple[_Item, asyncio.Future[_Answer]]] = []
        while waiting and len(batch) < self._most:
            item, answer = waiting.popleft()
            if not answer.done():
                batch.append((item, answer))
        if not waiting:
            lane.waiting.pop(key, None)
        return batch

    async def _request(self, key: _Key, items: Sequence[_Item]) -> Sequence[_Answer]:
        return await self._send(key, items)


def _answer(answers: Sequence[asyncio.Future[_Answer]], task: asyncio.Task[Sequence[_Answer]]) -> None:
    """Give each item the outcome of its request."""
    error = None if task.cancelled() else task.exception()
    for at, answer in enumerate(answers):
        if answer.done():
            continue  # its caller was cancelled
        if task.cancelled():
            answer.cancel()
        elif error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(task.result()[at])
