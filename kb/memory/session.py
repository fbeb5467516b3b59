"""Session memory: what happened lately in a scope. Seven days, fifty entries (seed 001 "Session Memory").

The documents of `session_memory` are those that the Job's finalize step writes. The owner of an entry is its client and
its project, or, without a project, its group. What is over is swept at every write and never shown, so nothing rests on
a TTL index.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from contracts import mongo_collections
from crds import scope
from kb import api, mongo

COLLECTION = mongo_collections.SESSIONS


class Sessions:
    """Raises `kb.errors.Away`. `fresh_id` names an entry whose writer gave it no name."""

    def __init__(
        self,
        database: mongo.Database,
        clock: Callable[[], datetime],
        fresh_id: Callable[[], str],
        *,
        life: timedelta = timedelta(days=7),
        most: int = 50,
    ) -> None:
        self._entries = database[COLLECTION]
        self._clock = clock
        self._fresh_id = fresh_id
        self._life = life
        self._most = most
        self._indexed = False

    async def add(self, draft: api.SessionDraft) -> api.SessionEntry:
        """Remember; an entry of the same id in the same scope stays as it was first written."""
        now, owner = self._clock(), mongo_collections.session_owner(draft.scope)
        own = draft.id or self._fresh_id()
        document = {
            "_id": own if draft.id is None else ":".join((*owner.values(), own)),
            **owner,
            "timestamp": now,
            "expiresAt": now + self._life,
            "source": draft.source,
            "summary": draft.summary,
            "details": draft.details,
            "taskId": draft.task_id,
        }
        with mongo.translated():
            await self._index()
            try:
                await self._entries.insert_one(document)
            except mongo.DuplicateKey:
                document = await self._entries.find_one({"_id": document["_id"]}) or document
            await self._sweep(owner, now)
        return _entry(document)

    async def recent(self, viewer: scope.Scope, *, limit: int) -> list[api.SessionEntry]:
        """What of exactly this client and project, or group, is not over, newest first."""
        query = {**mongo_collections.session_owner(viewer), "expiresAt": {"$gt": self._clock()}}
        with mongo.translated():
            await self._index()
            order = [("timestamp", -1), ("_id", -1)]
            cursor = self._entries.find(query).sort(order).limit(min(limit, self._most))
            return [_entry(row) async for row in cursor]

    async def _sweep(self, of: dict[str, Any], now: datetime) -> None:
        await self._entries.delete_many({**of, "expiresAt": {"$lte": now}})
        order = [("timestamp", -1), ("_id", -1)]
        beyond = self._entries.find(of, {"_id": 1}).sort(order).skip(self._most)
        over = [row["_id"] async for row in beyond]
        if over:
            await self._entries.delete_many({"_id": {"$in": over}})

    async def _index(self) -> None:
        if not self._indexed:
            order = [("clientId", 1), ("projectId", 1), ("timestamp", -1)]
            await self._entries.create_index(order)
            self._indexed = True


def _entry(row: dict[str, Any]) -> api.SessionEntry:
    return api.SessionEntry(
        id=row["_id"],
        timestamp=row["timestamp"],
        source=row["source"],
        summary=row["summary"],
        details=row["details"],
        task_id=row["taskId"],
    )
