"""The phases of a reindex, their record in MongoDB, and how far this process follows them.

    Preparing   the old index is read and written; the new model has not answered yet
    Copying     writes go to both; what the old one held before is copied
    Switched    the new index is whole: it is read; writes go to both
    Dropping    the new index is read and written; the old one goes when no process uses it any more
    Done        there is only the new one

One process moves the record on, the one with the duty, under its fence. It does so when every place
(`kb.erasure.places`) reports the present phase, and a place reports a phase when it has nothing under way that began
in an earlier one. So at most two neighbouring phases are in force at once, and each phase tolerates the next.
"""

from __future__ import annotations

import asyncio
import enum
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import structlog

from crds import errors as root
from kb import api, errors, mongo
from kb.erasure import places

log = structlog.get_logger(__name__)
COLLECTION = "kb_reindex"
_QUESTION_SECONDS = 30.0
"""A question that was embedded so long ago is answered."""
REPORT = "reindex"
"""The field of a place that says which phase it is in."""


class Phase(enum.IntEnum):
    """In the order in which they come."""

    PREPARING = 0
    COPYING = 1
    SWITCHED = 2
    DROPPING = 3
    DONE = 4

    @property
    def word(self) -> api.ReindexState:
        """As the API and the record say it."""
        return _WORDS[self]


_WORDS: Mapping[Phase, api.ReindexState] = {
    Phase.PREPARING: "Preparing",
    Phase.COPYING: "Copying",
    Phase.SWITCHED: "Switched",
    Phase.DROPPING: "Dropping",
    Phase.DONE: "Done",
}
_PHASES = {word: phase for phase, word in _WORDS.items()}


class Book:
    """The record of the latest reindex of the index `name`. Raises `kb.errors.Away`.

    `clock` gives the time in UTC. What changes the record takes the fence of the duty, and raises `kb.errors.Outrun`
    when a later owner of it has changed the record, or when it is not in the phase that was expected.
    """

    def __init__(self, database: mongo.Database, name: str, clock: Callable[[], datetime]) -> None:
        self._rows = database[COLLECTION]
        self._id = name or "-"
        self._clock = clock

    async def find(self) -> api.Reindex | None:
        """The record as the API shows it."""
        with mongo.translated():
            row = await self._rows.find_one({"_id": self._id})
        return None if row is None else _reindex(row)

    async def begin(self, before: str, model: str, fence: int) -> None:
        """A reindex from the model `before` into `model` takes the place of what the record said."""
        now = self._clock()
        row = {
            "before": before,
            "model": model,
            "state": Phase.PREPARING.word,
            "startedAt": now,
            "switchedAt": None,
            "finishedAt": None,
            "progress": {},
            "reason": "",
            "dropAsked": False,
            "fence": fence,
        }
        with mongo.translated():
            try:
                done = await self._rows.update_one({"_id": self._id, **_not_later(fence)}, {"$set": row})
                if done.matched_count == 0:
                    await self._rows.insert_one({"_id": self._id, **row})
            except mongo.DuplicateKey:
                raise errors.Outrun("another process has begun a reindex") from None

    async def advance(self, expected: Phase, fence: int) -> None:
        """Move on from `expected` to the phase after it."""
        following, now = Phase(expected + 1), self._clock()
        said: dict[str, Any] = {"state": following.word, "reason": ""}
        said |= {"switchedAt": now} if following is Phase.SWITCHED else {}
        said |= {"finishedAt": now} if following is Phase.DONE else {}
        await self._set(expected, said, fence)
        log.info("reindex", state=following.word)

    async def note(self, expected: Phase, fence: int, *, progress: Mapping[str, int], reason: str) -> None:
        """How far it has come, and what it waits for."""
        await self._set(expected, {"progress": dict(progress), "reason": reason[:1000]}, fence)

    async def ask_drop(self) -> api.Reindex | None:
        """The old index is not needed any more; the record as it is then, None when there is none to drop."""
        with mongo.translated():
            asked = {"_id": self._id, "state": {"$in": [Phase.SWITCHED.word, Phase.DROPPING.word]}}
            done = await self._rows.update_one(asked, {"$set": {"dropAsked": True}})
        return await self.find() if done.matched_count else None

    async def _set(self, expected: Phase, said: Mapping[str, Any], fence: int) -> None:
        mine = {"_id": self._id, "state": expected.word, **_not_later(fence)}
        with mongo.translated():
            done = await self._rows.update_one(mine, {"$set": {**said, "fence": fence}})
        if done.matched_count == 0:
            raise errors.Outrun("another process goes on with the reindex")


