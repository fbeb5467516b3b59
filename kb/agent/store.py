"""Events of questions and conversations in MongoDB, so that any process can go on with either.

    agent_streams         one row a stream: whose it is, whether it is done, when it was last written and read
    agent_events          its events in batches, which last as long as its row; the oldest go where they are too many
    agent_conversations   one row a conversation, and one for each turn of it; older turns lose their words and stay for
                          what later ones rest on (`kb.agent.turn_sources`)

What is over is never shown, and `purge` deletes it, so nothing rests on a TTL index. A row that an erasure took away
is not made again by a question that began before: every write of a stream or a turn needs the row that it belongs to.
"""

from __future__ import annotations

import enum
import itertools
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from contracts import mongo_collections
from crds import scope
from kb import api, errors, identity, mongo
from kb.agent.tree import Turn
from kb.erasure import closed

STREAMS, EVENTS, CONVERSATIONS = "agent_streams", "agent_events", "agent_conversations"
MOST_BYTES = 4 << 20
"""Of the events of one stream that are kept, the latest ones."""
MOST_TURNS = 20
"""Of a conversation, with their words."""
MOST_GROUNDS, MOST_ROWS = 10_000, 500
"""Passages and pages on which the turns of a conversation rest, which are looked up for each question, and turns that
are kept for them, older ones without words. A turn that rests on one before them is left out."""
MOST_NAMES = 200
"""Conversations of one owner; a further one takes the place of that which was idle for longest."""
TURN_CHARS = 4000
SILENT = timedelta(seconds=30)
"""After which a process that wrote nothing of a stream is taken to have ended."""
_READ_AGAIN = timedelta(seconds=0.5)
"""How old the time of a reader is before it is written again."""
_ANSWER = timedelta(hours=1)
"""A conversation that a question opens lasts for at least so long: until it is answered."""
_AT_ONCE = 500
_STREAM_LIFE = timedelta(minutes=10)
"""After the last event of an answer: a reader whose connection broke comes back within seconds or minutes."""
"""Streams that are deleted with one command."""


class _Rows:
    def __init__(
        self,
        database: mongo.Database,
        clock: Callable[[], datetime],
        shut: closed.Closed,
        names: Sequence[str],
        life: timedelta,
    ) -> None:
        self._tables = [database[name] for name in names]
        self._clock = clock
        self._shut = shut
        self._life = life
        self._indexed = False

    async def purge(self) -> None:
        """Delete what is over. Raises `kb.errors.Away`."""
        with mongo.translated():
            await self._index()
            for rows in self._tables:
                await rows.delete_many({"expiresAt": {"$lte": self._clock()}})

    async def _index(self) -> None:
        if not self._indexed:
            for rows in self._tables:
                await rows.create_index([("expiresAt", 1)])
                await rows.create_index([("of", 1), ("number", 1)])
                await rows.create_index([("whose", 1), ("expiresAt", -1)])
            self._indexed = True


@dataclass(frozen=True)
class Page:
    """Events of a stream after some id; `done`: there are no more, `silent`: its process has ended before."""

    events: tuple[api.AgentEvent, ...]
    done: bool
    silent: bool


class Kept(enum.Enum):
    """What a writer learns of its stream: it goes on, a reader has stopped it, or it was erased."""

    OPEN = "Open"
    STOPPED = "Stopped"
    GONE = "Gone"


