"""Who gives way when a P0 request finds every slot taken, or an orchestrator reserves the GPU.

Nobody is a victim twice too often, and nobody whose answer has begun, unless the GpuBackend says so for P3. Among the
possible ones: the least urgent, then the one that began last, because it loses least.

Source: the design's router page, "Preemption".
"""

from __future__ import annotations

from collections.abc import Iterable

from crds.gpubackend import Preemption
from router.host import Run
from router.priority import Level

# After so many times a request is left alone.
IMMUNE = 2
_BACKGROUND = frozenset({Level.AUTO, Level.P3})


def possible(run: Run) -> bool:
    """May this one be told to give way?"""
    request = run.request
    if run.victim or not request.metered or request.level not in _BACKGROUND:
        return False
    if run.began:
        return request.level is Level.P3 and run.host.backend.preemption is Preemption.AFTER_FIRST_BYTE
    return request.preempted < IMMUNE and run.host.backend.preemption is not Preemption.NEVER


def choose(runs: Iterable[Run]) -> Run | None:
    """The victim, or None: then the newcomer takes the next free slot. One whose answer has begun only if no other is
    there."""
    candidates = [run for run in runs if possible(run)]
    return max(candidates, key=lambda run: (not run.began, run.request.level, run.started), default=None)
