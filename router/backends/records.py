"""Lists of models as any server may write them: Ollama's `/api/tags` and `/api/ps`, OpenAI's `/v1/models`. Pure.

What is not a model object, or cannot be written again, is left out, so that one odd record costs neither the others nor
the backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from crds import modelnames

Record = Mapping[str, Any]


def listed(document: Any, key: str = "models") -> tuple[Record, ...] | None:
    """The model objects of a list; None for a document that is none. `null` is how Go writes an empty list. OpenAI's
    `key` is `data`."""
    if not isinstance(document, dict):
        return None
    models = document.get(key)
    return tuple(one for one in models if isinstance(one, dict) and _writable(one)) if isinstance(models, list) else ()


def _writable(record: Record) -> bool:
    """orjson reads deeper nesting than it writes."""
    try:
        orjson.dumps(record)
    except TypeError:
        return False
    return True


def name(record: Record) -> str:
    """As the server spells it, empty for none. Older servers have `name` alone, some others `model` alone, OpenAI's
    `id` alone."""
    found = record.get("name") or record.get("model") or record.get("id")
    return found if isinstance(found, str) else ""


def model(record: Record) -> str:
    """The normalised name."""
    return modelnames.normalise(name(record))


def names(records: Iterable[Record]) -> frozenset[str]:
    """The normalised names."""
    return frozenset(map(model, records)) - {""}


def size(record: Record, key: str = "size") -> int:
    """A number of bytes; 0 for one that is none."""
    value = record.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
