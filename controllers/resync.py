"""A comparison: what is known of our kinds against a list of metadata. Events alone are not enough.

kopf reports no deletion that happened while its watch was away, and an event that is lost stays lost. So every 30 s,
after kopf has listed anew, and once at the start, each namespace's metadata is listed (PartialObjectMetadataList, in
pages, with the watch's field selector):

- known before the list began and not on it: gone, because a list is at least as new as its request;
- listed in a version that is newer than the known one, although kopf had its time: read in full and fed in.

The comparison at the start is the barrier before anything acts: a worker that has seen one page of the tasks knows
neither which comes first nor which slots are taken. It holds per namespace; one that is deleted or forbidden holds back
none. A kind that is refused in a namespace is left alone there, and the other kinds are served.

Source: Kubernetes "API concepts", consistency of lists and metadata-only requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import structlog

import kube
from controllers import namespaces
from controllers.namespaces import State
from crds import errors

log = structlog.get_logger(__name__)

SHARE = 0.02
"""Of the time that comparisons may take: after a long one, the next comes later than `every` seconds."""
PAGE = 500
GRACE_SECONDS = 5.0
"""For so long kopf may be behind a list without coming nearer before what it owes is read here."""
POLL_SECONDS = 0.1
MANY = 100
"""Objects of a kind that are read one by one; more are read as a list."""
MOST_OFFERED = 10_000
"""Objects remembered that cannot be read; beyond that they are tried once more."""
REFUSED_SECONDS = 60.0
"""After which the objects of a kind that is refused are forgotten: a run holds its slot as long as its pod lives."""
RETRY_SECONDS = 2.0

Feed = Callable[[str, kube.Object], None]
"""(ADDED, MODIFIED or DELETED; the object)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One of our kinds and its controller. `known` answers {metadata} of what is known in a namespace, None for all.

    `version` answers the resourceVersion that is known of a uid, also of one that is known to be gone. `leave` forgets
    an object for now: it may come back.
    """

    resource: kube.Resource
    feed: Feed
    known: Callable[[str | None], Iterator[Mapping[str, Any]]]
    version: Callable[[str], int | None]
    leave: Callable[[str], None]
    fields: str = ""


@dataclass(frozen=True, slots=True)
class _Listed:
    uid: str
    namespace: str
    name: str
    version: int


def _version(meta: Mapping[str, Any]) -> int:
    text = str(meta.get("resourceVersion", "0"))
    return int(text) if text.isdigit() else 0


class Resync:
    """`run` it once `first` has returned. `corrected(plural, what)` counts what kopf had not reported;
    `report(namespace, state, why)` makes a namespace's new state visible; False: not yet, and it is called again;
    `limits_changed(namespace)`: its annotations say something else about what it may have.

    It receives from `reconnect` the answers that kopf got. The unit of a comparison is a namespace, or None for all of
    them when kopf watches them as one.
    """

    def __init__(
        self,
        api: kube.Kube,
        members: namespaces.Namespaces,
        kinds: Sequence[Kind],
        *,
        corrected: Callable[[str, str], None],
        report: Callable[[str, State, str], Awaitable[bool]],
        limits_changed: Callable[[str], None] = lambda name: None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        every: float,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._api, self._members, self._kinds = api, members, tuple(kinds)
        self._corrected, self._report, self._limits_changed = corrected, report, limits_changed
        self._monotonic, self._sleep = monotonic, sleep
        self._every, self._grace = every, grace
        self._due: set[str | None] = set()
        self._wake = asyncio.Event()
        self._refused: dict[tuple[str, str], float] = {}
        """By namespace and kind (plural): since when the kind is refused there."""
        self._owed: set[str] = set()
        """Namespaces whose state could not be reported yet."""
        self._offered: dict[str, int] = {}
        """By uid: the version that was fed in and could not be taken."""

    # -- what is due -----------------------------------------------------------------------------------------------

    def due(self, namespace: str | None) -> None:
        """Compare it as soon as possible."""
        self._due.add(namespace)
        self._wake.set()

    def refused(self, namespace: str | None, plural: str, status: int, why: str) -> None:
        """A list or watch of kopf's was refused (see `reconnect.Answers`): a comparison finds out why."""
        name = namespace or self._members.scope.own
        state = self._members.states().get(name)
        news = state in (State.PENDING, State.SERVED) or (
            state is State.PARTIAL and plural not in self._members.refused(name)
        )
        if news and any(kind.resource.plural == plural for kind in self._kinds):
            self.due(namespace)

    def resumed(self, namespace: str | None, plural: str) -> None:
        """kopf's events may have a gap (see `reconnect.Answers`)."""
        log.info("compared soon", kind=plural, namespace=namespace)
        self.due(namespace)

    def forget(self, namespace: str) -> None:
        """Nothing of the namespace is known any more; it may come back."""
        self._owed.discard(namespace)
        for kind in self._kinds:
            self._refused.pop((namespace, kind.resource.plural), None)
            self._leave(namespace, kind)

    # -- comparisons -----------------------------------------------------------------------------------------------

    def units(self) -> list[str | None]:
        """What is compared one by one."""
        return [None] if self._members.scope.everywhere else list(self._members)

    async def first(self) -> None:
        """Return once everything that is listed is known, but for what refuses. Raises `crds.errors.JervisError`."""
        for unit in self.units():
            await self.look(unit)

    async def run(self) -> None:
        """Compare for ever."""
        pause = self._every
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                self._due.update(self.units())
            self._wake.clear()
            due, self._due = self._due, set()
            begun = self._monotonic()
            for unit in sorted(due, key=lambda one: one or ""):
                try:
                    await self.look(unit)
                except errors.JervisError as error:
                    log.info("objects not compared", namespace=unit, reason=error.message)
                    asyncio.get_running_loop().call_later(RETRY_SECONDS, self.due, unit)
            pause = max(self._every, (self._monotonic() - begun) / SHARE)

    async def look(self, unit: str | None) -> None:
        """Compare one unit, all kinds. Raises `crds.errors.JervisError` when the API is away."""
        if unit is not None and (unit not in self._members or not await self._exists(unit)):
            return
        if unit is None:
            await self._exists(self._members.scope.own)  # the labels by which others join it may not have
        refused: dict[str, str] = {}
        for kind in self._kinds:
            try:
                await self._compare(kind, unit)
            except (kube.Forbidden, kube.NotFound) as error:
                refused[kind.resource.plural] = error.message
        names = list(self._members) if unit is None else [unit]
        for name in names:
            self._leave_refused(name, refused)
        every = len(refused) == len(self._kinds)
        state = State.FORBIDDEN if every else State.PARTIAL if refused else State.SERVED
        why = "; ".join(f"{plural}: {message}" for plural, message in refused.items())
        for name in names:
            await self._record(name, state, why, () if every else tuple(sorted(refused)))

    async def _exists(self, name: str) -> bool:
        try:
            if self._members.read(name, await self._api.get(kube.NAMESPACES, None, name)):
                self._limits_changed(name)
        except kube.NotFound as error:
            self._members.read(name, None)
            await self._record(name, State.ABSENT, error.message)
            self.forget(name)
            return False
        except kube.Forbidden:
            pass  # the right went with the namespace, or was never given: the lists show which
        return True

    async def _record(self, name: str, state: State, why: str, refused: tuple[str, ...] = ()) -> None:
        if not self._members.record(name, state, why, refused) and name not in self._owed:
            return
        self._owed.add(name)
        if await self._report(name, state, why) or state is State.SERVED:
            self._owed.discard(name)

    def _leave_refused(self, name: str, refused: Collection[str]) -> None:
        now = self._monotonic()
        for kind in self._kinds:
            plural = kind.resource.plural
            if plural not in refused:
                self._refused.pop((name, plural), None)
            elif now - self._refused.setdefault((name, plural), now) >= REFUSED_SECONDS:
                self._leave(name, kind)

    @staticmethod
    def _leave(name: str, kind: Kind) -> None:
        for raw in list(kind.known(name)):
            kind.leave(raw["metadata"]["uid"])

    # -- one kind --------------------------------------------------------------------------------------------------

    async def _compare(self, kind: Kind, unit: str | None) -> None:
        before: dict[str, Mapping[str, Any]] = {raw["metadata"]["uid"]: raw for raw in kind.known(unit)}
        newer: list[_Listed] = []
        pages = self._api.pages(kind.resource, unit, fields=kind.fields, page=PAGE, metadata=True)
        async with aclosing(pages):
            async for items, _ in pages:
                for raw in items:
                    meta = raw["metadata"]
                    known = before.pop(meta["uid"], None)
                    if known is None or _version(known["metadata"]) < _version(meta):
                        newer.append(_Listed(meta["uid"], meta["namespace"], meta["name"], _version(meta)))
                await asyncio.sleep(0)
        behind, gone = await self._settle(
            kind, [one for one in newer if one.namespace in self._members], list(before.values())
        )
        for one in gone:
            self._count(kind, "deleted", one["metadata"])
            kind.feed("DELETED", dict(one))
        if behind:
            await self._take_in(kind, unit, behind)

    async def _settle(
        self, kind: Kind, newer: list[_Listed], unlisted: list[Mapping[str, Any]]
    ) -> tuple[list[_Listed], list[Mapping[str, Any]]]:
        """What kopf still owes once it has stopped to come nearer: the newer versions, the deletions."""
        behind, gone = self._behind(kind, newer), self._unreported(kind, unlisted)
        since = self._monotonic()
        while (behind or gone) and self._monotonic() - since < self._grace:
            await self._sleep(POLL_SECONDS)
            owed = len(behind) + len(gone)
            behind, gone = self._behind(kind, behind), self._unreported(kind, gone)
            if len(behind) + len(gone) < owed:
                since = self._monotonic()
        return behind, gone

    async def _take_in(self, kind: Kind, place: str | None, behind: list[_Listed]) -> None:
        wanted = {one.uid for one in behind}
        async for raw in self._read(kind, place, behind):
            meta = raw["metadata"]
            if meta["uid"] in wanted:
                self._count(kind, "missed", meta)
                kind.feed("MODIFIED", raw)
        if len(self._offered) > MOST_OFFERED:
            self._offered.clear()
        self._offered.update((one.uid, one.version) for one in self._behind(kind, behind))

    @staticmethod
    def _unreported(kind: Kind, unlisted: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [raw for raw in unlisted if kind.version(raw["metadata"]["uid"]) == _version(raw["metadata"])]

    def _behind(self, kind: Kind, listed: Iterable[_Listed]) -> list[_Listed]:
        found = []
        for one in listed:
            known = kind.version(one.uid)
            if (known is None or known < one.version) and self._offered.get(one.uid, -1) < one.version:
                found.append(one)
        return found

    async def _read(self, kind: Kind, place: str | None, behind: Sequence[_Listed]) -> Any:
        if len(behind) > MANY:
            async with aclosing(self._api.each(kind.resource, place, fields=kind.fields)) as every:
                async for raw in every:
                    yield raw
            return
        for one in behind:
            try:
                yield await self._api.get(kind.resource, one.namespace, one.name)
            except kube.NotFound:
                continue  # gone since

    def _count(self, kind: Kind, what: str, meta: Mapping[str, Any]) -> None:
        self._corrected(kind.resource.plural, what)
        log.info(
            "found by comparison", kind=kind.resource.plural, what=what, namespace=meta["namespace"], name=meta["name"]
        )