class Streams(_Rows):
    """The events that can be read again. Raises `kb.errors.Away`."""

    def __init__(
        self,
        database: mongo.Database,
        clock: Callable[[], datetime],
        shut: closed.Closed,
        *,
        life: timedelta = _STREAM_LIFE,
    ) -> None:
        super().__init__(database, clock, shut, (STREAMS, EVENTS), life)
        self._streams, self._events = self._tables

    async def purge(self) -> None:
        """Delete the streams that are over, with all of their events. Raises `kb.errors.Away`.

        Events never end before their stream's row does (`append`). A process that dies between the two leaves events
        without a stream, which go at their own time.
        """
        over = {"expiresAt": {"$lte": self._clock()}}
        with mongo.translated():
            await self._index()
            while ids := [row["_id"] async for row in self._streams.find(over, {"_id": 1}).limit(_AT_ONCE)]:
                # The rows first: no reader finds a stream whose events are being deleted. One that was written
                # meanwhile stays, with its events.
                await self._streams.delete_many({"_id": {"$in": ids}, **over})
                kept = {row["_id"] async for row in self._streams.find({"_id": {"$in": ids}}, {"_id": 1})}
                await self._events.delete_many({"of": {"$in": [one for one in ids if one not in kept]}})
            await self._events.delete_many(over)

    async def open(self, stream: str, owner: scope.Scope) -> Recorder:
        """A new stream. Raises `kb.errors.Erasing` where the scope takes no writes."""
        now = self._clock()
        row = {**_whose(owner), "done": False, "first": 1, "last": 0, "aliveAt": now, "readAt": now}
        with self._shut.entered(owner), mongo.translated():
            await self._index()
            await self._streams.insert_one({"_id": stream, **row, "expiresAt": now + self._life})
        return Recorder(self, stream, owner)

    async def append(
        self,
        stream: str,
        owner: scope.Scope,
        events: Sequence[api.AgentEvent],
        first: int,
        gone: list[int],
        *,
        done: bool,
    ) -> Kept:
        """Add a batch, take those away that begin with the ids in `gone`."""
        now = self._clock()
        expires = now + self._life
        with self._shut.entered(owner), mongo.translated():
            known = await self._streams.find_one({"_id": stream}, {"eventsExpireAt": 1})
            if known is None:
                return Kept.GONE
            # Before the row lasts longer, all events do: for twice as long, so that this is written once in a life.
            lasting = known.get("eventsExpireAt")
            if lasting is None or lasting < expires:
                lasting = expires + self._life
                await self._events.update_many({"of": stream}, {"$set": {"expiresAt": lasting}})
            if events:
                batch = {
                    "_id": f"{stream}:{events[0].id}",
                    "of": stream,
                    "number": events[-1].id,
                    **_whose(owner),
                    "lines": [line(one) for one in events],
                    "expiresAt": lasting,
                }
                # A write whose answer was lost is repeated, with more events behind it.
                await self._events.replace_one({"_id": batch["_id"]}, batch, upsert=True)
            # Last: a reader that sees `done` finds all events.
            alive: dict[str, Any] = {
                "done": done,
                "first": first,
                "aliveAt": now,
                "expiresAt": expires,
                "eventsExpireAt": lasting,
            }
            if events:
                alive["last"] = events[-1].id
            row = await self._streams.find_one_and_update({"_id": stream}, {"$set": alive}, {"stopped": 1})
            if gone:
                await self._events.delete_many({"_id": {"$in": [f"{stream}:{number}" for number in gone]}})
        if row is None:
            return Kept.GONE
        return Kept.STOPPED if row.get("stopped") else Kept.OPEN

    async def stop(self, viewer: scope.Scope, stream: str) -> None:
        """Have the process that works on it end it, at its next write. Raises `kb.errors.NotFound` as `read` does."""
        with mongo.translated():
            changed = await self._streams.update_one({"_id": stream, **_whose(viewer)}, {"$set": {"stopped": True}})
        if not changed.matched_count:
            raise _unknown()

    async def read(self, viewer: scope.Scope, stream: str, after: int) -> Page:
        """What comes after the event of that id, as far as it is there; the time of the reader is noted.

        Raises `kb.errors.NotFound` for a stream that is not the viewer's, `Conflict` where the next event is gone.
        """
        now = self._clock()
        with mongo.translated():
            row = await self._streams.find_one({"_id": stream, "expiresAt": {"$gt": now}})
            if row is None or {name: row[name] for name in _whose(viewer)} != _whose(viewer):
                raise _unknown()
            if after + 1 < row["first"]:
                raise _gone(row["first"])
            if now - row["readAt"] >= _READ_AGAIN:
                await self._streams.update_one({"_id": stream}, {"$set": {"readAt": now}})
            silent = not row["done"] and now - row["aliveAt"] > SILENT
            if row["last"] <= after:
                return Page((), row["done"], silent)
            cursor = self._events.find({"of": stream, "number": {"$gt": after}}).sort("number", 1)
            lines = [text async for batch in cursor for text in batch["lines"]]
        found: list[api.AgentEvent] = []
        last = after
        for one in map(api.AgentEvent.model_validate_json, lines):
            if one.id > last + 1:
                # Those in between went since the row was read, or were lost.
                if not found:
                    raise _gone(one.id)
                break
            if one.id == last + 1:
                found.append(one)
                last = one.id
        if not found:
            raise _gone(row["last"] + 1)
        return Page(tuple(found), row["done"] and last >= row["last"], silent)

    async def read_at(self, stream: str) -> datetime | None:
        """When a reader was last there; None where it is no more."""
        with mongo.translated():
            row = await self._streams.find_one({"_id": stream}, {"readAt": 1})
        return None if row is None else row["readAt"]


