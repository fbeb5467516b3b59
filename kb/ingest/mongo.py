"""Intents, kept answers and noted changes in MongoDB, for several writing processes.

Collections `kb_intents`, `kb_answers`, `kb_changes` and `kb_passes`.

A record carries the fence of the turn in which it was opened. What an older owner of the document says of it afterwards
changes nothing (`kb.ingest.mongo_locks`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any

import bson
import pymongo

from crds import scope
from kb import api, errors, mongo
from kb.erasure import closed
from kb.extract import answers
from kb.ingest import changes, request_record

_KEPT = [request_record.State.OPEN.value, request_record.State.FAILED.value]
INTENTS, ANSWERS, CHANGES, PASSES = "kb_intents", "kb_answers", "kb_changes", "kb_passes"
# A kept answer that is used is written again at most that often: eviction needs no better order.
_USED = timedelta(hours=1)


class Ledger:
    """Keeps records, answers and changes: `IngestRequestRecords`, `answers.Shelf`, `kb.ingest.changes.Changes`.

    `clock` gives the current time in UTC; about `max_answers` answers are kept, the ones not used for longest go first.
    """

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime], *, max_answers: int) -> None:
        self._intents = database[INTENTS]
        self._answers = database[ANSWERS]
        self._changes = database[CHANGES]
        self._passes = database[PASSES]
        self._clock = clock
        self._max_answers = max_answers
        # Counting what is kept reads the whole index, so it is done once per percent of the capacity.
        self._evict_every = max(max_answers // 100, 1)
        self._kept = 0
        self._indexed = False

    async def open(
        self,
        document_id: str,
        owner: scope.Scope,
        source_urn: str,
        request: str,
        now: datetime,
        *,
        dated_ms: int | None = None,
        fence: int = 0,
    ) -> request_record.IngestRequestRecord:
        with mongo.translated():
            await self._index()
            # Read, then written: the caller holds the document's turn, and the fence refuses one who has lost it.
            old = await self._intents.find_one({"_id": document_id}) or {}
            again = old.get("state") == request_record.State.OPEN.value and old.get("request") == request
            first_ms = old.get("datedMs") if again else None
            row = {
                **mongo.names(owner),
                "sourceUrn": source_urn,
                "state": request_record.State.OPEN.value,
                "known": bool(old.get("known")) or old.get("state") == request_record.State.FINISHED.value,
                "attempts": old["attempts"] + 1 if again else 1,
                "reason": "",
                "request": request,
                "recorded": True,
                "updatedAt": now,
                "datedMs": dated_ms if first_ms is None else first_ms,
                "storedMs": old.get("storedMs"),
                "stamp": old.get("stamp", ""),
                "fence": fence,
            }
            try:
                await self._intents.replace_one(_mine(document_id, fence), row, upsert=True)
            except mongo.DuplicateKey:
                raise errors.Outrun("another process has opened a newer request of this document") from None
        return _intent({"_id": document_id, **row})

    async def finish(self, document_id: str, now: datetime, *, fence: int = 0, stamp: str = "") -> None:
        said = {
            "state": request_record.State.FINISHED.value,
            "known": True,
            "reason": "",
            "request": None,
            "recorded": False,
        }
        said["stamp"] = stamp
        with mongo.translated():
            # Read, then written: see `open`.
            old = await self._intents.find_one({"_id": document_id}, {"datedMs": 1}) or {}
        await self._set(document_id, fence, {**said, "storedMs": old.get("datedMs")}, now)

    async def fail(self, document_id: str, reason: str, now: datetime, *, fence: int = 0) -> None:
        await self._set(document_id, fence, {"state": request_record.State.FAILED.value, "reason": reason[:1000]}, now)

    async def refuse(
        self, document_id: str, owner: scope.Scope, source_urn: str, reason: str, now: datetime, *, fence: int = 0
    ) -> None:
        said = {"state": request_record.State.FAILED.value, "reason": reason[:1000], "updatedAt": now, "fence": fence}
        new = {
            **mongo.names(owner),
            "sourceUrn": source_urn,
            "known": False,
            "attempts": 0,
            "request": None,
            "recorded": False,
        }
        mine = _mine(document_id, fence)
        with mongo.translated():
            await self._index()
            done = {**mine, "state": request_record.State.FINISHED.value}
            if (await self._intents.update_one(done, {"$set": {**said, "known": True}})).modified_count:
                return
            # One that was accepted is there all the same, and so it is not inserted anew.
            with contextlib.suppress(mongo.DuplicateKey):
                await self._intents.update_one(
                    {**mine, "request": None}, {"$set": said, "$setOnInsert": new}, upsert=True
                )

    async def interrupt(self, document_id: str, reason: str, now: datetime, *, fence: int = 0) -> None:
        await self._set(document_id, fence, {"reason": reason[:1000]}, now)

    async def forget(self, document_id: str, *, fence: int = 0) -> None:
        with mongo.translated():
            await self._intents.delete_one(_mine(document_id, fence))

    async def find(self, document_id: str) -> tuple[request_record.IngestRequestRecord, str | None] | None:
        with mongo.translated():
            row = await self._intents.find_one({"_id": document_id})
        return None if row is None else (_intent(row), row["request"])

    async def unfinished(
        self, *, before: datetime, after: request_record.IngestRequestRecord | None = None, limit: int = 100
    ) -> list[request_record.IngestRequestRecord]:
        query: dict[str, Any] = {"state": request_record.State.OPEN.value, "updatedAt": {"$lt": before}}
        if after is not None:
            later = {"updatedAt": {"$gt": after.updated_at}}
            query["$or"] = [later, {"updatedAt": after.updated_at, "_id": {"$gt": after.document_id}}]
        with mongo.translated():
            await self._index()
            cursor = self._intents.find(query, {"request": 0}).sort([("updatedAt", 1), ("_id", 1)]).limit(limit)
            return [_intent(row) async for row in cursor]

    async def mentions(self, text: str) -> bool:
        query = {"state": {"$in": _KEPT}, "request": {"$regex": re.escape(text)}}
        with mongo.translated():
            return await self._intents.find_one(query, {"_id": 1}) is not None

    async def failed(self, viewer: scope.Scope, *, limit: int) -> list[request_record.IngestRequestRecord]:
        return await self._listed(viewer, request_record.State.FAILED, limit)

    async def pending(self, viewer: scope.Scope, *, limit: int) -> list[request_record.IngestRequestRecord]:
        return await self._listed(viewer, request_record.State.OPEN, limit)

    async def listed(
        self, viewer: scope.Scope, *, beginning: str = "", after: str = "", limit: int = 100
    ) -> list[request_record.IngestRequestRecord]:
        query = {
            "$and": [
                mongo.visible(viewer),
                {"state": {"$in": _KEPT}, "_id": {"$gt": after}, "sourceUrn": {"$regex": f"^{re.escape(beginning)}"}},
            ]
        }
        with mongo.translated():
            cursor = self._intents.find(query, {"request": 0}).sort("_id", 1).limit(limit)
            return [_intent(row) async for row in cursor]

    async def among(self, document_ids: Collection[str]) -> dict[str, request_record.IngestRequestRecord]:
        query = {"_id": {"$in": sorted(document_ids)}, "state": {"$in": _KEPT}}
        with mongo.translated():
            return {row["_id"]: _intent(row) async for row in self._intents.find(query, {"request": 0})}

    async def working(self, document_ids: Collection[str]) -> set[str]:
        query = {"_id": {"$in": sorted(document_ids)}, "state": request_record.State.OPEN.value}
        with mongo.translated():
            return {row["_id"] async for row in self._intents.find(query, {"_id": 1})}

    async def count(self) -> dict[request_record.State, int]:
        found: dict[request_record.State, int] = {}
        with mongo.translated():
            await self._index()
            for state in request_record.State:
                if number := await self._intents.count_documents({"state": state.value}):
                    found[state] = number
        return found

    async def regroup(self, owner: scope.Scope) -> list[str]:
        return await mongo.regroup(self._intents, owner, {"state": {"$in": _KEPT}})

    async def erase(self, where: scope.Scope) -> int:
        """Forget what is kept of a scope that is erased.

        Its changes too: an erasure ends when it has seen that nothing of the scope is left.
        """
        with mongo.translated():
            await self._changes.delete_many(closed.query(where))
            await self._answers.delete_many(closed.query(where))
            return int((await self._intents.delete_many(closed.query(where))).deleted_count)

    async def answer(self, key: str, owner: scope.Scope) -> str | None:
        mine = answers.place(key, owner)
        with mongo.translated():
            row = await self._answers.find_one({"_id": mine})
            if row is None:
                row = await self._answers.find_one({"asked": key, "clientId": owner.client_id})
        if row is None:
            return None
        if row["_id"] != mine or self._clock() - row["usedAt"] >= _USED:
            await self.keep_answer(key, row["prompt"], row["answer"], owner)
        return str(row["answer"])

    async def keep_answer(self, key: str, prompt_name: str, text: str, owner: scope.Scope) -> None:
        row = {"prompt": prompt_name, "answer": text, "usedAt": self._clock(), "asked": key, **mongo.names(owner)}
        with mongo.translated():
            await self._index()
            await self._answers.replace_one({"_id": answers.place(key, owner)}, row, upsert=True)
            self._kept += 1
            if self._kept % self._evict_every == 0:
                await self._evict()

    async def note(self, owner: scope.Scope, document_ids: Collection[str]) -> None:
        row = {**mongo.names(owner), "mark": str(bson.ObjectId())}
        noted = [pymongo.ReplaceOne({"_id": one}, row, upsert=True) for one in sorted(document_ids)]
        if noted:
            with mongo.translated():
                await self._changes.bulk_write(noted, ordered=False)

    async def changed(self, *, after: str = "", limit: int = 100) -> list[changes.Change]:
        with mongo.translated():
            cursor = self._changes.find({"_id": {"$gt": after}}).sort("_id", 1).limit(limit)
            return [changes.Change(row["_id"], mongo.owner(row), row["mark"]) async for row in cursor]

    async def settle(self, document_id: str, mark: str) -> None:
        with mongo.translated():
            await self._changes.delete_one({"_id": document_id, "mark": mark})

    async def record(self, one: changes.Pass) -> None:
        row = {"begunAt": one.begun_at, "endedAt": one.ended_at, "clientId": one.client_id, "after": one.after}
        with mongo.translated():
            await self._passes.replace_one({"_id": one.kind}, row, upsert=True)

    async def passes(self) -> dict[api.PassKind, changes.Pass]:
        with mongo.translated():
            rows = [row async for row in self._passes.find()]
        return {
            row["_id"]: changes.Pass(row["_id"], row["begunAt"], row["endedAt"], row["clientId"], row["after"])
            for row in rows
        }

    async def close(self) -> None:
        """Nothing: the connection is the process's."""

    async def prepare(self) -> None:
        """Nothing: the server may be away at the start, and indexes are made at the first use."""

    async def _evict(self) -> None:
        excess = await self._answers.count_documents({}) - self._max_answers
        if excess > 0:
            oldest = self._answers.find({}, {"_id": 1}).sort([("usedAt", 1), ("_id", 1)]).limit(excess)
            await self._answers.delete_many({"_id": {"$in": [row["_id"] async for row in oldest]}})

    async def _listed(
        self, viewer: scope.Scope, state: request_record.State, limit: int
    ) -> list[request_record.IngestRequestRecord]:
        query = {**mongo.visible(viewer), "state": state.value}
        with mongo.translated():
            cursor = self._intents.find(query, {"request": 0}).sort("updatedAt", -1).limit(limit)
            return [_intent(row) async for row in cursor]

    async def _set(self, document_id: str, fence: int, said: dict[str, Any], now: datetime) -> None:
        with mongo.translated():
            await self._intents.update_one(_mine(document_id, fence), {"$set": {**said, "updatedAt": now}})

    async def _index(self) -> None:
        if not self._indexed:
            await self._intents.create_index([("state", 1), ("updatedAt", 1)])
            await self._intents.create_index([("clientId", 1), ("state", 1)])
            await self._answers.create_index([("usedAt", 1)])
            await self._answers.create_index([("asked", 1), ("clientId", 1)])
            self._indexed = True


def _mine(document_id: str, fence: int) -> dict[str, Any]:
    """The document's record, unless a newer owner of the document has written it."""
    return {"_id": document_id, "fence": {"$lte": fence}}


def _intent(row: dict[str, Any]) -> request_record.IngestRequestRecord:
    return request_record.IngestRequestRecord(
        document_id=row["_id"],
        owner=mongo.owner(row),
        source_urn=row["sourceUrn"],
        state=request_record.State(row["state"]),
        known=row["known"],
        attempts=row["attempts"],
        reason=row["reason"],
        updated_at=row["updatedAt"],
        recorded=row["recorded"],
        dated_ms=row.get("datedMs"),
        stored_ms=row.get("storedMs"),
        stamp=row.get("stamp", ""),
    )
