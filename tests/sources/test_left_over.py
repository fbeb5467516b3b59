"""Connections that no release serves any more: their rows rest, name no other mail, and are forgotten in the end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controllers.connection import polling
from crds import pendingtask, scope
from sources.core import assignments, items, port
from tests.sources import parts
from tests.sources.model import Dying

pytestmark = pytest.mark.services
KEEPS = timedelta(days=30)
ACME = scope.Scope(client_id="acme")
BEGUN = datetime(2026, 11, 26, 12, tzinfo=UTC)


class Release:
    """An operator with a namespace; `absent` is the apiserver's answer about Connections of other ones."""

    def __init__(self, database: Any, namespace: str, clock: list[datetime]) -> None:
        self.namespace = namespace
        self.assigned = assignments.Assignments(database, release=f"{namespace}/jervis")
        self.known: set[str] = set()
        self.absent: dict[str, bool | None] = {}
        self.asked: list[str] = []
        self.changed: list[str] = []
        self._clock = clock
        self.start()

    def start(self) -> None:
        """As a new process: it remembers nothing."""
        self.polling = polling.Polling(
            self.assigned,
            known=self.known,
            complete=lambda name: name == self.namespace,
            changed=self.changed.append,
            absent=self._absent,
            keeps=KEEPS,
            wall=lambda: self._clock[0],
        )

    async def _absent(self, namespace: str, name: str, uid: str) -> bool | None:
        self.asked.append(f"{namespace}/{name}")
        return self.absent.get(uid)

    async def want(self, uid: str, generation: int = 1) -> None:
        await self.polling.want(parts.connected("box", uid=uid, namespace=self.namespace, generation=generation))
        self.known.add(uid)


