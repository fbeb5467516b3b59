"""The items of sources: one MongoDB document per item and version, from its first sight to its task.

    New       stored, no task yet
    Indexing  a task is being created
    Indexed   the task exists
    Failed    no task can be made of it, with the reason; one whose task was refused has a time for its next try
    Gone      it left its source: its task and its document leave, then this (`controllers.sources.gone`)

`places` are where the source lists it, `seen` is the number of the last claim under which it was found there.

Source: seed 000 "Continuous Indexers".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from controllers.sources import assignments, mongo, port
from controllers.sources.mongo import ASCENDING, DESCENDING, trouble
from controllers.sources.state import Failed, State
from crds import connection, scope

NEW, INDEXING, INDEXED, FAILED, GONE = "New", "Indexing", "Indexed", "Failed", assignments.GONE
STATES = (NEW, INDEXING, INDEXED, FAILED)
_REASON_CHARS = 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Stored:
    """An item whose content is stored: `content` is the part of the task's spec that holds or names it."""

    id: str
    type: str
    urn: str
    title: str
    content: Mapping[str, Any]
    tries: int = 0
    nonce: str = ""
    """Differs each time it comes back: the task that it had before may still be there."""


def key(uid: str, source_id: str, version: str) -> str:
    """The identity of one version of an item of a Connection; its task's name is made of it."""
    return hashlib.sha256("\0".join((uid, source_id, version)).encode()).hexdigest()[:32]


def _said(one: port.Item) -> str:
    files = [(file.name, hashlib.sha256(file.body).hexdigest()) for file in one.files]
    facts = [one.facts.model_dump_json()] if one.facts is not None else []
    return hashlib.sha256(repr((one.title, one.text, files, *facts)).encode()).hexdigest()[:32]


class Names:
    """The things that are stored under some names: by name the digests of what they say."""

    def __init__(self, found: dict[str, set[str]]) -> None:
        self._found = found

    def another(self, one: port.Item) -> bool:
        """Whether another thing has its name; the same text and files that came another way are no other thing."""
        return bool(self._found.get(one.source_id, set()) - {_said(one)})

    def take(self, one: port.Item) -> None:
        """It is stored as well."""
        self._found.setdefault(one.source_id, set()).add(_said(one))


