"""Seeded histories of Jira and Confluence against MongoDB: what is known at the end is what the site has.

Changes show up late in the search, pages tear, limits are hit, and the process is killed between any two writes.
JERVIS_TEST_HISTORIES sets how many histories there are for each product and kind of site; otherwise `make test` has
two and `make test-thorough` eight.
"""

from __future__ import annotations

import contextlib
import os
import random
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds import connection, labels
from sources.core import limits, port, time_cursor
from sources.providers.atlassian import sites as atlassian
from sources.providers.confluence import reading as confluence
from sources.providers.jira import reading as jira
from tests import thorough
from tests.sources import confluence_server, jira_server, parts
from tests.sources.model import World

pytestmark = pytest.mark.services
HISTORIES = int(os.environ.get("JERVIS_TEST_HISTORIES", thorough.examples(8)))
ZONES = ("UTC", "Europe/Prague", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati")
TLS = ssl.create_default_context()


class Documents(World):
    """Of two versions of a document the one whose task was created later stays; `texts` has its title and readers."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, tuple[int, str]] = {}

    def _step(self, one: dict[str, Any]) -> None:
        before = one["status"]["phase"]
        super()._step(one)
        if before != "Done" and one["status"]["phase"] == "Done":
            urn, order = one["spec"]["sourceUrn"], list(self.tasks).index(one["metadata"]["name"])
            readers = " ".join(one["spec"]["access"].get("principals", ["nobody"]))
            said = (order, f"{one['metadata']['annotations'][labels.TITLE]} for {readers}")
            self.texts[urn] = max(self.texts.get(urn, (-1, "")), said)

    def state(self) -> dict[str, str]:
        return {urn: self.texts[urn][1] for urn in self.documents}


class Site:
    """A model site, what changes in it, and what it has."""

    server: Any

    def __init__(self, dice: random.Random, cloud: bool) -> None:
        self.dice = dice
        self.server = self.made(dice, cloud)
        self.away: set[str] = set()
        """Ids of what was not listed, or elsewhere, at some time after it first came."""
        self.count = 0

    def made(self, dice: random.Random, cloud: bool) -> Any:
        raise NotImplementedError

    def change(self) -> None:
        raise NotImplementedError

    def live(self) -> dict[str, str]:
        raise NotImplementedError

    def opens(self) -> Any:
        raise NotImplementedError

    def _opened(self, module: Any) -> Any:
        return module.opened(atlassian.opened(True, TLS, lambda: 0.0, lambda: self.server.now), size=3, ids_size=4)


class JiraSite(Site):
    def made(self, dice: random.Random, cloud: bool) -> Any:
        made = jira_server.Jira(dice, zone=dice.choice(ZONES), cloud=cloud)
        made.token_life = 4
        return made

    def change(self) -> None:
        self.count += 1
        self.server.now += timedelta(seconds=self.dice.randint(0, 30))
        there = sorted(self.server.issues.values(), key=lambda one: one.id)
        kinds = ("new", "new", "edit", "edit", "comment", "move", "delete", "hide", "show", "bulk", "level", "level")
        what = self.dice.choice(kinds)
        if what == "new" or not there:
            self.server.put(self.dice.choice(("JERV", "SHOP")))
            return
        one = self.dice.choice(there)
        if what == "edit":
            self.server.touch(one, summary=f"Edit {self.count}")
        elif what == "comment":
            self.server.comment(one, f"Comment {self.count}")
        elif what == "level":
            # As by a change of the project's security scheme: the issue has no new time.
            one.fields["security"] = self.dice.choice((None, {"id": "1"}, {"id": "2"}))
        elif what == "bulk":
            for each in there:
                self.server.touch(each, summary=f"Bulk {self.count}")
        elif what == "show":
            for each in there:
                each.hidden = False
        else:
            self.away.add(str(one.id))
            if what == "move":
                self.server.move(one, self.dice.choice(("JERV", "SHOP")))
            elif what == "delete":
                self.server.delete(one)
            else:
                one.hidden = True

    def live(self) -> dict[str, str]:
        return {
            f"jira::{one.key}": f"{one.key} {one.fields['summary']} for {self._readers(one)}"
            for one in self.server.issues.values()
            if self.server.seen(one)
        }

    def _readers(self, one: Any) -> str:
        level = one.fields.get("security")
        return f"group:jira-level:{level['id']}" if level else f"group:jira-project:{one.key[:4].lower()}"

    def opens(self) -> Any:
        return self._opened(jira)


class ConfluenceSite(Site):
    def made(self, dice: random.Random, cloud: bool) -> Any:
        return confluence_server.Confluence(dice, zone=dice.choice(ZONES), cloud=cloud)

    def change(self) -> None:
        self.count += 1
        self.server.now += timedelta(seconds=self.dice.randint(0, 30))
        there = sorted((one for one in self.server.contents.values() if one.type == "page"), key=lambda one: one.id)
        kinds = ("new", "new", "edit", "edit", "comment", "move", "trash", "hide", "show", "draft", "limit", "limit")
        what = self.dice.choice(kinds)
        if what in ("new", "draft") or not there:
            self.server.put(self.dice.choice(("DEV", "OPS")), status="draft" if what == "draft" else "current")
            return
        one = self.dice.choice(there)
        if what == "edit":
            one.title = f"Edit {self.count}"
            self.server.edit(one, "<p>New.</p>")
        elif what == "limit":
            one.readers = self.dice.choice(({}, {"group": ["a"]}, {"user": ["b"]}))
        elif what == "comment":
            self.server.put(one.space, kind="comment", parent=one.id)
        elif what == "show":
            for each in there:
                each.hidden, each.status = False, "current" if each.status == "trashed" else each.status
        else:
            self.away.add(str(one.id))
            if what == "move":
                self.server.move(one, self.dice.choice(("DEV", "OPS")))
            elif what == "trash":
                one.status = self.dice.choice(("trashed", "archived"))
            else:
                one.hidden = True

    def live(self) -> dict[str, str]:
        return {
            f"confluence::{one.space}::{one.id}": f"{one.title} for {self._readers(one)}"
            for one in self.server.contents.values()
            if one.type == "page" and self.server.seen(one)
        }

    def _readers(self, one: Any) -> str:
        named = [f"{kind}:{name}" for kind, names in one.readers.items() for name in names]
        return named[0] if named else f"group:confluence-space:{one.space.lower()}"

    def opens(self) -> Any:
        return self._opened(confluence)


Rig = parts.Rig[Site, Documents]


@contextlib.asynccontextmanager
async def rig(
    kind: str,
    seed: int,
    cloud: bool,
    wrapped: Callable[[Any], Any] = lambda one: one,
    *,
    every: float = 60,
    knows: str = "",
    late: timedelta = timedelta(minutes=10),
) -> AsyncIterator[Rig]:
    """Of a Jira or a Confluence whose search shows changes so `late`. Without a knowledge base at `knows` the world is
    one."""
    dice = random.Random(seed)
    site: Site = (JiraSite if kind == "Jira" else ConfluenceSite)(dice, cloud)
    site.server.late = late
    opens = site.opens()

    def source(spec: connection.Spec, _: Mapping[str, str], __: limits.Bucket) -> port.Source:
        found: port.Source = wrapped(opens(spec, {"username": "u", "token": "t"}, limits.Bucket(6000, 100_000)))
        return found

    async with site.server.serving(), Documents().serving() as world:
        assert isinstance(world, Documents)
        opened = parts.rig(
            site, world, source, spec={"type": kind, "url": site.server.url}, dice=dice, clock=site.server,
            ahead=site.server.now - datetime(2020, 1, 1, tzinfo=UTC), every=every, knows=knows,
        )  # fmt: skip
        async with opened as standing:
            yield standing


@contextlib.asynccontextmanager
async def small(
    kind: str, *more: Any, seed: int = 1, cloud: bool = True, place: str = "", things: int = 8, **options: Any
) -> AsyncIterator[tuple[Rig, Any, list[Any]]]:
    """A site that shows every change at once, its server, and its issues or pages, which are swept."""
    async with rig(kind, seed, cloud, *more, late=timedelta(0), **options) as one:
        put = [one.site.server.put(place or ("JERV" if kind == "Jira" else "OPS")) for _ in range(things)]
        await one.swept()
        yield one, one.site.server, put


async def history(one: Rig) -> set[str]:
    """Changes, polls, kills, limits and errors; then the URNs that were deleted though what they name was always
    there."""
    site, dice = one.site, one.site.dice
    for _ in range(dice.randint(4, 8)):
        site.change()
    site.server.meanwhile = lambda: site.change() if dice.random() < 0.3 else None
    for _ in range(6):
        for _ in range(dice.randint(0, 3)):
            site.change()
        fault = dice.choice(((), (), ((429, {"Retry-After": "30"}),), ((503, {}),), ((500, {}),)))
        site.server.faults = [(0, {})] * dice.randint(0, 12) + list(fault) if fault else []
        await one.round(left=dice.choice((None, dice.randint(0, 40))))
        if dice.random() < 0.5:
            await one.settle()
        one.world.work(dice)
    named = {urn: str(each.id) for each, urn in _urns(site)}
    wrong = {urn for urn in one.world.deleted if urn in named and named[urn] not in site.away}
    site.server.faults, site.server.meanwhile = [], None
    await one.quiet(4)
    return wrong


def _urns(site: Site) -> Iterator[tuple[Any, str]]:
    if isinstance(site, JiraSite):
        for one in site.server.issues.values():
            yield one, f"jira::{one.key}"
    else:
        for one in site.server.contents.values():
            yield one, f"confluence::{one.space}::{one.id}"


@pytest.mark.parametrize("cloud", [True, False])
@pytest.mark.parametrize("kind", ["Jira", "Confluence"])
async def test_histories_end_with_what_the_site_has(kind: str, cloud: bool) -> None:
    for seed in range(HISTORIES):
        async with rig(kind, seed, cloud) as one:
            wrong = await history(one)
            assert wrong == set(), f"seed {seed}: what was always there was deleted"
            assert one.world.state() == one.site.live(), f"seed {seed}"


@pytest.mark.parametrize(("kind", "place"), [("Jira", "SHOP"), ("Confluence", "DEV")])
async def test_what_is_not_shown_any_more_is_kept_and_what_is_deleted_leaves(kind: str, place: str) -> None:
    async with rig(kind, 1, True) as one:
        server = one.site.server
        server.late = timedelta(0)
        for number in range(8):
            server.put(place if number % 2 else ("JERV" if kind == "Jira" else "OPS"))
        await one.swept()
        one.world.work()
        there = one.world.state()
        assert there == one.site.live()
        assert len(there) == 8
        server.unseen = {place}
        shown = one.site.live()
        assert len(shown) == 4
        found = await one.swept()
        assert (found.outcome, found.missing, found.removed) == ("Swept", 0, 0)
        server.unseen = set()
        gone_urn = min(shown)
        for each, urn in list(_urns(one.site)):
            if urn == gone_urn:
                if kind == "Jira":
                    server.delete(each)
                else:
                    each.status = "trashed"
        found = await one.swept()
        assert (found.outcome, found.missing, found.removed) == ("Swept", 1, 1)
        await one.settle()
        await one.round()
        assert one.world.state() == {urn: title for urn, title in there.items() if urn != gone_urn}


class Naive:
    """The reference: only what changed behind the last time, in UTC, and nothing that a list names beside it."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._learn = inner, inner._visible
        inner._visible = self._visible

    async def _visible(self) -> Any:
        found = await self._learn()
        self._inner._zone = UTC
        return found

    def batches(self, cursor: port.Cursor) -> Any:
        return self._inner.batches(cursor)

    def ids(self) -> Any:
        return self._inner.ids()


@pytest.mark.parametrize("kind", ["Jira", "Confluence"])
async def test_a_window_of_time_alone_misses_changes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same histories: they can tell the difference."""
    monkeypatch.setattr(time_cursor, "OVERLAP", timedelta(0))
    monkeypatch.setattr(time_cursor, "_KEPT", 0)
    for seed in range(20):
        async with rig(kind, seed, True, Naive) as one:
            await history(one)
            if one.world.state() != one.site.live():
                return
    raise AssertionError("the histories do not tell the difference")
