"""Transcribed meetings in the database that the source shares with us; they are corrected, deleted, and listed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from bench.connectors import knowledge, site
from clients import mongo
from contracts.api import meeting as meetings
from contracts.api.meeting import State
from crds import connection, pendingtask
from sources.core import assignments, port
from sources.providers.meetings import reading as meeting
from sources.providers.meetings import store

NAME, NAMESPACE = "source", "here"


class Meetings(site.Site):
    """`database` is the one of the processes. Recordings and their transcription are not modelled: a meeting comes with
    its transcript. A fault is a database that does not answer for one call."""

    type, side, by_writes = connection.Type.MEETING, "database", True

    def __init__(self, seed: int, database: Any) -> None:
        super().__init__(seed)
        self._store, self._database, self._planned = store.Meetings(database), database, site.Planned()
        self._now = site.START
        self._said: dict[str, tuple[str, bool, datetime]] = {}
        """By id: the token, whether its correction has ended, and when that was."""

    @property
    def now(self) -> datetime:
        """See `Site`."""
        return self._now

    def tick(self, much: timedelta) -> None:
        """See `Site`."""
        self._now += much

    @property
    def url(self) -> str:
        """None is asked."""
        return "https://meetings.example"

    async def change(self, dice: random.Random, number: int) -> None:
        """See `Site`."""
        self._now += timedelta(seconds=dice.randint(0, 30))
        what = dice.choice(("new", "new", "new", "corrected", "corrected", "delete"))
        there, pending = list(self._said), [one for one, (_, done, _) in self._said.items() if not done]
        if what == "new" or not there:
            await self._new(knowledge.token(number), pending=dice.random() < 0.5)
        elif what == "corrected" and pending:
            one = dice.choice(pending)
            said, _, _ = self._said[one]
            row = await self._store.get(one)
            told = await self._store.told(one) if dice.random() < 0.5 else None
            await self._store.corrected(row, told)
            self._said[one] = said, True, self._now
        elif what == "delete":
            one = dice.choice(there)
            await self._store.drop(one)
            del self._said[one]

    async def _new(self, said: str, *, pending: bool) -> None:
        place = await self._store.place(NAMESPACE, NAME)
        draft = meetings.Draft(namespace=NAMESPACE, connection=NAME, title=f"Standup {said}")
        row = await self._store.create(draft, place, self._now)
        uploaded = {"$set": {"state": State.UPLOADED.value}}
        await self._store._rows.update_one({"_id": row["_id"]}, uploaded)
        begun = await self._store.begin({**row}, NAMESPACE)
        assert begun is not None
        text = meetings.Segment(start=0, end=1, text=f"We ship {said}")
        heard = meetings.Transcript(engine="replay", segments=(text,))
        await self._store.transcribed(begun, heard, pending)
        self._said[row["_id"]] = said, not pending, self._now

    def live(self) -> dict[str, frozenset[str]]:
        """See `Site`."""
        return {self._urn(one): frozenset({said}) for one, (said, done, _) in self._said.items() if done}

    def _urn(self, one: str) -> str:
        return f"meeting::id:{one},title:Standup {self._said[one][0]}"

    def rows(self) -> list[site.Row]:
        """See `Site`. By the time at which the meeting took place, as a list of meetings shows it."""
        found = []
        for one, (said, done, at) in self._said.items():
            if done:
                item = port.Item(
                    source_id=one, version=said, type=pendingtask.Type.MEETING, urn=self._urn(one), title=said,
                    text=said, place=one,
                )  # fmt: skip
                found.append(site.Row(item, at - timedelta(hours=1), one))
        return found

    def faults(self, fault: tuple[int, str] | None) -> None:
        """See `Site`."""
        self._planned.set((fault[0] % 6, fault[1]) if fault else None)

    def fault(self) -> str:
        """See `Site`."""
        return self._planned.next()

    def opens(self, assigned: assignments.Assignments) -> Callable[[assignments.Claim], port.Source]:
        """See `Site`."""
        stored = _Store(self._database, self._planned, self.bucket)
        return lambda claim: meeting.Meetings(stored, claim)


class _Store(store.Meetings):
    """Reads meet the faults and are counted."""

    def __init__(self, database: Any, planned: site.Planned, bucket: site.Bucket) -> None:
        super().__init__(database)
        self._planned, self._bucket = planned, bucket

    async def ready(self, of: store.Place, after: str, limit: int) -> list[store.Row]:
        """See `store.Meetings`."""
        self._ask()
        return await super().ready(of, after, limit)

    async def ids(self, of: store.Place, states: Sequence[State], after: str, limit: int) -> list[str]:
        """See `store.Meetings`."""
        self._ask()
        return await super().ids(of, states, after, limit)

    def _ask(self) -> None:
        self._bucket.reserve(0.0)
        if self._planned.next():
            raise mongo.Unavailable("MongoDB did not answer")
