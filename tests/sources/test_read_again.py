"""What could not be read, and what a list lacks: it is asked for by its place, by a rule, and nothing leaves because of
it."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from contracts.tokens import token_file
from crds import connection, pendingtask
from sources.core import item_listing, items, port
from sources.core.state import BROKEN, SWEPT, State
from tests.sources import parts, test_sweep
from tests.sources.api import serving

pytestmark = pytest.mark.services


class Shelf:
    """Things by their places, each with its name; `bad` are not given, `lacking` are in no list and no news."""

    tells = False

    def __init__(self, *names: str, moving: bool = False) -> None:
        self.things = {f"shelf/{name}": name for name in names}
        self.bad: set[str] = set()
        self.lacking: set[str] = set()
        self.asked: list[str] = []
        self._moving = moving

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        seen = list(cursor.get("seen", ()))
        new = [place for place in sorted(self.things) if place not in seen and place not in self.lacking]
        if new:
            yield self._batch({"seen": [*seen, *new]}, new)

    async def ids(self) -> AsyncGenerator[port.Page]:
        listed = tuple(place for place in sorted(self.things) if place not in self.lacking)
        yield port.Page(listed, last=True, moving=self._moving)

    async def fetch(self, places: Sequence[str]) -> AsyncGenerator[port.Batch]:
        self.asked += places
        yield self._batch({}, [place for place in places if place in self.things])

    def _batch(self, cursor: port.Cursor, places: Sequence[str]) -> port.Batch:
        given = tuple(_item(self.things[place], place) for place in places if place not in self.bad)
        failures = tuple(
            port.Failure(place, f"Mail {self.things[place]}", "It is not given.", place)
            for place in places
            if place in self.bad
        )
        return port.Batch(cursor, "", given, failures)


def _item(name: str, place: str) -> port.Item:
    return port.Item(
        name, "v", pendingtask.Type.EMAIL, f"email::{name}", f"Mail {name}", "Text.", editable=False, place=place,
        left_out=("a.bin: it is too large",) if name == "b" else (),
    )  # fmt: skip


@contextlib.asynccontextmanager
async def standing(shelf: Shelf) -> AsyncIterator[test_sweep.Rig]:
    async with test_sweep.rig(1) as one:
        one.polls._opens = {connection.Type.EMAIL: lambda *_: shelf}
        yield one


async def state(one: test_sweep.Rig) -> State:
    return (await one.assigned.states())[one.uid][2]


async def test_what_could_not_be_read_is_asked_for_again_more_and_more_rarely() -> None:
    shelf = Shelf("a", "b", "c")
    shelf.bad = {"shelf/b"}
    async with standing(shelf) as one:
        begun = one.now
        await one.round()
        assert [(failed.title, failed.reason) for failed in (await state(one)).failed] == [
            ("Mail b", "It is not given.")
        ]
        asked_at = list[float]()
        while len(asked_at) < 4:
            before = len(shelf.asked)
            await one.round()
            if len(shelf.asked) > before:
                asked_at.append((one.now - begun).total_seconds())
        waits = [after - before for before, after in itertools.pairwise(asked_at)]
        first = items.READ_AGAIN.delay(1)
        assert first <= asked_at[0] < first + 200
        assert all(0 <= wait - items.READ_AGAIN.delay(tries) < 200 for tries, wait in enumerate(waits, 2))
        assert shelf.asked == ["shelf/b"] * 4
        again = (await state(one)).failed[0]
        assert again.retry_at is not None
        shelf.bad = set()
        one.now = again.retry_at
        await one.round()
        assert (await state(one)).failed == ()
        assert sorted(one.world.created) == ["email::a", "email::b", "email::c"]


async def test_a_person_has_it_asked_for_at_once() -> None:
    shelf = Shelf("a", "b")
    shelf.bad = {"shelf/b"}
    async with standing(shelf) as one:
        await one.round()
        shelf.bad = set()
        await one.round()
        assert shelf.asked == []
        await one.assigned.want(parts.connected("site", uid=one.uid, annotations={"jervis.dev/retry-requested": "1"}))
        claim = await parts.claimed(one.assigned, one.now + timedelta(hours=1))
        await one.polls.serve(claim)
        assert shelf.asked == ["shelf/b"]
        assert (await state(one)).failed == ()


async def test_what_the_news_and_the_list_lack_is_neither_skipped_nor_deleted() -> None:
    shelf = Shelf("a", "b", "c", "d")
    async with standing(shelf) as one:
        shelf.lacking = {"shelf/d"}
        await one.swept()
        shelf.lacking = {"shelf/b"}
        ended = await one.swept()
        assert (ended.outcome, ended.missing) == (SWEPT, 0), "it is still given by its place"
        assert sorted(one.world.created) == ["email::a", "email::b", "email::c", "email::d"]
        del shelf.things["shelf/b"]
        ended = await one.swept()
        assert (ended.missing, ended.removed) == (1, 1)


async def test_a_list_that_lacks_many_things_which_are_given_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sources.core.sweep.MOST_ASKED", 2)
    shelf = Shelf(*"abcdefgh")
    async with standing(shelf) as one:
        await one.swept()
        shelf.lacking = {f"shelf/{name}" for name in "abcd"}
        ended = await one.swept()
        assert ended.outcome == BROKEN
        assert "gives by their places" in ended.message
        for place in shelf.lacking:
            del shelf.things[place]
        ended = await one.swept()
        assert (ended.outcome, ended.removed) == (SWEPT, 4)


@pytest.mark.parametrize(("title", "stays"), [("a", True), ("z", False)])
async def test_what_moved_to_where_it_cannot_be_read_stays(title: str, stays: bool) -> None:
    shelf = Shelf("a", "b", "c", moving=True)
    async with standing(shelf) as one:
        await one.swept()
        del shelf.things["shelf/a"]
        shelf.things["other/place"] = title
        shelf.bad = {"other/place"}
        ended = [await one.swept() for _ in range(3)]
        assert [each.removed for each in ended] == ([0, 0, 0] if stays else [1, 0, 0])
        del shelf.things["other/place"]
        ended = [await one.swept() for _ in range(2)]
        assert sum(each.removed for each in ended) == (2 if stays else 1), "with the failure, which is gone too"


async def test_the_last_items_are_shown_with_what_was_left_out_of_them() -> None:
    async with standing(Shelf("a", "b")) as one:
        await one.round()
        await one.round()
        latest = (await state(one)).latest
        assert [(each.title, each.urn, each.left_out) for each in latest] == [
            ("Mail b", "email::b", ("a.bin: it is too large",)),
            ("Mail a", "email::a", ()),
        ]
        row = await one.database["source_items"].find_one({"sourceId": "b"})
        assert row["leftOut"] == ["a.bin: it is too large"]


async def test_all_items_are_listed_by_the_api_with_what_failed(tmp_path: Path) -> None:
    shelf = Shelf("a", "b", "c")
    shelf.bad = {"shelf/c"}
    digest = hashlib.sha256(b"a token of the file").hexdigest()
    (tmp_path / "tokens.yaml").write_text(f"tokens: [{{name: hooks, sha256: {digest}, scopes: [{{clientId: acme}}]}}]")
    book = token_file.Book(tmp_path / "tokens.yaml")
    async with standing(shelf) as one:
        await one.round()
        served = item_listing.ItemListing(one.database, one.assigned).served
        async with serving.serving(served, token="a token of the file", book=book) as client:

            async def ask(**query: str) -> Any:
                return await client.get("/api/v1/connections/site/items", params={"namespace": "here", **query})

            everything = (await ask()).json()
            assert sorted(row["state"] for row in everything["items"]) == ["failed", "indexed", "indexed"]
            assert everything["truncated"] is False
            [failed] = (await ask(state="failed")).json()["items"]
            assert (failed["title"], failed["reason"]) == ("Mail c", "It is not given.")
            assert failed["triedAgainAt"]
            lacking = {row["title"]: row["leftOut"] for row in (await ask(state="indexed")).json()["items"]}
            assert lacking == {"Mail a": [], "Mail b": ["a.bin: it is too large"]}
            first = (await ask(limit="1")).json()
            assert (len(first["items"]), first["truncated"]) == (1, True)
            assert (await ask(before=first["items"][0]["foundAt"])).json()["items"] == []
            for wrong in ({"state": "odd"}, {"before": "now"}, {"limit": "0"}, {"limit": "501"}):
                answer = await ask(**wrong)
                assert (answer.status_code, answer.json()["error"]["field"]) == (422, next(iter(wrong)))
            assert (
                await client.get("/api/v1/connections/other/items", params={"namespace": "here"})
            ).status_code == 404
