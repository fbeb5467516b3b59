"""The items of sources: one MongoDB document per item and version, from its first sight to its task.

    New       stored, no task yet
    Indexing  a task is being created
    Indexed   the task exists
    Failed    no task can be made of it, with the reason; one whose task was refused has a time for its next try
    Gone      it left its source: its task and its document leave, then this (`sources.core.missing_items`)

`places` are where the source lists it, `seen` is the number of the last claim under which it was found there,
`supersededBy` of the last one under which another version followed it, `leftBy` of the last one under which it was
missing: what an outrun process has read is older than these, and changes nothing. `access` is who may read it as it was
stored last, the same at all versions of a thing: where that alone changes, the version
becomes New again with a task of its own, and its row as it was stays beside it as that of an older version.

Source: seed 000 "Continuous Indexers".
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from clients import backoff, mongo
from clients.mongo import ASCENDING, DESCENDING, translate_errors
from crds import scope
from crds.access import Access
from sources.core import assignments, counting, port
from sources.core.counting import EPOCH, FAILED, GONE, INDEXED, INDEXING, NEW

_REASON_CHARS = 1024
_LEFT_OUT = 20
"""Sentences of one item about what was left out of it."""
READ_AGAIN = backoff.Doubling(first=600.0, cap=86400.0)
"""Seconds until what could not be read is asked for again."""


_UNREAD: Mapping[str, Any] = {"state": FAILED, "type": {"$exists": False}}


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
    # What never changes says the same wherever it arrives; its facts tell when that was.
    facts = [one.facts.model_dump_json()] if one.facts is not None and one.editable else []
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
        self._rows, self._connections = database[assignments.ITEMS], database[assignments.CONNECTIONS]
        self.counted = counting.Counts(self._rows)

    async def prepare(self) -> None:
        """Make the indexes. Raises `Unavailable`."""
        with translate_errors("make an index"):
            await self._rows.create_index([("connection", ASCENDING), ("state", ASCENDING), ("found", ASCENDING)])
            await self._rows.create_index([("sourceId", ASCENDING)])
            await self._rows.create_index([("connection", ASCENDING), ("retryAt", ASCENDING)])
            await self._rows.create_index([("connection", ASCENDING), ("places", ASCENDING)])
            await self._rows.create_index([("urn", ASCENDING)])
            await self._rows.create_index([("superseded", ASCENDING), ("found", ASCENDING)], sparse=True)

    async def unknown(self, uid: str, found: Sequence[port.Item]) -> list[port.Item]:
        """Those whose version is not stored yet, or was stored for other readers. Raises `Unavailable`."""
        keys = {key(uid, one.source_id, one.version): one for one in found}
        with translate_errors("look for items"):
            there = {"_id": {"$in": list(keys)}, "$or": [{"state": {"$ne": GONE}}, {"returned": {"$exists": True}}]}
            shown = {"superseded": 1, "access": 1, "returned.access": 1}
            known = {
                row["_id"]: row.get("returned", row)
                async for row in self._rows.find(there, shown)
                if not (keys[row["_id"]].recurs and row.get("superseded"))
            }
        return [one for at, one in keys.items() if at not in known or known[at].get("access", "") != mark(one.access)]

    async def found(self, uid: str, some: Sequence[port.Item], fence: int) -> None:
        """Note where they were found under claim `fence`, and who may read them; what is not stored is left out.
        Raises `Unavailable`."""
        await self._tell(uid, some, fence)
        noted = [
            mongo.UpdateOne(
                {"_id": key(uid, one.source_id, one.version)},
                {"$addToSet": {"places": one.place}, "$max": {"seen": fence}},
            )
            for one in some
            if one.place
        ]
        await self._at(uid, [one for one in some if one.place and one.editable], fence)
        if noted:
            with translate_errors("note the places of items"):
                await self._rows.bulk_write(noted, ordered=False)

    async def _at(self, uid: str, some: Sequence[port.Item], fence: int) -> None:
        """Older versions at the places of these things are as much there as they are, whatever a list shows that is
        behind: a task of theirs that was not begun stays."""
        if some:
            names, places = [one.source_id for one in some], [one.place for one in some]
            older = {"connection": uid, "sourceId": {"$in": names}, "places": {"$in": places}, "superseded": True}
            with translate_errors("note the places of items"):
                await self._rows.update_many(older, {"$max": {"seen": fence}})

    async def names(self, owner: scope.Scope, some: Sequence[port.Item]) -> Names:
        """The things that are stored for `owner` under the names of `some`, by any Connection that there is, whatever
        its namespace: those of a client share what is known. Raises `Unavailable`."""
        found: dict[str, set[str]] = {}
        wanted = {"sourceId": {"$in": [one.source_id for one in some]}, "scope": owner.model_dump(by_alias=True)}
        said = {"$ifNull": ["$said", ""]}
        # Two of each are enough to tell that there is another one.
        name = {"name": "$sourceId", "of": "$connection"}
        each = {"_id": name, "least": {"$min": said}, "most": {"$max": said}}
        if some:
            with translate_errors("look for items"):
                rows = [row async for row in self._rows.aggregate([{"$match": wanted}, {"$group": each}])]
            there = await self._there({row["_id"]["of"] for row in rows})
            for row in rows:
                if row["_id"]["of"] in there:
                    found.setdefault(row["_id"]["name"], set()).update((row["least"], row["most"]))
        return Names(found)

    async def _there(self, uids: Collection[str]) -> frozenset[str]:
        """Those of the Connections whose object is there, as far as is known."""
        wanted = {"_id": {"$in": list(uids)}, "absent": {"$ne": True}}
        with translate_errors("look for Connections"):
            return frozenset([row["_id"] async for row in self._connections.find(wanted, {"_id": 1})])

    async def outdated(self, before: datetime) -> int:
        """Delete versions that have a task and were followed by another one, found before that time; how many. None is
        listed any more, and a source that went back to one has it as news. Raises `Unavailable`."""
        old = {"superseded": True, "state": INDEXED, "found": {"$lt": before}}
        with translate_errors("delete older versions of items"):
            return int((await self._rows.delete_many(old)).deleted_count)

    async def left_over(self) -> int:
        """Delete the items of Connections that are forgotten: a process that was frozen stored them after that. How
        many. Raises `Unavailable`."""
        with translate_errors("look for items that are left over"):
            uids, count = await self._rows.distinct("connection"), 0
            known = {row["_id"] async for row in self._connections.find({"_id": {"$in": uids}}, {"_id": 1})}
            for uid in uids:
                # Once more just before: it may be wanted again since.
                if uid not in known and await self._connections.find_one({"_id": uid}, {"_id": 1}) is None:
                    count += int((await self._rows.delete_many({"connection": uid})).deleted_count)
            return count

    async def keep(
        self,
        uid: str,
        owner: scope.Scope,
        some: Sequence[tuple[port.Item, Mapping[str, Any]]],
        now: datetime,
        fence: int = 0,
    ) -> None:
        """`add` for several, those that never change in one write. Raises `Unavailable`, `mongo.Refused`."""
        if some:
            self.counted.written(uid)
        plain = [(one, content) for one, content in some if not one.editable]
        rest = [(one, content) for one, content in some if one.editable]
        if plain:
            with translate_errors("keep items"):
                done = await self._rows.bulk_write(
                    [
                        mongo.UpdateOne(
                            {"_id": key(uid, one.source_id, one.version)},
                            {"$setOnInsert": _row(uid, owner, one, content, now, fence)},
                            upsert=True,
                        )
                        for one, content in plain
                    ],
                    ordered=False,
                )
            new = done.upserted_ids or {}
            rest += [pair for at, pair in enumerate(plain) if at not in new]
        for one, content in rest:
            await self.add(uid, owner, one, content, now, fence)

    async def add(
        self, uid: str, owner: scope.Scope, one: port.Item, content: Mapping[str, Any], now: datetime, fence: int = 0
    ) -> None:
        """Keep a new item of `owner`; one that is there already stays as it is, unless others may read it now. One that
        comes back while its task or document still leaves becomes new after that. Raises `Unavailable`.

        Raises `assignments.Lost` where a later claim has found the thing: what is older is left out, and the cursor
        that knows it is not stored either."""
        self.counted.written(uid)
        row = _row(uid, owner, one, content, now, fence)
        item_id = key(uid, one.source_id, one.version)
        with translate_errors("keep an item"):
            if one.editable and await self._same(uid, one, row):
                return
            if one.editable:
                # First: after a kill in between it is repeated. What came back in an older version stays away.
                others = {"connection": uid, "sourceId": one.source_id, "_id": {"$ne": item_id}}
                others["type"] = {"$exists": True}
                newer = {**others, "seen": {"$gt": fence}}
                older = {"$set": {"superseded": True}, "$max": {"supersededBy": fence}, "$unset": {"returned": ""}}
                await self._rows.update_many({**others, **_outrun("seen", fence)}, older)
                if await self._rows.find_one(newer, {"_id": 1}) is not None:
                    raise assignments.Lost(f"item {one.source_id} was found under a later claim")
                # Of two versions the later one becomes the later task, whatever the clocks of two processes say.
                last = await self._rows.find_one(others, {"found": 1}, sort=[("found", DESCENDING)])
                if last is not None:
                    row["found"] = max(now, last["found"] + timedelta(milliseconds=1))
            done = await self._rows.update_one({"_id": item_id}, {"$setOnInsert": row}, upsert=True)
            if one.editable and done.upserted_id and await self._rows.find_one(newer, {"_id": 1}) is not None:
                # It stood still before this write until its successor had stored its own.
                await self._rows.delete_one({"_id": item_id, "state": NEW, "seen": fence})
                raise assignments.Lost(f"item {one.source_id} was found under a later claim")
            if done.upserted_id is None:
                again = {"_id": item_id, "state": GONE, "$or": [{"returned": None}, _others(one, "returned.access")]}
                again |= _outrun("leftBy", fence) | _outrun("supersededBy", fence) | _outrun("seen", fence)
                await self._rows.update_one(again, {"$set": {"returned": row}, "$unset": {"superseded": ""}})
                if one.recurs:
                    back = {"_id": item_id, "state": {"$ne": GONE}, "superseded": True}
                    back |= _outrun("supersededBy", fence)
                    changed = {"$set": row, "$unset": {"superseded": "", "task": "", "retryAt": ""}}
                    await self._made_new(back, changed)
                await self._readers(item_id, one, row, fence)
                await self.found(uid, [one], fence)
            elif one.editable and one.place:
                await self._at(uid, [one], fence)
            await self._tell(uid, [one], fence)
            if one.editable:
                await self._rows.delete_many(_were_unread(uid, [one]))

    async def take_back(self, uid: str, some: Sequence[port.Item], fence: int) -> None:
        """Delete what was stored of these after claim `fence` was lost, unless a later one has found it or it has its
        task: the source may have something else by now, of which no cursor knows. The version before it is the last one
        again. Raises `Unavailable`."""
        self.counted.written(uid, None)
        for one in (one for one in some if one.editable):
            ours = {"_id": key(uid, one.source_id, one.version), "state": NEW, "seen": fence, "stored": fence}
            thing = {"connection": uid, "sourceId": one.source_id, "type": {"$exists": True}}
            with translate_errors("take items back"):
                if not (await self._rows.delete_one(ours)).deleted_count:
                    continue
                before = await self._rows.find_one(thing, {"superseded": 1}, sort=[("found", DESCENDING)])
                if before is not None and await self._rows.find_one({**thing, "superseded": None}, {"_id": 1}) is None:
                    last = {"_id": before["_id"], "supersededBy": fence}
                    await self._rows.update_one(last, {"$unset": {"superseded": "", "supersededBy": ""}})

    async def _same(self, uid: str, one: port.Item, row: Mapping[str, Any]) -> bool:
        """Whether the version before says the same to the same readers: another time alone is no news. An issue that
        changes between its row and its comments is read with what it says then, and once more with its later time."""
        before = {"connection": uid, "sourceId": one.source_id, "said": row["said"], "access": row["access"]}
        before |= {"_id": {"$ne": key(uid, one.source_id, one.version)}, "type": {"$exists": True}}
        noted = {"$addToSet": {"places": one.place}, "$max": {"seen": row["seen"]}} if one.place else {}
        done = await self._rows.update_one(
            {**before, "superseded": None, "state": {"$ne": GONE}}, noted or {"$set": {"said": row["said"]}}
        )
        return bool(done.matched_count)

    async def _tell(self, uid: str, some: Sequence[port.Item], fence: int) -> None:
        """Note at all other versions of them who may read them, as far as no later claim has found these. Their own
        row says for whom its content was stored; of two things with one name each has its readers."""
        by_readers: dict[str, list[port.Item]] = {}
        for one in some:
            if one.editable:
                by_readers.setdefault(mark(one.access), []).append(one)
        for told, alike in by_readers.items():
            own = {"$nin": [key(uid, one.source_id, one.version) for one in alike]}
            names = {"$in": [one.source_id for one in alike]}
            versions = {"connection": uid, "sourceId": names, "_id": own, "type": {"$exists": True}}
            versions |= _others(alike[0]) | _outrun("seen", fence)
            with translate_errors("note who may read items"):
                await self._rows.update_many(versions, {"$set": {"access": told}})

    async def _readers(self, item_id: str, one: port.Item, row: Mapping[str, Any], fence: int) -> None:
        """Others may read it than when it was stored: it becomes new, and its task stays known."""
        wanted = {"_id": item_id, "state": {"$ne": GONE}, **_others(one), **_outrun("seen", fence)}
        said = {name: row[name] for name in ("content", "access", "nonce", "found", "state", "tries", "reason")}
        seen = {"$max": {"seen": fence}} if one.place else {}
        await self._made_new(wanted, {"$set": said, "$unset": {"task": "", "retryAt": ""}, **seen})

    async def _made_new(self, wanted: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Change this row, if it is there, after its task is kept; once more where its task was made meanwhile."""
        while (before := await self._rows.find_one(wanted)) is not None:
            self.counted.written(before["connection"], None)
            await self._keep_task(before)
            as_kept = {**wanted, "state": before["state"], "nonce": before["nonce"]}
            if (await self._rows.update_one(as_kept, changed)).matched_count:
                return

    async def _keep_task(self, before: Mapping[str, Any]) -> None:
        """The item becomes new: the task that it has stays known as that of an older version, and leaves with it."""
        if before["state"] not in (INDEXING, INDEXED):
            return
        kept = {**before, "_id": f"{before['_id']}/{before['nonce']}", "state": INDEXED, "superseded": True}
        kept.pop("content", None)
        await self._rows.replace_one({"_id": kept["_id"]}, kept, upsert=True)

    async def add_failure(self, uid: str, owner: scope.Scope, one: port.Failure, now: datetime, fence: int = 0) -> None:
        """Keep that there is something of which no task can be made, as it is said now. Raises `Unavailable`."""
        self.counted.written(uid)
        row = {
            "connection": uid,
            "scope": owner.model_dump(by_alias=True),
            "sourceId": one.source_id,
            "found": now,
            "state": FAILED,
            "tries": 0,
            **({"readAgainAt": now + timedelta(seconds=READ_AGAIN.delay(1))} if one.place else {}),
        }
        said = {"reason": one.reason[:_REASON_CHARS], **({"title": one.title} if one.title else {})}
        row |= {} if one.title else {"title": ""}
        places = {"$addToSet": {"places": one.place}, "$max": {"seen": fence}} if one.place else {}
        failed = {"_id": key(uid, one.source_id, "")}
        names = [{"sourceId": one.source_id}, *([{"places": one.place}] if one.place else ())]
        read = {"connection": uid, "$or": names, "type": {"$exists": True}, "seen": {"$gt": fence}}
        with translate_errors("keep a failed item"):
            await self._rows.update_one(failed, {"$setOnInsert": row, "$set": said, **places}, upsert=True)
            if await self._rows.find_one(read, {"_id": 1}) is not None:
                # Its successor could read it.
                await self._rows.delete_one({**failed, "state": FAILED, "seen": {"$not": {"$gt": fence}}})

    async def unread(self, uid: str, now: datetime, limit: int) -> list[str]:
        """Places of things that could not be read and are asked for now; the next time is later each time. Raises
        `Unavailable`."""
        due = {"connection": uid, **_UNREAD, "places": {"$exists": True}, "readAgainAt": {"$lte": now}}
        with translate_errors("look for what could not be read"):
            rows = [row async for row in self._rows.find(due, {"places": 1, "tries": 1}).limit(limit)]
            written = [
                mongo.UpdateOne(
                    {"_id": row["_id"], **_UNREAD},
                    {
                        "$set": {"readAgainAt": now + timedelta(seconds=READ_AGAIN.delay(int(row["tries"]) + 2))},
                        "$inc": {"tries": 1},
                    },
                )
                for row in rows
            ]
            if written:
                await self._rows.bulk_write(written, ordered=False)
        return [row["places"][-1] for row in rows]

    async def was_read(self, uid: str, some: Sequence[port.Item]) -> None:
        """These could not be read once; now they can. Raises `Unavailable`."""
        if some:
            with translate_errors("forget what could not be read"):
                done = await self._rows.delete_many(_were_unread(uid, some))
            if done.deleted_count:
                self.counted.written(uid)

    async def waiting(self, uid: str, limit: int, now: datetime) -> list[Stored]:
        """The oldest without a task, those first whose task is tried again. Raises `Unavailable`."""
        found: list[Stored] = []
        for wanted, order in (
            ({"state": {"$in": [NEW, INDEXING, FAILED]}, "retryAt": {"$gt": EPOCH, "$lte": now}}, "retryAt"),
            ({"state": {"$in": [NEW, INDEXING]}, "retryAt": None}, "found"),
        ):
            if len(found) < limit:
                with translate_errors("list the items"):
                    rows = self._rows.find({"connection": uid, **wanted}).sort(order, ASCENDING)
                    found += [_stored(row) async for row in rows.limit(limit - len(found))]
        return found

    async def indexing(self, tasks: Sequence[tuple[Stored, str]]) -> frozenset[str]:
        """Their tasks of these names are being created; the ids of those that still wait for one: since they were
        listed, another process may have made their tasks, or they may have left. Raises `Unavailable`."""
        written = [mongo.UpdateOne(_waits(one), {"$set": {"state": INDEXING, "task": task}}) for one, task in tasks]
        with translate_errors("write items"):
            done = await self._rows.bulk_write(written, ordered=False)
            if done.matched_count == len(written):
                return frozenset(one.id for one, _ in tasks)
            there = {"_id": {"$in": [one.id for one, _ in tasks]}, "state": INDEXING}
            nonces = {row["_id"]: row.get("nonce", "") async for row in self._rows.find(there, {"nonce": 1})}
        return frozenset(one.id for one, _ in tasks if nonces.get(one.id) == one.nonce)

    async def indexed(self, uid: str, tasks: Sequence[tuple[Stored, str]]) -> None:
        """Their tasks exist: the contents are not needed here any more. Raises `Unavailable`."""
        written = [
            mongo.UpdateOne(
                _same(one),
                {"$set": {"state": INDEXED, "task": task, "reason": ""}, "$unset": {"content": "", "retryAt": ""}},
            )
            for one, task in tasks
        ]
        if written:
            with translate_errors("write items"):
                done = await self._rows.bulk_write(written, ordered=False)
            self.counted.written(uid, int(done.modified_count))

    async def failed(self, one: Stored, reason: str, retry_at: datetime) -> None:
        """Its task was refused. Raises `Unavailable`."""
        said = {"state": FAILED, "reason": reason[:_REASON_CHARS], "retryAt": retry_at}
        with translate_errors("write an item"):
            await self._rows.update_one(_waits(one), {"$set": said, "$inc": {"tries": 1}})

    async def again(self, uid: str) -> None:
        """Have the failed ones tried again: those whose content is stored, and those that can be read by their place.
        Raises `Unavailable`."""
        self.counted.written(uid)
        failed = {"connection": uid, "state": FAILED, "type": {"$exists": True}}
        unread = {"connection": uid, **_UNREAD, "readAgainAt": {"$exists": True}}
        with translate_errors("write the items"):
            await self._rows.update_many(unread, {"$set": {"readAgainAt": EPOCH}})
            await self._rows.update_many(failed, {"$set": {"state": NEW, "tries": 0, "reason": "", "retryAt": None}})

    async def forget_unread(self, uid: str) -> None:
        """Forget the failed ones that were not stored: the source is read once more. Raises `Unavailable`."""
        self.counted.written(uid)
        with translate_errors("forget the items"):
            await self._rows.delete_many({"connection": uid, **_UNREAD})

    async def forget(self, uid: str) -> None:
        """Delete those of a Connection. Raises `Unavailable`."""
        with translate_errors("forget the items"):
            await self._rows.delete_many({"connection": uid})


