"""MongoDB side of the archive, through motor.

Uses nothing that the MongoDB-wire server of the local profile lacks: no transaction, no TTL expiry, no pipeline update.
Every call may be repeated after a lost answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import bson
import bson.errors
import pymongo
import pymongo.errors

from clients.mongo import Refused, Unavailable, translate_errors
from contracts import mongo_collections
from controllers.archive import traces
from controllers.archive.query import Place, Query

ARCHIVE = mongo_collections.ARCHIVE
MEMORY = mongo_collections.MEMORY
RESULTS = mongo_collections.RESULTS
FENCES, JOURNAL, LEDGER = "orchestrator_fences", "orchestrator_journal", "orchestrator_ledger"
ARTIFACTS, METRICS = "orchestrator_artifacts", mongo_collections.METRICS
"""What runs write while they work (`orchestrator_job`)."""
_MOST_WRITTEN = 5000
"""Documents of one task that are read of each: forty delegations with a hundred events each, and some."""
MOST_BYTES = 16 * 1024 * 1024 - 16 * 1024
"""A document's bound with room for the command around it; beyond it some servers just close the connection."""
LEFTOVERS = mongo_collections.OF_RUNS

_NEWEST_FIRST = [("completedAt", pymongo.DESCENDING), ("_id", pymongo.DESCENDING)]
_INDEXES = (
    _NEWEST_FIRST,
    [("namespace", pymongo.ASCENDING), *_NEWEST_FIRST],
    [("namespace", pymongo.ASCENDING), ("clientId", pymongo.ASCENDING), *_NEWEST_FIRST],
    [("namespace", pymongo.ASCENDING), ("name", pymongo.ASCENDING), *_NEWEST_FIRST],
    [("archivedAt", pymongo.ASCENDING), ("_id", pymongo.ASCENDING)],
)
_OF_MEMORY = (
    [("archived", pymongo.ASCENDING), ("_id", pymongo.ASCENDING)],
    [("correlationId", pymongo.ASCENDING), ("scope.clientId", pymongo.ASCENDING)],
)
_OF_SCOPE = [(field, pymongo.ASCENDING) for field in ("clientId", "projectId", "groupId")]
_OF_CHAT = [*_OF_SCOPE, ("conversation", pymongo.ASCENDING), ("at", pymongo.DESCENDING)]
_SUMMARY = {"object.spec.content": 0, "object.spec.messages": 0, "result": 0}


@dataclass(frozen=True, slots=True)
class Held:
    """What is archived of one task: the generation of its spec, and its correlationId for the log."""

    generation: int
    correlation: str = ""


