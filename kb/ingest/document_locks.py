"""Turns: one owner at a time per key, any number of keys at once. The port, and its implementation for one process.

A key is a document's id, or the name of a duty that one process has at a time. Several writing processes take turns
through MongoDB (`kb.ingest.mongo_locks`); there a turn has a fence, a number that grows with each turn of its key, and
it can be lost: an owner that was cut off for too long must not go on. `tests/kb/ingest/locks_contract.py` is the port's
meaning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass
class Turn:
    """What the owner of a key holds. `fence` is 0 where only one process can own the key.

    `taken` is the fence of the latest turn that was taken over from an owner that had not given it back (0: none): that
    one may be frozen in the middle of a write (decision 0078).
    """

    fence: int = 0
    taken: int = 0

    def check(self) -> None:
        """Raises `kb.errors.Outrun` when another process may own the key by now; to be called before each write."""


class Port(Protocol):
    """Raises `kb.errors.Away` when the owners cannot be asked."""

    def take(self, key: str) -> AbstractAsyncContextManager[Turn]:
        """Wait for the turn of `key` and hold it."""
        ...

    def attempt(self, key: str) -> AbstractAsyncContextManager[Turn | None]:
        """Hold the turn of `key`, or None when another owner holds it now."""
        ...

    def taken(self, key: str) -> bool:
        """Whether this process holds or waits for `key`."""
        ...

    async def owned(self, keys: Collection[str]) -> set[str]:
        """Those of the keys that any process holds now, or seems to."""
        ...


@dataclass
class _Key:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    interested: int = 0


class Turns:
    """Implements `Port` within one event loop; a key that is not asked for takes no memory."""

    def __init__(self) -> None:
        self._keys: dict[str, _Key] = {}

    @asynccontextmanager
    async def take(self, key: str) -> AsyncIterator[Turn]:
        one = self._keys.setdefault(key, _Key())
        one.interested += 1
        try:
            async with one.lock:
                yield Turn()
        finally:
            one.interested -= 1
            if one.interested == 0:
                del self._keys[key]

    @asynccontextmanager
    async def attempt(self, key: str) -> AsyncIterator[Turn | None]:
        if key in self._keys:
            yield None
            return
        async with self.take(key) as turn:
            yield turn

    def taken(self, key: str) -> bool:
        return key in self._keys

    async def owned(self, keys: Collection[str]) -> set[str]:
        return {key for key in keys if key in self._keys}
