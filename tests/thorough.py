"""How long property tests look: a quarter of their examples by default, all of them with HYPOTHESIS_PROFILE=thorough.

    @settings(max_examples=thorough.examples(400), deadline=None)

For tests whose examples are costly; the others state their number plainly. `make test-thorough` runs all of them.
"""

from __future__ import annotations

import os

_THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def examples(every: int) -> int:
    """How many of `every` examples this run draws."""
    return every if _THOROUGH else every // 4
