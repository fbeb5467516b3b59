"""What all backends together have: `/api/tags`, `/api/ps`, `/v1/models`, `/api/version`.

Those of /api are of the Ollama backends alone: what an OpenAI server has cannot be asked for there.

Answered from the last probes, so that a client that polls costs no backend anything and never causes a load. A model
that several backends have is listed once, as the first of them describes it (GPUs first, then by name). An alias is
listed beside its model; `allowed` leaves out what a caller may not use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from crds import gpubackend
from router.aliases import Aliases
from router.backends import book, records
from router.backends.records import Record

_LIBRARY = "library"

Allowed = Callable[[str], bool]
"""Whether a caller may use the model of a normalised name."""


def tags(entries: Iterable[book.Entry], aliases: Aliases, allowed: Allowed | None = None) -> dict[str, Any]:
    """`GET /api/tags`: models that can be asked for now."""
    found: dict[str, Record] = {}
    for _, name, record in _listed(_ollama(entries)):
        found.setdefault(name, record)
    return {"models": _named(found, aliases, allowed, ("name", "model"))}


def loaded(entries: Iterable[book.Entry], aliases: Aliases, allowed: Allowed | None = None) -> dict[str, Any]:
    """`GET /api/ps`: models in some backend's memory."""
    found: dict[str, Record] = {}
    for entry in _ready(entries):
        for record in entry.ps:
            found.setdefault(records.model(record), record)
    return {"models": [record for name, record in found.items() if allowed is None or allowed(name)]}


def openai(entries: Iterable[book.Entry], aliases: Aliases, allowed: Allowed | None = None) -> dict[str, Any]:
    """`GET /v1/models`: an OpenAI server's own objects, and Ollama's tags as Ollama itself shows them there."""
    found: dict[str, Record] = {}
    for entry, name, record in _listed(_ready(entries)):
        found.setdefault(name, record if entry.openai else _shown(record))
    return {"object": "list", "data": _named(found, aliases, allowed, ("id",))}


def foreign(entries: Iterable[book.Entry], model: str) -> Record | None:
    """`GET /v1/models/NAME` of a model (normalised) that only OpenAI servers have, many of which lack that path."""
    having = [(entry, record) for entry, name, record in _listed(_ready(entries)) if name == model]
    return having[0][1] if having and all(entry.openai for entry, _ in having) else None


def version(entries: Iterable[book.Entry], aliases: Aliases, allowed: Allowed | None = None) -> dict[str, Any]:
    """`GET /api/version`: that of the first backend; clients decide by it what they may ask for. Without an Ollama
    backend that of a build without a version."""
    return dict(next((entry.about for entry in _ollama(entries)), {"version": "0.0.0"}))


BY_PATH: Mapping[str, Callable[[Iterable[book.Entry], Aliases, Allowed | None], dict[str, Any]]] = {
    "/api/tags": tags,
    "/api/ps": loaded,
    "/v1/models": openai,
    "/api/version": version,
}
"""`GET` requests that are answered here."""


def _named(found: dict[str, Record], aliases: Aliases, allowed: Allowed | None, names: Iterable[str]) -> list[Record]:
    """The records that the caller may know, those of aliases included: `names` are the fields that name a model."""
    if aliases:
        # A model of an alias' name cannot be asked for.
        real = {name: record for name, record in found.items() if name not in aliases}
        for alias, spelled, target in aliases:
            if target in real and (allowed is None or allowed(target)):
                found[alias] = {**real[target], **dict.fromkeys(names, spelled)}
            else:
                found.pop(alias, None)
    return [r for name, r in found.items() if allowed is None or name in aliases or allowed(name)]


def _ready(entries: Iterable[book.Entry]) -> list[book.Entry]:
    ready = [e for e in entries if e.healthy and not e.spec.drain]
    return sorted(ready, key=lambda e: (e.spec.kind is not gpubackend.Kind.GPU, e.name))


def _ollama(entries: Iterable[book.Entry]) -> list[book.Entry]:
    return [entry for entry in _ready(entries) if not entry.openai]


def _listed(entries: Iterable[book.Entry]) -> Iterator[tuple[book.Entry, str, Record]]:
    """What each backend serves: the entry, the normalised name and the server's object."""
    for entry in entries:
        served = entry.served or frozenset()
        for record in entry.tags or ():
            if (name := records.model(record)) in served:
                yield entry, name, record


def _shown(record: Record) -> Record:
    return {
        "id": records.name(record),
        "object": "model",
        "created": _seconds(str(record.get("modified_at", ""))),
        "owned_by": _owner(records.name(record)),
    }


def _owner(name: str) -> str:
    parts = name.split("/")
    return parts[-2] if len(parts) > 1 else _LIBRARY


def _seconds(moment: str) -> int:
    """Unix seconds of an RFC 3339 time; 0 for anything else (Ollama writes Go's zero time for unknown)."""
    try:
        return max(0, int(datetime.fromisoformat(moment).timestamp()))
    except (ValueError, OverflowError):
        return 0
