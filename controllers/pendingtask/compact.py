"""A task as it is kept between two looks: without what decisions do not need, as compressed JSON.

Ten thousand tasks wait at a time. What is alike in all of them, the names of fields and the values of enumerations, is
known to both sides beforehand, so that one takes about 0.3 KB.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from crds import pendingtask

Raw = Mapping[str, Any]

_DROPPED = frozenset({"managedFields", "annotations", "ownerReferences"})
_ELSEWHERE = frozenset({"content", "contentRef"})
_SAID = ("messages", "answers")

# Raw deflate, with a window of 4 KiB: each call allocates its state anew, and a task is hardly larger than that.
_LEVEL, _WINDOW, _MEMORY = 1, -12, 5


def _words(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        yield from (word for word in schema.get("enum", ()) if isinstance(word, str))
        for part in schema.values():
            yield from _words(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _words(part)


_SCHEMA = pendingtask.PendingTask.model_json_schema(by_alias=True)
_KNOWN = orjson.dumps(dict.fromkeys(sorted(set(_words(_SCHEMA))), ""))[-(1 << -_WINDOW) :]


def pack(raw: Raw) -> bytes:
    """The object without content, annotations (`kubectl apply` copies the content into one), and what users said."""
    meta = {key: value for key, value in raw["metadata"].items() if key not in _DROPPED}
    spec = {key: value for key, value in raw["spec"].items() if key not in _ELSEWHERE}
    for name in _SAID:
        if name in spec:
            spec[name] = [{"id": one["id"], "text": "-"} for one in spec[name]]
    document = orjson.dumps({"metadata": meta, "spec": spec, "status": raw.get("status") or {}})
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _KNOWN)
    return packer.compress(document) + packer.flush()


def unpack(packed: bytes) -> pendingtask.PendingTask:
    """The task, with "-" in place of texts."""
    document = zlib.decompressobj(_WINDOW, _KNOWN).decompress(packed)
    return pendingtask.PendingTask.model_validate(orjson.loads(document))
