"""Confluence against a server that behaves as its API pages say, Cloud and Data Center."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from crds import access, pendingtask
from sources.core import port
from sources.providers.atlassian import sites as atlassian
from sources.providers.confluence import reading as confluence
from tests.sources.confluence_server import Confluence
from tests.sources.reading import changes as read
from tests.sources.reading import places
from tests.sources.reading import site as poll


def site(**more: Any) -> Confluence:
    return Confluence(random.Random(1), **more)


def ids(items: list[port.Item]) -> list[int]:
    return [int(one.source_id) for one in items]


@pytest.mark.parametrize("cloud", [True, False])
async def test_every_page_once_and_then_what_changed(cloud: bool) -> None:
    async with site(cloud=cloud).serving() as server:
        made = []
        for number in range(12):
            made.append(server.put(kind="blogpost" if number % 5 == 4 else "page"))
            server.now += timedelta(minutes=2)
        draft = server.put(status="draft")
        server.put(status="archived")
        items, failures, cursor = await read(server, size=5)
        assert ids(items) == [one.id for one in made]
        assert failures == []
        assert (await read(server, cursor, size=5))[:2] == ([], [])
        server.edit(made[2], "<p>New.</p>")
        draft.status = "current"
        published, again = sorted((await read(server, cursor, size=5))[0], key=lambda one: -int(one.source_id))
        _, _, cursor = await read(server, cursor, size=5)
        assert published.source_id == str(draft.id)
        assert (again.source_id, again.type) == (str(made[2].id), pendingtask.Type.WIKI)
        assert "New." in again.text
        server.now += timedelta(hours=1)
        comment = server.put(kind="comment", parent=made[0].id, body="<p>Well said.</p>")
        [said], _, cursor = await read(server, cursor, size=5)
        assert said.source_id == str(made[0].id)
        assert "Comment of Jana" in said.text
        server.edit(comment, "<p>Not so.</p>")
        server.put(kind="attachment", parent=made[1].id, title="a.txt", file=b"file")
        first, second = sorted((await read(server, cursor, size=5))[0], key=lambda one: int(one.source_id))
        assert "Not so." in first.text
        assert [(file.name, file.body) for file in second.files] == [("a.txt", b"file")]
        wanted = {f"OPS/{one.id}" for one in [*made, draft]}
        last = port.Page((), last=True, within=frozenset({"DEV", "OPS", "SEC"}))
        assert await places(server, ids_size=5) == (wanted, last)


@pytest.mark.parametrize("cloud", [True, False])
async def test_the_list_costs_the_items_by_pages(cloud: bool) -> None:
    async with site(cloud=cloud).serving() as server:
        top = server.put()
        for _ in range(34):
            server.put(parent=top.id)
        server.requests.clear()
        await places(server, ids_size=10)
        assert sum(one.endswith("search") for one in server.requests) == 4
        top.hidden = True
        server.requests.clear()
        await places(server, ids_size=10)
        assert sum(one.endswith("search") for one in server.requests) == 4 + 1, "the page above is asked for once"


@pytest.mark.parametrize("zone", ["Europe/Prague", "Asia/Kolkata", "Pacific/Kiritimati"])
@pytest.mark.parametrize("cloud", [True, False])
async def test_queries_are_in_the_zone_of_the_user(zone: str, cloud: bool) -> None:
    """Data Center does not tell it: then every minute is asked for early."""
    async with site(zone=zone, cloud=cloud).serving() as server:
        cursor: port.Cursor = {}
        for _ in range(25):
            server.now += timedelta(minutes=7)
            one = server.put()
            items, _, cursor = await read(server, cursor)
            assert ids(items) == [one.id]


async def test_a_list_that_shifts_is_no_complete_list() -> None:
    async with site(cloud=False).serving() as server:
        made = [server.put() for _ in range(10)]
        listing = poll(server, ids_size=4).ids()
        first = await anext(listing)
        made[0].status = "trashed"
        with pytest.raises(port.Unreachable, match="changed while it was read"):
            await anext(listing)
        assert len(first.places) == 4


async def test_what_has_no_new_time_is_fetched_by_its_place() -> None:
    """A move to another space and a restoration leave the version as it is."""
    async with site().serving() as server:
        moved, restored = server.put(), server.put(status="trashed")
        [before], _, cursor = await read(server)
        server.now += timedelta(hours=1)
        server.put()
        _, _, cursor = await read(server, cursor)
        server.move(moved, "DEV")
        restored.status = "current"
        assert (await read(server, cursor))[0] == []
        listed = (await places(server))[0]
        assert listed >= {f"DEV/{moved.id}", f"OPS/{restored.id}"}
        found = [batch async for batch in poll(server).fetch([f"DEV/{moved.id}", f"OPS/{restored.id}", "OPS/9"])]
        after, other = [item for batch in found for item in batch.items]
        assert (before.urn, after.urn) == (f"confluence::OPS::{moved.id}", f"confluence::DEV::{moved.id}")
        assert before.version != after.version
        assert other.source_id == str(restored.id)


async def told(server: Confluence) -> dict[str, access.Access]:
    """What the list says about who may read what."""
    found: dict[str, access.Access] = {}
    async for page in poll(server, ids_size=3).ids():
        found |= page.access
    return found


@pytest.mark.parametrize("cloud", [True, False])
async def test_who_may_read_it(cloud: bool) -> None:
    async with site(cloud=cloud).serving() as server:
        top = server.put(readers={"user": ["a", "b"], "group": ["g"]})
        middle = server.put(parent=top.id)
        leaf = server.put(parent=middle.id, readers={"user": ["b", "c"]})
        users = server.put(readers={"user": ["a", "b"]})
        below = server.put(parent=users.id, readers={"user": ["b"]})
        one_group = server.put(parent=top.id, readers={"group": ["g"]})
        no_one = server.put(parent=users.id, readers={"user": ["C d"]})
        plain = server.put()
        many = server.put(readers={"user": [f"u{number}" for number in range(120)]})
        under = server.put(parent=many.id, readers={"user": ["u1"]})
        hidden = server.put(hidden=True)
        lost = server.put(parent=hidden.id)
        found = {int(one.source_id): one.access for one in (await read(server))[0]}

        def known(*names: str) -> access.Access:
            return access.restricted(names)

        assert found[top.id] == found[middle.id] == known("user:a", "user:b", "group:g")
        assert found[leaf.id] == access.UNKNOWN, "who is in the group is not known"
        assert found[below.id] == known("user:b")
        assert found[one_group.id] == known("group:g"), "all of them are let in by the page above too"
        assert found[no_one.id] == known()
        assert found[plain.id] == known("group:confluence-space:ops")
        assert found[lost.id] == access.UNKNOWN, "the page above may be restricted"
        assert found[many.id] == found[under.id] == access.UNKNOWN, "not all of its readers are listed"
        assert await told(server) == {f"OPS/{name}": said for name, said in found.items()}, "the list says the same"


async def test_of_very_many_comments_the_newest_are_read_and_the_text_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluence, "PARTS_BYTES", 50_000)
    async with site().serving() as server:
        full, other = server.put(), server.put()
        for number in range(20):
            server.now += timedelta(minutes=1)
            server.put(kind="comment", parent=full.id, body=f"<p>Comment {number:02}{'x' * 10_000}</p>")
        server.put(kind="comment", parent=other.id, body="<p>Alone</p>")
        items, failures, _ = await read(server, size=3)
        assert failures == []
        found = {one.source_id: one.text for one in items}
        kept = [line[:10] for line in found[str(full.id)].splitlines() if line.endswith("xxx")]
        assert kept == [f"Comment {number:02}" for number in range(16, 20)]
        assert "[16 older comments are left out: there are too many.]" in found[str(full.id)]
        assert "Alone" in found[str(other.id)]
        assert "left out" not in found[str(other.id)]


async def test_links_and_titles_of_any_length_are_no_failure() -> None:
    async with site().serving() as server:
        key = f'<ac:parameter ac:name="key">{"K" * 2000}-1</ac:parameter>'
        link = f'<a href="https://h/wiki/spaces/{"S" * 2000}/pages/5/T">t</a>'
        body = f'<ac:structured-macro ac:name="jira">{key}</ac:structured-macro>{link}'
        server.put(title="T" * 5000, body=body)
        [item], failures, _ = await read(server)
        assert failures == []
        assert item.facts is not None
        assert len(item.facts.nodes[0].properties["title"]) == 4000
        assert [edge.type for edge in item.facts.relationships] == ["written_by"]


async def test_a_page_has_its_text_its_facts_and_its_files() -> None:
    async with site(zone="Europe/Prague").serving() as server:
        top, other = server.put(title="Handbook"), server.put(title="Plan")
        key = '<ac:parameter ac:name="key">JERV-7</ac:parameter>'
        macro = f'<ac:structured-macro ac:name="jira">{key}</ac:structured-macro>'
        one = server.put(
            title="Storage", parent=top.id, labels=["disk"],
            body=f'<p>See <ac:link><ri:page ri:content-title="Plan" /></ac:link> and {macro}, '
            '<a href="https://j.example/browse/SHOP-2">s</a> <a href="https://h/wiki/spaces/DEV/pages/55/T">t</a></p>',
        )  # fmt: skip
        server.put(kind="attachment", parent=one.id, title="big.bin", file=b"x" * (atlassian.FILE_BYTES + 1))
        items, _, _ = await read(server)
        [item] = [each for each in items if each.source_id == str(one.id)]
        assert item.urn == f"confluence::OPS::{one.id}"
        for said in (
            "Title: Storage",
            "Space: OPS",
            "Author: Jana",
            "Path: Handbook",
            "Labels: disk",
            "JERV-7",
            "[Plan]",
        ):
            assert said in item.text
        assert "big.bin (not taken:" in item.text
        assert item.files == ()
        assert item.facts is not None
        page, person = item.facts.nodes
        assert dict(page.properties) == {
            "title": "Storage", "spaceKey": "OPS", "version": 1, "createdAt": "2026-10-25T00:00:00Z",
            "updatedAt": "2026-10-25T00:00:00Z", "authorName": "Jana",
        }  # fmt: skip
        assert dict(person.properties) == {"accountId": "acc-1", "name": "Jana", "email": "jana@acme.example"}
        assert {(each.source, each.type, each.target) for each in item.facts.relationships} == {
            (item.urn, "written_by", "user:acc-1"),
            (item.urn, "child_of", f"confluence::OPS::{top.id}"),
            (item.urn, "references", "jira::JERV-7"),
            (item.urn, "references", "jira::SHOP-2"),
            (item.urn, "references", "confluence::DEV::55"),
            (item.urn, "references", f"confluence::OPS::{other.id}"),
        }
