"""Model names as Ollama understands them: `qwen3` is `qwen3:latest`, case does not matter, the library is the
default host.
"""

from __future__ import annotations

import re

_DEFAULT_HOSTS = ("registry.ollama.ai/library/", "registry.ollama.ai/", "library/")
_VALID = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.\-/:]*$")
EMBEDDING_MARKS = ("embed", "minilm", "nomic", "bge")
VISION_MARKS = ("-vl", "llava", "vision", "gemma3")


def canonical(name: str) -> str:
    """The key under which a model is known: lower case, without the default host, with a tag.

    Empty if `name` is no name.
    """
    name = name.strip()
    if not _VALID.match(name):
        return ""
    for prefix in _DEFAULT_HOSTS:
        if name.lower().startswith(prefix):
            name = name[len(prefix) :]
            break
    last = name.rsplit("/", 1)[-1]
    return (name if ":" in last else f"{name}:latest").lower()


def embeds(name: str) -> bool:
    """Whether a model of this name answers /api/embed (the others generate)."""
    lowered = name.lower()
    return any(mark in lowered for mark in EMBEDDING_MARKS)


def sees(name: str) -> bool:
    """Whether a model of this name is shown as one that reads images."""
    lowered = name.lower()
    return any(mark in lowered for mark in VISION_MARKS)


def family(name: str) -> str:
    """`qwen3-coder:30b` -> `qwen3`: what /api/tags shows as the model's family."""
    stem = canonical(name).rsplit("/", 1)[-1].split(":", 1)[0]
    match = re.match(r"[a-z]+[0-9.]*", stem)
    return match.group(0) if match else stem


def billions(name: str) -> float | None:
    """Parameters in billions, as the tag says: `qwen2.5:7b` -> 7.0, `nomic-embed-text:137m` -> 0.137; None if it
    says nothing.
    """
    match = re.search(r"(?<![a-z0-9.])(?:\d+x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", canonical(name))
    if match is None:
        return None
    return float(match.group(1)) * (1.0 if match.group(2) == "b" else 0.001)
