"""Sums of usage in a ConfigMap that exists. Imported only by a router that stores them there."""

from __future__ import annotations

from datetime import date
from typing import Any

import orjson

import kube
from router.usage import Count, Counts

_KEY = "usage.json"
_MOST = 1 << 53
"""Larger numbers were not written by this program."""


class ConfigMap:
    """`api` must not be fenced: a router that leaves adds its last counts when another one decides already."""

    def __init__(self, api: kube.Kube, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name

    async def read(self) -> tuple[date | None, Counts, str]:
        """See `usage.Store`. What cannot be read counts as nothing: it is replaced by the next write."""
        found = await self._api.get(kube.CONFIG_MAPS, self._namespace, self._name)
        version = str(found["metadata"]["resourceVersion"])
        try:
            document: Any = orjson.loads((found.get("data") or {}).get(_KEY) or "{}")
            given = document.get("identities", {}).items()
            counts = {str(name): Count(*map(int, numbers)) for name, numbers in given}
            if any(not 0 <= number <= _MOST for count in counts.values() for number in count):
                return None, {}, version
            return date.fromisoformat(document["day"]) if "day" in document else None, counts, version
        except (orjson.JSONDecodeError, TypeError, ValueError, OverflowError, AttributeError):
            return None, {}, version

    async def write(self, day: date, counts: Counts, version: str) -> None:
        """See `usage.Store`."""
        document = {"day": day.isoformat(), "identities": {name: list(count) for name, count in sorted(counts.items())}}
        patch = {"metadata": {"resourceVersion": version}, "data": {_KEY: orjson.dumps(document).decode()}}
        await self._api.merge(kube.CONFIG_MAPS, self._namespace, self._name, patch)
