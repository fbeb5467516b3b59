"""The effects ledger: every effect on the world outside is announced, started and settled under one key.

`orchestrator_ledger`: {_id: "<task uid>/<step>/<ordinal>", taskUid, step, ordinal, state: intent | started | done,
intent, result, attempt, epoch, updatedAt}.

The key is made of the task, the plan step and the ordinal in it, never of arguments that a model wrote: the same step
resumed is the same effect, however the model words it the second time. `started` without `done` means a process died in
between: the outside is then asked by key; only what is known to be harmless to repeat is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from orchestrator_job import errors, fence, mongo

COLLECTION = "orchestrator_ledger"

Receipt = dict[str, Any]


class Effect(Protocol):
    """One thing done to the outside."""

    repeatable: bool
    """Doing it twice under the same key ends in the same world."""

    def intent(self) -> Mapping[str, Any]:
        """What is about to be done, for the reader of the ledger; small."""
        ...

    async def find(self, key: str) -> Receipt | None:
        """The receipt if the outside already has this effect under `key`, None if it does not have it."""
        ...

    async def perform(self, key: str) -> Receipt:
        """Do it, leaving `key` with it so that `find` can tell; returns what to remember."""
        ...


class Ledger:
    """The ledger of one task, written under the epoch of one process."""

    def __init__(self, database: mongo.Database, guard: fence.Fence, now: Callable[[], datetime]) -> None:
        self._database = database
        self._guard = guard
        self._now = now

    async def settle(self, step: str, ordinal: int, effect: Effect) -> Receipt:
        """Make sure that the effect has happened exactly once and return its receipt.

        Raises Fenced when a newer process has the task, MayHaveHappened when nobody can tell whether it took place.
        """
        key = f"{self._guard.task_uid}/{step}/{ordinal}"
        await self._database.insert(
            COLLECTION,
            {
                "_id": key,
                "taskUid": self._guard.task_uid,
                "step": step,
                "ordinal": ordinal,
                "state": "intent",
                "intent": dict(effect.intent()),
                **self._stamp(),
            },
        )
        entry = await self._database.find_one(COLLECTION, {"_id": key})
        if entry is not None and entry["state"] == "done":
            return dict(entry["result"])
        if entry is not None and entry["state"] == "started":
            found = await effect.find(key)
            if found is not None:
                return await self._mark(key, "done", found)
            if not effect.repeatable:
                raise errors.MayHaveHappened(
                    f"Step {step!r} was started by an earlier run and may have happened; nothing was repeated.",
                    remedy="Look whether it took place, then approve or reject it.",
                )
        await self._mark(key, "started", None)
        return await self._mark(key, "done", await effect.perform(key))

    async def _mark(self, key: str, reached: str, receipt: Receipt | None) -> Receipt:
        written = await self._database.update(
            COLLECTION,
            {"_id": key, "epoch": {"$lte": self._guard.epoch}},
            {"$set": {"state": reached, "result": receipt, **self._stamp()}},
        )
        if written is None:
            raise errors.Fenced(f"A newer run has written {key} to the ledger; this one stops.")
        return receipt or {}

    def _stamp(self) -> dict[str, Any]:
        return {"attempt": self._guard.attempt, "epoch": self._guard.epoch, "updatedAt": self._now()}
