"""A history as a plan: what happens at the source, and what happens to the process, of a seed alone.

Every algorithm gets the same plan, so the source goes through the same states; only which request of a poll an event
falls between differs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

STEPS = 6
FAULTS = ("limit", "away", "broken")
"""429 with a pause, no answer, and an answer that is torn or says 500."""


@dataclass(frozen=True, slots=True)
class Step:
    """One poll by `replica`, with the `before` events before it. `within`: the numbers of the requests before which one
    event falls; `fault`: (number of a request, what it answers). The process dies at write `kill`, or stops at write
    `freeze` until the other replica has polled. `settle`: the operator looks afterwards; `resync`: a person asks for
    it."""

    before: int
    within: tuple[int, ...]
    fault: tuple[int, str] | None
    kill: int | None
    freeze: int | None
    replica: int
    settle: bool
    resync: bool


def steps(seed: int) -> list[Step]:
    """Of one history."""
    dice = random.Random(f"plan {seed}")
    found = []
    for number in range(STEPS):
        end = dice.choice(("", "", "kill", "kill", "freeze"))
        found.append(
            Step(
                before=dice.randint(4, 8) if number == 0 else dice.randint(0, 3),
                within=tuple(sorted(dice.sample(range(30), dice.randint(0, 4)))),
                fault=(dice.randint(0, 14), dice.choice(FAULTS)) if dice.random() < 0.5 else None,
                kill=dice.randint(0, 40) if end == "kill" else None,
                freeze=dice.randint(1, 25) if end == "freeze" else None,
                replica=dice.randint(0, 1),
                settle=dice.random() < 0.5,
                resync=dice.random() < 0.05,
            )
        )
    return found
