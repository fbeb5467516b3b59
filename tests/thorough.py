"""How long tests look whose examples or cases are costly: at a part, and at all with HYPOTHESIS_PROFILE=thorough.

    @settings(max_examples=thorough.examples(400), deadline=None)
    for point in thorough.part(points):
    for deadly in thorough.part(calls, thorough.KILLS):

A test or a file with the mark `thorough.only` runs in `make test-thorough` alone: others show the same, in less.

Without a number a property test has 25 examples, or 100 (tests/conftest.py); few have a plain one. `make test-thorough`
runs every example and every case.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

_THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"

only = pytest.mark.skipif(not _THOROUGH, reason="make test-thorough shows more of what other tests show")


def whole() -> bool:
    """Whether this run looks at everything, such as at what takes half an hour."""
    return _THOROUGH


def examples(every: int) -> int:
    """How many of `every` examples this run draws."""
    return every if _THOROUGH else every // 4


def part(cases: Sequence[T], step: int = 3) -> list[T]:
    """Which of these cases this run has: the first, one of each `step` after it, and the last; or all. The part is
    the same in each run."""
    return list(cases) if _THOROUGH else [*cases[:-1:step], *cases[-1:]]


KILLS = 9
"""The step of cases each of which kills a process, starts another one and compares what is left."""