class View:
    """What this process knows of the reindex from the model `before` into `model`, and how far it follows.

    `known_for`: seconds of `monotonic` for which an answer of MongoDB is good; None where this is the only process.
    A process that does not know the phase neither reads nor writes: the index that it would use may be gone.
    """

    def __init__(
        self,
        book: Book,
        before: str,
        model: str,
        registry: places.Places,
        monotonic: Callable[[], float],
        *,
        known_for: float | None = None,
    ) -> None:
        self.before = before
        self.model = model
        self._book = book
        self._places = registry
        self._monotonic = monotonic
        self._known_for = known_for
        self._phase: Phase | None = None
        self._known_at = 0.0
        self._why = "it has not been asked yet"
        self._running: Counter[Phase] = Counter()
        self._asked: dict[Phase, float] = {}
        registry.report(REPORT, self._reported)

    async def look(self) -> Phase:
        """Ask for the phase and follow it. Raises `kb.errors.Away`, also when the record is about other models."""
        if self._phase is Phase.DONE:
            return Phase.DONE
        # First a place, then the answer: the process with the duty waits for this one from now on.
        await self._places.register()
        asked_at = self._monotonic()
        found = await self._book.find()
        self._phase = self._meaning(found)
        self._known_at = asked_at
        return self.phase

    @property
    def phase(self) -> Phase:
        """The phase to act in now. Raises `kb.errors.Away` when it is not known."""
        if self._phase is None:
            raise errors.Away("mongodb", f"it is not known which vector index serves: {self._why}", retry_after=2)
        late = self._known_for is not None and self._monotonic() - self._known_at >= self._known_for
        if late and self._phase is not Phase.DONE:
            raise errors.Away("mongodb", "it cannot be asked which vector index serves", retry_after=2)
        return self._phase

    @contextmanager
    def using(self) -> Iterator[Phase]:
        """Act in the present phase; a later one is not reported before this has ended."""
        phase = self.phase
        self._running[phase] += 1
        try:
            yield phase
        finally:
            self._running[phase] -= 1

    def asked(self) -> Phase:
        """A question is embedded in the present phase: a later one is not reported before it must be answered."""
        phase = self.phase
        self._asked[phase] = self._monotonic()
        return phase

    async def run(self, *, interval: float) -> None:
        """Look every `interval` seconds until cancelled."""
        while True:
            await self.glance()
            await asyncio.sleep(interval)

    async def glance(self) -> None:
        """Look; a MongoDB that is away is logged."""
        try:
            await self.look()
        except root.Operational as error:
            log.warning("it is not known which vector index serves", reason=error.message)

    async def awaited(self) -> list[str]:
        """The names of the places that do not report this process's phase yet."""
        wanted = self.phase

        def follows(row: Mapping[str, Any]) -> bool:
            said = row.get(REPORT) or {}
            same = (said.get("before"), said.get("model")) == (self.before, self.model)
            return same and said.get("state") in _PHASES and _PHASES[said["state"]] >= wanted

        return [one.name for one in await self._places.others(follows)]

    def may_begin(self, found: api.Reindex | None) -> bool:
        """Whether a reindex between this process's models may take the place of the one recorded."""
        if found is None:
            return True
        if (found.before, found.model) == (self.before, self.model) or found.state == Phase.DROPPING.word:
            return False
        return serving(found) == self.before

    def _meaning(self, found: api.Reindex | None) -> Phase | None:
        if found is not None and (found.before, found.model) == (self.before, self.model):
            return _PHASES[found.state]
        if found is None or serving(found) == self.before:
            return Phase.PREPARING
        if found.before == self.model:
            # A later reindex has begun from what this one ended in.
            return Phase.DONE
        self._why = (
            f"the reindex on record is from {found.before!r} into {found.model!r}, and the settings of this process "
            f"are from {self.before!r} into {self.model!r}"
        )
        return None

    def _reported(self) -> dict[str, str]:
        if self._phase is None:
            return {}
        now = self._monotonic()
        under_way = [phase for phase, count in self._running.items() if count]
        under_way += [phase for phase, at in self._asked.items() if now - at < _QUESTION_SECONDS]
        held = min(under_way, default=self._phase)
        return {"before": self.before, "model": self.model, "state": min(held, self._phase).word}


def _not_later(fence: int) -> dict[str, Any]:
    """A record that no later owner of the duty has changed; a process that is alone has no fence."""
    return {"fence": {"$lte": fence}} if fence else {}


def serving(found: api.Reindex) -> str:
    """The model whose index is read by the record."""
    return found.model if _PHASES[found.state] >= Phase.SWITCHED else found.before


def _reindex(row: Mapping[str, Any]) -> api.Reindex:
    return api.Reindex(
        state=row["state"],
        before=row["before"],
        model=row["model"],
        started_at=row["startedAt"],
        switched_at=row["switchedAt"],
        finished_at=row["finishedAt"],
        reason=row["reason"],
        drop_asked=row["dropAsked"],
        **row["progress"],
    )