class Archive:
    """The archive in `database`. `fence` is asked before a write, which the servers confirm within `timeout`
    seconds."""

    def __init__(self, database: Any, *, fence: Callable[[], None], timeout: float = 5.0) -> None:
        self._database = database
        # What may be deleted afterwards has to survive the loss of a server: on a majority, and in its journal.
        durable = pymongo.WriteConcern(w="majority", j=True, wtimeout=int(timeout * 1000))
        self._archive = self._database.get_collection(ARCHIVE, write_concern=durable)
        self._fence = fence

    async def prepare(self) -> None:
        """Create the indexes; doing it again changes nothing. Raises `Unavailable`."""
        self._fence()
        with translate_errors("create the archive's indexes"):
            for keys in _INDEXES:
                await self._archive.create_index(keys)
            for keys in _OF_MEMORY:
                await self._database[MEMORY].create_index(keys)
            # What runs write is read, pruned and swept by its task; runs themselves make no indexes.
            for name, field in LEFTOVERS.items():
                if field != "_id":
                    await self._database[name].create_index([(field, pymongo.ASCENDING)])
            await self._database[mongo_collections.CHAT].create_index(_OF_CHAT)
            await self._database[mongo_collections.CONTEXT].create_index(_OF_SCOPE)
            for name, more in ((METRICS, ("counted",)), (mongo_collections.CONTEXT, ())):
                for field in ("taskUid", "expiresAt", *more):
                    await self._database[name].create_index([(field, pymongo.ASCENDING)])

    async def results(self, uids: Collection[str]) -> AsyncGenerator[Mapping[str, Any]]:
        """The documents of `task_results` that these tasks have, one after the other. Raises `Unavailable`."""
        with translate_errors("read the tasks' results"):
            async for found in self._database[RESULTS].find({"_id": {"$in": list(uids)}}):
                yield found

    async def live(self, uid: str) -> Mapping[str, Any] | None:
        """Namespace, name, scope and result of a task that a run was made for; None when no run stored one. Whose it
        is stands in what the run was given. Raises `Unavailable`."""
        with translate_errors("read the task's result"):
            owner = await self._database[MEMORY].find_one({"_id": uid}, {"namespace": 1, "name": 1, "scope": 1})
            if owner is None:
                return None
            stored = await self._database[RESULTS].find_one({"_id": uid})
        return None if stored is None else {"name": "", "namespace": "", **owner, "result": stored}

    async def owner(self, uid: str) -> Mapping[str, Any] | None:
        """Namespace and name of a task, whether it lives or is archived; None for one that is not known. Raises
        `Unavailable`."""
        fields = {"namespace": 1, "name": 1}
        with translate_errors("read whose task it is"):
            for collection in (self._archive, self._database[MEMORY]):
                found: Mapping[str, Any] | None = await collection.find_one({"_id": uid}, fields)
                if found is not None:
                    return found
        return None

    async def left(self, uid: str) -> traces.Stored:
        """What runs of a task wrote about their work. Raises `Unavailable`."""
        with translate_errors("read what the task's runs did"):
            fence = await self._database[FENCES].find_one({"_id": uid})
            result = await self._database[RESULTS].find_one({"_id": uid}, {"round": 1, "confidence": 1})

            async def of(
                collection: str, fields: Collection[str], more: Mapping[str, Any] | None = None
            ) -> list[Mapping[str, Any]]:
                wanted = {"taskUid": uid, **(more or {})}
                found = self._database[collection].find(wanted, list(fields)).limit(_MOST_WRITTEN)
                return [one async for one in found]

            return traces.Stored(
                fence=fence or {},
                result=result or {},
                metrics=[one async for one in self._database[METRICS].find({"taskUid": uid}).limit(_MOST_WRITTEN)],
                journal=[
                    *await of(JOURNAL, ("delegation", "kind", "at"), {"kind": {"$ne": "begun"}}),
                    *await of(JOURNAL, ("delegation", "kind", "at", "value"), {"kind": "begun"}),
                ],
                ledger=await of(LEDGER, ("step", "ordinal", "state", "intent", "askedBy", "result.verdict")),
            )

    async def texts(self, uid: str, keys: Collection[str]) -> dict[str, str]:
        """Those of the task's stored values that are kept under these keys, as JSON text. Raises `Unavailable`."""
        wanted = [f"{uid}/{key}" for key in keys]
        with translate_errors("read the task's artifacts"):
            found = self._database[ARTIFACTS].find({"_id": {"$in": wanted}}, {"body": 1})
            return {str(one["_id"]).partition("/")[2]: str(one["body"]) async for one in found}

    async def store(self, documents: AsyncIterable[Mapping[str, Any]]) -> Mapping[str, Refused]:
        """Insert or replace by _id; returns once all are acknowledged, with those that MongoDB will never take.

        Raises `Unavailable`: then some may be stored, and storing them again changes nothing.
        """
        refused: dict[str, Refused] = {}
        batch: list[Mapping[str, Any]] = []
        size = 0
        async for document in documents:
            try:
                with translate_errors("take the archived task"):
                    length = len(bson.encode(document))
                if length > MOST_BYTES:
                    raise Refused(f"the archived task is {length} bytes with its result, more than {MOST_BYTES}")
            except Refused as error:
                refused[document["_id"]] = error
                continue
            if batch and size + length > MOST_BYTES:
                refused |= await self._write(batch)
                batch, size = [], 0
            batch.append(document)
            size += length
        return refused | await self._write(batch)

    async def _write(self, batch: Sequence[Mapping[str, Any]]) -> dict[str, Refused]:
        """One batch. A document that is refused holds up none of the others."""
        if not batch:
            return {}
        self._fence()
        # Not replaced: what was noted about the task since it was archived first (`outcome`) stays.
        updates = [
            pymongo.UpdateOne(
                {"_id": one["_id"]}, {"$set": {key: value for key, value in one.items() if key != "_id"}}, upsert=True
            )
            for one in batch
        ]
        with translate_errors("take the archived tasks"):
            try:
                written = await self._archive.bulk_write(updates, ordered=False)
            except pymongo.errors.BulkWriteError as error:
                if error.details.get("writeConcernErrors"):
                    raise
                return {
                    batch[one["index"]]["_id"]: Refused(
                        f"MongoDB does not take the archived task: {str(one.get('errmsg'))[:200]}"
                    )
                    for one in error.details["writeErrors"]
                }
        if not written.acknowledged:
            raise Unavailable("MongoDB did not acknowledge the archived tasks")
        return {}

    async def unreported(
        self, namespaces: Collection[str], phases: Collection[str], since: datetime, after: Place | None, limit: int
    ) -> list[Mapping[str, Any]]:
        """Tasks that ended in one of `phases`, were archived at `since` or later and have no outcome yet: the whole
        documents, oldest first, beyond `after`. Raises `Unavailable`."""
        query: dict[str, Any] = {
            "archivedAt": {"$gte": since},
            "namespace": {"$in": list(namespaces)},
            "phase": {"$in": list(phases)},
            "outcome": {"$exists": False},
        }
        if after is not None:
            query["$or"] = [
                {"archivedAt": {"$gt": after.at}},
                {"archivedAt": after.at, "_id": {"$gt": after.uid}},
            ]
        with translate_errors("list the finished tasks whose outcomes are not reported"):
            cursor = self._archive.find(query).sort([("archivedAt", 1), ("_id", 1)]).limit(limit)
            return [one async for one in cursor]

    async def ended(
        self, namespaces: Collection[str], phases: Collection[str], since: datetime, after: Place | None, limit: int
    ) -> list[Mapping[str, Any]]:
        """Tasks that ended in one of `phases` and were archived at `since` or later, oldest first, beyond `after`,
        without contents. Raises `Unavailable`."""
        query: dict[str, Any] = {
            "archivedAt": {"$gte": since},
            "namespace": {"$in": list(namespaces)},
            "phase": {"$in": list(phases)},
        }
        if after is not None:
            query["$or"] = [
                {"archivedAt": {"$gt": after.at}},
                {"archivedAt": after.at, "_id": {"$gt": after.uid}},
            ]
        with translate_errors("list the finished tasks"):
            cursor = self._archive.find(query, _SUMMARY).sort([("archivedAt", 1), ("_id", 1)]).limit(limit)
            return [one async for one in cursor]

    async def record_outcome(self, uid: str, outcome: Mapping[str, Any]) -> None:
        """Store the answer of the knowledge base about the task. Raises `Unavailable`."""
        self._fence()
        with translate_errors("record the answer about an outcome"):
            await self._archive.update_one({"_id": uid}, {"$set": {"outcome": dict(outcome)}})

    async def confirmed(self, uids: Collection[str]) -> dict[str, Held]:
        """What the archive holds of them at this moment. Raises `Unavailable`."""
        fields = {"object.metadata.generation": 1, "object.spec.correlationId": 1}
        with translate_errors("confirm the archived tasks"):
            found = self._archive.find({"_id": {"$in": list(uids)}}, fields)
            return {
                one["_id"]: Held(
                    int(one["object"]["metadata"].get("generation", 1)),
                    one["object"].get("spec", {}).get("correlationId", ""),
                )
                async for one in found
            }

    async def over(
        self, namespaces: Collection[str], before: datetime, after: Place | None, limit: int
    ) -> list[Mapping[str, Any]]:
        """Tasks archived before `before` whose leftovers are still there, oldest first, beyond `after`; no objects."""
        query: dict[str, Any] = {
            "archivedAt": {"$lt": before},
            "namespace": {"$in": list(namespaces)},
            "sweptAt": {"$exists": False},
        }
        if after is not None:
            query["$or"] = [
                {"archivedAt": {"$gt": after.at}},
                {"archivedAt": after.at, "_id": {"$gt": after.uid}},
            ]
        fields = {"namespace": 1, "name": 1, "archivedAt": 1}
        with translate_errors("list what runs left behind"):
            cursor = self._archive.find(query, fields).sort([("archivedAt", 1), ("_id", 1)]).limit(limit)
            return [one async for one in cursor]

    async def sweep(self, uids: Collection[str], now: datetime) -> dict[str, int]:
        """Remove what runs of these tasks left behind; how many documents of each collection. Raises `Unavailable`."""
        with translate_errors("remove what runs left behind"):
            removed = await self._remove(uids)
            self._fence()
            # Last: a sweep that was cut off is repeated.
            await self._archive.update_many({"_id": {"$in": list(uids)}}, {"$set": {"sweptAt": now}})
        return removed

    async def overdue(self, namespaces: Collection[str], before: datetime, most: int) -> int:
        """How many tasks `expire` would remove, counted up to `most`. Raises `Unavailable`."""
        with translate_errors("count what was archived long ago"):
            return int(await self._archive.count_documents(_expired(namespaces, before), limit=most))

    async def size(self) -> int:
        """About how many tasks the archive holds. Raises `Unavailable`."""
        with translate_errors("count the archived tasks"):
            return int(await self._archive.estimated_document_count())

    async def expire(self, namespaces: Collection[str], before: datetime, limit: int) -> int:
        """Remove up to `limit` documents archived before `before`, once nothing else is left of their tasks; how many.

        Raises `Unavailable`.
        """
        with translate_errors("remove what was archived long ago"):
            cursor = self._archive.find(_expired(namespaces, before), {"_id": 1})
            uids = [one["_id"] async for one in cursor.sort([("archivedAt", 1), ("_id", 1)]).limit(limit)]
            if not uids:
                return 0
            self._fence()
            gone = await self._archive.delete_many({"_id": {"$in": uids}})
        return int(gone.deleted_count)

    async def unarchived(
        self, namespaces: Collection[str], before: datetime, after: str, limit: int
    ) -> list[Mapping[str, Any]]:
        """Memories of tasks last written before `before` and not known to be archived: {_id, namespace, name,
        leaseCreated?}.

        By uid, beyond `after`. Those found to be archived are marked and not checked again, so a page may hold fewer
        than it was made from; an empty one says that `after` was the last. Raises `Unavailable`.
        """
        memory = self._database[MEMORY]
        while True:
            query = {
                "archived": None,
                "namespace": {"$in": list(namespaces)},
                "updatedAt": {"$lt": before},
                "_id": {"$gt": after},
            }
            with translate_errors("list the memories of tasks"):
                cursor = memory.find(query, {"namespace": 1, "name": 1, "leaseCreated": 1}).sort("_id", 1).limit(limit)
                found = [one async for one in cursor]
            held = await self.confirmed([one["_id"] for one in found])
            if held:
                self._fence()
                with translate_errors("note which tasks are archived"):
                    await memory.update_many({"_id": {"$in": list(held)}}, {"$set": {"archived": True}})
            left = [one for one in found if one["_id"] not in held]
            if left or len(found) < limit:
                return left
            after = found[-1]["_id"]

    async def abandon(self, uids: Collection[str]) -> dict[str, int]:
        """Remove what is kept of tasks that were deleted and never archived, by collection. Raises `Unavailable`."""
        with translate_errors("remove what deleted tasks left behind"):
            return await self._remove(uids)

    async def _remove(self, uids: Collection[str]) -> dict[str, int]:
        removed = {}
        for collection, field in LEFTOVERS.items():
            self._fence()
            gone = await self._database[collection].delete_many({field: {"$in": list(uids)}})
            removed[collection] = gone.deleted_count
        return removed

    async def page(self, query: Query) -> list[Mapping[str, Any]]:
        """Archived tasks that match, the one that ended last first, without contents. Raises `Unavailable`."""
        wanted: dict[str, Any] = {key: value for key, value in query.equal().items() if value}
        if query.since is not None:
            wanted["completedAt"] = {"$gte": query.since}
        if query.before is not None:
            wanted["$or"] = [
                {"completedAt": {"$lt": query.before.at}},
                {"completedAt": query.before.at, "_id": {"$lt": query.before.uid}},
            ]
        with translate_errors("read the history"):
            cursor = self._archive.find(wanted, _SUMMARY).sort(_NEWEST_FIRST).limit(query.limit)
            return [one async for one in cursor]

    async def one(self, uid: str) -> Mapping[str, Any] | None:
        """The whole archived document, or None. Raises `Unavailable`."""
        with translate_errors("read the history"):
            found: Mapping[str, Any] | None = await self._archive.find_one({"_id": uid})
        return found


def _expired(namespaces: Collection[str], before: datetime) -> dict[str, Any]:
    return {"archivedAt": {"$lt": before}, "namespace": {"$in": list(namespaces)}, "sweptAt": {"$exists": True}}
