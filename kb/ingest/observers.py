"""Observers: of two processes that observe one source one after the other, the former one changes nothing any more.

An observer is a source, such as a Connection; each process that observes it does so under a number, which grows. The
newest number is kept in MongoDB, collection `kb_observers`, under the client. A request that names an older one is
refused, also one that was on its way while its process stood still. A request is done with the observer's turn held, so
that what is observed under a new number begins after the last request of the number before (decision 0134).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from crds import scope
from kb import api, errors, identity, mongo
from kb.erasure import closed
from kb.ingest import document_locks

COLLECTION = "kb_observers"
KEPT = timedelta(days=90)


class Observers:
    """`clock` gives the current time in UTC. Raises `kb.errors.Away` and `Erasing`."""

    def __init__(
        self, database: mongo.Database, owners: document_locks.Port, shut: closed.Closed, clock: Callable[[], datetime]
    ) -> None:
        self._rows = database[COLLECTION]
        self._turns, self._shut, self._clock = owners, shut, clock

    @asynccontextmanager
    async def based(self, owner: scope.Scope, on: api.Observation) -> AsyncIterator[None]:
        """While a request is done that is based on an observation. Raises `kb.errors.Conflict` where a later one is
        known."""
        key = identity.digest(f"{owner.client_id}\x1f{on.observer}")
        with self._shut.entered(owner):
            async with self._turns.take(f"observer:{key}"):
                await self._admit(key, owner, on)
                yield

    async def purge(self) -> int:
        """Forget observers without a new number since `KEPT`; how many."""
        with mongo.translated():
            return int((await self._rows.delete_many({"at": {"$lt": self._clock() - KEPT}})).deleted_count)

    async def _admit(self, key: str, owner: scope.Scope, on: api.Observation) -> None:
        with mongo.translated():
            row = await self._rows.find_one({"_id": key}, {"number": 1})
            newest = -1 if row is None else int(row["number"])
            if newest < on.number:
                # The caller holds the turn: nothing was written since.
                said = {**mongo.names(scope.Scope(client_id=owner.client_id)), "number": on.number, "at": self._clock()}
                await self._rows.update_one({"_id": key}, {"$set": said}, upsert=True)
        if newest > on.number:
            raise errors.Conflict(
                f"observation {on.number} of {on.observer} is older than {newest}, which is known",
                field="observation",
                remedy="Observe the source again; another process has done so since.",
            )
