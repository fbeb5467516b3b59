"""How many items of a Connection are in each state, at a cost that does not grow with their number.

Those without a task are counted after each poll that wrote items; they are few, because nothing is fetched while as
many wait as may be in flight. Those with a task may be millions: the tasks that a poll makes are added, and all are
counted again after `RECOUNTED`, after a sweep, and where a claim was not given back. A poll that wrote nothing, behind
one that left nothing to do, asks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from clients.mongo import ASCENDING, DESCENDING, translate_errors
from crds import connection
from sources.core import assignments
from sources.core.state import Failed, State

NEW, INDEXING, INDEXED, FAILED, GONE = "New", "Indexing", "Indexed", "Failed", assignments.GONE
STATES = (NEW, INDEXING, INDEXED, FAILED)
RECOUNTED = timedelta(minutes=10)
FEW = 2000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Counts:
    """Of the collection `rows`; up to `few` with a task are counted each time. Every method that asks raises
    `Unavailable`."""

    def __init__(self, rows: Any, few: int = FEW) -> None:
        self._rows, self._few = rows, few
        self._made: dict[str, int | None] = {}
        """By Connections whose items were written since they were counted: tasks that were made, None where some may be
        none any more."""

    def written(self, uid: str, made: int | None = 0) -> None:
        """Items were written, and tasks made of `made` of them; None: some that had a task may have none."""
        before = self._made.get(uid, 0)
        self._made[uid] = None if made is None or before is None else before + made

    def quiet(self, claim: assignments.Claim) -> bool:
        """Whether there is nothing to do: no item waits or leaves, and none was written since."""
        return claim.state.idle and self._known(claim)

    def _known(self, claim: assignments.Claim) -> bool:
        return claim.state.counted and not claim.taken and claim.uid not in self._made

    async def backlog(self, claim: assignments.Claim) -> int:
        """How many have no task yet and are no failures."""
        if self._known(claim) and claim.state.items is not None:
            return claim.state.items[NEW] + claim.state.items[INDEXING]
        with translate_errors("count the items"):
            return int(await self._rows.count_documents({"connection": claim.uid, "state": {"$in": [NEW, INDEXING]}}))

    async def refused(self, uid: str) -> tuple[int, str]:
        """How many have a task that was refused, and why one of them was."""
        wanted = {"connection": uid, "state": {"$ne": GONE}, "retryAt": {"$gt": EPOCH}}
        with translate_errors("count the items"):
            row = await self._rows.find_one(wanted, {"reason": 1})
            return (int(await self._rows.count_documents(wanted)), str(row["reason"])) if row is not None else (0, "")

    async def counts(self, uid: str, states: tuple[str, ...] = STATES) -> dict[str, int]:
        """By state, those without any included."""
        with translate_errors("count the items"):
            return {
                state: int(await self._rows.count_documents({"connection": uid, "state": state})) for state in states
            }

    async def summed(self, claim: assignments.Claim, so_far: State, now: datetime) -> State:
        """The state with what is said there about items."""
        uid, made = claim.uid, self._made.get(claim.uid, 0)
        shown = {"title": 1, "sourceId": 1, "reason": 1, "found": 1, "retryAt": 1, "readAgainAt": 1, "type": 1}
        waiting = {"connection": uid, "state": {"$in": [NEW, INDEXING]}}
        with translate_errors("list the items"):
            rows = self._rows.find({"connection": uid, "state": FAILED}, shown).sort("found", DESCENDING)
            failed = tuple([_failed(row) async for row in rows.limit(connection.MOST_FAILURES)])
            oldest = await self._rows.find_one(waiting, {"found": 1}, sort=[("found", ASCENDING)])
            leaving = await self._rows.find_one({"connection": uid, "state": GONE}, {"_id": 1})
        last, at = so_far.items, so_far.counted_at
        due = last is None or at is None or last[INDEXED] <= self._few or now - at >= RECOUNTED
        if made is None or claim.taken or due or last is None:
            found, at = await self.counts(uid), now
        else:
            found = {**await self.counts(uid, (NEW, INDEXING, FAILED)), INDEXED: last[INDEXED] + made}
        # Only now: after an error everything is counted again.
        self._made.pop(uid, None)
        idle = oldest is None and leaving is None and not so_far.refused
        return replace(
            so_far,
            items=found,
            failed=failed,
            waiting_since=oldest and oldest["found"],
            counted=True,
            counted_at=at,
            idle=idle,
        )


def _failed(row: Mapping[str, Any]) -> Failed:
    title, reason = str(row["title"] or row["sourceId"])[:256], str(row["reason"])[:512]
    again = row.get("retryAt") or row.get("readAgainAt")
    return Failed(title, reason, row["found"], again, stored="type" in row or "readAgainAt" in row)
