"""The database of one replica: its process dies, or stops for a while, at a write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

_WRITES = ("insert", "update", "replace", "delete", "find_one_and", "bulk_write")


class KilledError(BaseException):
    """The process ended here; nothing in it can catch that."""


class Database:
    """`real` is one of `mongo.client`. `meanwhile` is called before each write."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self._kill: int | None = None
        self._freeze: int | None = None
        self.frozen, self.thawed = asyncio.Event(), asyncio.Event()

    def arm(self, kill: int | None, freeze: int | None) -> None:
        """The process dies at write `kill`, or stops at write `freeze` until it is thawed."""
        self._kill, self._freeze = kill, freeze
        self.frozen, self.thawed = asyncio.Event(), asyncio.Event()

    def __getitem__(self, name: str) -> Any:
        return _Collection(self, self._real[name])

    async def write(self) -> None:
        """Before each write."""
        if self.meanwhile is not None:
            await self.meanwhile()
        if self._kill is not None:
            self._kill -= 1
            if self._kill < 0:
                raise KilledError
        if self._freeze is not None:
            self._freeze -= 1
            if self._freeze == 0:
                self.frozen.set()
                await self.thawed.wait()


class _Collection:
    def __init__(self, owner: Database, real: Any) -> None:
        self._owner, self._real = owner, real

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not name.startswith(_WRITES):
            return found

        async def write(*arguments: Any, **options: Any) -> Any:
            await self._owner.write()
            return await found(*arguments, **options)

        return write
