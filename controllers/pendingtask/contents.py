"""New tasks as they came, content included, until the knowledge base reads them: saves a request for each.

Bounded by bytes. What does not fit is not kept and is read from the API when its turn comes; what was kept first is
served first, so nothing has to make room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from crds.phases import Phase

CAPACITY = 4 << 20
"""Bytes of packed JSON: thousands of short mails, or more than a hundred of the longest."""
UNREAD = frozenset({Phase.NEW.value, Phase.READY_FOR_QUALIFICATION.value})
"""Phases in which nobody has read the content yet."""


class Contents:
    """By uid, at one version."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity, self._used = capacity, 0
        self._kept: dict[str, tuple[str, bytes]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, raw: Mapping[str, Any]) -> None:
        """Keep a version that is news, if it is of use; an older one is dropped in any case."""
        meta, status = raw["metadata"], raw.get("status") or {}
        self.drop(meta["uid"])
        if status.get("phase", Phase.NEW.value) not in UNREAD:
            return
        slim = {key: value for key, value in meta.items() if key != "managedFields"}
        packed = orjson.dumps({"metadata": slim, "spec": raw["spec"], "status": status})
        if self._used + len(packed) <= self._capacity:
            self._used += len(packed)
            self._kept[meta["uid"]] = (meta["resourceVersion"], bytes(memoryview(packed)))

    def pop(self, uid: str, version: str) -> dict[str, Any] | None:
        """The object at that resourceVersion, which is not kept any longer; None when it is not here."""
        kept = self._kept.get(uid)
        self.drop(uid)
        if kept is None or kept[0] != version:
            return None
        found: dict[str, Any] = orjson.loads(kept[1])
        return found

    def drop(self, uid: str) -> None:
        """Nobody wants it any more."""
        kept = self._kept.pop(uid, None)
        if kept is not None:
            self._used -= len(kept[1])
