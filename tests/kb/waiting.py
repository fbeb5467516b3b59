"""Waiting for something that another process or task does: bounded, and saying what it waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

_Found = TypeVar("_Found")


async def until(look: Callable[[], Awaitable[_Found]], *, tries: int = 6000, pause: float = 0.05) -> _Found:
    """The first truthy answer of `look`; fails after `tries` falsy ones."""
    for _ in range(tries):
        found = await look()
        if found:
            return found
        await asyncio.sleep(pause)
    raise AssertionError(f"never came true: {look}")


async def done(call: Coroutine[Any, Any, _Found]) -> _Found:
    """The result of a call that must not wait for what the test holds back; fails when it does."""
    task = asyncio.create_task(call)

    async def ended() -> bool:
        return task.done()

    try:
        await until(ended)
    finally:
        task.cancel()
    return await task
