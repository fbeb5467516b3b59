"""Which Connections are polled, by whom, and what became of it: one MongoDB document per Connection.

The operator writes what is wanted (`want`, `drop`) and reads the state (`states`); the sources process claims a
Connection for a while and writes its state under the number of that claim, so that a process that was frozen writes
nothing over its successor. Clocks of the processes may differ by less than a claim lasts.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pydantic

from clients.mongo import AFTER, ASCENDING, translate_errors
from contracts import mongo_collections
from crds import connection, errors, labels
from kb import api
from sources.core.state import State, read, stored

CONNECTIONS, ITEMS = "source_connections", mongo_collections.SOURCE_ITEMS
GONE = "Gone"
"""State of items that left their source."""
LASTS = 60.0
"""Seconds that a claim lasts, unless another number is passed."""

UNKNOWN = timedelta(minutes=15)
"""Before a Connection that this version does not understand is looked at again."""
SERVED = timedelta(minutes=2)
"""A Connection that no operator names for so long is served by none."""
RENEWED = timedelta(seconds=30)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PACKED = 1 << 14
"""Characters of a cursor from which on it is compressed."""


def wished(conn: connection.Connection) -> dict[str, str]:
    """What people asked for by annotations."""
    names = {"retry": labels.RETRY, "resync": labels.RESYNC, "confirm": labels.CONFIRM_DELETIONS}
    found = {name: connection.wish(conn, annotation) for name, annotation in names.items()}
    return {name: value for name, value in found.items() if value}


def beginning(cursor: Mapping[str, Any]) -> Mapping[str, Any]:
    """The cursor of a source that is read from its beginning. It keeps the one before: what was taken and is not there
    any more has to leave."""
    before = {name: value for name, value in cursor.items() if name != "rewound"}
    return {"rewound": before} if before else cursor


def packed(cursor: Mapping[str, Any]) -> str | bytes:
    """A cursor as it is stored. That of a large source has megabytes of names, and every claim reads and writes it."""
    text = json.dumps(cursor, sort_keys=True)
    return zlib.compress(text.encode(), 1) if len(text) > _PACKED else text


def unpacked(stored: str | bytes | None) -> dict[str, Any]:
    """What `packed` made; {} of nothing."""
    text = zlib.decompress(stored) if isinstance(stored, bytes) else stored
    found: dict[str, Any] = json.loads(text or "{}")
    return found


class Lost(errors.Operational):
    """The claim ended: another process has the Connection, or it is gone."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A Connection that this process has until `until`. `cursor` is JSON; `fence` grows with each claim. `wishes` has
    the annotations of people; `rewound`: the one for which the source is being, or was, read from its beginning."""

    uid: str
    namespace: str
    name: str
    spec: connection.Spec
    generation: int
    fence: int
    cursor: Mapping[str, Any]
    state: State
    poll_at: datetime
    wishes: Mapping[str, str] | None = None
    rewound: str = ""
    news: int | None = None
    """How often its source reported news."""
    born: str = ""
    """Differs where the Connection was forgotten in between, and fences begin anew."""
    ended: int = 0
    """The fence of the last claim that was given back with a state."""

    @property
    def observation(self) -> api.Observation:
        """What requests to the knowledge base are based on."""
        return api.Observation(observer=f"{self.uid}.{self.born}" if self.born else self.uid, number=self.fence)

    @property
    def taken(self) -> bool:
        """Whether another process may still be at work under the claim before."""
        return self.ended != self.fence - 1

    @property
    def confirmed(self) -> str:
        """The time of the sweep whose missing items may be deleted, as a person wrote it."""
        return (self.wishes or {}).get("confirm", "")


@dataclass(frozen=True, slots=True)
class Unserved:
    """A Connection that no release serves since `since`; `absent`: there was no such object when one asked."""

    uid: str
    namespace: str
    name: str
    since: datetime
    absent: bool


@dataclass(frozen=True, slots=True)
class Leaving:
    """An item that left its source, whose task is not settled yet."""

    id: str
    connection: str
    namespace: str
    task: str


class Assignments:
    """`database` is one of `mongo.client`. `fence` is asked before what the operator writes. A claim that was not
    renewed for `lasts` seconds is free. `ids` never gives the same twice. `release` is whose Connections are polled,
    "": those of all; the one that serves a Connection first has it until it does not for `SERVED`."""

    def __init__(
        self,
        database: Any,
        *,
        fence: Callable[[], None] = lambda: None,
        lasts: float = LASTS,
        release: str = "",
        ids: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._lasts, self._ids, self._release = timedelta(seconds=lasts), ids, release
        self._ours: dict[str, Any] = {"release": {"$in": [release, None]}} if release else {}
        self._rows, self._items, self._fence = database[CONNECTIONS], database[ITEMS], fence

    # -- the operator's side ---------------------------------------------------------------------------------------

    async def want(self, conn: connection.Connection) -> None:
        """Have it polled as its spec says now. A new spec or wish is polled at once. Raises `Unavailable`."""
        self._fence()
        meta, spec = conn.metadata, conn.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        said = {"namespace": meta.namespace, "name": meta.name, "generation": meta.generation, "spec": spec}
        said |= {"release": self._release} if self._release else {}
        said["wishes"] = wishes = wished(conn) or None
        now = {"wanted": True, "pollAt": _EPOCH}
        with translate_errors("keep a Connection"):
            if await self._rows.find_one({"_id": meta.uid}, {"_id": 1}) is None:
                # Items of it may still be there: what they were found under has to stay older than what comes.
                fence = await self._latest(meta.uid)
                begun = {"fence": fence, "ended": fence, "revision": 0, "born": self._ids()}
                await self._rows.update_one({"_id": meta.uid}, {"$setOnInsert": {**said, **now, **begun}}, upsert=True)
            differs = [{"generation": {"$ne": meta.generation}}, {"wanted": False}, {"wishes": {"$ne": wishes}}]
            differs += [{"release": None}] if self._release else []
            changed = {"_id": meta.uid, "$or": differs, **self._ours}
            await self._rows.update_one(changed, {"$set": {**said, **now}, "$unset": {"absent": ""}})

    async def _latest(self, uid: str) -> int:
        """The greatest number of a claim that its items name; 0: none."""
        names = ("seen", "leftBy", "supersededBy", "removing")
        latest = {"$group": {"_id": None, **{name: {"$max": f"${name}"} for name in names}}}
        rows = [row async for row in self._items.aggregate([{"$match": {"connection": uid}}, latest])]
        return max((int(row[name] or 0) for row in rows for name in names), default=0)

    async def holder(self, uid: str, now: datetime) -> str:
        """The other release that has it; "": ours, which takes over what no release serves. Raises `Unavailable`."""
        if not self._release:
            return ""
        self._fence()
        others = {"_id": uid, "release": {"$nin": [self._release, None]}}
        with translate_errors("look for a Connection"):
            left = {**others, "servedAt": {"$lt": now - SERVED}}
            await self._rows.update_one(left, {"$set": {"release": self._release}})
            row = await self._rows.find_one(others, {"release": 1})
        return "" if row is None else str(row["release"])

    async def rest(self, uid: str) -> None:
        """Poll it no more for now; its cursor and items stay. Raises `Unavailable`."""
        self._fence()
        with translate_errors("keep a Connection"):
            await self._rows.update_one({"_id": uid, "wanted": True, **self._ours}, {"$set": {"wanted": False}})

    async def leave(self, one: Unserved) -> None:
        """Poll what no release serves no more; as `rest`. Raises `Unavailable`."""
        self._fence()
        with translate_errors("keep a Connection"):
            left = {"_id": one.uid, "wanted": True, "servedAt": one.since}
            await self._rows.update_one(left, {"$set": {"wanted": False}})

    async def drop(self, uid: str) -> None:
        """The Connection is gone: so are its cursor and its items. Raises `Unavailable`."""
        self._fence()
        with translate_errors("forget a Connection"):
            # The row goes last: after a kill in between the Connection is found and forgotten again.
            await self._items.delete_many({"connection": uid})
            await self._rows.delete_one({"_id": uid})

    async def serve(self, uids: Collection[str], now: datetime) -> None:
        """This release has these Connections: what another one sees of them is not left over. Raises `Unavailable`."""
        old = [{"servedAt": {"$lt": now - RENEWED}}, {"servedAt": None}, {"absent": True}]
        with translate_errors("note the Connections"):
            mine = {"_id": {"$in": list(uids)}, "$or": old, **self._ours}
            if await self._rows.find_one(mine, {"_id": 1}) is not None:
                self._fence()
                await self._rows.update_many(mine, {"$set": {"servedAt": now}, "$unset": {"absent": ""}})

    async def resting(self, uids: Collection[str]) -> frozenset[str]:
        """Those of them that are not polled. Raises `Unavailable`."""
        with translate_errors("look for Connections"):
            rows = self._rows.find({"_id": {"$in": list(uids)}, "wanted": False}, {"_id": 1})
            return frozenset([row["_id"] async for row in rows])

    async def unserved(self, uids: Collection[str], now: datetime) -> list[Unserved]:
        """Those of them that no release has served for `SERVED`. One that was never said to be served counts as served
        now, so that it is not taken for left over at once. Raises `Unavailable`."""
        some = {"_id": {"$in": list(uids)}}
        shown = {"namespace": 1, "name": 1, "servedAt": 1, "absent": 1}
        with translate_errors("look for Connections"):
            if await self._rows.find_one({**some, "servedAt": None}, {"_id": 1}) is not None:
                self._fence()
                await self._rows.update_many({**some, "servedAt": None}, {"$set": {"servedAt": now}})
            rows = self._rows.find({**some, "servedAt": {"$lt": now - SERVED}}, shown)
            return [
                Unserved(row["_id"], row["namespace"], row["name"], row["servedAt"], bool(row.get("absent")))
                async for row in rows
            ]

    async def absent(self, one: Unserved) -> None:
        """There is no such Connection: what its items say counts for no other. Nothing is deleted. Raises
        `Unavailable`."""
        self._fence()
        with translate_errors("keep a Connection"):
            await self._rows.update_one({"_id": one.uid, "servedAt": one.since}, {"$set": {"absent": True}})

    async def expire(self, one: Unserved) -> bool:
        """Forget it if it is still unserved; whether it was. Its items follow (`items.Items.left_over`): where its
        release begins with it again before that, they make no second tasks. Raises `Unavailable`."""
        self._fence()
        with translate_errors("forget a Connection"):
            done = await self._rows.delete_one({"_id": one.uid, "servedAt": one.since})
        return bool(done.deleted_count)

    async def states(self) -> dict[str, tuple[str, int, State]]:
        """By uid: the namespace, the number of the state's last change, and the state. Raises `Unavailable`."""
        with translate_errors("list the Connections"):
            return {
                row["_id"]: (row["namespace"], int(row.get("revision", 0)), read(row))
                async for row in self._rows.find({}, {"spec": 0, "cursor": 0})
            }

    async def leaving(self, limit: int = 500) -> list[Leaving]:
        """Items that left their source, whose task may still be there. Raises `Unavailable`."""
        with translate_errors("list the items that left"):
            rows = self._items.find({"state": GONE, "settled": False}).sort("goneAt", ASCENDING).limit(limit)
            return [Leaving(row["_id"], row["connection"], row["namespace"], row["task"]) async for row in rows]

    async def settle(self, one: Leaving) -> None:
        """Its task is deleted, or stays because it was begun. Raises `Unavailable`."""
        self._fence()
        with translate_errors("write an item that left"):
            await self._items.update_one({"_id": one.id, "state": GONE, "task": one.task}, {"$set": {"settled": True}})

    # -- the sources' side -----------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Make the indexes. Raises `Unavailable`."""
        with translate_errors("make an index"):
            await self._rows.create_index([("wanted", ASCENDING), ("pollAt", ASCENDING)])
            await self._items.create_index([("settled", ASCENDING), ("goneAt", ASCENDING)], sparse=True)

    async def claim(
        self, owner: str, now: datetime, skip: Collection[str] = (), full: Collection[str] = ()
    ) -> Claim | None:
        """The Connection that is due longest and that no other process has, none of `skip` and of no namespace that is
        `full`; None: none. `skip` names all that `owner` works on: what else it has is left from a claim whose answer
        was lost, or that it could not give back. Raises `Unavailable`."""
        free = [{"until": {"$lt": now}}, {"until": None}, {"owner": owner}]
        wanted: dict[str, Any] = {"wanted": True, "pollAt": {"$lte": now}, "_id": {"$nin": list(skip)}, "$or": free}
        wanted |= {"namespace": {"$nin": list(full)}} if full else {}
        wanted |= self._ours
        while True:
            with translate_errors("claim a Connection"):
                row = await self._rows.find_one_and_update(
                    wanted,
                    {"$set": {"owner": owner, "until": now + self._lasts}, "$inc": {"fence": 1}},
                    sort=[("pollAt", ASCENDING)],
                    return_document=AFTER,
                )
            if row is None:
                return None
            try:
                return _claim(row)
            except pydantic.ValidationError as error:
                await self._put_off(row, now, error)

    async def _put_off(self, row: Mapping[str, Any], now: datetime, error: pydantic.ValidationError) -> None:
        """It was written by another version of Jervis: the others are polled meanwhile."""
        first = error.errors(include_url=False, include_input=True)[0]
        said = f"spec.{'.'.join(map(str, first['loc']))} {str(first['input'])[:100]!r} is not known to this version."
        state = replace(read(row), polled_at=now, failures=read(row).failures + 1, reason="Misconfigured",
                        message=f"{said} Update the sources process, or correct it.")  # fmt: skip
        written = {"state": stored(state, int(row["generation"])), "owner": "", "until": None, "pollAt": now + UNKNOWN}
        with translate_errors("put a Connection off"):
            await self._rows.update_one(
                {"_id": row["_id"], "fence": row["fence"]}, {"$set": written, "$inc": {"revision": 1}}
            )

    async def watch(self, now: datetime, seconds: float, owner: str = "", skip: Collection[str] = ()) -> Claim | None:
        """The mailbox that was not watched for the longest time, which no other process watches for `seconds`; None:
        none. One whose last poll failed is left alone. `owner` and `skip` as in `claim`. Raises `Unavailable`."""
        free: list[dict[str, Any]] = [{"watchUntil": {"$lte": now}}, {"watchUntil": None}]
        free += [{"watcher": owner}] if owner else []
        wanted = {"wanted": True, "spec.url": {"$regex": "^imaps?:"}, "state.failures": 0, "$or": free}
        wanted |= {"_id": {"$nin": list(skip)}} if skip else {}
        wanted |= self._ours
        with translate_errors("claim a watch"):
            row = await self._rows.find_one_and_update(
                wanted,
                {"$set": {"watchUntil": now + timedelta(seconds=seconds), "watcher": owner}},
                sort=[("watchUntil", ASCENDING)],
                return_document=AFTER,
            )
        return _known(row)

    async def watched(self, uid: str, now: datetime, until: datetime, *, news: bool) -> None:
        """A watch ended; the next one may begin at `until`. After `news` the Connection is due now. Raises
        `Unavailable`."""
        due: dict[str, Any] = {"$min": {"pollAt": now}, "$inc": {"news": 1}} if news else {}
        with translate_errors("note news"):
            await self._rows.update_one({"_id": uid}, {"$set": {"watchUntil": until, "watcher": ""}, **due})

    async def there(self, uid: str) -> bool:
        """Whether the Connection is still one. Raises `Unavailable`."""
        with translate_errors("look for a Connection"):
            return await self._rows.find_one({"_id": uid}, {"_id": 1}) is not None

    async def renew(self, claim: Claim, now: datetime) -> None:
        """Keep it for another while. Raises `Lost`, `Unavailable`."""
        await self._write(claim, {"until": now + self._lasts})

    async def overtake(self, claim: Claim) -> None:
        """Where its items name a later claim although there is none, because an older copy of MongoDB was restored, the
        next claim is later than all that they name. Raises `Lost` then, `Unavailable`."""
        with translate_errors("look for a later claim"):
            latest = await self._latest(claim.uid)
            if latest <= claim.fence:
                return
            await self._rows.update_one({"_id": claim.uid, "fence": claim.fence}, {"$set": {"fence": latest}})
        raise Lost(f"items of Connection {claim.namespace}/{claim.name} were found under a later claim")

    async def advance(self, claim: Claim, cursor: Mapping[str, Any], now: datetime) -> None:
        """What stands before the cursor is stored. Raises `Lost`, `Unavailable`."""
        until = now + self._lasts
        # What is the same is not written again: it may be large.
        said = {} if cursor == claim.cursor else {"cursor": packed(cursor)}
        await self._write(claim, {**said, "until": until})

    async def rewind(self, claim: Claim, wish: str) -> None:
        """Read the source from its beginning, once for this wish: behind `beginning(claim.cursor)`. Raises `Lost`,
        `Unavailable`."""
        await self._write(claim, {"cursor": packed(beginning(claim.cursor)), "rewound": wish})

    async def note(self, claim: Claim, state: State) -> None:
        """Write the state of a poll that goes on. Raises `Lost`, `Unavailable`."""
        await self._write(claim, {"state": stored(state, state.generation)}, {"revision": 1})

    async def finish(self, claim: Claim, state: State, poll_at: datetime) -> None:
        """Give it back with its state; the next poll is at `poll_at`. Raises `Lost`, `Unavailable`."""
        said = stored(state, claim.generation)
        # A spec or a wish that changed, or news that came meanwhile, are polled at once: what was written then stays.
        given = {"state": said, "owner": "", "until": None, "ended": claim.fence}
        await self._write(claim, given, {"revision": 1})
        with translate_errors("write the next poll"):
            same = {"generation": claim.generation, "wishes": claim.wishes, "news": claim.news}
            await self._rows.update_one({"_id": claim.uid, "fence": claim.fence, **same}, {"$set": {"pollAt": poll_at}})

    async def uids(self) -> frozenset[str]:
        """Of all Connections that there are. Raises `Unavailable`."""
        with translate_errors("list the Connections"):
            return frozenset([row["_id"] async for row in self._rows.find({}, {"_id": 1})])

    async def named(self, namespace: str, name: str) -> Claim | None:
        """A Connection as it is wanted and was claimed last, to look at; None: there is none. Raises `Unavailable`."""
        with translate_errors("look for a Connection"):
            row = await self._rows.find_one({"namespace": namespace, "name": name, "wanted": True})
        return _known(row)

    async def alike(self, claim: Claim) -> list[Claim]:
        """All other Connections of the type and the client, as they were claimed last. Raises `Unavailable`."""
        wanted = {"_id": {"$ne": claim.uid}, "spec.type": claim.spec.type.value, "spec.clientId": claim.spec.client_id}
        with translate_errors("list the Connections of a client"):
            return [_claim(row) async for row in self._rows.find(wanted)]

    async def release(self, claim: Claim) -> None:
        """Give it back in the middle; it is due as before. Raises `Unavailable`."""
        with translate_errors("give a Connection back"):
            await self._rows.update_one(
                {"_id": claim.uid, "fence": claim.fence}, {"$set": {"owner": "", "until": None}}
            )

    async def _write(self, claim: Claim, values: Mapping[str, Any], added: Mapping[str, int] | None = None) -> None:
        more = {"$inc": dict(added)} if added else {}
        with translate_errors("write the state of a Connection"):
            done = await self._rows.update_one({"_id": claim.uid, "fence": claim.fence}, {"$set": dict(values), **more})
        if not done.matched_count:
            raise Lost(f"Connection {claim.namespace}/{claim.name} is another process's now, or gone")


def _known(row: Mapping[str, Any] | None) -> Claim | None:
    """None too where this version does not understand it, which `claim` reports."""
    try:
        return None if row is None else _claim(row)
    except pydantic.ValidationError:
        return None


def _claim(row: Mapping[str, Any]) -> Claim:
    return Claim(
        uid=row["_id"],
        namespace=row["namespace"],
        name=row["name"],
        spec=connection.Spec.model_validate(row["spec"]),
        generation=int(row["generation"]),
        fence=int(row["fence"]),
        cursor=unpacked(row.get("cursor")),
        state=read(row),
        poll_at=row["pollAt"],
        wishes=row.get("wishes"),
        rewound=row.get("rewound", ""),
        news=row.get("news"),
        born=row.get("born", ""),
        ended=int(row.get("ended", -1)),
    )
