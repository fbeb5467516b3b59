"""MongoDB side of the archive, through motor.

Uses nothing that the MongoDB-wire server of the local profile lacks: no transaction, no TTL expiry, no pipeline update.
Every call may be repeated after a lost answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import bson
import bson.errors
import pymongo
import pymongo.errors
from motor.motor_asyncio import AsyncIOMotorClient

from controllers.archive.query import Place, Query
from controllers.memory.mongo import AtWire
from crds import errors, leftovers

ARCHIVE = leftovers.ARCHIVE
RESULTS = leftovers.RESULTS
MOST_BYTES = 16 * 1024 * 1024 - 16 * 1024
"""A document's bound with room for the command around it; beyond it some servers just close the connection."""
LEFTOVERS = leftovers.OF_RUNS

_NEWEST_FIRST = [("completedAt", pymongo.DESCENDING), ("_id", pymongo.DESCENDING)]
_INDEXES = (
    _NEWEST_FIRST,
    [("namespace", pymongo.ASCENDING), *_NEWEST_FIRST],
    [("namespace", pymongo.ASCENDING), ("clientId", pymongo.ASCENDING), *_NEWEST_FIRST],
    [("namespace", pymongo.ASCENDING), ("name", pymongo.ASCENDING), *_NEWEST_FIRST],
    [("archivedAt", pymongo.ASCENDING), ("_id", pymongo.ASCENDING)],
)
_SUMMARY = {"object.spec.content": 0, "object.spec.messages": 0, "result": 0}


class Unavailable(errors.Operational):
    """MongoDB is away or busy."""


class Rejected(errors.Permanent):
    """MongoDB will never take this document."""


