"""Waiting for something that happens outside: asked again and again, and a failure says what was seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(what: str, look: Callable[[], T], seconds: float = 60, pause: float = 0.25) -> T:
    """The first truthy answer of `look`. Fails after `seconds`, naming `what` and the last answer."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s; last seen: {seen!r}"
        time.sleep(pause)
