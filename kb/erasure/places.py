"""The places that can hold text of a scope: each says of an erasure that it has let go of the scope.

    Process   a process that serves the API: what it holds is gone when it is. One that has not reported for `life`
              seconds is counted out; long before, it has stopped to take writes (`kb.erasure.closed`).
    Files     a process with records in files of its own. It is never counted out: while it is down its files keep what
              they hold, and it would go on from there. An erasure waits for it, or for the word that they are lost.

Kept in MongoDB, collection `kb_places`. A place registers before it asks what is being erased, so one that an erasure
did not wait for has seen that erasure, or began after it was done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from kb import api, mongo

COLLECTION = "kb_places"
LIFE = 120.0
"""Seconds after which a process that reports no more is taken for gone."""


class Places:
    """The registry as the place `me` sees it. Raises `kb.errors.Away`.

    `monotonic` gives seconds: how long another process has not reported is measured here, by no clock but the own.
    """

    def __init__(
        self,
        database: mongo.Database,
        me: str,
        kind: Literal["Process", "Files"],
        name: str,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        *,
        life: float = LIFE,
    ) -> None:
        self._rows = database[COLLECTION]
        self._me = me
        self._kind = kind
        self._name = name
        self._clock = clock
        self._monotonic = monotonic
        self._life = life
        self._registered = False
        self._reports: dict[str, Callable[[], dict[str, Any]]] = {}
        self._observed: dict[str, tuple[int, float]] = {}

    @property
    def name(self) -> str:
        """What people know this place by."""
        return self._name

    def report(self, name: str, said: Callable[[], dict[str, Any]]) -> None:
        """Put what `said` gives into the field `name` of this place, whenever it confirms."""
        self._reports[name] = said

    async def register(self) -> None:
        """Be waited for from now on."""
        if not self._registered:
            await self.confirm(())
            self._registered = True

    async def confirm(self, erasure_ids: Collection[str]) -> None:
        """This place has let go of these erasures' scopes, and is there."""
        said: dict[str, Any] = {
            "kind": self._kind,
            "name": self._name,
            "seenAt": self._clock(),
            "confirmed": sorted(erasure_ids),
        }
        said |= {name: report() for name, report in self._reports.items()}
        with mongo.translated():
            await self._rows.update_one({"_id": self._me}, {"$set": said, "$inc": {"beat": 1}}, upsert=True)

    async def leave(self) -> None:
        """A process ends; files stay a place."""
        if self._kind == "Process":
            with mongo.translated():
                await self._rows.delete_one({"_id": self._me})

    async def awaited(self, erasure_id: str) -> Sequence[api.Place]:
        """The places that have not confirmed it."""
        with mongo.translated():
            rows = [row async for row in self._rows.find({}).sort("_id", 1)]
        return [_place(row) for row in rows if not self._gone(row) and erasure_id not in row["confirmed"]]

    async def others(self, follows: Callable[[Mapping[str, Any]], bool]) -> Sequence[api.Place]:
        """The places of whose row, with the fields of `report`, `follows` is false."""
        with mongo.translated():
            rows = [row async for row in self._rows.find({}).sort("_id", 1)]
        return [_place(row) for row in rows if not self._gone(row) and not follows(row)]

    async def listed(self) -> Sequence[api.Place]:
        """All that an erasure waits for."""
        with mongo.translated():
            rows = [row async for row in self._rows.find({}).sort("_id", 1)]
        return [_place(row) for row in rows if not self._gone(row)]

    async def forget(self, place_id: str) -> bool:
        """Its files are gone for good; whether there was such a place. One that is there after all comes back."""
        with mongo.translated():
            return int((await self._rows.delete_one({"_id": place_id})).deleted_count) == 1

    async def purge(self) -> None:
        """Take out the processes that are gone."""
        with mongo.translated():
            rows = [row async for row in self._rows.find({"kind": "Process"})]
            for row in rows:
                if self._gone(row):
                    await self._rows.delete_one({"_id": row["_id"], "beat": row["beat"]})
                    self._observed.pop(row["_id"], None)

    def _gone(self, row: dict[str, Any]) -> bool:
        if row["kind"] != "Process" or row["_id"] == self._me:
            return False
        known, now = self._observed.get(row["_id"]), self._monotonic()
        if known is None or known[0] != row["beat"]:
            self._observed[row["_id"]] = (row["beat"], now)
            return False
        return now - known[1] >= self._life


def _place(row: dict[str, Any]) -> api.Place:
    return api.Place(id=row["_id"], kind=row["kind"], name=row["name"], seen_at=row["seenAt"])
