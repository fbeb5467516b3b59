"""The ledger of effects: one MongoDB document per task and key, written before and after the target is called.

    Intent --sent--> Sent --settle--> Done | Unknown
       ^              |
       +---release----+   the target certainly did nothing

A process claims an entry for a while; every write carries the number of that claim, so a process that was frozen
overwrites nothing of its successor. In Sent the target may have acted: the claimer of such an entry asks the target
first. Bodies are not stored, only the digest of the arguments. Clocks of the processes may differ by less than a claim
lasts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from clients.mongo import AFTER, ASCENDING, Duplicate, translate_errors
from contracts import mongo_collections
from crds import errors, scope
from sources.api import problems
from sources.effects import wire

INTENT, SENT, DONE, UNKNOWN = "Intent", "Sent", "Done", "Unknown"
KEPT = timedelta(days=365)
"""After which an entry is forgotten, and its key would be a new effect."""


class Lost(errors.Operational):
    """The claim ended: another process has the entry."""


class Busy(errors.Operational):
    """Another request is doing it at this moment."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An effect that a run asks for."""

    namespace: str
    task: str
    key: str
    tool: str
    connection: str
    owner: scope.Scope
    arguments: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Unique over all tasks; no part has a slash."""
        return f"{self.namespace}/{self.task}/{self.key}"

    @property
    def mark(self) -> str:
        """32 hexadecimal digits that name the effect at its target, the same for ever."""
        return hashlib.sha256(self.id.encode()).hexdigest()[:32]

    @property
    def digest(self) -> str:
        """Differs where anything that is asked for does."""
        said = orjson.dumps([self.tool, self.connection, self.arguments], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(said).hexdigest()


@dataclass(frozen=True, slots=True)
class Claim:
    """An entry that this process has until `until`. `sent`: the target may have acted, `before` is what was noted about
    it then."""

    id: str
    fence: int
    until: datetime
    sent: bool
    sent_at: datetime | None = None
    before: Mapping[str, Any] = field(default_factory=dict)


class Ledger:
    """`database` is one of `mongo.client`. A claim is free after `lasts` seconds."""

    def __init__(self, database: Any, *, lasts: float = 120.0) -> None:
        self._rows, self._lasts = database[mongo_collections.EFFECTS], timedelta(seconds=lasts)

    async def prepare(self) -> None:
        """Make the indexes. Raises `Unavailable`."""
        with translate_errors("make an index"):
            await self._rows.create_index([("taskUid", ASCENDING)])
            await self._rows.create_index([("forgetAt", ASCENDING)], expireAfterSeconds=0)

    async def claim(self, wanted: Wanted, now: datetime) -> Claim | wire.Outcome:
        """The entry, to be worked on, or its outcome. Raises `problems.Conflict` where the key stands for another
        effect, `Busy`, `Unavailable`."""
        first = {
            "taskUid": wanted.task,
            "scope": wanted.owner.model_dump(by_alias=True),
            "key": wanted.key,
            "tool": wanted.tool,
            "connection": wanted.connection,
            "digest": wanted.digest,
            "state": INTENT,
            "fence": 0,
            "until": None,
            "askedAt": now,
            "forgetAt": now + KEPT,
        }
        with translate_errors("write an effect down"):
            # Two may ask at once: the other one's entry is as good.
            with suppress(Duplicate):
                await self._rows.update_one({"_id": wanted.id}, {"$setOnInsert": first}, upsert=True)
            row = await self._rows.find_one_and_update(
                {
                    "_id": wanted.id,
                    "digest": wanted.digest,
                    "state": {"$in": [INTENT, SENT]},
                    "$or": [{"until": None}, {"until": {"$lt": now}}],
                },
                {"$set": {"until": now + self._lasts}, "$inc": {"fence": 1}},
                return_document=AFTER,
            )
            if row is not None:
                sent = row["state"] == SENT
                return Claim(
                    wanted.id, int(row["fence"]), row["until"], sent, row.get("sentAt"), row.get("before") or {}
                )
            row = await self._rows.find_one({"_id": wanted.id})
        if row is None:
            raise Busy("the entry of the effect was just forgotten")
        if row["digest"] != wanted.digest:
            raise problems.Conflict(
                f"the key {wanted.key!r} stands for another effect of this task",
                field="key",
                remedy="Send the same tool, connection and arguments with a key, or a new key.",
            )
        if row["state"] in (DONE, UNKNOWN):
            return _outcome(row, now)
        raise Busy(f"the effect {wanted.key!r} is being done", retry_after=2.0)

    async def renew(self, claim: Claim, now: datetime) -> Claim:
        """The claim for longer. Raises `Lost`, `Unavailable`."""
        until = now + self._lasts
        await self._write(claim, {"until": until})
        return replace(claim, until=until)

    async def sent(self, claim: Claim, before: Mapping[str, Any], now: datetime) -> None:
        """From now on the target may have acted. Raises `Lost`, `Unavailable`."""
        if now >= claim.until:
            raise Lost("the claim of the effect has ended")
        await self._write(claim, {"state": SENT, "before": dict(before), "sentAt": now})

    async def settle(
        self, claim: Claim, state: str, now: datetime, *, result: Mapping[str, str], problem: wire.Problem | None = None
    ) -> wire.Outcome:
        """Done or Unknown, for ever. Raises `Lost`, `Unavailable`."""
        said = {"state": state, "result": dict(result), "problem": _said(problem), "settledAt": now, "until": None}
        return _outcome(await self._write(claim, said), now)

    async def release(self, claim: Claim, problem: wire.Problem, *, sent: bool) -> None:
        """Give it back. `sent`: the target may have acted, and is to be asked. Raises `Lost`, `Unavailable`."""
        state = SENT if sent else INTENT
        await self._write(claim, {"state": state, "problem": _said(problem), "until": None})

    async def find(self, namespace: str, task: str, key: str, now: datetime) -> wire.Outcome | None:
        """The outcome of a key. Raises `Unavailable`."""
        with translate_errors("read an effect"):
            row = await self._rows.find_one({"_id": f"{namespace}/{task}/{key}"})
        return None if row is None else _outcome(row, now)

    async def _write(self, claim: Claim, values: Mapping[str, Any]) -> Mapping[str, Any]:
        with translate_errors("write what became of an effect"):
            row = await self._rows.find_one_and_update(
                {"_id": claim.id, "fence": claim.fence, "state": {"$in": [INTENT, SENT]}},
                {"$set": dict(values)},
                return_document=AFTER,
            )
        if row is None:
            raise Lost("the effect is another process's now")
        found: Mapping[str, Any] = row
        return found


def _said(problem: wire.Problem | None) -> dict[str, Any] | None:
    return None if problem is None else problem.model_dump()


def _outcome(row: Mapping[str, Any], now: datetime) -> wire.Outcome:
    problem = wire.Problem(**row["problem"]) if row.get("problem") else None
    state = wire.State(row["state"]) if row["state"] in (DONE, UNKNOWN) else wire.State.PENDING
    if state is wire.State.PENDING and (row["until"] is None or row["until"] < now):
        state = wire.State.UNKNOWN if row["state"] == SENT else wire.State.NOT_DONE
        again = "Send it again with the same key: " + (
            "the target is asked whether it happened." if row["state"] == SENT else "nothing has happened."
        )
        problem = problem or wire.Problem(message="the process ended before the effect was settled", remedy=again)
    return wire.Outcome(
        key=row["key"],
        tool=row["tool"],
        connection=row["connection"],
        state=state,
        result=row.get("result") or {},
        problem=None if state is wire.State.DONE else problem,
        asked_at=row["askedAt"],
        settled_at=row.get("settledAt"),
    )
