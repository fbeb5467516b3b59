"""From a probe's answer to conditions: Reachable, ModelsLoaded, Ready, and ContextFits where windows can be compared.

Pure; what says nothing new gives no patch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from controllers.gpubackend import contexts
from controllers.gpubackend.probe import Answer, Failure
from crds import conditions, gpubackend, modelnames

READY = "Ready"


def misplaced(namespace: str) -> Failure:
    """For an object outside of `namespace`, the release's: nothing calls it and its slots do not count."""
    text = (
        f"GpuBackends are used in namespace {namespace!r} only: this one is not called, and its slots do not count."
        f" Create it there (kubectl apply -n {namespace}) and delete it here."
    )
    return Failure("WrongNamespace", text)


def patch(
    backend: gpubackend.GpuBackend,
    found: Answer | Failure,
    now: datetime,
    windows: Sequence[contexts.Window] = (),
) -> dict[str, Any]:
    """Merge patch of the status; empty when it already says all of this. `windows` are those that processes ask for."""
    status = backend.status
    listed = status.conditions
    for one in (*_conditions(backend, found, now), *_context(backend, windows, now)):
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
    """Entries of the sets that no model of the server fits, names and patterns (`crds.modelnames`)."""
    have = {modelnames.normalise(name) for name in models}
    wanted = {model.name for one in backend.spec.model_sets for model in one.models}
    return sorted(name for name in wanted if not any(modelnames.fits(name, model) for model in have))


def has(backend: gpubackend.GpuBackend, model: str, models: frozenset[str] | None) -> bool:
    """Does one of its sets mean that model? A pattern means what the server has; `models`, None while unknown."""
    wanted = modelnames.normalise(model)
    listed = None if models is None else {modelnames.normalise(name) for name in models}
    entries = [member.name for one in backend.spec.model_sets for member in one.models]
    named = [name for name in entries if modelnames.fits(name, wanted)]
    if listed is None:
        return any(not modelnames.is_pattern(name) for name in named)
    return bool(named) and wanted in listed


def _conditions(
    backend: gpubackend.GpuBackend, found: Answer | Failure, now: datetime
) -> tuple[conditions.Condition, ...]:
    generation = backend.metadata.generation

    def make(type_: str, ok: bool | None, reason: str, message: str) -> conditions.Condition:
        return conditions.make(type_, ok, reason, message, now=now, generation=generation)

    if isinstance(found, Failure):
        return (
            make("Reachable", False, found.reason, found.message),
            make("ModelsLoaded", None, found.reason, "The server could not be asked."),
            make(READY, False, found.reason, found.message),
        )
    absent, entries = missing(backend, found.models), {m.name for one in backend.spec.model_sets for m in one.models}
    openai = backend.spec.engine is gpubackend.Engine.OPENAI
    says = "It lists its models by OpenAI's API." if openai else f"Ollama {found.version or 'of an unknown version'}."
    reachable = make("Reachable", True, "Answered", says)
    lacks = _lacks(absent, "Have the server serve models" if openai else "Pull models")
    if absent:
        present = make("ModelsLoaded", False, "ModelsMissing", lacks)
    else:
        present = make("ModelsLoaded", True, "Present", "The server has every model of its sets.")
    if absent and len(absent) == len(entries):
        return reachable, present, make(READY, False, "ModelsMissing", lacks)
    if backend.spec.drain:
        return reachable, present, make(READY, False, "Draining", "spec.drain is true: no new work is sent to it.")
    # The router serves what is there of the sets, and so does a slot.
    text = f"Takes requests for the other models of its sets. {lacks}"[:1024] if absent else "Takes requests."
    return reachable, present, make(READY, True, "Serving", text)


def _context(
    backend: gpubackend.GpuBackend, windows: Sequence[contexts.Window], now: datetime
) -> Iterator[conditions.Condition]:
    """The condition ContextFits; none where there is nothing to compare, and none was written."""
    short = contexts.shortfalls(backend, windows)
    if short is None and conditions.find(backend.status.conditions, contexts.CONDITION) is None:
        return
    reason, said = "Fits", "No process asks for more than the numCtx of its model here."
    if short:
        advice = "Requests get what is loaded, and longer prompts are refused: raise numCtx here, or lower the value."
        reason, said = "ContextTooSmall", " ".join([*short, advice])[:1024]
    generation = backend.metadata.generation
    yield conditions.make(contexts.CONDITION, not short, reason, said, now=now, generation=generation)


def ready(backend: gpubackend.GpuBackend) -> bool:
    """The Ready condition, as last written."""
    found = conditions.find(backend.status.conditions, READY)
    return found is not None and found.status is conditions.Status.TRUE


def runs(backend: gpubackend.GpuBackend) -> bool:
    """Can a run's requests go there? It is a GPU, and runs speak Ollama's API."""
    return backend.spec.kind is gpubackend.Kind.GPU and backend.spec.engine is gpubackend.Engine.OLLAMA


def offers(backend: gpubackend.GpuBackend) -> bool:
    """May its slots be booked?"""
    return runs(backend) and not backend.spec.drain and ready(backend)


def serves(backend: gpubackend.GpuBackend) -> bool:
    """May what runs on it go on? One that drains takes nothing new, but ends what it has."""
    found = conditions.find(backend.status.conditions, "Reachable")
    reachable = found is not None and found.status is conditions.Status.TRUE
    return runs(backend) and (ready(backend) or (backend.spec.drain and reachable))


def _lacks(absent: list[str], pull: str) -> str:
    names = ", ".join(name for name in absent if not modelnames.is_pattern(name))
    patterns = ", ".join(name for name in absent if modelnames.is_pattern(name))
    said = [f"The server lacks {names}."] if names else []
    if patterns:
        said.append(f"No model of the server matches {patterns}.")
    return " ".join([*said, f"{pull} that fit, or correct spec.modelSets."])[:1024]


def _said(one: conditions.Condition) -> tuple[str, str, str, str]:
    return one.type, one.status.value, one.reason, one.message
