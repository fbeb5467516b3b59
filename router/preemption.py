"""Which requests are preempted when a P0 request finds every slot taken, or an orchestrator reserves the GPU.

A request is preempted twice at most, and not after its answer has begun, unless the GpuBackend says so for P3. Where
models share the slots of a backend the victim may be a request for another model. Where as many models are in use as
may be, one of them has to go: all of its requests are preempted, and only if all of them may be. Among the possible
ones the least urgent is chosen, then the one that began last, because it loses least.

Source: the design's router page, "Preemption".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crds.gpubackend import Preemption
from router.effects import Cancel, Effect
from router.host import Run
from router.priority import Level

# After so many times a request is left alone.
IMMUNE = 2
_BACKGROUND = frozenset({Level.AUTO, Level.P3})


def possible(run: Run) -> bool:
    """May this one be preempted?"""
    request = run.request
    if run.victim or not request.metered or request.level not in _BACKGROUND:
        return False
    if run.began:
        return request.level is Level.P3 and run.host.backend.preemption is Preemption.AFTER_FIRST_BYTE
    return request.preempted < IMMUNE and run.host.backend.preemption is not Preemption.NEVER


def leaving(group: Sequence[Run]) -> bool:
    """Is all of a group being preempted already?"""
    return all(run.victim for run in group)


def choose(groups: Iterable[Sequence[Run]]) -> Sequence[Run]:
    """The group to be preempted (see `Host.obstacles`); empty if there is none: then the P0 takes the next free slot.
    One whose answer has begun only if there is no other."""
    able = [group for group in groups if clears(group)]
    return able[0] if len(able) == 1 else max(able, key=_gain, default=())


def clears(group: Sequence[Run]) -> bool:
    """Can all of it go, and is some of it not on its way already?"""
    more = False
    for run in group:
        if not run.victim:
            if not possible(run):
                return False
            more = True
    return more


def _gain(group: Sequence[Run]) -> tuple[int, bool, Level, float]:
    """The more, the less is lost."""
    began = any(run.began for run in group)
    return -len(group), not began, min(run.request.level for run in group), min(run.started for run in group)


def cancel(runs: Iterable[Run]) -> list[Effect]:
    """Tell them to give way; it is `possible`, or was done already."""
    effects: list[Effect] = []
    for run in runs:
        if not run.victim:
            run.victim = True
            effects.append(Cancel(run.request, run.host.backend.name, run.began))
    return effects
