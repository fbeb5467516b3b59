"""Names of models and patterns of them: one rule for the router and the operator. Pure.

Source: Ollama's `types/model/name.go`: `[host/][namespace/]model[:tag]`, compared without case; the defaults are host
`registry.ollama.ai`, namespace `library`, tag `latest`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

_HOST = "registry.ollama.ai/"
_NAMESPACE = "library/"
_TAG = "latest"


_LONGEST = 600
"""Ollama's names are shorter (`isValidLen` of each part)."""


def normalise(name: str) -> str:
    """`Registry.Ollama.ai/library/Qwen3` -> `qwen3:latest`; an empty name stays empty."""
    # The argument comes from clients: what is kept is bounded in number and in length.
    return _normalised(name) if len(name) <= _LONGEST else _normalised.__wrapped__(name)


@lru_cache(maxsize=4096)
def _normalised(name: str) -> str:
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
    """Whether the name contains a `*`."""
    return "*" in name


class Pattern:
    """A name in which `*` matches any characters. `text` is normalised; no tag is added after a final `*`."""

    def __init__(self, text: str) -> None:
        self.text = normalise(text) if not text.rstrip().endswith("*") else normalise(text + ":").rstrip(":")
        self._first, *self._middle = self.text.split("*")
        self._last = self._middle.pop() if self._middle else None

    def fits(self, name: str) -> bool:
        """Whether the pattern matches a normalised name. Each part at the first place where it stands: unlike a regular
        expression this takes no longer for a name that a client chose."""
        if self._last is None:
            return name == self.text
        end = len(name) - len(self._last)
        at = len(self._first)
        if at > end or not name.startswith(self._first) or not name.endswith(self._last):
            return False
        for part in self._middle:
            found = name.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True


def fits(entry: str, model: str) -> bool:
    """Whether an entry of a model set, a name or a pattern, matches the normalised name `model`."""
    return Pattern(entry).fits(model) if is_pattern(entry) else normalise(entry) == model


class Names:
    """Entries of a list, names and patterns, as one set."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.entries = tuple(entries)
        """As they were given."""
        self._exact = frozenset(normalise(entry) for entry in self.entries if not is_pattern(entry))
        self._patterns = tuple(Pattern(entry) for entry in self.entries if is_pattern(entry))

    def fit(self, model: str) -> bool:
        """Whether one of them matches the normalised name `model`."""
        return model in self._exact or any(pattern.fits(model) for pattern in self._patterns)
