"""The two effects that end a round: the result of the task, and the entry in the session memory.

`task_results`:   one document per task (_id = task uid); a run of a lower epoch never overwrites that of a later one.
`session_memory`: seed 000 "SessionEntry" and "MongoDB Collections": seven days, at most 50 per client and project, or
                  per group where there is no project.
Expired entries are deleted here as well, because not every MongoDB supports TTL indexes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from contracts import mongo_collections
from crds import scope
from orchestrator_job import errors, outcome
from orchestrator_job.effects import ledger_entries
from orchestrator_job.store import fence, mongo

SESSIONS = mongo_collections.SESSIONS
SESSION_SUMMARY_CHARS = 200
SESSION_LIMIT = 50
SESSION_LIFE = timedelta(days=7)


class SaveResult:
    """Writes `task_results`."""

    repeatable = True

    def __init__(self, database: mongo.Database, guard: fence.Fence, body: Mapping[str, Any]) -> None:
        self._database = database
        self._guard = guard
        self._body = body

    def intent(self) -> Mapping[str, Any]:
        """Collection and exit reason; the body itself goes into the result."""
        return {"collection": outcome.RESULTS, "exitReason": self._body["exitReason"]}

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        """The result that an earlier process wrote under this key."""
        found = await self._database.find_one(outcome.RESULTS, {"_id": self._guard.task_uid, "effectKey": key})
        return {"key": self._guard.task_uid} if found is not None else None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        """Write it; raises Fenced when a later run's result stands there, Forgotten when the task was removed."""
        uid, epoch = self._guard.task_uid, self._guard.epoch
        stored = {**self._body, "taskUid": uid, "attempt": self._guard.attempt, "epoch": epoch, "effectKey": key}
        written = await self._guard.keep(
            lambda: self._database.update(
                outcome.RESULTS, {"_id": uid, "epoch": {"$lte": epoch}}, {"$set": stored}, upsert=True
            ),
            lambda: self._database.delete(outcome.RESULTS, {"_id": uid, "epoch": epoch}),
        )
        if written is None:
            raise errors.Fenced(f"A newer run has written the result of task {self._guard.task_uid}.")
        return {"key": self._guard.task_uid}


class RememberSession:
    """Adds one entry to the session memory of the task's scope, and deletes expired ones."""

    repeatable = True

    def __init__(
        self,
        database: mongo.Database,
        owner: scope.Scope,
        task_uid: str,
        source: str,
        summary: str,
        now: datetime,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self._database = database
        self._owner = mongo_collections.session_owner(owner)
        self._task_uid = task_uid
        self._source = source
        self._summary = summary[:SESSION_SUMMARY_CHARS]
        self._now = now
        self._details = None if details is None else dict(details)

    def intent(self) -> Mapping[str, Any]:
        """Collection, client, project and group."""
        return {"collection": SESSIONS, **self._owner}

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        """The entry under this key."""
        found = await self._database.find_one(SESSIONS, {"_id": key})
        return {"key": key} if found is not None else None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        """Insert the entry, then delete those that are expired or beyond the fifty latest."""
        await self._database.insert(
            SESSIONS,
            {
                "_id": key,
                **self._owner,
                "timestamp": self._now,
                "expiresAt": self._now + SESSION_LIFE,
                "source": self._source,
                "summary": self._summary,
                "details": self._details,
                "taskId": self._task_uid,
            },
        )
        await self._database.delete(SESSIONS, {**self._owner, "expiresAt": {"$lt": self._now}})
        entries = await self._database.find(
            SESSIONS, self._owner, sort=[("timestamp", -1), ("_id", -1)], fields=["_id"]
        )
        over = [entry["_id"] for entry in entries[SESSION_LIMIT:]]
        if over:
            await self._database.delete(SESSIONS, {"_id": {"$in": over}})
        return {"key": key}
