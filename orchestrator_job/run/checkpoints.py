"""Checkpoints in MongoDB: langgraph-checkpoint-mongodb, fenced, bounded in size, strict about what it reads back.

`orchestrator_checkpoints` and `orchestrator_checkpoint_writes`; thread id = task uid. This module and `graph` are the
only ones that import LangGraph; they are imported while a run starts, never before.

Checkpoints do not expire: an approval may be pending for longer than any period. A finished round keeps its last one,
and all of them go with the rest of the task (`contracts.mongo_collections`): when it is deleted, was archived long ago,
or its scope is erased.

An older process may still write a checkpoint before it notices that it is fenced (`Fence.keep`): the latest one is
chosen by (epoch, id), so that it never outranks a newer process's. A node's result it does not write.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.mongodb import MongoDBSaver
from langgraph.checkpoint.mongodb.utils import dumps_metadata
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from orchestrator_job import errors
from orchestrator_job.store import fence, mongo

CHECKPOINTS = "orchestrator_checkpoints"
WRITES = "orchestrator_checkpoint_writes"
LIMIT = 256 * 1024
"""Bytes of one serialised value: a super-step of a 1 MB state costs twenty times one of a small state."""


class Serializer(JsonPlusSerializer):
    """Plain data only: no pickle, and no class outside LangGraph's safe list is built from a checkpoint."""

    def __init__(self) -> None:
        super().__init__(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Raises CheckpointRefused beyond LIMIT: large values belong into `artifacts`."""
        kind, raw = super().dumps_typed(obj)
        if len(raw) > LIMIT:
            raise errors.CheckpointRefused(
                f"A checkpoint value of {len(raw)} bytes is over the limit of {LIMIT}; large values are artifacts."
            )
        return kind, raw


class Saver(MongoDBSaver):
    """The saver of one task and one process. Only its asynchronous methods are fenced and retried; use those."""

    def __init__(self, database: mongo.Database, guard: fence.Fence) -> None:
        # Creates the indexes: blocking, so construct it through `open_saver`.
        super().__init__(
            database.client,
            database.name,
            checkpoint_collection_name=CHECKPOINTS,
            writes_collection_name=WRITES,
            serde=Serializer(),
        )
        self._database = database
        self._guard = guard

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The named checkpoint, or the latest of the newest epoch. Raises CheckpointRefused for an unreadable one."""
        settings = config["configurable"]
        if not settings.get("checkpoint_id"):
            latest = self.checkpoint_collection.find_one(
                {
                    "thread_id": settings["thread_id"],
                    "checkpoint_ns": settings.get("checkpoint_ns", ""),
                },
                projection=["checkpoint_id"],
                sort=[("epoch", -1), ("checkpoint_id", -1)],
            )
            if latest is None:
                return None
            config = {"configurable": {**settings, "checkpoint_id": latest["checkpoint_id"]}}
        try:
            return super().get_tuple(config)
        except (ValueError, KeyError, TypeError, NotImplementedError) as error:
            # Raised by msgpack, for a missing field or an unknown serialisation: another program wrote the bytes.
            raise errors.CheckpointRefused(
                f"The checkpoint of task {settings['thread_id']} cannot be read: {type(error).__name__}: {error}",
                remedy=f"Create the task anew, or delete its thread from {CHECKPOINTS}: the next run begins "
                "from the start, unless the task has entries in orchestrator_ledger.",
            ) from error

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`, retried while MongoDB is unavailable."""
        return await self._database.call("read the checkpoint", lambda: self.get_tuple(config))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Write a checkpoint under this process's epoch. Raises Fenced, StoreUnavailable or CheckpointRefused."""
        settings = config["configurable"]
        identity = {
            "thread_id": settings["thread_id"],
            "checkpoint_ns": settings["checkpoint_ns"],
            "checkpoint_id": checkpoint["id"],
        }

        def write() -> RunnableConfig:
            # As `MongoDBSaver.put` writes it, with the epoch that ranks it: one write, so that none is without.
            kind, raw = self.serde.dumps_typed(checkpoint)
            document = {
                "parent_checkpoint_id": settings.get("checkpoint_id"),
                "type": kind,
                "checkpoint": raw,
                "metadata": dumps_metadata(self.serde, get_checkpoint_metadata(config, metadata)),
                "created_at": datetime.now(tz=UTC),
                "epoch": self._guard.epoch,
                "attempt": self._guard.attempt,
            }
            self.checkpoint_collection.update_one(identity, {"$set": document}, upsert=True)
            return {"configurable": identity}

        return await self._guard.keep(
            lambda: self._database.call("write the checkpoint", write),
            lambda: self._database.delete(CHECKPOINTS, identity),
            own=True,
        )

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Write what a node returned. Raises as `aput`."""
        named = ("thread_id", "checkpoint_ns", "checkpoint_id")
        written = {name: config["configurable"][name] for name in named} | {"task_id": task_id}
        await self._guard.keep(
            lambda: self._database.call(
                "write a node's result", lambda: self.put_writes(config, writes, task_id, task_path)
            ),
            lambda: self._database.delete(WRITES, written),
        )

    async def keep_latest(self, thread_id: str) -> int:
        """Delete all but the latest checkpoint of a finished thread; returns the number of deleted ones."""
        latest = await self.aget_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        if latest is None:
            return 0
        older = {"thread_id": thread_id, "checkpoint_id": {"$ne": latest.checkpoint["id"]}}
        await self._guard.check()
        await self._database.delete(WRITES, older)
        return await self._database.delete(CHECKPOINTS, older)


async def open_saver(database: mongo.Database, guard: fence.Fence) -> Saver:
    """A saver whose collections and indexes exist."""
    return await database.call("prepare the checkpoint collections", lambda: Saver(database, guard))