class Recorder:
    """Writes one stream, of which the latest `MOST_BYTES` stay."""

    def __init__(self, streams: Streams, stream: str, owner: scope.Scope) -> None:
        self._streams = streams
        self._stream = stream
        self._owner = owner
        self._batches: deque[tuple[int, int, int]] = deque()
        self._gone: list[int] = []

    async def write(self, events: Sequence[api.AgentEvent], *, done: bool) -> Kept:
        """Add events, and that there are no more.

        After `kb.errors.Away` the same events are to be written again, others may follow them.
        """
        if events:
            size = sum(len(line(one)) for one in events)
            if self._batches and self._batches[-1][0] == events[0].id:
                # It was tried before.
                self._batches.pop()
            self._batches.append((events[0].id, events[-1].id, size))
        while len(self._batches) > 1 and sum(size for *_, size in self._batches) > MOST_BYTES:
            self._gone.append(self._batches.popleft()[0])
        first = self._batches[0][0] if self._batches else 1
        try:
            kept = await self._streams.append(self._stream, self._owner, events, first, self._gone, done=done)
        except errors.Erasing:
            return Kept.GONE
        self._gone = []
        return kept


@dataclass(frozen=True)
class Talk:
    """A conversation as it was when a question began; the oldest of its turns have no words."""

    id: str
    born: str
    turns: tuple[Turn, ...]


