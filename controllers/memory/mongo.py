"""MongoDB side of the task memory, through motor.

Uses nothing that the MongoDB-wire server of the local profile lacks: single-document upserts and reads by _id.

A memory carries the epoch under which it was written, and the server refuses a lower one in the same step as it writes.
The other guards rest on the monotonic clock, which does not run while a virtual machine stands still: a leader that
thaws may be sure of a Lease that another one has long since held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import bson.errors
import pymongo.errors
from pymongo import monitoring

from clients.mongo import Refused, Unavailable, short
from contracts import mongo_collections
from kube import lease

MEMORY = mongo_collections.MEMORY
RESULTS = mongo_collections.RESULTS
WRITES = frozenset({"insert", "update", "delete", "findAndModify", "createIndexes"})


class AtWire(monitoring.CommandListener):
    """Calls `look`, a check of the fence, when a write is about to go onto the wire.

    Between the write's call and that moment a thread switches, and the process may have been frozen. `look` must not
    return when the right to write is gone: what a listener raises stops nothing.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """A command is sent next."""
        if event.command_name in WRITES:
            self._look()

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Of no interest."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Of no interest."""


class Leads(Protocol):
    """The right to write; `kube.lease.Lease` is one."""

    @property
    def token(self) -> lease.FencingToken:
        """Under which leadership something is written now."""

    def check(self) -> None:
        """Raises `kube.lease.Fenced` when nothing may be written now."""

    def heed(self, epoch: int) -> None:
        """Something was written under that epoch."""


class Memory:
    """The memories of tasks in `database`. `leads` is asked before a write."""

    def __init__(self, database: Any, *, leads: Leads) -> None:
        self._database, self._leads = database, leads

    async def write(self, uid: str, fields: Mapping[str, Any]) -> None:
        """Set `fields` of the task's memory, creating it if need be.

        Raises `Unavailable`, `Refused`, or `kube.lease.Fenced` when a later leader has written it.
        """
        self._leads.check()
        mine = self._leads.token
        stamp = {"leaderEpoch": mine.epoch, "leaseCreated": mine.lease_created}
        # One of a higher epoch does not match, and the insertion that the upsert then tries fails on its _id.
        allowed = {"_id": uid, "leaderEpoch": {"$lte": mine.epoch}}
        try:
            await self._database[MEMORY].update_one(allowed, {"$set": {**fields, **stamp}}, upsert=True)
        except pymongo.errors.DuplicateKeyError:
            await self._outranked(uid, mine.epoch)
        except (pymongo.errors.DocumentTooLarge, bson.errors.InvalidDocument) as error:
            raise Refused(f"the task memory cannot be stored: {error}", field="spec.content") from error
        except pymongo.errors.PyMongoError as error:
            raise Unavailable(f"MongoDB did not take the task memory: {short(error)}") from error

    async def _outranked(self, uid: str, mine: int) -> None:
        """Raise why the memory could not be written: another leader has written it."""
        try:
            found = await self._database[MEMORY].find_one({"_id": uid}, {"leaderEpoch": 1})
        except pymongo.errors.PyMongoError as error:
            raise Unavailable(f"MongoDB did not say who wrote the task memory: {short(error)}") from error
        epoch = int((found or {}).get("leaderEpoch") or 0)
        if epoch <= mine:
            raise Unavailable("another process wrote the task memory at the same time")
        # As with an epoch that an object carries: the present holder of the Lease raises its own beyond it.
        self._leads.heed(epoch)
        raise lease.Fenced(f"the task memory was written under epoch {epoch}; ours is {mine}")

    async def result(self, uid: str, attempt: int) -> Mapping[str, Any] | None:
        """The stored result of that run, or None when it left none. Raises `Unavailable`."""
        try:
            found = await self._database[RESULTS].find_one({"_id": uid, "attempt": attempt})
        except pymongo.errors.PyMongoError as error:
            raise Unavailable(f"MongoDB did not say whether the run left a result: {short(error)}") from error
        if found is None:
            return None
        said: Mapping[str, Any] = {**found, "ref": {"store": "mongodb", "collection": RESULTS, "key": uid}}
        return said