def mark(told: Access | None) -> str:
    """What is compared of an access; "" where nothing is told."""
    return "" if told is None else hashlib.sha256(told.model_dump_json().encode()).hexdigest()[:16]


def _were_unread(uid: str, some: Sequence[port.Item]) -> dict[str, Any]:
    """Of the failures that these were, by their names or their places."""
    places = [one.place for one in some if one.place]
    ids = [{"_id": {"$in": [key(uid, one.source_id, "") for one in some]}}, {"places": {"$in": places}}]
    return {"connection": uid, "$or": ids, **_UNREAD}


def _others(one: port.Item, name: str = "access") -> dict[str, Any]:
    """Of rows that were stored for other readers; one without the field is of a source that told none."""
    told = mark(one.access)
    return {name: {"$ne": told} if told else {"$nin": ["", None]}}


def _outrun(name: str, fence: int) -> dict[str, Any]:
    """Of rows in which no later claim noted `name`: a process that stood still writes over none of its successor."""
    return {name: {"$not": {"$gt": fence}}}


def _same(one: Stored) -> dict[str, Any]:
    """The row, if nothing made it new since."""
    return {"_id": one.id, "state": {"$ne": GONE}, "nonce": one.nonce or None}


def _waits(one: Stored) -> dict[str, Any]:
    """The same, if it has no task either."""
    return {**_same(one), "state": {"$in": [NEW, INDEXING, FAILED]}}


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
        "access": mark(one.access),
        **({"leftOut": [said[:200] for said in one.left_out[:_LEFT_OUT]]} if one.left_out else {}),
        **({"places": [one.place], "seen": fence, "stored": fence} if one.place else {}),
    }


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