class Archive:
    """One database. `fence` is asked before a write, and `at_wire` as it is sent.

    `timeout` in seconds bounds every answer, and `absent` the search for a server: somebody may wait for the 503.
    """

    def __init__(
        self,
        uri: str,
        database: str,
        *,
        fence: Callable[[], None],
        at_wire: Callable[[], None] = lambda: None,
        timeout: float = 5.0,
        absent: float = 2.0,
    ) -> None:
        milliseconds = int(timeout * 1000)
        self._client: Any = AsyncIOMotorClient(
            uri,
            appname="jervis-operator-archive",
            event_listeners=[AtWire(at_wire)],
            serverSelectionTimeoutMS=int(absent * 1000),
            connectTimeoutMS=milliseconds,
            socketTimeoutMS=milliseconds,
            tz_aware=True,
        )
        self._database = self._client[database]
        # What may be deleted afterwards has to survive the loss of a server: on a majority, and in its journal.
        durable = pymongo.WriteConcern(w="majority", j=True, wtimeout=milliseconds)
        self._archive = self._database.get_collection(ARCHIVE, write_concern=durable)
        self._fence = fence

    async def prepare(self) -> None:
        """Create the indexes; doing it again changes nothing. Raises `Unavailable`."""
        self._fence()
        with _trouble("create the archive's indexes"):
            for keys in _INDEXES:
                await self._archive.create_index(keys)

    async def result(self, uid: str) -> Mapping[str, Any] | None:
        """The task's document of `task_results`, or None. Raises `Unavailable`."""
        with _trouble("read the task's result"):
            found: Mapping[str, Any] | None = await self._database[RESULTS].find_one({"_id": uid})
        return found

    async def store(self, document: Mapping[str, Any]) -> None:
        """Insert or replace by _id; returns once it is acknowledged. Raises `Unavailable` or `Rejected`."""
        self._fence()
        with _trouble("take the archived task"):
            size = len(bson.encode(document))
            if size > MOST_BYTES:
                raise Rejected(f"the archived task is {size} bytes with its result, more than {MOST_BYTES}")
            try:
                # Not replaced: what was noted about the task since it was archived first (`told`) stays.
                fields = {key: value for key, value in document.items() if key != "_id"}
                written = await self._archive.update_one({"_id": document["_id"]}, {"$set": fields}, upsert=True)
            except pymongo.errors.WriteError as error:
                # About this document: the others must not wait for it.
                raise Rejected(f"MongoDB does not take the archived task: {str(error)[:200]}") from error
        if not written.acknowledged:
            raise Unavailable("MongoDB did not acknowledge the archived task")

    async def untold(
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
        with _trouble("list the finished tasks that nobody was told about"):
            cursor = self._archive.find(query).sort([("archivedAt", 1), ("_id", 1)]).limit(limit)
            return [one async for one in cursor]

    async def told(self, uid: str, outcome: Mapping[str, Any]) -> None:
        """Note what the knowledge base said about the task. Raises `Unavailable`."""
        self._fence()
        with _trouble("note what became of an outcome"):
            await self._archive.update_one({"_id": uid}, {"$set": {"outcome": dict(outcome)}})

    async def confirmed(self, uids: Collection[str]) -> set[str]:
        """Which of them the archive holds at this moment. Raises `Unavailable`."""
        with _trouble("confirm the archived tasks"):
            cursor = self._archive.find({"_id": {"$in": list(uids)}}, {"_id": 1})
            return {one["_id"] async for one in cursor}

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
        with _trouble("list what runs left behind"):
            cursor = self._archive.find(query, fields).sort([("archivedAt", 1), ("_id", 1)]).limit(limit)
            return [one async for one in cursor]

    async def sweep(self, uids: Collection[str], now: datetime) -> dict[str, int]:
        """Remove what runs of these tasks left behind; how many documents of each collection. Raises `Unavailable`."""
        removed = {}
        with _trouble("remove what runs left behind"):
            for collection, field in LEFTOVERS.items():
                self._fence()
                gone = await self._database[collection].delete_many({field: {"$in": list(uids)}})
                removed[collection] = gone.deleted_count
            self._fence()
            # Last: a sweep that was cut off is repeated.
            await self._archive.update_many({"_id": {"$in": list(uids)}}, {"$set": {"sweptAt": now}})
        return removed

    async def expire(self, namespaces: Collection[str], before: datetime, limit: int) -> int:
        """Remove up to `limit` documents archived before `before`, once nothing else is left of their tasks; how many.

        Raises `Unavailable`.
        """
        query = {
            "archivedAt": {"$lt": before},
            "namespace": {"$in": list(namespaces)},
            "sweptAt": {"$exists": True},
        }
        with _trouble("remove what was archived long ago"):
            cursor = self._archive.find(query, {"_id": 1}).sort([("archivedAt", 1), ("_id", 1)]).limit(limit)
            uids = [one["_id"] async for one in cursor]
            if not uids:
                return 0
            self._fence()
            gone = await self._archive.delete_many({"_id": {"$in": uids}})
        return int(gone.deleted_count)

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
        with _trouble("tell the history"):
            cursor = self._archive.find(wanted, _SUMMARY).sort(_NEWEST_FIRST).limit(query.limit)
            return [one async for one in cursor]

    async def one(self, uid: str) -> Mapping[str, Any] | None:
        """The whole archived document, or None. Raises `Unavailable`."""
        with _trouble("tell the history"):
            found: Mapping[str, Any] | None = await self._archive.find_one({"_id": uid})
        return found

    def close(self) -> None:
        """Drop the connections."""
        self._client.close()


@contextmanager
def _trouble(what: str) -> Iterator[None]:
    """The driver's errors by their retry meaning."""
    try:
        yield
    except (pymongo.errors.DocumentTooLarge, bson.errors.BSONError, OverflowError) as error:
        raise Rejected(f"MongoDB cannot {what}: {type(error).__name__}: {str(error)[:200]}") from error
    except pymongo.errors.PyMongoError as error:
        # pymongo appends its whole topology to a message; its first clause says what is wrong.
        short = str(error).split(", Timeout", 1)[0][:200]
        raise Unavailable(f"MongoDB did not {what}: {type(error).__name__}: {short}") from error
