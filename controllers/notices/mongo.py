"""The outbox in MongoDB, through motor: one document per notice, from its first sight until its task's leftovers go.

Uses nothing that the MongoDB-wire server of the local profile lacks. Every call may be repeated after a lost answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pymongo
import pymongo.errors

from clients import mongo
from contracts import mongo_collections
from controllers.notices.notice import Notice

PENDING, DELIVERED, GIVEN_UP = "Pending", "Delivered", "GivenUp"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A notice that is to be delivered, `attempts` times tried so far."""

    id: str
    event: str
    url: str
    body: str
    created: datetime
    attempts: int


class Outbox:
    """The outbox in `database`. `fence` is asked before a write."""

    def __init__(self, database: Any, *, fence: Callable[[], None]) -> None:
        self._rows = database[mongo_collections.NOTICES]
        self._fence = fence
        self._indexed = False

    async def add(self, notice: Notice, now: datetime) -> None:
        """Keep a notice to be delivered, unless it is known. Raises `mongo.Unavailable`."""
        self._fence()
        row = {
            "taskUid": notice.uid,
            "event": notice.event,
            "url": notice.url,
            "body": notice.body,
            "createdAt": now,
            "due": now,
            "attempts": 0,
            "state": PENDING,
        }
        with mongo.translate_errors("keep a notice"):
            if not self._indexed:
                await self._rows.create_index([("state", pymongo.ASCENDING), ("due", pymongo.ASCENDING)])
                await self._rows.create_index([("taskUid", pymongo.ASCENDING)])
                self._indexed = True
            await self._rows.update_one({"_id": notice.id}, {"$setOnInsert": row}, upsert=True)

    async def due(self, now: datetime, limit: int) -> list[Waiting]:
        """Those whose time has come, the longest due first. Raises `mongo.Unavailable`."""
        with mongo.translate_errors("list the notices"):
            cursor = self._rows.find({"state": PENDING, "due": {"$lte": now}}).sort("due", pymongo.ASCENDING)
            return [_waiting(one) async for one in cursor.limit(limit)]

    async def waiting(self) -> int:
        """How many are not delivered yet. Raises `mongo.Unavailable`."""
        with mongo.translate_errors("count the notices"):
            return int(await self._rows.count_documents({"state": PENDING}))

    async def delivered(self, notice_id: str, now: datetime) -> None:
        """The webhook took it. Raises `mongo.Unavailable`."""
        await self._set(notice_id, {"state": DELIVERED, "deliveredAt": now, "error": ""})

    async def postpone(self, notice_id: str, due: datetime, why: str) -> None:
        """It did not: once more at `due`. Raises `mongo.Unavailable`."""
        await self._set(notice_id, {"due": due, "error": why}, {"attempts": 1})

    async def give_up(self, notice_id: str, now: datetime, why: str) -> None:
        """It did not, and is not asked again. Raises `mongo.Unavailable`."""
        await self._set(notice_id, {"state": GIVEN_UP, "deliveredAt": None, "due": now, "error": why}, {"attempts": 1})

    async def _set(self, notice_id: str, values: Mapping[str, Any], counted: Mapping[str, int] | None = None) -> None:
        self._fence()
        with mongo.translate_errors("record what became of a notice"):
            # Not inserted: what was erased meanwhile stays so.
            more = {"$inc": dict(counted)} if counted else {}
            await self._rows.update_one({"_id": notice_id, "state": PENDING}, {"$set": dict(values), **more})


def _waiting(row: Mapping[str, Any]) -> Waiting:
    return Waiting(row["_id"], row["event"], row["url"], row["body"], row["createdAt"], row["attempts"])
