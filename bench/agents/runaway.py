"""Models that repeat themselves without end: how often one call is carried out, and how many calls the loop makes.

A script goes through a circle of calls again and again, in turns of one or more calls; what the tools give is the same
each time, another text each time, or a failure. The reference is the loop with no bound but its model calls.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

from bench.agents.report import Report
from orchestrator_job import errors
from orchestrator_job.model import repetition

MODEL_CALLS = 30
"""The most that an agent has (Coding)."""
REPEATS = 3


@dataclass(frozen=True)
class Script:
    """`circle` different calls, `width` of them in a turn. `gives`: same, other or failed; `texts`: only the text of
    the arguments differs, by blanks."""

    circle: int
    width: int
    gives: str


def script(seed: int) -> Script:
    """The script of this seed."""
    chance = random.Random(f"runaway {seed}")
    return Script(chance.randint(1, 16), chance.randint(1, 4), chance.choice(("same", "other", "failed")))


def watched(one: Script) -> tuple[Counter[int], int]:
    """How often each call was asked for, the refused one included, and the turns that were begun."""
    watch, asked, number = repetition.Watch(), Counter[int](), 0
    for turn in range(1, MODEL_CALLS + 1):
        try:
            for _ in range(one.width):
                call = number % one.circle
                asked[call] += 1
                watch.call("run_command", {"command": f"check {call}"})
                text = f"{call}" if one.gives == "same" else f"{call} at {number}"
                watch.found(text, failed=one.gives == "failed")
                number += 1
        except errors.Stuck:
            return asked, turn
    return asked, MODEL_CALLS


def unwatched(one: Script) -> Counter[int]:
    """How often each call is asked for until the model calls are used up."""
    return Counter(number % one.circle for number in range(MODEL_CALLS * one.width))


async def run(runs: int, seed: int) -> Report:
    """Scripts of these seeds."""
    most, turns, without = 0, 0, 0
    worst: dict[str, Any] = {}
    for number in range(runs):
        one = script(seed + number)
        asked, took = watched(one)
        if asked.most_common(1)[0][1] > most:
            most, worst = asked.most_common(1)[0][1], {"circle": one.circle, "width": one.width, "gives": one.gives}
        turns = max(turns, took)
        without = max(without, unwatched(one).most_common(1)[0][1])
        await asyncio.sleep(0)
    print(f"{runs} scripts", file=sys.stderr, flush=True)
    report = Report(
        {
            "scripts": runs,
            "sameCallMost": most,
            "worst": worst,
            "turnsMost": turns,
            "withoutDetectionSameCallMost": without,
        }
    )
    report.checks["the same call"] = (most, REPEATS)
    return report
