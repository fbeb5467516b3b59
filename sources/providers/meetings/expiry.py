"""Meetings that come to nothing any more: unfinished uploads, those without a Connection, and what has no meeting.

A row goes first, on the condition that nothing uses it; its recording has no meeting then and goes with the others of
that kind, so a kill in between leaves nothing for long. The same holds for transcripts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from clients.mongo import translate_errors
from contracts import mongo_collections
from contracts.api.meeting import State
from crds import scope
from sources.core import assignments

_SOME = 1000


class Expiry:
    """`database` is one of `mongo.client`. An upload without a new part for `uploads` ends, and so does a meeting whose
    Connection is gone for `orphaned`; `wall` is UTC. Every method raises `mongo.Unavailable`."""

    def __init__(self, database: Any, *, uploads: timedelta, orphaned: timedelta, wall: Callable[[], datetime]) -> None:
        self._rows, self._told = database[mongo_collections.MEETINGS], database[mongo_collections.TRANSCRIPTS]
        self._files, self._chunks = database[mongo_collections.RECORDINGS], database[mongo_collections.RECORDING_CHUNKS]
        self._connections = database[assignments.CONNECTIONS]
        self._uploads, self._orphaned, self._wall = uploads, orphaned, wall

    async def uploads(self) -> int:
        """Forget meetings whose recording was never completed; how many."""
        now = self._wall()
        old = now - self._uploads
        untouched = [{"touchedAt": {"$lt": old}}, {"touchedAt": None, "createdAt": {"$lt": old}}]
        free = [{"writingUntil": None}, {"writingUntil": {"$lt": now}}]
        left = {"state": State.RECORDING.value, "$and": [{"$or": untouched}, {"$or": free}]}
        with translate_errors("forget uploads"):
            return int((await self._rows.delete_many(left)).deleted_count)

    async def meetings(self) -> int:
        """Forget meetings whose Connection, or one of its name and scope, is gone for long; how many."""
        now, fields = self._wall(), ("namespace", "connection", "clientId", "projectId", "groupId")
        with translate_errors("look for meetings without a Connection"):
            each = {"$group": {"_id": {name: f"${name}" for name in fields}}}
            places = [row["_id"] async for row in self._rows.aggregate([each])]
            there = {_place(row) async for row in self._connections.find({}, {"namespace": 1, "name": 1, "spec": 1})}
            for place in places:
                if tuple(place.get(name, "") for name in fields) in there:
                    back = {**place, "orphanedAt": {"$exists": True}}
                    await self._rows.update_many(back, {"$unset": {"orphanedAt": ""}})
                else:
                    new = {**place, "orphanedAt": {"$exists": False}}
                    await self._rows.update_many(new, {"$set": {"orphanedAt": now}})
            old = {"orphanedAt": {"$lte": now - self._orphaned}}
            gone = [row["_id"] async for row in self._rows.find(old, {"_id": 1}).limit(_SOME)]
            await self._told.delete_many({"_id": {"$in": gone}})
            return int((await self._rows.delete_many({**old, "_id": {"$in": gone}})).deleted_count)

    async def recordings(self) -> int:
        """Delete the bytes of recordings that no meeting has; of how many recordings. A meeting knows its file before
        the first chunk is written (`audio.Audio`)."""
        count = 0
        with translate_errors("look for recordings without a meeting"):
            stored = [*dict.fromkeys([*await self._chunks.distinct("files_id"), *await self._files.distinct("_id")])]
            for start in range(0, len(stored), _SOME):
                some = {"$in": stored[start : start + _SOME]}
                used = {row["file"] async for row in self._rows.find({"file": some}, {"file": 1})}
                for file in stored[start : start + _SOME]:
                    if file not in used:
                        await self._files.delete_one({"_id": file})
                        await self._chunks.delete_many({"files_id": file})
                        count += 1
        return count

    async def transcripts(self) -> int:
        """Delete the transcripts that no meeting has; how many. One may come while its meeting is deleted."""
        count = 0
        with translate_errors("look for transcripts without a meeting"):
            # A meeting is there before its transcript.
            stored = await self._told.distinct("_id")
            for start in range(0, len(stored), _SOME):
                some = stored[start : start + _SOME]
                used = {row["_id"] async for row in self._rows.find({"_id": {"$in": some}}, {"_id": 1})}
                gone = [one for one in some if one not in used]
                count += (await self._told.delete_many({"_id": {"$in": gone}})).deleted_count
        return count


def _place(row: Any) -> tuple[str, ...]:
    spec = row.get("spec") or {}
    owner = scope.Scope(
        client_id=spec.get("clientId", ""), project_id=spec.get("projectId", ""), group_id=spec.get("groupId", "")
    )
    return (row["namespace"], row["name"], owner.client_id, owner.project_id, owner.group_id)
