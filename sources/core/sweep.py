"""The sweep of one Connection: list everything that the source has, and let what is missing leave.

It runs after a poll that reached the end, and polls once more before it compares: a thing that moved while the list was
made is either in the list or is found by that poll. What is listed and not known is fetched where the source can
(`port.Fetching`), and so is what others may read now than those for whom it was stored, and what is listed where only
older versions of it were: a search may be behind what was read. Only a list that says that it is complete is compared,
and what it lacks is asked for once more by its place.
More than a fifth of the items at once do not leave unless a person says so.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import structlog

from clients import backoff, mongo
from crds import errors
from kb import client as kb
from sources import metrics
from sources.core import assignments, missing_items, port
from sources.core.state import BROKEN, HELD, SWEPT, Sweep

log = structlog.get_logger("sources")

FEW, SHARE = 5, 0.2
"""The brake: more than so many, and more than this part of the known items, are kept."""
JITTER = 0.1
AGAIN = backoff.Doubling(first=60.0, cap=3600.0)
MOST_REMOVALS = 200
"""Documents forgotten in one round."""
MOST_REFUSALS = 3
"""After so many in a row the knowledge base is left alone until the next round."""
MOST_STRANGERS = 1000
"""Things that are listed and not known, or known with other readers, fetched in one sweep, and as many of which older
versions alone are known at their places; the others are left to the next one."""
MOST_ASKED = 200
"""Missing things of one sweep that are asked for by their places."""
MOST_LOOKED = 2000
"""Of a source with more items who may read them is looked at by sweeps alone: its list takes too many requests."""
_MESSAGE_CHARS = 512

Poll = Callable[[], Awaitable[bool]]
Store = Callable[[port.Batch], Awaitable[None]]


class Sweeper:
    """A sweep every `every` seconds, more or less by a tenth (`chance`)."""

    def __init__(
        self,
        knowledge: kb.Client,
        assigned: assignments.Assignments,
        left: missing_items.MissingItems,
        measured: metrics.Metrics,
        *,
        every: float,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        chance: random.Random | None = None,
    ) -> None:
        self._kb, self._assigned, self._gone, self._metrics = knowledge, assigned, left, measured
        self._every, self._wall, self._monotonic = every, wall, monotonic
        self._chance = chance or random.SystemRandom()

    def due(self, claim: assignments.Claim) -> bool:
        """Whether a sweep is due now."""
        last = claim.state.sweep
        return last is None or last.due <= self._wall() or last.confirmed != claim.confirmed

    async def look(self, claim: assignments.Claim, source: port.Source, store: Store) -> None:
        """Fetch again what others may read now: a right that is taken away has no new time. Only of sources that say in
        their list who may read what, and whose list is short. Raises what the source raises, `Lost`, `Unavailable`."""
        if not isinstance(source, port.Fetching) or not source.tells or await self._gone.more(claim.uid, MOST_LOOKED):
            return
        differing = list[str]()
        async with aclosing(source.ids()) as pages:
            async for page in pages:
                differing += (await self._gone.listed(claim.uid, (), page.access)).differing
        await self._fetch(source, differing[:MOST_STRANGERS], store)

    async def _fetch(
        self, source: port.Fetching, places: Sequence[str], store: Store, moved: Collection[str] = ()
    ) -> None:
        """What is where only its older versions are known may be one of these, and that one is the last again."""
        if places:
            log.info("items fetched by their places", count=len(places))
            async with aclosing(source.fetch(places)) as batches:
                async for batch in batches:
                    some = [replace(one, recurs=one.recurs or one.place in moved) for one in batch.items]
                    await store(replace(batch, items=tuple(some)))

    async def run(self, claim: assignments.Claim, source: port.Source, poll: Poll, store: Store) -> Sweep | None:
        """One sweep; `poll` polls the source to its end, False: it did not get there, and there is no sweep now.
        `store` keeps the items of a batch.

        Raises `Lost`, `Unavailable`; what the source raises is the outcome.
        """
        begun, kind = self._monotonic(), claim.spec.type.value
        try:
            ended = await self._swept(claim, source, poll, store)
        except (assignments.Lost, mongo.Unavailable):
            raise
        except errors.JervisError as error:
            log.info("source not swept", connection=claim.name, cause=error.message)
            ended = self._ended(claim, BROKEN, message=error.message[:_MESSAGE_CHARS])
        if ended is not None:
            self._metrics.sweeps.labels(kind, ended.outcome).inc()
            self._metrics.sweep_seconds.labels(kind).observe(self._monotonic() - begun)
        return ended

    async def _swept(self, claim: assignments.Claim, source: port.Source, poll: Poll, store: Store) -> Sweep | None:
        complete, within, moving, fetches = False, None, False, isinstance(source, port.Fetching)
        tells = isinstance(source, port.Fetching) and source.tells
        moved, strangers, differing = list[str](), list[str](), list[str]()
        async with aclosing(source.ids()) as pages:
            async for page in pages:
                known = await self._gone.mark(claim.uid, page.places, claim.fence)
                if tells or known < len(page.places):
                    found = await self._gone.listed(claim.uid, page.places, page.access)
                    strangers = [*strangers, *found.strangers][: MOST_STRANGERS if fetches else None]
                    moved += found.moved
                    differing += found.differing
                complete, within, moving = page.last, page.within, page.moving
        if not complete:
            raise port.Unreachable("The list of what the source has broke off.")
        if within is not None:
            await self._gone.outside(claim.uid, within, claim.fence)
        if not await poll():
            return None
        found = await self._gone.listed(claim.uid, [*moved, *strangers], {})
        if isinstance(source, port.Fetching):
            moved = found.moved[:MOST_STRANGERS]
            places = [*moved, *[*differing, *found.strangers][:MOST_STRANGERS]]
            await self._fetch(source, list(dict.fromkeys(places)), store, frozenset(moved))
            # Where the list is behind, what is not fetched would be taken for missing.
            await self._gone.spare(claim.uid, found.moved[MOST_STRANGERS:], claim.fence)
            await self._ask_for_missing(claim, source, store)
        await self._gone.spare_unread(claim.uid, claim.fence, moving=moving)
        # The claim is still ours: a successor has compared nothing yet.
        await self._assigned.renew(claim, self._wall())
        await self._assigned.overtake(claim)
        return await self._compared(claim, unread=moving and bool(found.strangers))

    async def _ask_for_missing(self, claim: assignments.Claim, source: port.Fetching, store: Store) -> None:
        """A list that says that it is complete may be short all the same: what it lacks is asked for by its place, and
        counts as seen where it is given. Raises `port.Unreachable` where not all can be asked for and one is given."""
        missing, more = await self._gone.missing(claim.uid, claim.fence, MOST_ASKED)
        await self._fetch(source, missing, store)
        still, _ = await self._gone.missing(claim.uid, claim.fence, MOST_ASKED) if more else (missing, False)
        if set(missing) - set(still):
            raise port.Unreachable("The list of what the source has lacks things that it gives by their places.")

    async def _compared(self, claim: assignments.Claim, *, unread: bool) -> Sweep:
        """`unread`: a thing was listed where it was not known, and had moved on before the poll came there. It may be
        any of those that are missed for the first time, so these stay until the next sweep."""
        kind, at = claim.spec.type.value, self._wall().replace(microsecond=0)
        known, missing = await self._gone.compare(claim.uid, claim.fence, at)
        confirmed = _time(claim.confirmed, at)
        newer = await self._gone.newer(claim.uid, claim.fence, confirmed)
        held = newer > FEW and newer > SHARE * known
        latest = at - timedelta(seconds=1) if unread else at
        removed = await self._gone.leave(claim, min(confirmed, latest) if held else latest, at)
        self._metrics.deletions.labels(kind, "missing").inc(removed)
        self._metrics.deletions.labels(kind, "held").inc(max(missing - removed, 0))
        outcome = HELD if held else SWEPT
        if removed or held:
            log.info("items left their source", connection=claim.name, removed=removed, missing=missing, known=known)
        return replace(self._ended(claim, outcome), at=at, known=known, missing=missing, removed=removed)

    def _ended(self, claim: assignments.Claim, outcome: str, message: str = "") -> Sweep:
        now = self._wall()
        pause = self._every * (1 + JITTER * (2 * self._chance.random() - 1))
        last = claim.state.sweep
        # A sweep that broke off says nothing about what is kept back, and does not consider a confirmation.
        considered = claim.confirmed if outcome != BROKEN else last.confirmed if last else ""
        return Sweep(at=now, due=now + timedelta(seconds=pause), outcome=outcome, message=message, confirmed=considered)

    async def forget(self, claim: assignments.Claim) -> None:
        """Forget the documents of what left and whose task is settled. One that cannot be forgotten is tried again and
        holds up no other. Raises `Lost`, `Unavailable`."""
        kind, refusals = claim.spec.type.value, 0
        for one in await self._gone.settled(claim.uid, MOST_REMOVALS, self._wall()):
            if refusals >= MOST_REFUSALS:
                return
            await self._assigned.renew(claim, self._wall())
            if not await self._gone.take(one.item_id, claim.fence):
                continue
            try:
                await self._forget(claim, one)
            except (kb.Unavailable, kb.Rejected) as error:
                refusals += isinstance(error, kb.Unavailable)
                again = self._wall() + timedelta(seconds=AGAIN.delay(one.tries + 1))
                await self._gone.refused(one.item_id, error.message, again)
                self._metrics.deletions.labels(kind, "refused").inc()
                log.info("document of an item not deleted", connection=claim.name, item=one.item_id, why=error.message)
                continue
            refusals = 0
            await self._gone.drop(one.item_id, claim.fence)
            self._metrics.deletions.labels(kind, "removed").inc()

    async def _forget(self, claim: assignments.Claim, one: missing_items.Document) -> None:
        if one.owner is None or await self._gone.shared(one):
            return
        try:
            # The one place from which a document is forgotten. That of a process that lost its claim is refused.
            await self._kb.forget(one.owner, one.urn, claim.observation)
        except kb.Rejected as error:
            if error.code == "conflict":
                self._metrics.outrun.inc()
                await self._assigned.renew(claim, self._wall())
            if error.code != "not_found":
                raise


def _time(text: str, latest: datetime) -> datetime:
    """The time of a confirmation; long ago where there is none, or one that no person can have seen yet."""
    with suppress(ValueError):
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None and found <= latest:
            return found
    return datetime(1970, 1, 1, tzinfo=UTC)
