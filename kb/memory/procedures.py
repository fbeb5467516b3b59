"""Procedural memory: how tasks of a pattern are done for a client (seed 001 "Procedural Memory").

A procedure is named by client, source and trigger: what a user defined and what was learned live side by side, and the
user's comes first. A learned one loses weight while it is not used; when a client has too many, the lightest goes.
Stored in MongoDB in every profile: the seed's ArangoDB collection does not exist where the graph is embedded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

from kb import api, errors, identity, mongo

COLLECTION = "procedures"
_HALF_LIFE_DAYS = 30.0
# Learned procedures kept per client, and user-defined ones accepted.
_LEARNED = 200
_DEFINED = 500


def score(row: dict[str, Any], now: datetime) -> float:
    """User-defined 1 and more; learned its smoothed success rate, halved for every 30 days without use."""
    uses, successes = int(row["usageCount"]), int(row["successes"])
    rate: float = (successes + 1.0) / (uses + 2.0)
    if row["source"] == "user_defined":
        return 1.0 + rate
    idle: float = max((now - row["touchedAt"]).total_seconds() / 86_400, 0.0)
    return rate * math.exp2(-idle / _HALF_LIFE_DAYS)


class Procedures:
    """Raises `kb.errors.Away`."""

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime]) -> None:
        self._rows = database[COLLECTION]
        self._clock = clock
        self._indexed = False

    async def put(self, draft: api.ProcedureDraft) -> api.Procedure:
        """Save; the same client, source and trigger is replaced and keeps its history of use."""
        now = self._clock()
        own = identity.procedure(draft.client_id, draft.source, draft.trigger_pattern)
        said = {
            "triggerPattern": draft.trigger_pattern,
            "procedureSteps": [step.model_dump(by_alias=True) for step in draft.procedure_steps],
            "source": draft.source,
            "clientId": draft.client_id,
            "touchedAt": now,
        }
        first = {"usageCount": 0, "successes": 0, "lastUsed": None}
        with mongo.translated():
            await self._index()
            await self._check_room(draft, own)
            row = await self._rows.find_one_and_update(
                {"_id": own},
                {"$set": said, "$setOnInsert": first},
                upsert=True,
                return_document=mongo.AFTER,
            )
            await self._forget_lightest(draft.client_id, now)
        return _procedure(row, now)

    async def find(self, client_id: str, trigger: str | None, *, limit: int) -> list[api.Procedure]:
        """The client's procedures (of one trigger), best first."""
        now = self._clock()
        query = {"clientId": client_id} | ({"triggerPattern": trigger} if trigger else {})
        with mongo.translated():
            await self._index()
            rows = [row async for row in self._rows.find(query)]
        rows.sort(key=lambda row: (-score(row, now), row["_id"]))
        return [_procedure(row, now) for row in rows[:limit]]

    async def used(self, use: api.Use) -> api.Procedure:
        """Count a use. Raises `kb.errors.NotFound`."""
        now = self._clock()
        with mongo.translated():
            row = await self._rows.find_one_and_update(
                {"_id": use.id, "clientId": use.client_id},
                {
                    "$inc": {"usageCount": 1, "successes": int(use.succeeded)},
                    "$set": {"lastUsed": now, "touchedAt": now},
                },
                return_document=mongo.AFTER,
            )
        if row is None:
            raise _missing(use.id)
        return _procedure(row, now)

    async def forget(self, client_id: str, procedure_id: str) -> None:
        """Delete. Raises `kb.errors.NotFound`."""
        with mongo.translated():
            gone = await self._rows.delete_one({"_id": procedure_id, "clientId": client_id})
        if not gone.deleted_count:
            raise _missing(procedure_id)

    async def _check_room(self, draft: api.ProcedureDraft, own: str) -> None:
        if draft.source == "learned":
            return
        others = {"clientId": draft.client_id, "source": "user_defined", "_id": {"$ne": own}}
        if await self._rows.count_documents(others, limit=_DEFINED) >= _DEFINED:
            raise errors.TooLarge(
                f"client {draft.client_id!r} has {_DEFINED} procedures of its own",
                field="triggerPattern",
                remedy="Delete one with DELETE /api/v1/memory/procedural.",
            )

    async def _forget_lightest(self, client_id: str, now: datetime) -> None:
        rows = [row async for row in self._rows.find({"clientId": client_id, "source": "learned"})]
        if len(rows) > _LEARNED:
            rows.sort(key=lambda row: (score(row, now), row["_id"]))
            over = [row["_id"] for row in rows[: len(rows) - _LEARNED]]
            await self._rows.delete_many({"_id": {"$in": over}})

    async def _index(self) -> None:
        if not self._indexed:
            await self._rows.create_index([("clientId", 1), ("triggerPattern", 1)])
            self._indexed = True


def _missing(procedure_id: str) -> errors.NotFound:
    return errors.NotFound(
        f"this client has no procedure {procedure_id!r}",
        field="id",
        remedy="See GET /api/v1/memory/procedural for the ids.",
    )


def _procedure(row: dict[str, Any], now: datetime) -> api.Procedure:
    uses = row["usageCount"]
    return api.Procedure(
        id=row["_id"],
        client_id=row["clientId"],
        trigger_pattern=row["triggerPattern"],
        procedure_steps=row["procedureSteps"],
        success_rate=row["successes"] / uses if uses else 0.0,
        last_used=row["lastUsed"],
        usage_count=uses,
        source=row["source"],
        score=round(score(row, now), 6),
    )
