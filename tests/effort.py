"""How much processor time a piece of work takes, in a unit that a slow or busy machine has as well.

    with effort.counted() as spent:
        quote.parts(text)
    assert spent.loops < 80

says that the work takes less than 80 times as long as an empty loop of a million rounds does in the same process, about
25 ms. It is for work that must not grow faster than its input; what does, takes thousands. Where the work itself takes
some tens of loops, its growth says more:

    assert effort.growth(lambda size: orders.read("a" * size), 200_000) < 32
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_ROUNDS = 1_000_000
_LEAST_SECONDS = 0.005
"""What is shorter is taken for that: the clock counts in hundredths on some machines."""


@dataclass
class Spent:
    """`loops` is there at the end of the block."""

    loops: float = float("inf")


@contextmanager
def counted() -> Iterator[Spent]:
    """Counts the processor time of this process; the loop runs before and after the block."""
    spent, before = Spent(), _loop()
    began = time.process_time()
    yield spent
    seconds = time.process_time() - began
    spent.loops = seconds / max(before, _loop())


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times as long the work takes for `size` as for an eighth of it: 8 where the time grows with the size, 64
    where it grows with its square."""
    part = _seconds(lambda: work(size // 8))
    return _seconds(lambda: work(size)) / max(part, _LEAST_SECONDS)


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _loop() -> float:
    began = time.process_time()
    for _ in range(_ROUNDS):
        pass
    return time.process_time() - began
