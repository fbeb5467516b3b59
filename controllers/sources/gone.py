"""Items that left their source: which ones they are, and what still has to leave because of them.

An item is missing when it has places and was found at none of them since a sweep began: `seen`, the number of the
claim under which it was found last, is smaller than the sweep's. A frozen process therefore removes nothing that its
successor has seen. Source: blueprint "Connectors".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controllers.sources import assignments, counting, indexer, items
from controllers.sources.mongo import ASCENDING, trouble
from crds import scope
from crds.access import Access

_REASON_CHARS = 1024


@dataclass(frozen=True, slots=True)
class Document:
    """What is to be forgotten for an item; `owner` None: no task was made of it, so there is no document."""

    item_id: str
    owner: scope.Scope | None
    urn: str
    tries: int


class Gone:
    """`database` is one of `mongo.client`. Every method raises `Unavailable`."""

    def __init__(self, database: Any) -> None:
        self._rows = database[assignments.ITEMS]

    async def mark(self, uid: str, places: Sequence[str], fence: int) -> None:
        """The source lists these places now."""
        with trouble("note what is listed"):
            await self._rows.update_many(
                {"connection": uid, "places": {"$in": list(places)}}, {"$max": {"seen": fence}}
            )

    async def moved(self, uid: str, places: Sequence[str]) -> list[str]:
        """Those of the places at which older versions alone are known, of things whose last one was found elsewhere: a
        list that is behind shows where a thing was, and one that is not shows that it is back."""
        there = {"connection": uid, "places": {"$in": list(places)}, "type": {"$exists": True}}
        older, current = dict[str, set[str]](), set[str]()
        with trouble("look for what is listed"):
            async for row in self._rows.find({**there, "superseded": True}, {"places": 1, "sourceId": 1}):
                for place in row["places"]:
                    older.setdefault(place, set()).add(row["sourceId"])
            if not older:
                return []
            names = {"$in": list(set[str]().union(*older.values()))}
            last: dict[str, Any] = {"connection": uid, "sourceId": names, "type": {"$exists": True}, "superseded": None}
            last |= {"state": {"$ne": counting.GONE}, "places": {"$exists": True}}
            async for row in self._rows.find(last, {"places": 1, "sourceId": 1}):
                current.add(row["sourceId"])
                for place in row["places"]:
                    older.pop(place, None)
        return [place for place in places if older.get(place, set()) & current]

    async def strangers(self, uid: str, places: Sequence[str]) -> list[str]:
        """Those of the places at which nothing is known that is still there."""
        there = {"connection": uid, "places": {"$in": list(places)}}
        with trouble("look for what is listed"):
            rows = self._rows.find(
                {**there, "$or": [{"state": {"$ne": counting.GONE}}, {"returned": {"$exists": True}}]}, {"places": 1}
            )
            known = {place async for row in rows for place in row["places"]}
        return [place for place in places if place not in known]

    async def differing(self, uid: str, told: Mapping[str, Access]) -> list[str]:
        """Those of the places at which a thing is known that others could read when it was stored."""
        there = {
            "connection": uid,
            "places": {"$in": list(told)},
            "state": {"$ne": counting.GONE},
            "type": {"$exists": True},
        }
        with trouble("look for other readers"):
            rows = self._rows.find(there, {"places": 1, "access": 1})
            other = {
                place
                async for row in rows
                for place in row["places"]
                if place in told and row.get("access", "") != items.mark(told[place])
            }
        return [place for place in told if place in other]

    async def outside(self, uid: str, within: frozenset[str], fence: int) -> None:
        """What has no place in one of `within` counts as seen."""
        shown = "|".join(re.escape(one) for one in sorted(within))
        elsewhere = {"places": {"$exists": True, "$not": {"$regex": f"^(?:{shown})/"}}}
        with trouble("note what is not shown"):
            await self._rows.update_many({"connection": uid, **elsewhere}, {"$max": {"seen": fence}})

    async def compare(self, uid: str, fence: int, at: datetime) -> tuple[int, int]:
        """(how many items are known, how many of them are missing), with `at` noted at those missed for the first
        time."""
        known, missing = _known(uid), _missing(uid, fence)
        with trouble("compare the items"):
            await self._rows.update_many(
                {**known, "seen": {"$gte": fence}, "missingSince": {"$exists": True}}, {"$unset": {"missingSince": ""}}
            )
            # What came back and is missing again before it was a task: it does not come back.
            away = {"connection": uid, "state": counting.GONE, "seen": {"$lt": fence}}
            await self._rows.update_many(away, {"$unset": {"returned": ""}, "$max": {"leftBy": fence}})
            await self._rows.update_many(
                {**missing, "missingSince": {"$exists": False}}, {"$set": {"missingSince": at}}
            )
            counts = [int(await self._rows.count_documents(some)) for some in (known, missing)]
        return counts[0], counts[1]

    async def more(self, uid: str, most: int) -> bool:
        """Whether more than `most` things are known, or about ten times as many versions of them."""
        read, things = 0, set[str]()
        with trouble("count the items"):
            async for row in self._rows.find(_known(uid), {"sourceId": 1, "_id": 0}).limit(10 * most):
                read += 1
                things.add(row["sourceId"])
                if len(things) > most:
                    return True
        return read >= 10 * most

    async def newer(self, uid: str, fence: int, than: datetime) -> int:
        """How many missing ones were missed for the first time after `than`."""
        with trouble("count the items"):
            return int(await self._rows.count_documents({**_missing(uid, fence), "missingSince": {"$gt": than}}))

    async def leave(self, claim: assignments.Claim, until: datetime, at: datetime) -> int:
        """Have the items leave that are missing since `until` or longer; how many."""
        missing = {**_missing(claim.uid, claim.fence), "missingSince": {"$lte": until}}
        count = 0
        with trouble("let items leave"):
            async for row in self._rows.find(missing, {"state": 1, "nonce": 1, "task": 1}):
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
                count += done.modified_count
        return count

    async def settled(self, uid: str, limit: int, now: datetime) -> list[Document]:
        """Documents that can be forgotten: nothing brings them back any more. The longest gone first."""
        due = [{"retryAt": {"$exists": False}}, {"retryAt": {"$lte": now}}]
        wanted = {"connection": uid, "state": counting.GONE, "settled": True, "$or": due}
        with trouble("list what left"):
            return [_document(row) async for row in self._rows.find(wanted).sort("goneAt", ASCENDING).limit(limit)]

    async def shared(self, one: Document) -> bool:
        """Whether another item that is still there has the same document."""
        if one.owner is None:
            return False
        with trouble("look for an item"):
            return await self._rows.find_one(_sharing(one, one.owner), {"_id": 1}) is not None

    async def refused(self, item_id: str, reason: str, retry_at: datetime) -> None:
        """It could not be forgotten; it is tried again."""
        with trouble("write what left"):
            await self._rows.update_one(
                {"_id": item_id, "state": counting.GONE},
                {"$set": {"reason": reason[:_REASON_CHARS], "retryAt": retry_at}, "$inc": {"tries": 1}},
            )

    async def take(self, item_id: str, fence: int) -> bool:
        """Note that its document is being forgotten under claim `fence`; False: under a later one, or it is not gone
        any more."""
        free = [{"removing": None}, {"removing": {"$lte": fence}}]
        with trouble("write what left"):
            done = await self._rows.update_one(
                {"_id": item_id, "state": counting.GONE, "settled": True, "$or": free}, {"$set": {"removing": fence}}
            )
        return bool(done.matched_count)

    async def drop(self, item_id: str, fence: int) -> None:
        """Nothing is left of it, which was taken under claim `fence`; one that came back meanwhile is new."""
        left = {"_id": item_id, "state": counting.GONE, "removing": fence}
        with trouble("forget what left"):
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


def _known(uid: str) -> dict[str, Any]:
    return {"connection": uid, "places": {"$exists": True}, "state": {"$ne": counting.GONE}}


def _missing(uid: str, fence: int) -> dict[str, Any]:
    return {**_known(uid), "seen": {"$lt": fence}}


def _document(row: Mapping[str, Any]) -> Document:
    owner = scope.Scope.model_validate(row["scope"]) if row.get("task") else None
    return Document(row["_id"], owner, row.get("urn", ""), int(row.get("tries", 0)))
