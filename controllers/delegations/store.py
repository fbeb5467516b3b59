"""`delegation_metrics` and `delegation_totals`, as the leader counts them.

`delegation_totals` has one document per release, {_id, batch, ids, series}: its name, the totals, and the ids of those
counted last. A release counts what its own runs left, so that several may share a database. The document changes in one
write, which names the batch that it replaces: an answer that is lost, a leader that dies and one that is late count
nothing twice. Only then those ids get `counted`; this is done again before the next batch. So each delegation is in
exactly one batch, without a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clients import mongo
from contracts import mongo_collections
from controllers.delegations import totals

TOTALS = "delegation_totals"
AT_ONCE = 500
_FIELDS = (
    *("agentName", "startTime", "endTime", "tokenCount", "llmCalls", "success", "confidence"),
    *("stopped", "escalated", "retries", "effects"),
)


@dataclass(frozen=True, slots=True)
class Batch:
    """What is stored: the number of the last batch, and the ids in it."""

    number: int
    ids: Sequence[str]
    totals: totals.Totals


class Store:
    """Of one database and the `release` with that name. `fence` is asked before a write and raises where this process
    does not lead any more."""

    def __init__(self, database: Any, *, fence: Callable[[], None], release: str) -> None:
        self._metrics = database[mongo_collections.METRICS]
        self._totals = database[TOTALS]
        self._fence, self._release = fence, release

    async def stored(self) -> Batch:
        """The totals; none before the first batch. Raises `mongo.Unavailable`."""
        with mongo.translate_errors("read the totals of delegations"):
            found = await self._totals.find_one({"_id": self._release}) or {}
        made = totals.Totals.load(found.get("series") or ())
        return Batch(int(found.get("batch") or 0), tuple(found.get("ids") or ()), made)

    async def uncounted(self) -> list[Mapping[str, Any]]:
        """Some that are in no batch. Raises `mongo.Unavailable`."""
        with mongo.translate_errors("read what delegations took"):
            wanted = {"release": self._release, "counted": {"$exists": False}}
            found = self._metrics.find(wanted, list(_FIELDS)).limit(AT_ONCE)
            return [one async for one in found]

    async def settle(self, ids: Sequence[str]) -> None:
        """Mark those of a stored batch. Raises `mongo.Unavailable`."""
        if ids:
            self._fence()
            with mongo.translate_errors("mark counted delegations"):
                await self._metrics.update_many({"_id": {"$in": list(ids)}}, {"$set": {"counted": True}})

    async def replace(self, before: int, after: Batch) -> bool:
        """Store the next batch; False if the stored one is not `before` any more. Raises `mongo.Unavailable`."""
        self._fence()
        fields = {"batch": after.number, "ids": list(after.ids), "series": after.totals.dump()}
        with mongo.translate_errors("store the totals of delegations"):
            if before == 0:
                try:
                    await self._totals.insert_one({"_id": self._release, **fields})
                except mongo.Duplicate:
                    return False
                return True
            done = await self._totals.update_one({"_id": self._release, "batch": before}, {"$set": fields})
        return bool(done.modified_count)
