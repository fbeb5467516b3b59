"""Turns of several writing processes: one document per key in MongoDB, collection `kb_turns`.

    free     owner is ""
    owned    owner is a process, whose `run` counts `beat` up every few seconds
    expired  the same fence and beat were seen for `life` seconds: the owner is gone, and the next process takes over

No clock of one machine is compared with that of another: who waits measures with its own clock how long the pair did
not change. The owner measures too, and stops earlier: `Turn.check` refuses from `life - margin` seconds after the start
of the last beat that arrived. `margin` is longer than a call to any store may take, so that a call that was begun in
time has ended when the next owner begins. What a process does that was frozen just after a check is stopped by the
fence, which the graph and the records compare (decision 0049).

A fence is the time of the claim in milliseconds, or one more than the last one. So a key that was not asked for in
`KEPT` may be forgotten: the number of its next turn is greater all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from kb import errors, mongo
from kb.ingest import document_locks

log = structlog.get_logger(__name__)
COLLECTION = "kb_turns"
KEPT = timedelta(days=7)
# Seconds between two looks at a key that another process owns: short at first, most turns take milliseconds.
_FIRST, _LONGEST = 0.02, 0.5
_OBSERVED = 10_000


@dataclass
class Claim(document_locks.Turn):
    """A turn that may be lost. `until`: the reading of `monotonic` from which it is in doubt."""

    until: float = 0.0
    monotonic: Callable[[], float] = lambda: 0.0

    def check(self) -> None:
        if self.monotonic() >= self.until:
            raise errors.Outrun("this process could not renew its turn; another one may have taken it over")


class Turns:
    """Implements `kb.ingest.document_locks.Port`. `me` is this process and no other, nor the same one started again.

    `clock` gives the time in UTC, `monotonic` seconds that pass; `life` and `margin` are seconds (see the module).
    """

    def __init__(
        self,
        database: mongo.Database,
        me: str,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        *,
        life: float = 120.0,
        margin: float = 75.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._rows = database[COLLECTION]
        self._me = me
        self._clock = clock
        self._monotonic = monotonic
        self._life = life
        self._safe = life - margin
        self._sleep = sleep
        # Within the process turns are given in the order in which they were asked for, without asking the server.
        self._local = document_locks.Turns()
        self._held: dict[str, Claim] = {}
        self._observed: dict[str, tuple[tuple[int, int], float]] = {}

    @asynccontextmanager
    async def take(self, key: str) -> AsyncIterator[document_locks.Turn]:
        async with self._local.take(key):
            pause = _FIRST
            while (claim := await self._claim(key)) is None:
                await self._sleep(pause)
                pause = min(2 * pause, _LONGEST)
            async with self._holding(key, claim):
                yield claim

    @asynccontextmanager
    async def attempt(self, key: str) -> AsyncIterator[document_locks.Turn | None]:
        async with self._local.attempt(key) as mine:
            claim = None if mine is None else await self._claim(key)
            if claim is None:
                yield None
                return
            async with self._holding(key, claim):
                yield claim

    def taken(self, key: str) -> bool:
        return self._local.taken(key)

    async def owned(self, keys: Collection[str]) -> set[str]:
        query = {"_id": {"$in": sorted(keys)}, "owner": {"$nin": ["", self._me]}}
        found = {key for key in keys if self._local.taken(key)}
        with mongo.translated():
            async for row in self._rows.find(query, {"fence": 1, "beat": 1}):
                if not self._gone(row["_id"], (row["fence"], row["beat"])):
                    found.add(row["_id"])
        return found

    async def beat(self) -> None:
        """Renew what this process holds; what another process has taken over is not renewed. Raises `errors.Away`."""
        held = dict(self._held)
        if not held:
            return
        started = self._monotonic()
        mine = {"_id": {"$in": sorted(held)}, "owner": self._me}
        with mongo.translated():
            done = await self._rows.update_many(mine, {"$inc": {"beat": 1}})
            still = set(held)
            if done.modified_count < len(held):
                still = {row["_id"] async for row in self._rows.find(mine, {"_id": 1})}
        for key, claim in held.items():
            if key in still:
                claim.until = started + self._safe
            else:
                claim.until = 0.0

    async def purge(self) -> int:
        """Forget keys that were not asked for since `KEPT`; how many that were."""
        with mongo.translated():
            gone = await self._rows.delete_many({"owner": "", "at": {"$lt": self._clock() - KEPT}})
        return int(gone.deleted_count)

    async def run(self) -> None:
        """Renew until cancelled, several times within the time after which a turn is in doubt."""
        while True:
            await self._sleep(self._safe / 4)
            try:
                await self.beat()
            except errors.Away as error:
                log.warning("turns cannot be renewed", reason=error.message)

    async def _claim(self, key: str) -> Claim | None:
        """The turn of `key`, unless another process owns it and is not known to be gone."""
        started, now = self._monotonic(), self._clock()
        lowest = int(now.timestamp() * 1000)
        with mongo.translated():
            row: dict[str, Any] | None = await self._rows.find_one({"_id": key})
            if row is None:
                made = {"_id": key, "owner": self._me, "fence": lowest, "beat": 0, "at": now}
                try:
                    await self._rows.insert_one(made)
                except mongo.DuplicateKey:
                    return None
                return self._claimed(lowest, started, 0)
            # What this process owns without holding it: the answer to its claim, or its release, was lost on the way.
            free = row["owner"] in ("", self._me)
            if not free and not self._gone(key, (row["fence"], row["beat"])):
                return None
            fence = max(row["fence"] + 1, lowest)
            taken = int(row.get("taken", 0)) if free else fence
            same = {"_id": key, "owner": row["owner"], "fence": row["fence"], "beat": row["beat"]}
            change = {"$set": {"owner": self._me, "fence": fence, "taken": taken, "at": now}}
            if (await self._rows.update_one(same, change)).modified_count == 0:
                return None
        if not free:
            log.warning("a turn was taken over", key=key, owner=row["owner"])
        self._observed.pop(key, None)
        return self._claimed(fence, started, taken)

    def _claimed(self, fence: int, started: float, taken: int) -> Claim:
        return Claim(fence, taken, started + self._safe, self._monotonic)

    def _gone(self, key: str, mark: tuple[int, int]) -> bool:
        """Whether the owner of `key` has not reported for `life` seconds."""
        now = self._monotonic()
        known = self._observed.get(key)
        if known is None or known[0] != mark:
            if len(self._observed) >= _OBSERVED:
                self._observed.clear()
            self._observed[key] = (mark, now)
            return False
        return now - known[1] >= self._life

    @asynccontextmanager
    async def _holding(self, key: str, claim: Claim) -> AsyncIterator[None]:
        self._held[key] = claim
        try:
            yield
        finally:
            del self._held[key]
            claim.until = 0.0
            try:
                with mongo.translated():
                    mine = {"_id": key, "owner": self._me, "fence": claim.fence}
                    await self._rows.update_one(mine, {"$set": {"owner": "", "at": self._clock()}})
            except errors.Away as error:
                # What the owner did is done; the key is free when it has expired, or this process asks again.
                log.warning("a turn could not be given back", key=key, reason=error.message)
