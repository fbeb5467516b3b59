"""What the GpuBackends say about models. The rule of their names and patterns is `crds.modelnames`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crds import gpubackend
from crds.modelnames import Pattern, family, is_pattern, normalise

__all__ = ["Pattern", "Table", "family", "is_pattern", "normalise"]


class Table:
    """What the GpuBackends say about models: priority and whether a CPU may serve them.

    The longest match wins: first the model with its tag, then an entry that was written without a tag and so speaks
    for the whole family (`qwen2.5` for `qwen2.5:14b`), then the longest pattern (`qwen2.5:*`). When backends disagree,
    the most urgent priority holds, and a CPU is allowed as soon as one of them allows it (the default of the field is
    no statement).
    """

    def __init__(self, specs: Iterable[gpubackend.ModelSpec]) -> None:
        exact: dict[str, gpubackend.ModelSpec] = {}
        families: dict[str, gpubackend.ModelSpec] = {}
        patterns: dict[str, gpubackend.ModelSpec] = {}
        for spec in specs:
            if is_pattern(spec.name):
                _merge(patterns, Pattern(spec.name).text, spec)
                continue
            _merge(exact, normalise(spec.name), spec)
            if ":" not in spec.name.rsplit("/", 1)[-1]:
                _merge(families, family(spec.name), spec)
        self._exact: Mapping[str, gpubackend.ModelSpec] = exact
        self._families: Mapping[str, gpubackend.ModelSpec] = families
        longest = sorted(patterns.items(), key=lambda item: (-len(item[0]), item[0]))
        self._patterns = tuple((Pattern(text), spec) for text, spec in longest)

    def find(self, model: str) -> gpubackend.ModelSpec | None:
        """The entry for a normalised name, or None when no GpuBackend speaks of it."""
        found = self._exact.get(model)
        if found is None and self._families:
            found = self._families.get(model.rsplit(":", 1)[0])
        if found is None and self._patterns:
            return next((spec for pattern, spec in self._patterns if pattern.fits(model)), None)
        return found

    def cpu_allowed(self, model: str) -> bool:
        """May a CPU backend serve it beside a GPU? Only where a GpuBackend says so."""
        entry = self.find(model)
        return entry is not None and entry.cpu_allowed


def _merge(into: dict[str, gpubackend.ModelSpec], key: str, spec: gpubackend.ModelSpec) -> None:
    old = into.get(key)
    if old is None:
        into[key] = spec
        return
    urgencies = [p for p in (old.priority, spec.priority) if p is not None]
    into[key] = old.model_copy(
        update={
            "priority": min(urgencies, default=None),
            "cpu_allowed": old.cpu_allowed or spec.cpu_allowed,
        }
    )
