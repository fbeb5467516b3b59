"""What goes from MongoDB, and when: what runs left behind, the history, and what is kept of deleted tasks.

Level-based: each call reads MongoDB and the apiserver anew. Three kinds are removed, each page by page:

    leftovers   of archived tasks whose object is gone, `leftovers` after they were archived
    history     archived tasks, `history` after they were archived, once their leftovers are gone
    abandoned   what is kept of tasks that were deleted before they were archived, `abandoned` after the last write

A sweep covers only namespaces whose finished tasks were listed completely before it. The data of a namespace that is
forbidden, away, no longer served or deleted stays (docs/decisions/0027).

Two brakes, each for what cannot be proven. History goes by the clock alone, and no more than a share of it in a sweep.
That a task was deleted is proven by asking for it; not that it was a task of this cluster, when another one works with
the same MongoDB. A memory says under which Lease it was written: of those that were not written under ours, no more
than a share goes in one sweep. Neither brake holds anything else back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import structlog

import kube
from controllers import metrics
from controllers.archive import mongo
from controllers.archive.query import Place

log = structlog.get_logger(__name__)

PAGE = 500
"""Documents per question to MongoDB."""
MOST_PAGES = 20
"""Of each kind in one sweep."""
MOST_WALKED = 4
"""Pages of memories in one sweep: those of tasks that live for long are checked again and again."""
MOST_ASKED = 500
"""Tasks in one sweep after which no further page is checked: the apiserver is asked about each."""
ASKED_AT_ONCE = 4
"""Requests to the apiserver at the same time."""
FEW = 50
"""This many may go whatever share of the whole they are."""


class Kind(StrEnum):
    """What is held back; the label of the metric."""

    HISTORY = "history"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Periods:
    """How long things stay. `share`, from 0 to 1: the part of the history, and of the checked memories that another
    operator wrote, that one sweep may remove; 1 switches that brake off."""

    leftovers: timedelta = timedelta(days=30)
    history: timedelta = timedelta(days=365)
    abandoned: timedelta = timedelta(days=1)
    share: float = 0.2


class Retention:
    """`live(uid)`: an unfinished task of that uid is known, or a Job or pod of it; it is not asked about.

    No later sweep would find what a run that still drains writes after its task's leftovers were removed. `lease`: when
    the held Lease was created, RFC 3339; "" when that is not known.
    """

    def __init__(
        self,
        api: kube.Kube,
        archive: mongo.Archive,
        periods: Periods,
        *,
        live: Callable[[str], bool],
        lease: Callable[[], str],
        measured: metrics.Metrics,
    ) -> None:
        self._api, self._archive, self._periods = api, archive, periods
        self._live, self._lease, self._metrics = live, lease, measured
        self._from: Place | None = None
        self._after = ""
        """The uid up to which memories were checked; the next sweep goes on from there."""
        self._held_in_round = False
        """Since the check of the memories began with the first one."""
        self._braked: set[Kind] = set()
        for kind in Kind:
            measured.removal_held.labels(kind.value).set(0)

    async def sweep(self, namespaces: Collection[str], finished: Collection[str], now: datetime) -> None:
        """Remove what is due. `namespaces` were listed to the end; `finished` are the uids found there.

        Raises `clients.mongo.Unavailable`.
        """
        await self._leftovers(namespaces, finished, now)
        await self._history(namespaces, now)
        await self._abandoned(namespaces, finished, now)

    async def _leftovers(self, namespaces: Collection[str], finished: Collection[str], now: datetime) -> None:
        before = now - self._periods.leftovers
        for _ in range(MOST_PAGES):
            found = await self._archive.over(namespaces, before, self._from, PAGE)
            # Tasks that still are objects stay on the list; walking on from the last place passes them by.
            self._from = Place(found[-1]["archivedAt"], found[-1]["_id"]) if len(found) == PAGE else None
            gone = [one["_id"] for one in found if one["_id"] not in finished]
            if gone:
                self._count(await self._archive.sweep(gone, now))
                log.info("leftovers of runs removed", tasks=len(gone))
            if self._from is None:
                return

    async def _history(self, namespaces: Collection[str], now: datetime) -> None:
        before, share = now - self._periods.history, self._periods.share
        overdue = await self._archive.overdue(namespaces, before, FEW + 1)
        if overdue > FEW and share < 1:
            size = await self._archive.size()
            overdue = await self._archive.overdue(namespaces, before, max(FEW, int(size * share)) + 1)
            if self._held(Kind.HISTORY, overdue, size):
                return
        self._release(Kind.HISTORY)
        for _ in range(MOST_PAGES if overdue else 0):
            gone = await self._archive.expire(namespaces, before, PAGE)
            if gone:
                self._count({mongo.ARCHIVE: gone})
                log.info("history removed", tasks=gone, older_than_days=self._periods.history.days)
            if gone < PAGE:
                return

    async def _abandoned(self, namespaces: Collection[str], finished: Collection[str], now: datetime) -> None:
        """A task that is neither live nor finished nor archived: its deletion is proven by asking for its object."""
        before, after = now - self._periods.abandoned, self._after
        suspects: list[Mapping[str, Any]] = []
        seen = 0
        for _ in range(MOST_WALKED):
            found = await self._archive.unarchived(namespaces, before, after, PAGE)
            seen += len(found)
            suspects += [one for one in found if one["_id"] not in finished and not self._live(one["_id"])]
            after = found[-1]["_id"] if found else ""
            if not found or len(suspects) >= MOST_ASKED:
                break
        self._after = after
        own = [one for one in suspects if self._is_own(one)]
        if self._held(Kind.ABANDONED, len(suspects) - len(own), seen):
            suspects, self._held_in_round = own, True
        if not after:  # that was the last page: the next sweep begins a new round
            if not self._held_in_round:
                self._release(Kind.ABANDONED)
            self._held_in_round = False
        for start in range(0, len(suspects), ASKED_AT_ONCE):
            some = suspects[start : start + ASKED_AT_ONCE]
            absent = await asyncio.gather(*(self._absent(one) for one in some))
            gone = [one for one, is_absent in zip(some, absent, strict=True) if is_absent]
            if gone:
                self._count(await self._archive.abandon([one["_id"] for one in gone]))
            for one in gone:
                about = {"uid": one["_id"], "task": one.get("name", ""), "namespace": one["namespace"]}
                log.info("leftovers of a deleted task removed", **about)

    def _is_own(self, memory: Mapping[str, Any]) -> bool:
        own = self._lease()
        return bool(own) and memory.get("leaseCreated") == own

    async def _absent(self, memory: Mapping[str, Any]) -> bool:
        """Is there no such object? False when the apiserver does not say."""
        try:
            raw = await self._api.get(kube.TASKS, memory["namespace"], memory["name"])
        except kube.NotFound:
            return True
        except kube.Unavailable:
            return False
        return bool(raw["metadata"]["uid"] != memory["_id"])

    def _held(self, kind: Kind, number: int, of: int) -> bool:
        if number <= max(FEW, of * self._periods.share) or self._periods.share >= 1:
            return False
        self._metrics.removal_held.labels(kind.value).set(1)
        if kind not in self._braked:
            self._braked.add(kind)
            log.error(
                "not removed: too much would go at once",
                what=kind.value,
                documents=number,
                of=of,
                remedy="Check the clock and the database's name; to confirm, set removalPercent to 100 for a while.",
            )
        return True

    def _release(self, kind: Kind) -> None:
        self._braked.discard(kind)
        self._metrics.removal_held.labels(kind.value).set(0)

    def _count(self, removed: Mapping[str, int]) -> None:
        for collection, number in removed.items():
            self._metrics.swept.labels(collection).inc(number)
