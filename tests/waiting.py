"""Waiting for something that another task, thread or process does: asked again and again, and a failure says what was
waited for and what was seen last."""

from __future__ import annotations

import asyncio
import functools
import inspect
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

PATIENCE = 300.0
"""Seconds. They only bound a test that fails, on however busy a machine."""
T = TypeVar("T")


class Process(Protocol):
    """What is asked of a process, whoever started it."""

    def poll(self) -> int | None: ...


def until(
    look: Callable[[], T],
    what: str = "",
    *,
    good: Callable[[T], bool] = bool,
    patience: float = PATIENCE,
    pause: float = 0.05,
) -> T:
    """The first answer of `look` that is `good`. A failure names `what`, or else shows the source of both functions.

    Between two looks are `pause` seconds, and as many as a look takes: one that starts a program costs a core.
    """
    deadline = (began := time.monotonic()) + patience
    while not good(seen := look()):
        assert time.monotonic() < deadline, _sentence(look, what, good, patience, seen)
        time.sleep(max(pause, time.monotonic() - began))
        began = time.monotonic()
    return seen


@overload
async def eventually(
    look: Callable[[], Awaitable[T]],
    what: str = "",
    *,
    good: Callable[[T], bool] = bool,
    patience: float = PATIENCE,
    pause: float = 0.02,
) -> T: ...


@overload
async def eventually(
    look: Callable[[], T],
    what: str = "",
    *,
    good: Callable[[T], bool] = bool,
    patience: float = PATIENCE,
    pause: float = 0.02,
) -> T: ...


async def eventually(
    look: Callable[[], Any],
    what: str = "",
    *,
    good: Callable[[Any], bool] = bool,
    patience: float = PATIENCE,
    pause: float = 0.02,
) -> Any:
    """The same in a coroutine; `look` may be a coroutine function."""
    deadline = (began := time.monotonic()) + patience
    while not good(seen := await _answer(look)):
        assert time.monotonic() < deadline, _sentence(look, what, good, patience, seen)
        await asyncio.sleep(max(pause, time.monotonic() - began))
        began = time.monotonic()
    return seen


async def done(call: Awaitable[T]) -> T:
    """The result of a call that must not wait for what the test holds back; fails when it does."""
    try:
        async with asyncio.timeout(PATIENCE) as bound:
            return await call
    except TimeoutError as error:
        if not bound.expired():
            raise
        raise AssertionError(f"not done within {PATIENCE:g} s: {call!r}") from error


def served(ask: Callable[[], object], process: Process, log: Path, *unready: type[Exception]) -> None:
    """Return once `ask` is true; until then it may raise what is `unready`. A server that ends, or is silent, fails the
    test with the end of its log."""

    def problem() -> str:
        try:
            if ask():
                return ""
            refusal = "it does not serve"
        except unready as error:
            refusal = repr(error)
        said = log.read_text(errors="replace")[-3000:] if log.exists() else ""
        assert process.poll() is None, f"it ended before it served: {refusal}\n{said}"
        return f"{refusal}\n{said}"

    until(problem, "the server serves", good=lambda left: not left)


async def _answer(look: Callable[[], Any]) -> Any:
    answer = look()
    return await answer if inspect.isawaitable(answer) else answer


def _sentence(look: Callable[..., Any], what: str, good: Callable[..., Any], patience: float, seen: object) -> str:
    sources = [_source(function) for function in (look, good) if function is not bool]
    shown = seen if isinstance(seen, str) and "\n" in seen else repr(seen)
    return f"not within {patience:g} s: {what or ' is '.join(sources)}; seen last: {shown}"


def _source(function: Callable[..., Any]) -> str:
    written = function.func if isinstance(function, functools.partial) else function
    try:
        return textwrap.dedent(inspect.getsource(written)).strip()
    except (OSError, TypeError):  # not written in Python
        return repr(function)
