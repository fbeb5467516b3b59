"""One writer per task: every process that takes a task draws the next epoch, and an older epoch must not write.

`orchestrator_fences`: {_id: task uid, attempt, epoch, holder, claimedAt, spent: {"r<round>": {llmCalls}}}.
The attempt comes from the Job and only rises; the epoch also tells two pods of one attempt apart (a Job that was
suspended and resumed keeps its attempt).
"""

from __future__ import annotations

from datetime import datetime

from orchestrator_job import errors, mongo

COLLECTION = "orchestrator_fences"


class Fence:
    """The claim of one process on one task; `epoch` is 0 until `claim` succeeded."""

    def __init__(self, database: mongo.Database, task_uid: str, attempt: int, holder: str) -> None:
        self._database = database
        self.task_uid = task_uid
        self.attempt = attempt
        self._holder = holder
        self.epoch = 0

    async def claim(self, now: datetime) -> int:
        """Take the task from every older process; returns the epoch. Raises Fenced when a later attempt has it."""
        document = await self._database.update(
            COLLECTION,
            {"_id": self.task_uid, "attempt": {"$lte": self.attempt}},
            {"$set": {"attempt": self.attempt, "holder": self._holder, "claimedAt": now}, "$inc": {"epoch": 1}},
            upsert=True,
        )
        if document is None:
            raise self._lost()
        self.epoch = int(document["epoch"])
        return self.epoch

    async def check(self) -> None:
        """Raises Fenced when somebody else has the task by now."""
        if await self._database.find_one(COLLECTION, {"_id": self.task_uid, "epoch": self.epoch}) is None:
            raise self._lost()

    async def reserve_call(self, round_number: int, limit: int) -> int:
        """Book one model call of this round before it is made; returns how many are booked now.

        Kept here and not in the state: a call that was running when the process died was paid for all the same. A
        booking whose answer got lost may count twice, never zero times. Raises Fenced or BudgetExhausted.
        """
        counter = f"r{round_number}"
        document = await self._database.update(
            COLLECTION, {"_id": self.task_uid, "epoch": self.epoch}, {"$inc": {f"spent.{counter}.llmCalls": 1}}
        )
        if document is None:
            raise self._lost()
        booked = int(document["spent"][counter]["llmCalls"])
        if booked > limit:
            raise errors.BudgetExhausted(
                f"This round has used all of its {limit} model calls.",
                field="budget.maxLlmCalls",
                remedy="Raise the budget, or add a message that narrows the task.",
            )
        return booked

    def _lost(self) -> errors.Fenced:
        return errors.Fenced(
            f"A newer run of task {self.task_uid} has taken over from attempt {self.attempt}; this one stops."
        )
