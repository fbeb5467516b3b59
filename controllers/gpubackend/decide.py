"""From a probe's answer to conditions: Reachable, ModelsLoaded, Ready. Pure; what says nothing new gives no patch."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controllers.gpubackend.probe import Answer, Failure
from crds import conditions, gpubackend

READY = "Ready"


def patch(backend: gpubackend.GpuBackend, found: Answer | Failure, now: datetime) -> dict[str, Any]:
    """Merge patch of the status; empty when it already says all of this."""
    status = backend.status
    listed = status.conditions
    for one in _conditions(backend, found, now):
        listed = conditions.put(listed, one)
    new: dict[str, Any] = {}
    if [_said(c) for c in listed] != [_said(c) for c in status.conditions]:
        new["conditions"] = [c.wire() for c in listed]
    if isinstance(found, Answer) and found.version != status.version:
        new["version"] = found.version
    if backend.metadata.generation != status.observed_generation:
        new["observedGeneration"] = backend.metadata.generation
        new["conditions"] = [c.wire() for c in listed]
    return new


def missing(backend: gpubackend.GpuBackend, models: frozenset[str]) -> list[str]:
    """Models of the sets that the server does not have; a name without a tag means `:latest`."""
    have = {_full(name) for name in models}
    wanted = {model.name for one in backend.spec.model_sets for model in one.models}
    return sorted(name for name in wanted if _full(name) not in have)


def _conditions(
    backend: gpubackend.GpuBackend, found: Answer | Failure, now: datetime
) -> tuple[conditions.Condition, ...]:
    generation = backend.metadata.generation

    def make(type_: str, ok: bool | None, reason: str, message: str) -> conditions.Condition:
        return conditions.make(type_, ok, reason, message, now=now, generation=generation)

    if isinstance(found, Failure):
        return (
            make("Reachable", False, found.reason, found.message),
            make("ModelsLoaded", None, "Unreachable", "The server could not be asked."),
            make(READY, False, found.reason, found.message),
        )
    absent = missing(backend, found.models)
    reachable = make("Reachable", True, "Answered", f"Ollama {found.version}.")
    if absent:
        names = ", ".join(absent)
        text = f"The server lacks {names}. Pull them there, or take them out of spec.modelSets."
        return reachable, make("ModelsLoaded", False, "ModelsMissing", text), make(READY, False, "ModelsMissing", text)
    present = make("ModelsLoaded", True, "Present", "The server has every model of its sets.")
    if backend.spec.drain:
        return reachable, present, make(READY, False, "Draining", "spec.drain is true: no new work is sent to it.")
    return reachable, present, make(READY, True, "Serving", "Takes requests.")


def ready(backend: gpubackend.GpuBackend) -> bool:
    """The Ready condition, as last written."""
    found = conditions.find(backend.status.conditions, READY)
    return found is not None and found.status is conditions.Status.TRUE


def serves(backend: gpubackend.GpuBackend) -> bool:
    """May what runs on it go on? One that drains takes nothing new, but ends what it has."""
    found = conditions.find(backend.status.conditions, "Reachable")
    reachable = found is not None and found.status is conditions.Status.TRUE
    return backend.spec.kind is gpubackend.Kind.GPU and (ready(backend) or (backend.spec.drain and reachable))


def _full(name: str) -> str:
    return name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"


def _said(one: conditions.Condition) -> tuple[str, str, str, str]:
    return one.type, one.status.value, one.reason, one.message
