"""JSON merge patches (RFC 7396) of documents as served by the apiserver: apply one, or compute one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]


def merged(document: Document, patch: Document) -> dict[str, Any]:
    """`document` after `patch`: objects are merged, None removes, other values replace. Modifies neither."""
    result = dict(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            old = result.get(key)
            result[key] = merged(old if isinstance(old, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def difference(old: Document, new: Document) -> dict[str, Any]:
    """The smallest patch from `old` to `new`. Neither may contain None: a merge patch cannot express it."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = difference(before, value)
            if inner:
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch
