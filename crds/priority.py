"""One priority scale for all model requests: P0 (a person waits) to P3 (background).

Sources: seed 000 "Priority Levels" (P0..P3 and the older 100/50), seed 001 (KB lanes, 4 for outcomes); blueprint
section 9 maps them to each other.
"""

from __future__ import annotations

from enum import IntEnum

HEADER = "X-Ollama-Priority"
# `Background`: no person waits, whatever the priority; the request does not count as user activity.
MODE_HEADER = "X-Jervis-Mode"
# `true` on requests of Jervis's own processes, whose hold of a GPU the router bounds (`router.settings.holdSeconds`).
INTERNAL_HEADER = "X-Jervis-Internal"

# Writes of this or a more urgent priority use the knowledge base's fast lane (seed 001 "Dual Semaphore").
URGENT = 2


class Priority(IntEnum):
    """Smaller is more urgent."""

    P0 = 0
    P1 = 1
    P2 = 2
    P3 = 3


# Seconds without a single byte before a caller gives up, by its priority: the time after which the router itself
# refuses a request that waits in its queue, and 330 s for the first byte (a cold load of a large model). A caller that
# gave up sooner would join the queue again at its end.
SILENCE = {
    Priority.P0: 600.0 + 330.0,
    Priority.P1: 900.0 + 330.0,
    Priority.P2: 1800.0 + 330.0,
    Priority.P3: 3600.0 + 330.0,
}

_NAMES = {
    "critical": Priority.P0,
    "coding": Priority.P1,
    "vlm": Priority.P2,
    "background": Priority.P3,
    "100": Priority.P0,
    "50": Priority.P3,
}


def parse(text: str | None) -> Priority | None:
    """Read a priority header: 0..3, P0..P3, a class name, 100 or 50 of the older protocol, 4 and above as P3.

    Returns None for a missing, empty, "auto" or unknown value: the model table then decides, the request is not
    refused.
    """
    word = (text or "").split(",", 1)[0].strip().lower()
    if word in _NAMES:
        return _NAMES[word]
    digits = word.removeprefix("p")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 4:
        return None
    return Priority(min(int(digits), Priority.P3))