class Conversations(_Rows):
    """What was asked and answered, by the name that a caller gives it in a scope. Raises `kb.errors.Away`."""

    def __init__(
        self,
        database: mongo.Database,
        clock: Callable[[], datetime],
        shut: closed.Closed,
        fresh_id: Callable[[], str],
        *,
        life: timedelta,
    ) -> None:
        super().__init__(database, clock, shut, (CONVERSATIONS,), life)
        [self._rows] = self._tables
        self._fresh_id = fresh_id

    async def open(self, owner: scope.Scope, name: str) -> Talk:
        """The conversation, with its turns that are not over, the oldest first; it is new where there is none. Turns
        before the latest `MOST_TURNS` have no words.

        Raises `kb.errors.Erasing` where the scope takes no writes.
        """
        now, whose = self._clock(), _whose(owner)
        key = identity.digest(json.dumps([whose, name], sort_keys=True))
        with self._shut.entered(owner), mongo.translated():
            await self._index()
            owns = identity.digest(json.dumps(whose, sort_keys=True))
            row = {**whose, "whose": owns, "born": self._fresh_id(), "expiresAt": now + self._life}
            try:
                await self._rows.insert_one({"_id": key, **row})
            except mongo.DuplicateKey:
                row = await self._rows.find_one({"_id": key}) or row
                if row["expiresAt"] < now + _ANSWER:
                    lasts = {"$set": {"expiresAt": now + self._life}}
                    await self._rows.update_one({"_id": key}, lasts)
                    await self._rows.update_many({"of": key, "expiresAt": {"$gt": now}}, lasts)
            else:
                over = self._rows.find({"whose": owns, "_id": {"$ne": key}}, {"_id": 1}).sort("expiresAt", -1)
                gone = [one["_id"] async for one in over.skip(MOST_NAMES - 1)]
                if gone:
                    # The name first: a turn is not added without it.
                    await self._rows.delete_many({"_id": {"$in": gone}})
                    await self._rows.delete_many({"of": {"$in": gone}})
            cursor = self._rows.find({"of": key, "born": row["born"], "expiresAt": {"$gt": now}}).sort("number", -1)
            turns: list[Turn] = []
            async for one in cursor.limit(MOST_ROWS):
                turns.append(_turn(one, worded=len(turns) < MOST_TURNS))
        return Talk(key, row["born"], tuple(reversed(turns)))

    async def add(self, owner: scope.Scope, talk: Talk, turn: Turn) -> bool:
        """A further turn; False where the conversation was erased since."""
        now = self._clock()
        expires = {"expiresAt": now + self._life}
        number = int(now.timestamp() * 1_000_000)
        said = {
            "question": turn.question[:TURN_CHARS],
            "answer": turn.answer[:TURN_CHARS],
            "chunks": list(turn.chunks),
            "pages": list(turn.pages),
            "restsOn": list(turn.rests_on),
            "grounds": len(turn.chunks) + len(turn.pages),
        }
        row = {"of": talk.id, "born": talk.born, "number": number, **_whose(owner), **said, **expires}
        try:
            with self._shut.entered(owner), mongo.translated():
                kept = await self._rows.update_one({"_id": talk.id, "born": talk.born}, {"$set": expires})
                if not kept.matched_count:
                    return False
                await self._rows.insert_one({"_id": f"{talk.id}:{self._fresh_id()}", **row})
                living = {"of": talk.id, "born": talk.born, "expiresAt": {"$gt": now}}
                await self._rows.update_many(living, {"$set": expires})
                await self._shorten(talk)
        except errors.Erasing:
            return False
        return True

    async def _shorten(self, talk: Talk) -> None:
        """Take the words from older turns, of which only that stays on which later ones rest, and delete the oldest."""
        rows = [one async for one in self._rows.find({"of": talk.id}, {"grounds": 1}).sort("number", -1)]
        sizes = itertools.accumulate(one["grounds"] for one in rows)
        kept = sum(number == 0 or (number < MOST_ROWS and size <= MOST_GROUNDS) for number, size in enumerate(sizes))
        ids = [one["_id"] for one in rows]
        worded = {"_id": {"$in": ids[MOST_TURNS:kept]}, "answer": {"$ne": ""}}
        await self._rows.update_many(worded, {"$set": {"question": "", "answer": ""}})
        await self._rows.delete_many({"_id": {"$in": ids[kept:]}})


def line(event: api.AgentEvent) -> str:
    """An event as it is sent and kept."""
    return event.model_dump_json(by_alias=True, exclude_none=True)


def _turn(row: dict[str, Any], *, worded: bool) -> Turn:
    return Turn(
        row["question"] if worded else "",
        row["answer"] if worded else "",
        tuple(row["chunks"]),
        tuple(row["pages"]),
        tuple(row["restsOn"]),
        row["_id"],
    )


def _unknown() -> errors.NotFound:
    return errors.NotFound(
        "there is no such stream in this scope",
        field="stream",
        remedy="Ask again. A stream is kept where its question gave resumeSeconds, and for some minutes.",
    )


def _gone(first: int) -> errors.Conflict:
    """Where a reader asks for what comes before the first event that is kept."""
    return errors.Conflict(
        f"the events before {first} are not kept any more",
        field="after",
        remedy=f"Read on after {first - 1}, or ask again.",
    )


def _whose(owner: scope.Scope) -> dict[str, Any]:
    """Fields of a row. One of a project names no group, because the project may change it."""
    principals = list(owner.principals) if isinstance(owner, scope.Viewer) else None
    return {**mongo_collections.session_owner(owner), "as": None if principals is None else sorted(principals)}
