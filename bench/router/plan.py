"""The scheduler alone: what one enqueue and one dispatch cost beside a long queue."""

from __future__ import annotations

import time

from router.priority import Level
from router.scheduler import Backend, Request, Scheduler


def measure(waiting: int, *, samples: int = 5000) -> dict[str, float]:
    """Microseconds of (offer + release) with `waiting` requests in line, spread over all levels."""
    model = "m:latest"
    plan = Scheduler([Backend("b", models=frozenset({model}))], max_waiting=waiting + samples + 1)
    plan.offered(Request(0, model, Level.P3))
    for number in range(1, waiting + 1):
        plan.offered(Request(number, model, Level(number % len(Level))))
    running, times = 0, []
    for number in range(waiting + 1, waiting + samples + 1):
        begun = time.perf_counter()
        plan.offered(Request(number, model, Level(number % len(Level))))
        (granted,) = plan.released(running)
        times.append((time.perf_counter() - begun) * 1e6)
        running = granted.request.id
    times.sort()
    return {
        "waiting": waiting,
        "p50_us": round(times[len(times) // 2], 2),
        "p99_us": round(times[int(len(times) * 0.99)], 2),
    }
