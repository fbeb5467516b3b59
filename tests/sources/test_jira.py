"""Jira against a server that behaves as its API pages say, Cloud and Data Center."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds import access, connection, pendingtask
from kb import api
from sources.core import limits, port
from sources.providers.atlassian import sites as atlassian
from sources.providers.jira import reading as jira
from tests.sources.jira_server import Jira
from tests.sources.reading import TLS, places
from tests.sources.reading import changes as read
from tests.sources.reading import site as poll


def site(**more: Any) -> Jira:
    return Jira(random.Random(1), **more)


def keys(items: list[port.Item]) -> list[str]:
    return [one.urn.removeprefix("jira::") for one in items]


@pytest.mark.parametrize("cloud", [True, False])
async def test_every_issue_once_and_then_what_changed(cloud: bool) -> None:
    async with site(cloud=cloud).serving() as server:
        made = []
        for _ in range(25):
            made.append(server.put())
            server.now += timedelta(seconds=20)
        items, failures, cursor = await read(server, size=4)
        assert keys(items) == [one.key for one in made]
        assert failures == []
        assert (await read(server, cursor, size=4))[:2] == ([], [])
        server.now += timedelta(minutes=2)
        server.touch(made[3], summary="Changed")
        items, _, cursor = await read(server, cursor, size=4)
        assert keys(items) == [made[3].key]
        assert items[0].title == f"{made[3].key} Changed"
        assert items[0].type is pendingtask.Type.BUG_TRACKER
        assert await places(server, ids_size=10) == (
            {f"JERV/{one.id}/{one.key}" for one in made},
            port.Page((), last=True, within=frozenset({"JERV", "SHOP", "SEC"})),
        )


@pytest.mark.parametrize("cloud", [True, False])
async def test_the_list_costs_the_items_by_pages(cloud: bool) -> None:
    async with site(cloud=cloud, page=10).serving() as server:
        for _ in range(35):
            server.put()
        server.requests.clear()
        await places(server, ids_size=10)
        assert sum("search" in one and "project" not in one for one in server.requests) == 4


@pytest.mark.parametrize("cloud", [True, False])
async def test_many_changes_within_one_minute_are_read_by_pages(cloud: bool) -> None:
    async with site(cloud=cloud).serving() as server:
        made = [server.put() for _ in range(30)]
        assert sorted(keys((await read(server, size=4))[0])) == sorted(one.key for one in made)


@pytest.mark.parametrize("zone", ["Europe/Prague", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati"])
async def test_queries_are_in_the_zone_of_the_user(zone: str) -> None:
    """In the night in which the clock shows an hour twice."""
    async with site(zone=zone).serving() as server:
        cursor: port.Cursor = {}
        for _ in range(40):
            server.now += timedelta(minutes=7)
            one = server.put()
            items, _, cursor = await read(server, cursor)
            assert keys(items) == [one.key]


async def test_without_a_zone_every_minute_is_asked_for_early() -> None:
    async with site(zone="Pacific/Kiritimati").serving() as server:
        server.zone_name = None
        cursor: port.Cursor = {}
        for _ in range(5):
            server.now += timedelta(hours=1)
            one = server.put()
            items, _, cursor = await read(server, cursor)
            assert keys(items) == [one.key]


async def test_a_change_that_search_shows_late_is_found() -> None:
    async with site().serving() as server:
        server.late = timedelta(minutes=12)
        first = server.put()
        server.pending[-1] = (server.now + timedelta(minutes=12), first.id)
        server.now += timedelta(minutes=11)
        server.late = timedelta(0)
        second = server.put()
        items, _, cursor = await read(server)
        assert keys(items) == [second.key]
        server.now += timedelta(minutes=2)
        assert keys((await read(server, cursor))[0]) == [first.key]


async def test_a_token_that_expired_begins_the_list_again() -> None:
    async with site().serving() as server:
        made = [server.put() for _ in range(12)]
        server.token_life = -1
        with pytest.raises(jira.Shifted):
            await read(server, size=5)
        server.token_life = 10**9
        spoiled = list[bool]()

        def spoil() -> None:
            if server.tokens and not spoiled:
                server.tokens.clear()
                spoiled.append(True)

        server.meanwhile = spoil
        assert sorted(keys((await read(server, size=5))[0])) == sorted(one.key for one in made)
        assert spoiled


async def test_a_server_that_fails_at_everything_makes_no_failures() -> None:
    async with site().serving() as server:
        for one in [server.put() for _ in range(9)]:
            server.poison.add(one.id)
        server.poison_status = 500
        with pytest.raises(port.Unreachable):
            await read(server)


async def test_what_is_read_before_a_project_that_is_not_there_is_kept() -> None:
    async with site().serving() as server:
        ours, _ = server.put("JERV"), server.put("SEC")
        server.unseen = {"SEC"}
        items = []
        with pytest.raises(port.Misconfigured, match="'SEC'"):  # noqa: PT012  # what came before the error counts
            async for batch in poll(server, {"include": ["JERV", "SEC"]}).batches({}):
                items += batch.items
        assert keys(items) == [ours.key]


async def test_a_move_keeps_the_identity_and_changes_the_urn() -> None:
    async with site().serving() as server:
        one = server.put()
        [before], _, cursor = await read(server)
        server.now += timedelta(minutes=1)
        server.move(one, "SHOP")
        [after], _, _ = await read(server, cursor)
        assert before.source_id == after.source_id == str(one.id)
        assert (before.urn, after.urn) == ("jira::JERV-1", f"jira::{one.key}")
        assert before.version != after.version
        assert (await places(server))[0] == {after.place} != {before.place}


async def test_what_was_not_taken_is_fetched_by_its_place() -> None:
    async with site().serving() as server:
        one = server.put()
        _, _, cursor = await read(server)
        one.hidden = True
        server.now += timedelta(hours=3)
        server.put()
        _, _, cursor = await read(server, cursor)
        one.hidden = False
        assert (await read(server, cursor))[0] == []
        found = [batch async for batch in poll(server).fetch([f"JERV/{one.id}/{one.key}", "JERV/99/JERV-99"])]
        assert keys([item for batch in found for item in batch.items]) == [one.key]


@pytest.mark.parametrize(
    ("credentials", "sent"),
    [
        ({"username": "u", "token": "t"}, "Basic dTp0"),
        ({"username": "u", "password": "t"}, "Basic dTp0"),
        ({"token": "pat"}, "Bearer pat"),
    ],
)
def test_credentials(credentials: dict[str, str], sent: str) -> None:
    spec = connection.Spec.model_validate(
        {"type": "Jira", "clientId": "a", "url": "https://h.example", "secretRef": {"name": "s"}}
    )
    opens = atlassian.opened(True, TLS, lambda: 0.0, lambda: datetime.now(UTC))
    assert opens(spec, credentials, limits.Bucket(60, 1))()._headers["Authorization"] == sent
    with pytest.raises(port.Misconfigured, match="lacks 'token'"):
        opens(spec, {"username": "u"}, limits.Bucket(60, 1))


BLOCKS = {"name": "Blocks", "inward": "is blocked by", "outward": "blocks"}


def person(number: int, name: str) -> dict[str, str]:
    return {"accountId": f"acc-{number}", "displayName": name, "emailAddress": f"{name.lower()}@acme.example"}


@pytest.mark.parametrize("cloud", [True, False])
async def test_an_issue_has_its_text_its_facts_and_its_files(cloud: bool) -> None:
    async with site(cloud=cloud, zone="Europe/Prague").serving() as server:
        server.custom = [
            {"id": "customfield_1", "schema": {"custom": "com.pyxis.greenhopper.jira:gh-sprint"}},
            {"id": "customfield_2", "schema": {"custom": "com.pyxis.greenhopper.jira:gh-epic-link"}},
        ]
        server.files = {"7": b"log", "8": b"x" * 100}
        epic = {"key": "JERV-90", "fields": {"issuetype": {"name": "Epic", "hierarchyLevel": 1}}}
        words = "See src/main/Store.kt and SHOP-5, not UTF-8 or https://x.example/a/b.html."
        document = {"type": "doc", "content": [{"type": "paragraph", "content": [{"type": "text", "text": words}]}]}
        one = server.put(
            summary="It leaks", description=document if cloud else words, issuetype={"name": "Bug"},
            status={"name": "Open"}, priority={"name": "High"}, labels=["a", "b"], components=[{"name": "disk"}],
            duedate="2026-12-01", parent=epic, assignee=person(1, "Jana"), reporter=person(2, "Petr"),
            customfield_1=[{"name": "Sprint 7"}], security={"id": "10100", "name": "Staff"},
            issuelinks=[
                {"type": BLOCKS, "outwardIssue": {"key": "JERV-2"}},
                {"type": BLOCKS, "inwardIssue": {"key": "JERV-3"}},
                {"type": {"name": "Relates", "outward": "relates to"}, "outwardIssue": {"key": "SHOP-9"}},
            ],
            attachment=[
                {"id": "7", "filename": "app.log", "mimeType": "text/plain", "size": 3},
                {"id": "8", "filename": "big.bin", "mimeType": "what", "size": atlassian.FILE_BYTES + 1},
            ],
        )  # fmt: skip
        for number in range(8):
            server.comment(one, f"Comment {number}.")
        server.comment(one, "For the role only.", visibility={"type": "role", "value": "Admins"})
        [item], failures, _ = await read(server)
        assert failures == []
        for said in (
            "Key: JERV-1", "Summary: It leaks", "Type: Bug", "Status: Open", "Priority: High", "Labels: a, b",
            "Assignee: Jana", "Reporter: Petr", "Epic: JERV-90", "Sprint: Sprint 7", "Due: 2026-12-01", words,
            "Link: blocks JERV-2", "Link: is blocked by JERV-3", "app.log, big.bin (not taken:",
            "[1 comments are shown to a role or a group only and are left out.]",
        ):  # fmt: skip
            assert said in item.text
        assert [line for line in item.text.splitlines() if line.startswith("Comment ") and line[-1] == "."] == [
            f"Comment {number}." for number in range(8)
        ]
        assert "role only" not in item.text
        assert [(file.name, file.media_type, file.body) for file in item.files] == [("app.log", "text/plain", b"log")]
        assert item.access == access.restricted(["group:jira-level:10100"])
        assert item.facts is not None
        nodes = {node.key: node for node in item.facts.nodes}
        assert dict(nodes["jira::JERV-1"].properties) == {
            "key": "JERV-1", "summary": "It leaks", "issueType": "Bug", "status": "Open", "priority": "High",
            "assignee": "Jana", "reporter": "Petr", "labels": ["a", "b"], "components": ["disk"], "sprint": "Sprint 7",
            "epic": "JERV-90", "parent": "JERV-90", "created": "2026-10-25T00:00:00Z",
            "updated": "2026-10-25T00:00:00Z", "duedate": "2026-12-01", "description": words,
        }  # fmt: skip
        comments = [node for node in item.facts.nodes if node.type == "jira_comment"]
        assert len(comments) == 8
        assert comments[0].key.startswith("jira_comment::JERV-1-")
        assert set(comments[0].properties) == {"author", "body", "createdAt", "updatedAt"}
        assert dict(nodes["user:acc-2"].properties) == {
            "accountId": "acc-2",
            "name": "Petr",
            "email": "petr@acme.example",
        }
        edges = {(one.source, one.type, one.target) for one in item.facts.relationships}
        assert edges >= {
            ("jira::JERV-1", "blocks", "jira::JERV-2"), ("jira::JERV-3", "blocks", "jira::JERV-1"),
            ("jira::JERV-1", "relates_to", "jira::SHOP-9"), ("jira::JERV-1", "assigned_to", "user:acc-1"),
            ("jira::JERV-1", "reported_by", "user:acc-2"), ("jira::JERV-1", "in_epic", "jira::JERV-90"),
            ("jira::JERV-1", "in_sprint", "sprint:Sprint 7"), ("jira::JERV-1", "references", "jira::SHOP-5"),
            ("jira::JERV-1", "mentions_file", "file:src/main/Store.kt"),
            (comments[0].key, "comments_on", "jira::JERV-1"), (comments[0].key, "written_by", "user:acc-1"),
        }  # fmt: skip
        assert not any("UTF" in target or "b.html" in target for _, _, target in edges)


@pytest.mark.parametrize("year", [2099, 9999])
async def test_a_time_that_is_not_reached_yet_hides_no_change(year: int) -> None:
    """Of an import, or of a clock that was wrong once."""
    async with site().serving() as server:
        server.now = datetime.now(UTC)
        one, other = server.put(), server.put()
        one.updated = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
        server.touch(other)
        server.index[one.id] = (one.key, one.updated)
        items, _, cursor = await read(server)
        assert sorted(keys(items)) == sorted([one.key, other.key])
        server.now += timedelta(minutes=1)
        server.touch(other, summary="Changed")
        items, _, cursor = await read(server, cursor)
        assert keys(items) == [other.key]
        assert (await read(server, cursor))[:2] == ([], [])


async def test_an_issue_of_any_size_is_a_task_whose_facts_the_knowledge_base_takes() -> None:
    async with site().serving() as server:
        long = "/".join(["folder"] * 300) + "/Store.kt"
        one = server.put(
            summary="S" * 5000,
            description=f"See {long} and src/Store.kt",
            labels=[f"label-{number}" for number in range(300)],
            components=[{"name": "c" * 5000}],
            assignee={"accountId": "a" * 2000, "displayName": "Long"},
            customfield_1=[{"name": "Sprint " * 500}],
            issuelinks=[{"type": {"outward": "blocks " * 40}, "outwardIssue": {"key": "JERV-9"}}],
        )
        server.custom = [{"id": "customfield_1", "schema": {"custom": "com.pyxis.greenhopper.jira:gh-sprint"}}]
        server.comment(one, "From an import", created="9999-12-31T23:59:59.000-1200")
        [item], failures, _ = await read(server)
        assert failures == []
        assert item.facts is not None
        for node in item.facts.nodes:
            api.GivenNode.model_validate(node.wire())
        for edge in item.facts.relationships:
            api.GivenRelationship.model_validate(edge.wire())
        targets = [edge.target for edge in item.facts.relationships]
        assert "file:src/Store.kt" in targets
        assert not any(target.startswith("file:folder") for target in targets)
        assert len(item.facts.nodes[0].properties["labels"]) == 200
        assert "label-299" in item.text, "what the facts leave out is in the text"


@pytest.mark.parametrize("cloud", [True, False])
async def test_of_very_many_comments_the_newest_are_read_and_the_text_says_so(
    cloud: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jira, "MOST_COMMENTS", 10)
    async with site(cloud=cloud).serving() as server:
        one = server.put()
        for number in range(25):
            server.comment(one, f"Comment {number:03}")
        [item], _, _ = await read(server)
        said = [line for line in item.text.splitlines() if line.startswith("Comment 0")]
        assert said == [f"Comment {number:03}" for number in range(15, 25)]
        assert "[15 older comments are left out: there are too many.]" in item.text
        assert sum("/comment" in path for path in server.requests) == 4, "pages of three"
        server.comment(one, "Comment 025")
        assert item.version != (await read(server))[0][0].version


async def test_very_large_comments_are_read_up_to_a_bound_and_the_text_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jira, "COMMENT_BYTES", 65_000)
    async with site().serving() as server:
        one = server.put()
        for number in range(25):
            server.comment(one, f"Comment {number:03}" + "x" * 10_000)
        [item], _, _ = await read(server)
        assert [line[:11] for line in item.text.splitlines() if line.startswith("Comment 0")] == [
            f"Comment {number:03}" for number in range(19, 25)
        ]
        assert "[19 older comments are left out: there are too many.]" in item.text
        assert sum("/comment" in path for path in server.requests) == 9, "pages of three"


async def test_a_list_of_projects_without_an_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atlassian, "MOST_PLACES", 20)
    async with site().serving() as server:

        class Endless(list[dict[str, str]]):
            def __len__(self) -> int:
                return 1 << 30

            def __getitem__(self, _: Any) -> Any:
                return [{"id": "1", "key": "JERV", "name": "J"}] * 2

        server._projects = Endless  # type: ignore[method-assign]
        with pytest.raises(port.Misconfigured, match="more than 20 projects"):
            await read(server)
        assert sum("project/search" in path for path in server.requests) == 11


async def test_a_text_has_a_bound_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atlassian, "TEXT_CHARS", 5000)
    async with site().serving() as server:
        server.put(description="word " * 2000)
        [item], _, _ = await read(server)
        assert len(item.text) < 5100
        assert item.text.endswith("[The text is longer; the rest is left out.]\n")


async def test_an_issue_that_cannot_be_read_is_a_failure() -> None:
    async with site().serving() as server:
        good, bad = server.put(), server.put(labels=5)
        items, [failure], _ = await read(server)
        assert keys(items) == [good.key]
        assert (failure.title, "cannot be read" in failure.reason) == (f"{bad.key} Issue {bad.id}", True)
