"""The scheduler alone: what one enqueue and one dispatch cost beside a long queue."""

from __future__ import annotations

import time

from router.effects import Dispatch
from router.priority import Level
from router.queue import QueueBounds
from router.scheduler import Backend, Scheduler, SlotRequest


def measure(waiting: int, *, samples: int = 5000) -> dict[str, float]:
    """Microseconds of CPU for (offer + release) with `waiting` requests in line, spread over all levels."""
    model = "m:latest"
    plan = Scheduler(bounds=QueueBounds(count=waiting + samples + 1, per_client=waiting + samples + 1))
    plan.reconfigured([Backend("b", models=frozenset({model}))], 0.0)
    plan.offered(SlotRequest(0, model, Level.P3), 0.0)
    for number in range(1, waiting + 1):
        plan.offered(_request(number, model), 0.0)
    running, times = 0, []
    for number in range(waiting + 1, waiting + samples + 1):
        request = _request(number, model)
        begun = time.thread_time_ns()
        plan.offered(request, 0.0)
        effects = plan.released(running, 0.0)
        times.append((time.thread_time_ns() - begun) / 1e3)
        (granted,) = [effect for effect in effects if isinstance(effect, Dispatch)]
        running = granted.request.id
    times.sort()
    return {
        "waiting": waiting,
        "p50_us": round(times[len(times) // 2], 2),
        "p99_us": round(times[int(len(times) * 0.99)], 2),
    }


def _request(number: int, model: str) -> SlotRequest:
    return SlotRequest(number, model, Level(number % len(Level)), client=f"client-{number % 50}")
