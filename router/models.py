"""Names of models: one spelling for comparing, the client's own spelling for forwarding.

Source: Ollama's `types/model/name.go`: `[host/][namespace/]model[:tag]`, compared without case; the defaults are host
`registry.ollama.ai`, namespace `library`, tag `latest`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from crds import gpubackend

_HOST = "registry.ollama.ai/"
_NAMESPACE = "library/"
_TAG = "latest"


# Bounded: the argument comes from clients.
@lru_cache(maxsize=4096)
def normalise(name: str) -> str:
    """`Registry.Ollama.ai/library/Qwen3` -> `qwen3:latest`; an empty name stays empty (it names no model)."""
    text = name.strip().lower()
    _, scheme, rest = text.partition("://")
    if scheme:
        text = rest
    text = text.removeprefix(_HOST).removeprefix(_NAMESPACE)
    if text and ":" not in text.rsplit("/", 1)[-1]:
        text = f"{text}:{_TAG}"
    return text


def family(name: str) -> str:
    """The normalised name without its tag."""
    return normalise(name).rsplit(":", 1)[0]


def is_pattern(name: str) -> bool:
    """Does the name hold a `*`?"""
    return "*" in name


class Pattern:
    """Names with `*` for anything; `text` is normalised but for a missing tag, which stays missing only after a `*`."""

    def __init__(self, text: str) -> None:
        self.text = normalise(text) if not text.rstrip().endswith("*") else normalise(text + ":").rstrip(":")
        self._matches = re.compile(".*".join(map(re.escape, self.text.split("*")))).fullmatch

    def fits(self, name: str) -> bool:
        """Is a normalised name meant?"""
        return self._matches(name) is not None


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
        found = self._exact.get(model) or self._families.get(model.rsplit(":", 1)[0])
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
