"""Names of models and patterns of them: one rule for what a GpuBackend says, in the router and in the operator. Pure.

Source: Ollama's `types/model/name.go`: `[host/][namespace/]model[:tag]`, compared without case; the defaults are host
`registry.ollama.ai`, namespace `library`, tag `latest`.
"""

from __future__ import annotations

import re
from functools import lru_cache

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


def fits(entry: str, model: str) -> bool:
    """Does the entry of a model set, a name or a pattern, mean that model? `model` is normalised."""
    return Pattern(entry).fits(model) if is_pattern(entry) else normalise(entry) == model
