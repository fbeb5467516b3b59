"""Large values outside the checkpoint, addressed by the SHA-256 of their content: documents, evidence packs, answers.

`orchestrator_artifacts`: {_id: "<task uid>/<sha256>", taskUid, round, body (JSON text), createdAt}.
The same value written twice is one document; a value is checked against its hash when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import datetime

from pydantic import JsonValue

from orchestrator_job import errors
from orchestrator_job.store import fence, mongo
from text import surrogates

COLLECTION = "orchestrator_artifacts"


class Artifacts:
    """The artifacts of the task whose fence it is."""

    def __init__(self, database: mongo.Database, guard: fence.Fence, now: Callable[[], datetime]) -> None:
        self._database = database
        self._guard = guard
        self._now = now

    async def put(self, value: JsonValue, round_number: int) -> str:
        """Store the value durably and return its key for the state. Raises Fenced."""
        body = surrogates.clean(json.dumps(value, ensure_ascii=False, sort_keys=True))
        key = hashlib.sha256(body.encode()).hexdigest()
        own = {"_id": self._id(key)}
        change = {
            # The latest round that needs it counts for the pruning.
            "$set": {"round": round_number},
            "$setOnInsert": {"taskUid": self._guard.task_uid, "body": body, "createdAt": self._now()},
        }
        await self._guard.keep(
            lambda: self._database.update(COLLECTION, own, change, upsert=True),
            lambda: self._database.delete(COLLECTION, own),
        )
        return key

    async def get(self, key: str) -> JsonValue:
        """The value under `key`. Raises CheckpointRefused when it is missing or does not match its hash; Fenced, or
        Forgotten, when it is missing because the task has been taken or removed meanwhile."""
        document = await self._database.find_one(COLLECTION, {"_id": self._id(key)})
        if document is None:
            await self._guard.check()
        if document is None or hashlib.sha256(str(document["body"]).encode()).hexdigest() != key:
            found = "missing" if document is None else "damaged"
            raise errors.CheckpointRefused(
                f"The checkpoint refers to artifact {key[:12]}…, which is {found}.",
                remedy="Create the task anew, or delete its thread from orchestrator_checkpoints: the next run begins "
                "from the start, unless the task has entries in orchestrator_ledger.",
            )
        value: JsonValue = json.loads(document["body"])
        return value

    async def prune(self, round_number: int) -> int:
        """Delete artifacts that only earlier rounds used; returns their number."""
        return await self._database.delete(
            COLLECTION, {"taskUid": self._guard.task_uid, "round": {"$lt": round_number}}
        )

    def _id(self, key: str) -> str:
        return f"{self._guard.task_uid}/{key}"
