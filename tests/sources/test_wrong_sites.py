"""Jira, Confluence, GitHub, GitLab and meetings with one thing that is not as it should be: it is named, all others are
read, and neither a short list nor an error in its place is believed."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from bench.connectors import meetings as meeting_site
from contracts import mongo_collections
from sources.core import assignments, port
from sources.providers.meetings import reading as meeting
from sources.providers.meetings import store
from tests.sources import confluence_server, jira_server, parts, reading
from tests.sources.forge import REPOSITORY, Forge
from tests.sources.test_forges import tracker

HOSTS = ("GitHub", "GitLab")
PRODUCTS = [(kind, cloud) for kind in ("Jira", "Confluence") for cloud in (True, False)]


def titles(items: list[port.Item]) -> list[str]:
    return sorted(one.title.rpartition("Issue ")[2] for one in items)


def forge_of(count: int) -> Forge:
    forge = Forge()
    for number in range(1, count + 1):
        forge.create(f"Issue {number}")
        forge.say(number, "A comment")
        forge.tick(30)
    forge.tick(600)
    return forge


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("how", ["error", "foreign"])
async def test_an_issue_that_the_host_does_not_give_is_one_failure(host: str, how: str) -> None:
    async with forge_of(4).serving() as forge:
        forge.bad = {2: how}
        items, [failure], cursor = await reading.read(tracker(forge, host))
        assert titles(items) == ["1", "3", "4"]
        assert failure.place == f"{REPOSITORY}#2"
        assert failure.title == ("Issue 2" if how == "error" else failure.place)
        assert (await reading.read(tracker(forge, host), cursor))[:2] == ([], [])
        assert failure.place in await reading.listed(tracker(forge, host))
        forge.bad = {}
        [batch] = [batch async for batch in tracker(forge, host).fetch([failure.place, f"{REPOSITORY}#99"])]
        assert (titles(list(batch.items)), batch.failures) == (["2"], ())


@pytest.mark.parametrize("host", HOSTS)
async def test_a_host_that_fails_at_every_issue_fails_itself(host: str) -> None:
    async with forge_of(6).serving() as forge:
        forge.bad = dict.fromkeys(range(1, 7), "error")
        with pytest.raises(port.Unreachable, match="cannot be rendered"):
            await reading.read(tracker(forge, host))


@pytest.mark.parametrize("host", HOSTS)
async def test_a_list_of_issues_that_is_shorter_than_its_count_is_not_believed(host: str) -> None:
    async with forge_of(5).serving() as forge:
        forge.hidden = {2}
        with pytest.raises(port.Unreachable, match="changes while it is read"):
            await reading.listed(tracker(forge, host))


@pytest.mark.parametrize("host", HOSTS)
async def test_an_entry_that_is_none_stops_no_list(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Forge._page

    def with_null(self: Forge, request: web.Request, rows: list[Any], total: bool) -> web.Response:
        return page(self, request, [None, *rows] if request.path.endswith("issues") else rows, total)

    async with forge_of(3).serving() as forge:
        monkeypatch.setattr(Forge, "_page", with_null)
        items, failures, _ = await reading.read(tracker(forge, host))
        assert titles(items) == ["1", "2", "3"]
        assert [failure.reason.partition(":")[0] for failure in failures] == [
            "The host lists it without a number or a time"
        ]


@pytest.mark.parametrize("host", HOSTS)
async def test_pages_are_read_where_a_proxy_takes_their_links_away(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Forge._page

    def unlinked(self: Forge, request: web.Request, rows: list[Any], total: bool) -> web.Response:
        answer = page(self, request, rows, total)
        answer.headers.popall("Link", None)
        return answer

    forge = Forge()
    for number in range(130):
        forge.create(f"Issue {number}")
        forge.tick(30)
    async with forge.serving():
        monkeypatch.setattr(Forge, "_page", unlinked)
        items, _, _ = await reading.read(tracker(forge, host))
        assert len({item.place for item in items}) == 130


def site(kind: str, cloud: bool) -> Any:
    return (jira_server.Jira if kind == "Jira" else confluence_server.Confluence)(random.Random(1), cloud=cloud)


def names(items: list[port.Item]) -> set[str]:
    return {item.urn.rpartition(":")[2] for item in items}


def place_of(kind: str, one: Any) -> str:
    return one.key if kind == "Jira" else str(one.id)


@pytest.mark.parametrize(("kind", "cloud"), PRODUCTS)
async def test_a_listed_thing_without_a_time_is_one_failure(
    kind: str, cloud: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(kind, cloud).serving() as server:
        things = [server.put() for _ in range(4)]
        shown = server._listed if kind == "Jira" else server._wire

        def foreign(one: Any, asked: Any) -> dict[str, Any]:
            row: dict[str, Any] = shown(one, asked)
            number = one if kind == "Jira" else one.id
            if number == things[1].id and ("updated" in asked or "container" in asked):
                row |= {"fields": None, "version": None}
            return row

        monkeypatch.setattr(server, "_listed" if kind == "Jira" else "_wire", foreign)
        items, failures, _ = await reading.changes(server)
        assert names(items) == {place_of(kind, things[number]) for number in (0, 2, 3)}
        assert {failure.source_id for failure in failures} == {str(things[1].id)}
        assert all("lists it without" in failure.reason for failure in failures)


@pytest.mark.parametrize(("kind", "cloud"), PRODUCTS)
async def test_comments_that_cannot_be_given_cost_one_thing_and_not_the_others(
    kind: str, cloud: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(kind, cloud).serving() as server:
        things = [server.put() for _ in range(4)]
        for thing in things:
            for _ in range(4):
                if kind == "Jira":
                    server.comment(thing, "Text")
                else:
                    server.put("OPS", kind="comment", parent=thing.id)
        answer = type(server).answer

        async def failing(self: Any, request: web.Request, path: str) -> Any:
            cql, bad = request.query.get("cql", ""), things[2].id
            if path.endswith(f"issue/{bad}/comment") or ("type = comment" in cql and str(bad) in cql):
                return web.json_response({"message": "cannot be rendered"}, status=500)
            return await answer(self, request, path)

        with monkeypatch.context() as patched:
            patched.setattr(type(server), "answer", failing)
            items, [failure], cursor = await reading.changes(server)
            assert names(items) == {place_of(kind, things[number]) for number in (0, 1, 3)}
            assert place_of(kind, things[2]) in failure.place
            assert failure.title
            assert (await reading.changes(server, cursor))[1] == [], "the cursor has passed it"
        [batch] = [batch async for batch in reading.site(server).fetch([failure.place])]
        assert names(list(batch.items)) == {place_of(kind, things[2])}


@pytest.mark.parametrize(("kind", "cloud"), PRODUCTS)
async def test_an_error_that_is_answered_by_200_is_no_list(
    kind: str, cloud: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(kind, cloud).serving() as server:
        server.put()
        answer = type(server).answer

        async def error(self: Any, request: web.Request, path: str) -> Any:
            if "search" in path and "project" not in path:
                return web.json_response({"errorMessages": ["not now"], "total": 0})
            return await answer(self, request, path)

        monkeypatch.setattr(type(server), "answer", error)
        with pytest.raises(port.Unreachable, match="answered no list"):
            await reading.changes(server)
        with pytest.raises(port.Unreachable, match="answered no list"):
            await reading.places(server)


@pytest.mark.parametrize("kind", ["Jira", "Confluence"])
async def test_pages_that_lead_in_a_circle_end(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(kind, True).serving() as server:
        for _ in range(4):
            server.put()
        answer = type(server).answer

        async def circling(self: Any, request: web.Request, path: str) -> Any:
            reply = await answer(self, request, path)
            if "jql" in path:
                return web.json_response({"issues": [], "isLast": False, "nextPageToken": "again"})
            if "content/search" in path:
                link = f"/rest/api/content/search?{request.query_string}"
                return web.json_response({"results": [], "_links": {"next": link}})
            return reply

        monkeypatch.setattr(type(server), "answer", circling)
        with pytest.raises(port.Unreachable, match="in a circle"):
            await reading.places(server)


@pytest.mark.parametrize(("kind", "cloud"), PRODUCTS)
async def test_what_is_asked_for_by_its_place_is_what_the_list_admits(kind: str, cloud: bool) -> None:
    async with site(kind, cloud).serving() as server:
        inside, outside = (
            server.put("JERV" if kind == "Jira" else "DEV"),
            server.put("SHOP" if kind == "Jira" else "OPS"),
        )
        server.settle()
        chosen = {"include": ["JERV" if kind == "Jira" else "DEV"]}
        listed, _ = await reading.places(server)
        batches = [batch async for batch in reading.site(server, chosen).fetch(sorted(listed))]
        items = [item for batch in batches for item in batch.items]
        assert names(items) == {place_of(kind, inside)} != {place_of(kind, outside)}


@pytest.mark.services
async def test_a_meeting_whose_transcript_is_gone_stops_no_other() -> None:
    async with parts.database() as database:
        assigned = assignments.Assignments(database)
        await assigned.prepare()
        await assigned.want(parts.connected("source", type="Meeting", url="https://meetings.example"))
        made = meeting_site.Meetings(1, database)
        for number in range(3):
            await made._new(f"word{number}", pending=False)
        stored = store.Meetings(database)
        first = min(made._said)
        await database[mongo_collections.TRANSCRIPTS].delete_one({"_id": first})
        claim = await parts.claimed(assigned, datetime(2026, 11, 26, tzinfo=UTC))
        items, [failure], _ = await reading.read(meeting.Meetings(stored, claim))
        assert len(items) == 2
        assert (failure.place, failure.title) == (first, f"Standup {made._said[first][0]}")