class Rig:
    """Two releases with a namespace each, on one database. `clock[0]` is the time of both."""

    def __init__(self, database: Any) -> None:
        self.clock, self.database = [BEGUN], database
        self.items = items.Items(database)
        self.here, self.there = (Release(database, name, self.clock) for name in ("here", "there"))

    async def later(self, *releases: Release, seconds: float = 0.0, days: float = 0.0) -> None:
        """After a time these releases look, the others are stopped."""
        self.clock[0] += timedelta(days=days, seconds=seconds)
        for one in releases:
            await one.polling.reconcile_once()

    async def row(self, uid: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self.database[assignments.CONNECTIONS].find_one({"_id": uid})
        return found

    async def another(self) -> bool:
        """Whether a mail gets a URN of its own because of one that has its Message-ID."""
        one = mail("other text")
        return (await self.items.names(ACME, [one])).another(one)


def mail(text: str) -> port.Item:
    return port.Item("m1", "1", pendingtask.Type.EMAIL, "email::m1", "Hi", text, editable=False)


@pytest.fixture
async def rig(database: Any) -> Rig:
    prepared = Rig(database)
    await prepared.items.prepare()
    await prepared.there.want("old")
    await prepared.items.keep("old", ACME, [(mail("text"), {"content": "text"})], BEGUN)
    await prepared.here.want("new")
    await prepared.later(prepared.here, prepared.there)
    return prepared


async def test_two_releases_on_one_database_leave_each_other_alone(rig: Rig) -> None:
    for _ in range(20):
        await rig.later(rig.here, rig.there, seconds=40)
    assert [(await rig.row(uid) or {})["wanted"] for uid in ("new", "old")] == [True, True]
    assert await rig.another(), "both releases share what a client knows"
    assert rig.here.asked == rig.there.asked == []


async def test_what_is_left_of_a_namespace_that_is_gone_names_no_mail(rig: Rig) -> None:
    rig.here.absent["old"] = True
    await rig.later(rig.here, seconds=90)
    assert (await rig.another(), rig.here.asked) == (True, []), "its release may have restarted"
    await rig.later(rig.here, seconds=90)
    assert not await rig.another()
    assert rig.here.asked == ["there/box"]
    assert (await rig.row("old") or {})["wanted"] is False


async def test_a_release_that_is_stopped_for_a_weekend_loses_nothing(rig: Rig) -> None:
    rig.here.absent["old"] = False  # its object is there
    for _ in range(4):
        await rig.later(rig.here, days=0.75)
    assert await rig.another()
    assert len(rig.here.asked) == 4
    rig.there.start()
    await rig.there.want("old")
    await rig.later(rig.here, rig.there, seconds=5)
    assert (await rig.row("old") or {})["wanted"] is True
    assert await rig.items.counted.counts("old") == {"New": 1, "Indexing": 0, "Indexed": 0, "Failed": 0}


async def test_a_namespace_that_may_not_be_looked_at_is_kept_for_its_time(rig: Rig) -> None:
    rig.here.absent["old"] = None  # a role of one namespace
    await rig.later(rig.here, days=29.9)
    assert await rig.another()
    await rig.later(rig.here, days=0.2)
    assert await rig.row("old") is None
    assert not await rig.another()
    assert await rig.items.left_over() == 1


async def test_a_release_that_was_cut_off_has_its_connections_polled_again(rig: Rig) -> None:
    rig.here.absent["old"] = True
    await rig.later(rig.here, days=1)
    assert not await rig.another()
    await rig.later(rig.there, seconds=5)
    assert await rig.another(), "it is served again"
    assert "old" in rig.there.changed
    await rig.there.want("old")
    assert (await rig.row("old") or {})["wanted"] is True


async def test_a_row_of_an_older_version_is_kept_for_its_time_from_now_on(rig: Rig) -> None:
    await rig.database[assignments.CONNECTIONS].update_one({"_id": "old"}, {"$unset": {"servedAt": ""}})
    await rig.later(rig.here, days=100)
    assert await rig.row("old") is not None
    await rig.later(rig.here, days=29)
    assert await rig.row("old") is not None
    await rig.later(rig.here, days=1)
    assert await rig.row("old") is None


async def test_a_namespace_that_is_served_no_more_rests_at_once(rig: Rig) -> None:
    rig.here.known.discard("new")
    rig.here.namespace = "elsewhere"
    await rig.later(rig.here, seconds=5)
    assert (await rig.row("new") or {})["wanted"] is False


async def test_items_that_a_frozen_process_stores_for_a_forgotten_connection_are_deleted(rig: Rig) -> None:
    await rig.here.assigned.drop("old")
    await rig.items.keep("old", ACME, [(mail("late"), {"content": "late"})], BEGUN)
    assert not await rig.another()
    assert await rig.items.left_over() == 1
    assert await rig.items.left_over() == 0


async def test_items_of_a_connection_that_is_wanted_again_meanwhile_stay(rig: Rig) -> None:
    await rig.here.assigned.drop("new")
    await rig.items.keep("new", ACME, [(mail("late"), {"content": "late"})], BEGUN)
    database = Dying(rig.database)

    async def wanted(_: dict[str, Any]) -> None:
        database.reading = None
        rig.here.start()
        await rig.here.want("new")

    database.reading = wanted
    looking = items.Items(database)
    assert await looking.left_over() == 0
    assert database.reading is None
    assert (await rig.items.counted.counts("new"))["New"] == 1


async def claimed(rig: Rig, release: Release) -> set[str]:
    """What a process of the release may poll."""
    uids = set[str]()
    while (claim := await release.assigned.claim("process", rig.clock[0], sorted(uids))) is not None:
        uids.add(claim.uid)
    return uids


async def test_of_two_releases_in_one_database_each_polls_its_own(rig: Rig) -> None:
    await rig.here.want("a")
    await rig.there.want("b")
    for release, uids in ((rig.here, {"new", "a"}), (rig.there, {"old", "b"})):
        assert await claimed(rig, release) == uids
    # A process without a name of a release wrote the row.
    await rig.database[assignments.CONNECTIONS].update_one({"_id": "a"}, {"$unset": {"release": ""}})
    rig.here.start()
    await rig.here.want("a")
    assert (await rig.row("a") or {})["release"] == "here/jervis"


async def test_a_connection_that_two_releases_serve_is_that_of_the_first_until_it_is_gone(rig: Rig) -> None:
    await rig.here.want("a")
    await rig.later(rig.here)
    await rig.there.want("a")
    await rig.later(rig.there, seconds=60)
    assert (rig.here.polling.holder("a"), rig.there.polling.holder("a")) == ("", "here/jervis")
    assert "a" not in await claimed(rig, rig.there)
    await rig.there.polling.rest("a")
    assert (await rig.row("a") or {})["wanted"], "it is not the other's to stop"
    rig.there.changed.clear()
    await rig.later(rig.there, seconds=121)
    assert "a" in rig.there.changed
    await rig.there.want("a", 2)
    assert rig.there.polling.holder("a") == ""
    assert "a" in await claimed(rig, rig.there)
    await rig.later(rig.here, rig.there, seconds=31)
    await rig.here.want("a", 3)
    assert rig.here.polling.holder("a") == "there/jervis"
