"""The records of erasures in MongoDB, collection `kb_erasures`: what was asked, by whom, and how far it has come.

A record is written before anything is deleted, so that a crash is seen and gone on from, by any process that writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from crds import scope
from kb import api, identity, mongo
from kb.erasure import closed

COLLECTION = "kb_erasures"
_LISTED = 100


class Book:
    """Raises `kb.errors.Away`."""

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime]) -> None:
        self._records = database[COLLECTION]
        self._clock = clock

    async def open(self, where: scope.Scope, by: str) -> api.Erasure:
        """Record that `where` is to be erased; one that runs already is answered as it is."""
        now = self._clock()
        own = identity.erasure(where, now)
        with mongo.translated():
            running = await self._records.find_one({**mongo.names(where), "state": "Running"})
            if running is not None:
                return _erasure(running)
            row: dict[str, Any] = {
                "_id": own,
                **mongo.names(where),
                "state": "Running",
                "requestedBy": by,
                "requestedAt": now,
                "finishedAt": None,
                "erased": {},
                "reason": "",
            }
            try:
                await self._records.insert_one(row)
            except mongo.DuplicateKey:
                row = await self._records.find_one({"_id": own}) or row
            return _erasure(row)

    async def running(self) -> list[api.Erasure]:
        """Those that are not done, the oldest first."""
        with mongo.translated():
            cursor = self._records.find({"state": "Running"}).sort([("requestedAt", 1), ("_id", 1)])
            return [_erasure(row) async for row in cursor]

    async def add(self, erasure_id: str, erased: Mapping[str, int], reason: str = "") -> None:
        """Count what has gone since, and say what it waits for."""
        counts = {f"erased.{name}": number for name, number in erased.items() if number}
        change: dict[str, Any] = {"$set": {"reason": reason[:1000]}} | ({"$inc": counts} if counts else {})
        with mongo.translated():
            await self._records.update_one({"_id": erasure_id}, change)

    async def finish(self, erasure_id: str) -> None:
        """Nothing is left."""
        said = {"state": "Done", "finishedAt": self._clock(), "reason": ""}
        with mongo.translated():
            await self._records.update_one({"_id": erasure_id, "state": "Running"}, {"$set": said})

    async def listed(self, viewer: scope.Scope) -> list[api.Erasure]:
        """The latest of the viewer's scope and of what lies in it."""
        with mongo.translated():
            cursor = self._records.find(closed.query(viewer)).sort([("requestedAt", -1), ("_id", 1)]).limit(_LISTED)
            return [_erasure(row) async for row in cursor]


def _erasure(row: Mapping[str, Any]) -> api.Erasure:
    return api.Erasure(
        id=row["_id"],
        scope=mongo.owner(dict(row)),
        state=row["state"],
        requested_by=row["requestedBy"],
        requested_at=row["requestedAt"],
        finished_at=row["finishedAt"],
        erased=dict(row["erased"]),
        reason=row["reason"],
    )
