"""Items that left their source: which ones they are, and what still has to leave because of them.

An item is missing when it has places and was found at none of them since a sweep began: `seen`, the number of the
claim under which it was found last, is smaller than the sweep's. A frozen process therefore removes nothing that its
successor has seen. Source: blueprint "Connectors".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clients.mongo import ASCENDING, translate_errors
from crds import scope
from crds.access import Access
from sources.core import assignments, counting, indexer, items

_REASON_CHARS = 1024
_PIECE = 1000
_LAST = {"superseded": None}


@dataclass(frozen=True, slots=True)
class Document:
    """What is to be forgotten for an item; `owner` None: no task was made of it, so there is no document."""

    item_id: str
    owner: scope.Scope | None
    urn: str
    tries: int


@dataclass(frozen=True, slots=True)
class Listed:
    """Places that a source lists, as `strangers` those at which nothing is known that is still there; as `moved` those
    at which older versions alone are known, because a list that is behind shows where a thing was, or one that is not
    shows that it is back; as `differing` those at which a thing is known that was stored for other readers."""

    strangers: list[str]
    moved: list[str]
    differing: list[str]


class MissingItems:
    """`database` is one of `mongo.client`. Every method raises `Unavailable`."""

    def __init__(self, database: Any) -> None:
        self._rows = database[assignments.ITEMS]

    async def mark(self, uid: str, places: Sequence[str], fence: int) -> int:
        """The source lists these places now. How many items are known there: fewer than places where one is a
        stranger."""
        count = 0
        with translate_errors("note what is listed"):
            for some in _pieces(places):
                done = await self._rows.update_many(
                    {"connection": uid, "places": {"$in": list(some)}}, {"$max": {"seen": fence}}
                )
                count += done.matched_count
        return count

    async def listed(self, uid: str, places: Sequence[str], told: Mapping[str, Access]) -> Listed:
        """What is known of places that the source lists; `told`: who may read what is at some of them."""
        there, older, last, other = set[str](), set[str](), set[str](), set[str]()
        shown = {"places": 1, "state": 1, "returned.state": 1, "superseded": 1, "type": 1, "access": 1}
        with translate_errors("look for what is listed"):
            for some in _pieces(list(dict.fromkeys([*places, *told]))):
                async for row in self._rows.find({"connection": uid, "places": {"$in": list(some)}}, shown):
                    at, here = row["places"], row["state"] != counting.GONE
                    there.update(at if here or "returned" in row else ())
                    if row.get("superseded"):
                        older.update(at)
                    elif "type" in row and (here or "returned" in row):
                        last.update(at)
                        other.update(one for one in at if here and one in told and _differs(row, told[one]))
        return Listed(
            strangers=[one for one in places if one not in there],
            moved=[one for one in places if one in older and one not in last],
            differing=[one for one in told if one in other],
        )

    async def spare(self, uid: str, places: Sequence[str], fence: int) -> None:
        """What has older versions at these places counts as seen, wherever it is."""
        with translate_errors("note what is not looked at"):
            for some in _pieces(places):
                older = {"connection": uid, "places": {"$in": list(some)}, "superseded": True}
                names = {row["sourceId"] async for row in self._rows.find(older, {"sourceId": 1})}
                last = {"connection": uid, "sourceId": {"$in": list(names)}, "places": {"$exists": True}}
                await self._rows.update_many({**last, "superseded": None}, {"$max": {"seen": fence}})

    async def missing(self, uid: str, fence: int, most: int) -> tuple[list[str], bool]:
        """Places of up to `most` missing things that are known as tasks, and whether there are more of these."""
        wanted = {**_missing(uid, fence), **_LAST, "type": {"$exists": True}}
        with translate_errors("look for what is missing"):
            rows = [row async for row in self._rows.find(wanted, {"places": 1}).sort("_id", ASCENDING).limit(most + 1)]
        return [place for row in rows[:most] for place in row["places"]], len(rows) > most

    async def spare_unread(self, uid: str, fence: int, *, moving: bool) -> None:
        """What could not be read where it is listed now may be what is known of another place: things with its name
        count as seen, and where things move those with its title, or all where it has none."""
        unread = {"connection": uid, "state": counting.FAILED, "type": {"$exists": False}, "seen": {"$gte": fence}}
        with translate_errors("note what is not read"):
            rows = [row async for row in self._rows.find(unread, {"sourceId": 1, "title": 1})]
            if rows:
                wanted: list[dict[str, Any]] = [{"sourceId": {"$in": [row["sourceId"] for row in rows]}}]
                titles = list({row["title"] for row in rows})
                if moving:
                    wanted.append({} if "" in titles else {"title": {"$in": titles}})
                await self._rows.update_many({**_known(uid), "$or": wanted}, {"$max": {"seen": fence}})

    async def outside(self, uid: str, within: frozenset[str], fence: int) -> None:
        """What has no place in one of `within` counts as seen."""
        shown = "|".join(re.escape(one) for one in sorted(within))
        elsewhere = {"places": {"$exists": True, "$not": {"$regex": f"^(?:{shown})/"}}}
        with translate_errors("note what is not shown"):
            await self._rows.update_many({"connection": uid, **elsewhere}, {"$max": {"seen": fence}})

    async def compare(self, uid: str, fence: int, at: datetime) -> tuple[int, int]:
        """(how many things are known, how many of them are missing), with `at` noted at those missed for the first
        time. Older versions count for none: a thing has one last version."""
        known, missing = _known(uid), _missing(uid, fence)
        with translate_errors("compare the items"):
            await self._rows.update_many(
                {**known, "seen": {"$gte": fence}, "missingSince": {"$exists": True}}, {"$unset": {"missingSince": ""}}
            )
            # What came back and is missing again before it was a task: it does not come back.
            away = {"connection": uid, "state": counting.GONE, "seen": {"$lt": fence}}
            await self._rows.update_many(away, {"$unset": {"returned": ""}, "$max": {"leftBy": fence}})
            await self._rows.update_many(
                {**missing, "missingSince": {"$exists": False}}, {"$set": {"missingSince": at}}
            )
            counts = [int(await self._rows.count_documents({**some, **_LAST})) for some in (known, missing)]
        return counts[0], counts[1]

    async def more(self, uid: str, most: int) -> bool:
        """Whether more than `most` things are known, or about ten times as many versions of them."""
        read, things = 0, set[str]()
        with translate_errors("count the items"):
            async for row in self._rows.find(_known(uid), {"sourceId": 1, "_id": 0}).limit(10 * most):
                read += 1
                things.add(row["sourceId"])
                if len(things) > most:
                    return True
        return read >= 10 * most

    async def newer(self, uid: str, fence: int, than: datetime) -> int:
        """How many missing ones were missed for the first time after `than`."""
        with translate_errors("count the items"):
            since = {"missingSince": {"$gt": than}}
            return int(await self._rows.count_documents({**_missing(uid, fence), **since, **_LAST}))

    async def leave(self, claim: assignments.Claim, until: datetime, at: datetime) -> int:
        """Have the items leave that are missing since `until` or longer, with their older versions; how many things."""
        missing = {**_missing(claim.uid, claim.fence), "missingSince": {"$lte": until}}
        count = 0
        with translate_errors("let items leave"):
            async for row in self._rows.find(missing, {"state": 1, "nonce": 1, "task": 1, "superseded": 1}):
                # While a task is being created, nothing is known about it but its name.
                made = row["state"] in (counting.INDEXING, counting.INDEXED)
                name = row.get("task") or indexer.name(claim.name, row["_id"], row.get("nonce", ""))
                said = {
                    "state": counting.GONE,
                    "goneAt": at,
                    "leftBy": claim.fence,
                    "namespace": claim.namespace,
                    "task": name if made else "",
                    "settled": not made,
                    "tries": 0,
                    "reason": "",
                }
                done = await self._rows.update_one(
                    {**missing, "_id": row["_id"], "state": row["state"]},
                    {"$set": said, "$unset": {"content": "", "retryAt": "", "missingSince": "", "removing": ""}},
                )
                count += 0 if row.get("superseded") else done.modified_count
        return count

    async def settled(self, uid: str, limit: int, now: datetime) -> list[Document]:
        """Documents that can be forgotten: nothing brings them back any more. The longest gone first."""
        due = [{"retryAt": {"$exists": False}}, {"retryAt": {"$lte": now}}]
        wanted = {"connection": uid, "state": counting.GONE, "settled": True, "$or": due}
        with translate_errors("list what left"):
            return [_document(row) async for row in self._rows.find(wanted).sort("goneAt", ASCENDING).limit(limit)]

    async def shared(self, one: Document) -> bool:
        """Whether another item that is still there has the same document."""
        if one.owner is None:
            return False
        with translate_errors("look for an item"):
            return await self._rows.find_one(_sharing(one, one.owner), {"_id": 1}) is not None

    async def refused(self, item_id: str, reason: str, retry_at: datetime) -> None:
        """It could not be forgotten; it is tried again."""
        with translate_errors("write what left"):
            await self._rows.update_one(
                {"_id": item_id, "state": counting.GONE},
                {"$set": {"reason": reason[:_REASON_CHARS], "retryAt": retry_at}, "$inc": {"tries": 1}},
            )

    async def take(self, item_id: str, fence: int) -> bool:
        """Note that its document is being forgotten under claim `fence`; False: under a later one, or it is not gone
        any more."""
        free = [{"removing": None}, {"removing": {"$lte": fence}}]
        with translate_errors("write what left"):
            done = await self._rows.update_one(
                {"_id": item_id, "state": counting.GONE, "settled": True, "$or": free}, {"$set": {"removing": fence}}
            )
        return bool(done.matched_count)

    async def drop(self, item_id: str, fence: int) -> None:
        """Nothing is left of it, which was taken under claim `fence`; one that came back meanwhile is new."""
        left = {"_id": item_id, "state": counting.GONE, "removing": fence}
        with translate_errors("forget what left"):
            done = await self._rows.delete_one({**left, "returned": {"$exists": False}})
            row = None if done.deleted_count else await self._rows.find_one({**left, "returned": {"$exists": True}})
            if row is not None:
                again = {**row["returned"], "places": row["places"], "seen": row["seen"]}
                await self._rows.replace_one({**left, "seen": row["seen"], "returned": {"$exists": True}}, again)


def _sharing(one: Document, owner: scope.Scope) -> dict[str, Any]:
    """Other items that are there and have the same document."""
    return {
        "urn": one.urn,
        "scope": owner.model_dump(by_alias=True),
        "_id": {"$ne": one.item_id},
        "state": {"$ne": counting.GONE},
    }


def _pieces(places: Sequence[str]) -> Iterator[Sequence[str]]:
    """A query has at most 16 MiB."""
    return (places[at : at + _PIECE] for at in range(0, len(places), _PIECE))


def _differs(row: Mapping[str, Any], told: Access) -> bool:
    return bool(row.get("access", "") != items.mark(told))


def _known(uid: str) -> dict[str, Any]:
    return {"connection": uid, "places": {"$exists": True}, "state": {"$ne": counting.GONE}}


def _missing(uid: str, fence: int) -> dict[str, Any]:
    return {**_known(uid), "seen": {"$lt": fence}}


def _document(row: Mapping[str, Any]) -> Document:
    owner = scope.Scope.model_validate(row["scope"]) if row.get("task") else None
    return Document(row["_id"], owner, row.get("urn", ""), int(row.get("tries", 0)))
