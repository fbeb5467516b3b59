"""From a GpuBackend's specification to the scheduler's `Backend`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from crds import gpubackend
from crds.values import quantity_bytes
from router import models, scheduler
from router.reservation import Durations
from router.residency import LoadableSet, Member

# Seconds that a model of a set stays in memory beyond the longest reservation.
_GRACE = 300
_UNBOUNDED = 1 << 30
_BACKGROUND = 3


def sets(spec: gpubackend.Spec, listed: frozenset[str] | None) -> tuple[LoadableSet, ...]:
    """The model sets with what the server has of them. `listed` are its models, normalised, None while unknown."""
    named = {models.normalise(m.name) for one in spec.model_sets for m in one.models if not models.is_pattern(m.name)}
    built = (LoadableSet(one.name, tuple(_members(one, named, listed))) for one in spec.model_sets)
    return tuple(one for one in built if one.members)


def view(
    name: str,
    spec: gpubackend.Spec,
    *,
    listed: frozenset[str] | None,
    num_parallel: int,
    available: bool,
    models: frozenset[str] | None,
    loaded: frozenset[str],
    tripped: frozenset[str] = frozenset(),
    cautious: frozenset[str] = frozenset(),
) -> scheduler.Backend:
    """The scheduler's view of a backend."""
    gpu = spec.kind is gpubackend.Kind.GPU
    openai = spec.engine is gpubackend.Engine.OPENAI
    return scheduler.Backend(
        name=name,
        gpu=gpu,
        openai=openai,
        num_parallel=num_parallel,
        available=available,
        models=models,
        loaded=loaded,
        expected=not spec.drain,
        tripped=tripped,
        cautious=cautious,
        capabilities=frozenset(spec.capabilities),
        pool=spec.pool,
        weight=spec.weight,
        max_loaded=_UNBOUNDED if openai else spec.max_loaded_models,
        max_in_flight=spec.max_in_flight or (_UNBOUNDED if gpu else spec.num_parallel),
        vram=None if spec.vram is None else quantity_bytes(spec.vram),
        sets=() if openai else sets(spec, listed),
        durations=Durations(longest=spec.reservation.max_seconds, idle=spec.reservation.idle_release_seconds),
        keep_alive=spec.reservation.max_seconds + _GRACE,
        preemption=spec.preemption,
    )


def _members(one: gpubackend.ModelSet, named: set[str], listed: frozenset[str] | None) -> Iterator[Member]:
    """A pattern stands for the models that the server lists and no entry names exactly."""
    seen: set[str] = set()
    for entry in one.models:
        if models.is_pattern(entry.name):
            fits = models.Pattern(entry.name).fits
            found = sorted(model for model in listed or () if fits(model) and model not in named)
        else:
            exact = models.normalise(entry.name)
            found = [exact] if listed is None or exact in listed else []
        for model in found:
            if model not in seen:
                seen.add(model)
                yield Member(
                    name=model,
                    vram=None if entry.vram is None else quantity_bytes(entry.vram),
                    num_ctx=entry.num_ctx,
                    urgency=_BACKGROUND if entry.priority is None else entry.priority,
                )
