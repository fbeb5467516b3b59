"""What the loop of an agent has learned, durably: a resumed loop reads it and makes no call twice.

`orchestrator_journal`: {_id: "<task uid>/<delegation>/<ordinal>", taskUid, round, delegation, ordinal, kind,
value | key, stored?, epoch, at}. `kind` is begun, reply (a model's) or result (a tool's). A value above `INLINE` bytes
is an artifact, and `key` names it. `stored` has key, name and media type of what a tool has stored. Ordinals count the
events of one delegation from 0, in the order in which its loop has them; that order follows from the replies alone, so
the same replies lead to the same ordinals.

A checkpoint holds the state of the graph between its steps, the journal what happened within one
(docs/decisions/0136). Of two processes that write one entry the later epoch wins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import JsonValue

from orchestrator_job import errors
from orchestrator_job.store import artifacts, delegation_progress, fence, mongo
from text import surrogates

COLLECTION = "orchestrator_journal"
INLINE = 16 * 1024
Stored = Sequence[tuple[str, str, str]]
"""Key, name and media type of contents."""


class Kind(StrEnum):
    """What an entry is about."""

    BEGUN = "begun"
    REPLY = "reply"
    RESULT = "result"


class Record:
    """The entries of one delegation. `open` reads them; later ones are written through it."""

    def __init__(self, journal: Journal, delegation_id: str, found: Mapping[int, Mapping[str, Any]]) -> None:
        self._journal = journal
        self._delegation_id = delegation_id
        self._found = found

    async def recall(self, ordinal: int, kind: Kind) -> Any:
        """What was kept, or None. Raises CheckpointRefused when something of another kind stands there."""
        entry = self._found.get(ordinal)
        if entry is None:
            return None
        if entry["kind"] != kind:
            raise errors.CheckpointRefused(
                f"The journal of {self._delegation_id} has a {entry['kind']} at {ordinal}, where this program wants a "
                f"{kind}.",
                remedy=f"Delete the task's entries in {COLLECTION} and its thread, so that the next run begins anew.",
            )
        return await self._journal.value(entry)

    async def agent(self) -> str:
        """Whose loop it is; "" if nothing was kept."""
        begun = self._found.get(0)
        return str((await self._journal.value(begun))["agent"]) if begun is not None else ""

    async def call(self, ordinal: int) -> Mapping[str, Any] | None:
        """`name` and `arguments` of the call whose result has this ordinal: the results of a reply's calls follow it.
        None if it was not kept."""
        replies = [at for at, entry in self._found.items() if at < ordinal and entry["kind"] == Kind.REPLY]
        if not replies:
            return None
        calls: list[Mapping[str, Any]] = (await self._journal.value(self._found[max(replies)]))["calls"]
        place = ordinal - max(replies) - 1
        return calls[place] if place < len(calls) else None

    async def keep(self, ordinal: int, kind: Kind, value: JsonValue, stored: Stored = ()) -> None:
        """Store it durably. Raises Fenced."""
        await self._journal.write(self._delegation_id, ordinal, kind, value, stored)


class Journal:
    """The journal of the task whose fence it is."""

    def __init__(
        self,
        database: mongo.Database,
        guard: fence.Fence,
        store: artifacts.Artifacts,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._guard = guard
        self._store = store
        self._now = now

    async def open(self, delegation_id: str) -> Record:
        """What is known of the delegation; its sub-delegations have records of their own."""
        entries = await self._database.find(
            COLLECTION,
            {"taskUid": self._guard.task_uid, "delegation": delegation_id},
            sort=[("ordinal", 1)],
            fields=["ordinal", "kind", "value", "key"],
        )
        return Record(self, delegation_id, {int(one["ordinal"]): one for one in entries})

    async def value(self, entry: Mapping[str, Any]) -> Any:
        """The value of an entry, wherever it is."""
        return await self._store.get(entry["key"]) if entry.get("key") else json.loads(entry["value"])

    async def stored(self) -> list[tuple[str, str, str]]:
        """Key, name and media type of what tools of the task have stored in this round and the one before. What an
        agent reports to have made is none of it."""
        wanted = {"taskUid": self._guard.task_uid, "stored": {"$exists": True}}
        entries = await self._database.find(COLLECTION, wanted, sort=[("_id", 1)], fields=["stored"])
        return [(str(key), str(name), str(kind)) for one in entries for key, name, kind in one["stored"]]

    async def write(self, delegation_id: str, ordinal: int, kind: Kind, value: JsonValue, stored: Stored = ()) -> None:
        """Write an entry. Raises Fenced, Forgotten."""
        round_number = delegation_progress.round_of(delegation_id)
        # As text: keys with dots and dollars are a model's business.
        text = surrogates.clean(json.dumps(value, ensure_ascii=False))
        large = len(text.encode()) > INLINE
        place: dict[str, Any] = {"key": await self._store.put(value, round_number)} if large else {"value": text}
        epoch = self._guard.epoch
        own = {"_id": f"{self._guard.task_uid}/{delegation_id}/{ordinal}"}
        document = {
            "taskUid": self._guard.task_uid,
            "round": round_number,
            "delegation": delegation_id,
            "ordinal": ordinal,
            "kind": kind.value,
            **place,
            **({"stored": [list(one) for one in stored]} if stored else {}),
            "epoch": epoch,
            "at": self._now(),
        }
        written = await self._guard.keep(
            lambda: self._database.update(
                COLLECTION, {**own, "epoch": {"$lte": epoch}}, {"$set": document}, upsert=True
            ),
            lambda: self._database.delete(COLLECTION, {**own, "epoch": epoch}),
        )
        if written is None:
            raise errors.Fenced(f"A newer run has written to the journal of {delegation_id}; this one stops.")

    async def prune(self, round_number: int) -> int:
        """Delete the entries of rounds before this one; returns their number."""
        return await self._database.delete(
            COLLECTION, {"taskUid": self._guard.task_uid, "round": {"$lt": round_number}}
        )
