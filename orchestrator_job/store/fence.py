"""One writer per task: every process that takes a task draws the next epoch, and an older epoch must not write.

`orchestrator_fences`: {_id: task uid, attempt, epoch, holder, claimedAt, spent: {"r<round>": {llmCalls, tokens,
delegations: [id], givenBack: [which, of tokens]}}, consulted: {"r<round>": {stream, calls, tokens}}}.
The attempt comes from the Job and only rises; the epoch also distinguishes two pods of one attempt (a Job that was
suspended and resumed keeps its attempt).

Of a task that is removed the fence goes first and all else after it (`contracts.mongo_collections`). So a write that
its fence outlived is removed with the rest, and one that it did not outlive is undone by its writer (`Fence.keep`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from orchestrator_job import errors
from orchestrator_job.store import mongo

COLLECTION = "orchestrator_fences"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Booking:
    """What a round has used so far, the call that was just booked included."""

    calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Consulted:
    """The stream of the decision agent that a round reads, "" for none, and what was counted of its cost."""

    stream: str = ""
    calls: int = 0
    tokens: int = 0


class Fence:
    """The claim of one process on one task; `epoch` is 0 until `claim` succeeded."""

    def __init__(self, database: mongo.Database, task_uid: str, attempt: int, holder: str) -> None:
        self._database = database
        self.task_uid = task_uid
        self.attempt = attempt
        self._holder = holder
        self._settled = 0
        self._writing: set[asyncio.Future[Any]] = set()
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

    async def withdraw(self) -> None:
        """Take back a claim that was the first one: there is no task to work on.

        A fence that others drew before stays, for its epoch must not begin anew.
        """
        await self._database.delete(COLLECTION, {"_id": self.task_uid, "epoch": 1})

    async def check(self) -> None:
        """Raises Fenced when another process has the task, Forgotten when its data was removed."""
        found = await self._database.find_one(COLLECTION, {"_id": self.task_uid})
        if found is None:
            raise errors.Forgotten(f"The data of task {self.task_uid} was removed; this run stops.")
        if found["epoch"] != self.epoch:
            raise self._lost()

    async def keep(
        self, write: Callable[[], Awaitable[T]], undo: Callable[[], Awaitable[object]], *, own: bool = False
    ) -> T:
        """The value of `write`, which creates a document of the task. Raises Fenced, or Forgotten after `undo`.

        The check after the write is the one that counts: the write may have been repeated for minutes while MongoDB was
        away. A caller that is cancelled leaves both to themselves (`written`). `own`: what another process writes
        outranks the document, so that it is not checked before.
        """
        if not own:
            await self.check()
        kept = asyncio.ensure_future(self._kept(write, undo))
        self._writing.add(kept)
        kept.add_done_callback(self._over)
        return await asyncio.shield(kept)

    async def written(self) -> None:
        """Wait for the writes of callers that were cancelled: of a task that was removed they undo themselves."""
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def _kept(self, write: Callable[[], Awaitable[T]], undo: Callable[[], Awaitable[object]]) -> T:
        made = await write()
        try:
            await self.check()
        except errors.Forgotten:
            await undo()
            raise
        return made

    def _over(self, kept: asyncio.Future[Any]) -> None:
        self._writing.discard(kept)
        if not kept.cancelled():
            # Looked at here: the caller may be gone.
            kept.exception()

    async def reserve_call(
        self, round_number: int, limit: int, tokens: int = 0, token_limit: int | None = None, *, calls: int = 1
    ) -> Booking:
        """Book model calls of this round, all or none, and `tokens` for their prompts, before they are made.

        Stored here and not in the state, so that a call counts even if the process dies in it. A booking whose response
        is lost may count twice, never zero times; a refused call is not counted, so that a raised budget is fully
        usable. Raises Fenced or BudgetExhausted.
        """
        counted = f"spent.r{round_number}"
        free: dict[str, Any] = {f"{counted}.llmCalls": {"$not": {"$gt": limit - calls}}}
        if token_limit is not None:
            # At least one token must be left for the answer.
            free[f"{counted}.tokens"] = {"$not": {"$gte": token_limit - tokens}}
        while True:
            # A bound of nothing fits a round that has no count yet.
            if limit >= calls and (token_limit is None or tokens < token_limit):
                spent = await self._add(round_number, calls, tokens, free)
                if spent is not None:
                    return spent
            spent = await self.spent(round_number)
            if spent.calls + calls > limit:
                more = f"; {calls} more are needed" if calls > 1 else ""
                raise errors.BudgetExhausted(
                    f"This round has used {'all' if spent.calls >= limit else spent.calls} of its {limit} model calls"
                    f"{more}.",
                    field="spec.budget.maxLlmCalls",
                    remedy="Raise spec.budget.maxLlmCalls and try again, or add a message that narrows the task.",
                )
            if token_limit is not None and spent.tokens + tokens >= token_limit:
                raise errors.BudgetExhausted(
                    f"This round has used {spent.tokens} of its {token_limit} tokens;"
                    f" the next model call takes about {tokens} for its prompt alone.",
                    field="spec.budget.maxTokens",
                    remedy="Raise spec.budget.maxTokens and try again, or add a message that narrows the task.",
                )

    async def settle_call(self, round_number: int, booked: int, used: int) -> None:
        """Count the tokens that a call has really taken in place of those that were booked for it. Raises Fenced."""
        if used == booked:
            return
        if used > booked:
            await self._add(round_number, 0, used - booked, {})
            return
        # What is given back is given back once, also when the answer is lost and it is asked for again.
        self._settled += 1
        given = f"{self.epoch}.{self._settled}"
        field = f"spent.r{round_number}.givenBack"
        await self._add(round_number, 0, used - booked, {field: {"$ne": given}}, {"$addToSet": {field: given}})

    async def consulted(self, round_number: int) -> Consulted:
        """What this round has asked of the decision agent. Raises Fenced or Forgotten."""
        await self.check()
        found = await self._database.find_one(COLLECTION, {"_id": self.task_uid}) or {}
        one = found.get("consulted", {}).get(f"r{round_number}", {})
        return Consulted(str(one.get("stream", "")), int(one.get("calls", 0)), int(one.get("tokens", 0)))

    async def begin_consulting(self, round_number: int, *, calls: int) -> None:
        """A new question, of which so many calls are counted already. Raises Fenced."""
        await self._note(round_number, {"stream": "", "calls": calls, "tokens": 0})

    async def forget_consulted(self, round_number: int, used: int | None = None) -> None:
        """The stream is of no more use; what it has cost stays counted. Of calls that were booked for it and that it
        has not `used` the next question is made; None: all were. Raises Fenced or Forgotten."""
        booked = (await self.consulted(round_number)).calls
        await self.begin_consulting(round_number, calls=0 if used is None else max(0, booked - used))

    async def name_consulted(self, round_number: int, stream: str) -> None:
        """The name of the stream of the question that was begun. Raises Fenced."""
        await self._note(round_number, {"stream": stream})

    async def count_consulted(self, round_number: int, calls: int, tokens: int) -> Booking | None:
        """Count what is new of a stream that has cost so much so far; what the round has used. Repeated it counts
        nothing more, and gives None. Raises Fenced or Forgotten."""
        before = await self.consulted(round_number)
        new = Consulted(before.stream, max(calls, before.calls), max(tokens, before.tokens))
        added = (new.calls - before.calls, new.tokens - before.tokens)
        own = f"consulted.r{round_number}"
        unless = {f"{own}.calls": before.calls, f"{own}.tokens": before.tokens}
        more = {"$set": {f"{own}.calls": new.calls, f"{own}.tokens": new.tokens}}
        if not any(added):
            return None
        return await self._add(round_number, *added, unless, more) or await self.spent(round_number)

    async def _note(self, round_number: int, values: Mapping[str, Any]) -> None:
        change = {"$set": {f"consulted.r{round_number}.{name}": value for name, value in values.items()}}
        if await self._database.update(COLLECTION, {"_id": self.task_uid, "epoch": self.epoch}, change) is None:
            raise self._lost()

    async def reserve_delegation(self, round_number: int, delegation_id: str, limit: int) -> None:
        """Count a delegation of this round before it begins; one that is counted already costs nothing more.

        Raises Fenced or BudgetExhausted.
        """
        counted = f"spent.r{round_number}.delegations"
        free = {"$or": [{counted: delegation_id}, {f"{counted}.{limit - 1}": {"$exists": False}}]}
        if limit > 0:
            own = {"_id": self.task_uid, "epoch": self.epoch, **free}
            if await self._database.update(COLLECTION, own, {"$addToSet": {counted: delegation_id}}) is not None:
                return
        await self.check()
        raise errors.BudgetExhausted(
            f"This round has used all of its {limit} delegations.",
            field="spec.budget.maxDelegations",
            remedy="Raise spec.budget.maxDelegations and try again, or narrow the task.",
        )

    async def _add(
        self,
        round_number: int,
        calls: int,
        tokens: int,
        unless: Mapping[str, Any],
        more: Mapping[str, Any] | None = None,
    ) -> Booking | None:
        """What is counted afterwards; None: the document does not match `unless`. Raises Fenced or Forgotten."""
        counted = f"spent.r{round_number}"
        document = await self._database.update(
            COLLECTION,
            {"_id": self.task_uid, "epoch": self.epoch, **unless},
            {"$inc": {f"{counted}.llmCalls": calls, f"{counted}.tokens": tokens}, **(more or {})},
        )
        if document is None and not unless:
            raise self._lost()
        if document is None:
            await self.check()
            return None
        return _booking(document, round_number)

    async def spent(self, round_number: int) -> Booking:
        """What the round has used so far. Raises Fenced."""
        found = await self._database.find_one(COLLECTION, {"_id": self.task_uid, "epoch": self.epoch})
        if found is None:
            raise self._lost()
        return _booking(found, round_number)

    def _lost(self) -> errors.Fenced:
        return errors.Fenced(
            f"A newer run of task {self.task_uid} has taken over from attempt {self.attempt}; this one stops."
        )


def _booking(document: Mapping[str, Any], round_number: int) -> Booking:
    """What a round has used."""
    spent = document.get("spent", {}).get(f"r{round_number}", {})
    return Booking(int(spent.get("llmCalls", 0)), int(spent.get("tokens", 0)))
