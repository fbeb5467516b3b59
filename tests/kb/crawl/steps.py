"""Lines of Python that are run: a measure of work that does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass
class Counted:
    """`lines` so far."""

    lines: int = 0


@contextmanager
def counted() -> Iterator[Counted]:
    """What the calling thread runs meanwhile; other threads have traces of their own."""
    count = Counted()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        count.lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)
