"""The queue in MongoDB, collection `kb_jobs`: for several writing processes, each of which does jobs of all of them.

A process that takes a job claims it until a time, and renews that while it works; a claim that was not renewed is
void. Claims save work and no more: two processes that do the same job take turns at its document, and the second one
finds the job gone (`kb.ingest.pipeline`). So the wall clocks of the processes may differ by less than a claim lasts.

Collection `kb_job_clients` holds a row per priority and client with the number of its last turn, `served`. A row is
made before the first job, raised by the process that takes the turn, if no other one took it meanwhile, and forgotten
when the client had no jobs for `_IDLE`.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from crds import priority, scope
from kb import errors, mongo, visibility
from kb.erasure import closed
from kb.queue import job

COLLECTION, CLIENTS, COUNTERS = "kb_jobs", "kb_job_clients", "kb_counters"
# Behind every manual position; a number and not null, so that one index holds the order.
_UNPLACED = 1 << 40
_ORDER = [("position", 1), ("priority", 1), ("seq", 1)]
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_LISTED = {"request": 0}
# Of a client's jobs what tells whether a viewer sees them, and how many come before those that it sees.
_PLACES = {"projectId": 1, "groupId": 1}
_IDLE = timedelta(hours=1)
# What requests hold is summed up anew after so long; in between each process adds what it puts itself.
_SUMMED = timedelta(seconds=10)
_CLIENTS_SUMMED = 1000


class Queue:
    """Implements `kb.queue.job.Queue` for the process `me`; at most about `limit` jobs, `per_client` of one client, and
    `max_bytes` and `client_bytes` of requests.

    The limits are compared with what is counted before a job is put: writers that come at once may pass them by one
    job each, and each process by the bytes that the others put within seconds.
    """

    def __init__(
        self,
        database: mongo.Database,
        me: str,
        clock: Callable[[], datetime],
        *,
        limit: int,
        per_client: int,
        max_bytes: int | None = None,
        client_bytes: int | None = None,
        claim: timedelta = job.CLAIM,
    ) -> None:
        self._jobs = database[COLLECTION]
        self._clients = database[CLIENTS]
        self._counters = database[COUNTERS]
        self._me = me
        self._clock = clock
        self._bounds = job.Bounds(limit, per_client, max_bytes, client_bytes)
        self._sums: dict[str | None, tuple[int, datetime]] = {}
        self._claim = claim
        self._indexed = False

    async def put(
        self,
        document_id: str,
        owner: scope.Scope,
        source_urn: str,
        kind: str,
        action: job.Action,
        urgency: priority.Priority,
        request: str,
        *,
        fence: int = 0,
        bounded: bool = True,
    ) -> job.Job:
        said: dict[str, Any] = {
            **mongo.names(owner),
            "sourceUrn": source_urn,
            "kind": kind,
            "action": action.value,
            "attempts": 0,
            "reason": "",
            "notBefore": _LONG_AGO,
            "indexed": False,
            "request": request,
            "size": len(request.encode()),
            "claimedBy": "",
            "claimedUntil": _LONG_AGO,
        }
        with mongo.translated():
            await self._index()
            while True:
                old = await self._jobs.find_one({"_id": document_id}, _LISTED)
                if action is job.Action.EXTRACT and bounded:
                    await self._check_space(owner.client_id, said["size"], old)
                await self._waits(owner.client_id, int(urgency))
                if old is None:
                    row = {
                        "_id": document_id,
                        **said,
                        "seq": await self._next_number(),
                        "priority": int(urgency),
                        "position": _UNPLACED,
                        "createdAt": self._clock(),
                        "revision": job.revision("", action, request),
                        "fence": fence,
                    }
                    try:
                        await self._jobs.insert_one(row)
                    except mongo.DuplicateKey:
                        continue
                    self._add(owner.client_id, said["size"])
                    return _job(row, self._clock())
                if fence and old["fence"] > fence:
                    raise errors.Outrun("another process has queued a newer request of this document")
                if action is job.Action.REBUILD_GRAPH and old["action"] == job.Action.EXTRACT.value:
                    return _job(old, self._clock())
                change = {
                    **said,
                    "revision": job.revision(old["revision"], action, request),
                    "fence": max(fence, old["fence"]),
                    "priority": min(int(urgency), old["priority"]),
                }
                same = {"_id": document_id, "revision": old["revision"]}
                row = await self._jobs.find_one_and_update(
                    same, {"$set": change}, projection=_LISTED, return_document=mongo.AFTER
                )
                if row is not None:
                    self._add(owner.client_id, said["size"] - old.get("size", 0))
                    return _job(row, self._clock())

    async def find(self, document_id: str) -> tuple[job.Job, str] | None:
        with mongo.translated():
            row = await self._jobs.find_one({"_id": document_id})
        return None if row is None else (_job(row, self._clock()), row["request"])

    async def mark_indexed(self, document_id: str, revision: str) -> None:
        with mongo.translated():
            await self._jobs.update_one({"_id": document_id, "revision": revision}, {"$set": {"indexed": True}})

    async def drop(self, document_id: str, *, revision: str | None = None, fence: int = 0) -> None:
        query: dict[str, Any] = {"_id": document_id}
        if revision is not None:
            query["revision"] = revision
        if fence:
            query["fence"] = {"$lte": fence}
        with mongo.translated():
            await self._jobs.delete_one(query)

    async def next(
        self, now: datetime, *, skip: Collection[str], most: priority.Priority | None = None
    ) -> tuple[job.Job, str] | None:
        due: dict[str, Any] = {"notBefore": {"$lte": now}, "claimedUntil": {"$lte": now}}
        if skip:
            due["_id"] = {"$nin": sorted(skip)}
        most = priority.Priority.P3 if most is None else most
        with mongo.translated():
            await self._index()
            placed = {"position": {"$lt": _UNPLACED}, "priority": {"$lte": int(most)}, **due}
            row = await self._take(placed, now)
            for urgency in range(most + 1):
                if row is None:
                    row = await self._next_of_clients(urgency, due, now)
        return None if row is None else (_job(row, now), row["request"])

    async def _next_of_clients(self, urgency: int, due: dict[str, Any], now: datetime) -> dict[str, Any] | None:
        """Take the oldest job of the client that was not served for longest, of those that have one."""
        waiting = {"priority": urgency, "position": _UNPLACED, **due}
        rows = [row async for row in self._clients.find({"priority": urgency}).sort([("served", 1), ("clientId", 1)])]
        if not rows and await self._jobs.find_one(waiting, {"_id": 1}) is None:
            return None
        last = max((row["served"] for row in rows), default=0)
        for row in rows:
            mine = {"clientId": row["clientId"], **waiting}
            if await self._jobs.find_one(mine, {"_id": 1}) is None:
                await self._forget_idle(row, now)
                continue
            turn = {"_id": row["_id"], "served": row["served"]}
            if (await self._clients.update_one(turn, {"$set": {"served": last + 1}})).modified_count == 0:
                continue  # another process has given it this turn
            if (found := await self._take(mine, now)) is not None:
                return found
        # All turns were given meanwhile, or the row of a client was dropped right before its job was put.
        found = await self._take(waiting, now)
        if found is not None:
            await self._waits(found["clientId"], urgency)
        return found

    async def _take(self, chosen: dict[str, Any], now: datetime) -> dict[str, Any] | None:
        claim = {"$set": {"claimedBy": self._me, "claimedUntil": now + self._claim}}
        row: dict[str, Any] | None = await self._jobs.find_one_and_update(
            chosen, claim, sort=_ORDER, return_document=mongo.AFTER
        )
        return row

    async def _waits(self, client: str, urgency: int) -> None:
        """Give the client a place among those that wait, behind all of them, unless it has one and waits there."""
        _id = f"{urgency}:{client}"
        now = self._clock()
        last = await self._clients.find_one({"priority": urgency}, sort=[("served", -1)])
        served = 1 + (0 if last is None else last["served"])
        change: dict[str, Any] = {"at": now}
        if await self._jobs.find_one({"priority": urgency, "clientId": client}, {"_id": 1}) is None:
            # Its row is of an earlier time, and its turn was given to others since.
            change["served"] = served
        if (await self._clients.update_one({"_id": _id}, {"$set": change})).matched_count:
            return
        row = {"priority": urgency, "clientId": client, "served": served, "at": now}
        # Another process may be faster.
        with contextlib.suppress(mongo.DuplicateKey):
            await self._clients.update_one({"_id": _id}, {"$setOnInsert": row}, upsert=True)

    async def _forget_idle(self, row: dict[str, Any], now: datetime) -> None:
        """A job is put within moments after its row was touched."""
        if row["at"] < now - _IDLE:
            any_job = {"priority": row["priority"], "clientId": row["clientId"]}
            if await self._jobs.find_one(any_job, {"_id": 1}) is None:
                await self._clients.delete_one({"_id": row["_id"], "at": row["at"]})

    async def hold(self, document_ids: Collection[str], now: datetime) -> None:
        mine = {"_id": {"$in": sorted(document_ids)}, "claimedBy": self._me}
        with mongo.translated():
            await self._jobs.update_many(mine, {"$set": {"claimedUntil": now + self._claim}})

    async def release(self, document_id: str) -> None:
        mine = {"_id": document_id, "claimedBy": self._me}
        with mongo.translated():
            await self._jobs.update_one(mine, {"$set": {"claimedBy": "", "claimedUntil": _LONG_AGO}})

    async def postpone(self, document_id: str, revision: str, reason: str, until: datetime) -> None:
        said = {"reason": reason[:1000], "notBefore": until, "claimedBy": "", "claimedUntil": _LONG_AGO}
        with mongo.translated():
            await self._jobs.update_one(
                {"_id": document_id, "revision": revision}, {"$set": said, "$inc": {"attempts": 1}}
            )

    async def listed(
        self, viewer: scope.Scope, *, limit: int, running: Collection[str] = ()
    ) -> tuple[list[job.Job], int]:
        visible, now = mongo.visible(viewer), self._clock()
        with mongo.translated():
            await self._index()
            total = await self._jobs.count_documents(visible)
            in_work = {"$or": [{"_id": {"$in": sorted(running)}}, {"claimedUntil": {"$gt": now}}]}
            begun = [row async for row in self._jobs.find(in_work, _LISTED).sort(_ORDER)]
            idle = {"claimedUntil": {"$lte": now}, "_id": {"$nin": sorted(running)}}
            placed = [
                row async for row in self._jobs.find({"position": {"$lt": _UNPLACED}, **idle}, _LISTED).sort(_ORDER)
            ]
            ahead = [(0, row) for row in begun] + list(enumerate(placed))
            found = [
                replace(_job(row, now), ahead=at) for at, row in ahead if visibility.sees(viewer, mongo.owner(row))
            ]
            before = len(placed)
            ranked: list[tuple[int, str]] = []
            for urgency, shares in sorted((await self._shares([*begun, *placed])).items()):
                for client in {"", viewer.client_id}:
                    async for rank, name in self._ranked(viewer, urgency, client, idle, limit):
                        ranked.append((before + job.ahead(shares, client, rank), name))
                before += sum(one.waiting for one in shares)
            ranked = sorted(ranked)[: max(limit - len(found), 0)]
            names = {"_id": {"$in": [name for _, name in ranked]}}
            rows = {row["_id"]: row async for row in self._jobs.find(names, _LISTED)}
        # What was done meanwhile is no longer there.
        found += [replace(_job(rows[name], now), ahead=at) for at, name in ranked if name in rows]
        return found[:limit], total

    async def _ranked(
        self, viewer: scope.Scope, urgency: int, client: str, idle: dict[str, Any], limit: int
    ) -> AsyncIterator[tuple[int, str]]:
        """The first jobs of the client at a priority that the viewer sees, with how many of its own come before."""
        mine = {"priority": urgency, "clientId": client, "position": _UNPLACED, **idle}
        rank = seen = 0
        async for row in self._jobs.find(mine, _PLACES).sort(_ORDER):
            if visibility.sees(viewer, mongo.owner({"clientId": client, **row})):
                yield rank, row["_id"]
                seen += 1
                if seen == limit:
                    return
            rank += 1

    async def _shares(self, apart: Collection[dict[str, Any]]) -> dict[int, list[job.Share]]:
        """Per priority what each client has waiting, without the jobs `apart`."""
        group = {"$group": {"_id": {"priority": "$priority", "clientId": "$clientId"}, "n": {"$sum": 1}}}
        counted = {
            (row["_id"]["priority"], row["_id"]["clientId"]): row["n"] async for row in self._jobs.aggregate([group])
        }
        for row in apart:
            counted[row["priority"], row["clientId"]] = counted.get((row["priority"], row["clientId"]), 0) - 1
        served = {(row["priority"], row["clientId"]): row["served"] async for row in self._clients.find()}
        shares: dict[int, list[job.Share]] = defaultdict(list)
        for (urgency, client), waiting in counted.items():
            shares[urgency].append(job.Share(client, max(waiting, 0), served.get((urgency, client), 0)))
        return shares

    async def among(self, document_ids: Collection[str]) -> dict[str, job.Job]:
        query, now = {"_id": {"$in": sorted(document_ids)}}, self._clock()
        with mongo.translated():
            return {row["_id"]: _job(row, now) async for row in self._jobs.find(query, _LISTED)}

    async def move(self, viewer: scope.Scope, document_id: str, position: int) -> job.Job | None:
        # Two who move at once may end at the same place; then the priority and the age decide between the two jobs.
        with mongo.translated():
            if await self._jobs.find_one({"_id": document_id, **mongo.visible(viewer)}, {"_id": 1}) is None:
                return None
            await self._jobs.update_one({"_id": document_id}, {"$set": {"position": _UNPLACED}})
            await self._make_gap(position)
            row = await self._jobs.find_one_and_update(
                {"_id": document_id},
                {"$set": {"position": position}},
                projection=_LISTED,
                return_document=mongo.AFTER,
            )
        return None if row is None else _job(row, self._clock())

    async def regroup(self, owner: scope.Scope) -> list[str]:
        return await mongo.regroup(self._jobs, owner, {})

    async def erase(self, where: scope.Scope) -> int:
        """Forget the jobs of a scope that is erased."""
        with mongo.translated():
            gone = int((await self._jobs.delete_many(closed.query(where))).deleted_count)
            if not (where.project_id or where.group_id):
                await self._clients.delete_many({"clientId": where.client_id})
        self._sums.clear()
        return gone

    async def mentions(self, text: str) -> bool:
        with mongo.translated():
            return await self._jobs.find_one({"request": {"$regex": re.escape(text)}}, {"_id": 1}) is not None

    async def depth(self) -> dict[priority.Priority, int]:
        found: dict[priority.Priority, int] = {}
        with mongo.translated():
            for urgency in priority.Priority:
                if number := await self._jobs.count_documents({"priority": int(urgency)}):
                    found[urgency] = number
        return found

    async def prepare(self) -> None:
        """Nothing: the server may be away at the start, and indexes are made at the first use."""

    async def close(self) -> None:
        """Nothing: the connection is the process's."""

    async def _check_space(self, client: str, size: int, old: dict[str, Any] | None) -> None:
        """Raises `kb.errors.Crowded` when there is no space for a request of `size` in place of what was there."""
        if old is None:
            mine = await self._jobs.count_documents({"clientId": client})
            self._bounds.check_jobs(client, mine, await self._jobs.estimated_document_count())
        former = 0 if old is None else old.get("size", 0)
        if size <= former or (self._bounds.bytes is None and self._bounds.client_bytes is None):
            return
        in_place = former if old is not None and old["clientId"] == client else 0
        try:
            self._bounds.check_bytes(client, size, await self._held(client) - in_place, await self._held(None) - former)
        except errors.Crowded:
            # Some may be done since that was summed up.
            self._sums.clear()
            self._bounds.check_bytes(client, size, await self._held(client) - in_place, await self._held(None) - former)

    async def _held(self, client: str | None) -> int:
        """The bytes of the requests of a client, or of all (None), as they were moments ago."""
        known, now = self._sums.get(client), self._clock()
        if known is not None and now - known[1] < _SUMMED:
            return known[0]
        chosen = {} if client is None else {"clientId": client}
        group = {"$group": {"_id": None, "bytes": {"$sum": "$size"}}}
        held = 0
        async for row in self._jobs.aggregate([{"$match": chosen}, group]):
            held = int(row["bytes"])
        if len(self._sums) >= _CLIENTS_SUMMED:
            self._sums.clear()
        self._sums[client] = held, now
        return held

    def _add(self, client: str, size: int) -> None:
        for key in (client, None):
            if (known := self._sums.get(key)) is not None:
                self._sums[key] = known[0] + size, known[1]

    async def _next_number(self) -> int:
        while True:
            try:
                row = await self._counters.find_one_and_update(
                    {"_id": COLLECTION}, {"$inc": {"n": 1}}, upsert=True, return_document=mongo.AFTER
                )
            except mongo.DuplicateKey:
                continue  # two processes met at the very first job
            return int(row["n"])

    async def _make_gap(self, position: int) -> None:
        """Push back the unbroken row of placed jobs that begins at `position`."""
        placed = {"position": {"$gte": position, "$lt": _UNPLACED}}
        following = position
        async for row in self._jobs.find(placed, {"position": 1}).sort(_ORDER):
            if row["position"] > following:
                break
            following += 1
            await self._jobs.update_one({"_id": row["_id"]}, {"$set": {"position": following}})

    async def _index(self) -> None:
        if not self._indexed:
            await self._jobs.create_index(_ORDER)
            await self._jobs.create_index([("priority", 1), ("clientId", 1), ("position", 1), ("seq", 1)])
            await self._jobs.create_index([("clientId", 1), ("size", 1)])
            await self._jobs.create_index([("claimedUntil", 1)])
            await self._clients.create_index([("priority", 1), ("served", 1)])
            await self._jobs.create_index([("clientId", 1), ("projectId", 1), ("groupId", 1)])
            self._indexed = True


def _job(row: dict[str, Any], now: datetime) -> job.Job:
    return job.Job(
        document_id=row["_id"],
        seq=row["seq"],
        owner=mongo.owner(row),
        source_urn=row["sourceUrn"],
        kind=row["kind"],
        action=job.Action(row["action"]),
        urgency=priority.Priority(row["priority"]),
        position=None if row["position"] == _UNPLACED else row["position"],
        attempts=row["attempts"],
        reason=row["reason"],
        created_at=row["createdAt"],
        not_before=row["notBefore"] if row["notBefore"] > _LONG_AGO else None,
        revision=row["revision"],
        indexed=row["indexed"],
        claimed=row["claimedUntil"] > now,
    )