class Items:
    """`database` is one of `mongo.client`."""

    def __init__(self, database: Any) -> None:
        self._rows = database[assignments.ITEMS]

    async def prepare(self) -> None:
        """Make the indexes. Raises `Unavailable`."""
        with trouble("make an index"):
            await self._rows.create_index([("connection", ASCENDING), ("state", ASCENDING), ("found", ASCENDING)])
            await self._rows.create_index([("sourceId", ASCENDING)])
            await self._rows.create_index([("connection", ASCENDING), ("retryAt", ASCENDING)])
            await self._rows.create_index([("connection", ASCENDING), ("places", ASCENDING)])
            await self._rows.create_index([("urn", ASCENDING)])

    async def unknown(self, uid: str, found: Sequence[port.Item]) -> list[port.Item]:
        """Those whose version is not stored yet. Raises `Unavailable`."""
        keys = {key(uid, one.source_id, one.version): one for one in found}
        with trouble("look for items"):
            there = {"_id": {"$in": list(keys)}, "$or": [{"state": {"$ne": GONE}}, {"returned": {"$exists": True}}]}
            known = {row["_id"] async for row in self._rows.find(there, {"_id": 1})}
        return [one for at, one in keys.items() if at not in known]

    async def found(self, uid: str, some: Sequence[port.Item], fence: int) -> None:
        """Note where they were found under claim `fence`; what is not stored is left out. Raises `Unavailable`."""
        noted = [
            mongo.UpdateOne(
                {"_id": key(uid, one.source_id, one.version)},
                {"$addToSet": {"places": one.place}, "$max": {"seen": fence}},
            )
            for one in some
            if one.place
        ]
        if noted:
            with trouble("note the places of items"):
                await self._rows.bulk_write(noted, ordered=False)

    async def names(self, owner: scope.Scope, some: Sequence[port.Item]) -> Names:
        """The things that are stored for `owner` under the names of `some`, by any Connection. Raises `Unavailable`."""
        found: dict[str, set[str]] = {}
        wanted = {"sourceId": {"$in": [one.source_id for one in some]}, "scope": owner.model_dump(by_alias=True)}
        said = {"$ifNull": ["$said", ""]}
        # Two of each are enough to tell that there is another one.
        each = {"_id": "$sourceId", "least": {"$min": said}, "most": {"$max": said}}
        if some:
            with trouble("look for items"):
                async for row in self._rows.aggregate([{"$match": wanted}, {"$group": each}]):
                    found[row["_id"]] = {row["least"], row["most"]}
        return Names(found)

    async def add(
        self,
        uid: str,
        owner: scope.Scope,
        some: Sequence[tuple[port.Item, Mapping[str, Any]]],
        now: datetime,
        fence: int = 0,
    ) -> None:
        """Keep new items of `owner`, each with its content; one that is there already stays as it is. One that comes
        back while its task or document still leaves becomes new after that. Raises `Unavailable`."""
        if not some:
            return
        keys = [key(uid, one.source_id, one.version) for one, _ in some]
        rows = [_row(uid, owner, one, content, now, fence) for one, content in some]
        with trouble("keep items"):
            done = await self._rows.bulk_write(
                [
                    mongo.UpdateOne({"_id": at}, {"$setOnInsert": row}, upsert=True)
                    for at, row in zip(keys, rows, strict=True)
                ],
                ordered=False,
            )
            there = [at for at in range(len(some)) if at not in (done.upserted_ids or {})]
            if there:
                await self._rows.bulk_write(
                    [
                        mongo.UpdateOne(
                            {"_id": keys[at], "state": GONE, "returned": {"$exists": False}},
                            {"$set": {"returned": rows[at]}},
                        )
                        for at in there
                    ],
                    ordered=False,
                )
                await self.found(uid, [some[at][0] for at in there], fence)
            # They could not be read once; now they can.
            unread = [key(uid, one.source_id, "") for one, _ in some if one.editable]
            if unread:
                await self._rows.delete_many({"_id": {"$in": unread}, "state": FAILED, "type": {"$exists": False}})

    async def add_failure(self, uid: str, owner: scope.Scope, one: port.Failure, now: datetime, fence: int = 0) -> None:
        """Keep that there is something of which no task can be made. Raises `Unavailable`."""
        row = {
            "connection": uid,
            "scope": owner.model_dump(by_alias=True),
            "sourceId": one.source_id,
            "title": one.title,
            "found": now,
            "state": FAILED,
            "tries": 0,
            "reason": one.reason[:_REASON_CHARS],
        }
        places = {"$addToSet": {"places": one.place}, "$max": {"seen": fence}} if one.place else {}
        with trouble("keep a failed item"):
            await self._rows.update_one(
                {"_id": key(uid, one.source_id, "")}, {"$setOnInsert": row, **places}, upsert=True
            )

    async def backlog(self, uid: str) -> int:
        """How many have no task yet and are no failures. Raises `Unavailable`."""
        with trouble("count the items"):
            return int(await self._rows.count_documents({"connection": uid, "state": {"$in": [NEW, INDEXING]}}))

    async def refused(self, uid: str) -> tuple[int, str]:
        """How many have a task that was refused, and why one of them was. Raises `Unavailable`."""
        wanted = {"connection": uid, "state": {"$ne": GONE}, "retryAt": {"$gt": _EPOCH}}
        with trouble("count the items"):
            row = await self._rows.find_one(wanted, {"reason": 1})
            return (int(await self._rows.count_documents(wanted)), str(row["reason"])) if row is not None else (0, "")

    async def waiting(self, uid: str, limit: int, now: datetime) -> list[Stored]:
        """The oldest without a task, those first whose task is tried again. Raises `Unavailable`."""
        found: list[Stored] = []
        for wanted, order in (
            ({"state": {"$in": [NEW, INDEXING, FAILED]}, "retryAt": {"$gt": _EPOCH, "$lte": now}}, "retryAt"),
            ({"state": {"$in": [NEW, INDEXING]}, "retryAt": None}, "found"),
        ):
            if len(found) < limit:
                with trouble("list the items"):
                    rows = self._rows.find({"connection": uid, **wanted}).sort(order, ASCENDING)
                    found += [_stored(row) async for row in rows.limit(limit - len(found))]
        return found

    async def indexing(self, some: Sequence[Stored]) -> None:
        """Their tasks are being created. Raises `Unavailable`."""
        with trouble("write items"):
            await self._rows.update_many(
                {"_id": {"$in": [one.id for one in some]}, "state": {"$ne": GONE}}, {"$set": {"state": INDEXING}}
            )

    async def indexed(self, tasks: Mapping[str, str]) -> None:
        """By item the name of the task, which exists: the content is not needed here any more. Raises
        `Unavailable`."""
        done = [
            mongo.UpdateOne(
                {"_id": item_id, "state": {"$ne": GONE}},
                {"$set": {"state": INDEXED, "task": task, "reason": ""}, "$unset": {"content": "", "retryAt": ""}},
            )
            for item_id, task in tasks.items()
        ]
        if done:
            with trouble("write items"):
                await self._rows.bulk_write(done, ordered=False)

    async def failed(self, item_id: str, reason: str, retry_at: datetime) -> None:
        """Its task was refused. Raises `Unavailable`."""
        said = {"state": FAILED, "reason": reason[:_REASON_CHARS], "retryAt": retry_at}
        with trouble("write an item"):
            await self._rows.update_one({"_id": item_id, "state": {"$ne": GONE}}, {"$set": said, "$inc": {"tries": 1}})

    async def again(self, uid: str) -> None:
        """Have the failed ones tried again whose content is stored. Raises `Unavailable`."""
        failed = {"connection": uid, "state": FAILED, "type": {"$exists": True}}
        with trouble("write the items"):
            await self._rows.update_many(failed, {"$set": {"state": NEW, "tries": 0, "reason": "", "retryAt": None}})

    async def forget_unread(self, uid: str) -> None:
        """Forget the failed ones that were not stored: the source is read once more. Raises `Unavailable`."""
        with trouble("forget the items"):
            await self._rows.delete_many({"connection": uid, "state": FAILED, "type": {"$exists": False}})

    async def forget(self, uid: str) -> None:
        """Delete those of a Connection. Raises `Unavailable`."""
        with trouble("forget the items"):
            await self._rows.delete_many({"connection": uid})

    async def counts(self, uid: str) -> dict[str, int]:
        """By state, those without any included. Raises `Unavailable`."""
        with trouble("count the items"):
            return {
                state: int(await self._rows.count_documents({"connection": uid, "state": state})) for state in STATES
            }

    async def summed(self, uid: str, so_far: State) -> State:
        """The state with what is said there about items. Raises `Unavailable`."""
        shown = {"title": 1, "sourceId": 1, "reason": 1, "found": 1, "retryAt": 1, "type": 1}
        waiting = {"connection": uid, "state": {"$in": [NEW, INDEXING]}}
        with trouble("list the items"):
            rows = self._rows.find({"connection": uid, "state": FAILED}, shown).sort("found", DESCENDING)
            failed = tuple([_failed(row) async for row in rows.limit(connection.MOST_FAILURES)])
            oldest = await self._rows.find_one(waiting, {"found": 1}, sort=[("found", ASCENDING)])
        since = oldest and oldest["found"]
        return replace(so_far, items=await self.counts(uid), failed=failed, waiting_since=since)


def _row(
    uid: str, owner: scope.Scope, one: port.Item, content: Mapping[str, Any], now: datetime, fence: int
) -> dict[str, Any]:
    return {
        "connection": uid,
        "scope": owner.model_dump(by_alias=True),
        "sourceId": one.source_id,
        "type": one.type.value,
        "urn": one.urn,
        "title": one.title,
        "content": dict(content),
        "said": _said(one),
        "observedAt": one.observed_at,
        "found": now,
        "state": NEW,
        "tries": 0,
        "reason": "",
        "nonce": str(int(now.timestamp() * 1000)),
        **_place(one.place, fence),
    }


def _place(place: str, fence: int) -> dict[str, Any]:
    return {"places": [place], "seen": fence} if place else {}


def _failed(row: Mapping[str, Any]) -> Failed:
    title, reason = str(row["title"] or row["sourceId"])[:256], str(row["reason"])[:512]
    return Failed(title, reason, row["found"], row.get("retryAt"), stored="type" in row)


def _stored(row: Mapping[str, Any]) -> Stored:
    return Stored(
        row["_id"],
        row["type"],
        row["urn"],
        row["title"],
        row["content"],
        int(row["tries"]),
        row.get("nonce", ""),
    )
