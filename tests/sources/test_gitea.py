"""Issues of a real Gitea: every version once, every change seen, and no error looks like an empty repository."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from controllers.sources import limits, port, protocols
from controllers.sources.protocols import issues, progress
from crds import access, authorities, connection
from tests.sources import gitea

pytestmark = pytest.mark.services
SETTLED = issues.SETTLED.total_seconds() + 1


@pytest.fixture(scope="module")
def server() -> Iterator[gitea.Gitea]:
    """One for all tests of this file."""
    with gitea.running() as one:
        yield one


class Counted(limits.Bucket):
    """Counts requests; never asks to wait."""

    def __init__(self) -> None:
        super().__init__(6000, 1000)
        self.requests = 0

    def reserve(self, now: float) -> float:
        """A request."""
        self.requests += 1
        return 0.0


def tracker(
    server: gitea.Gitea, *repositories: str, bucket: limits.Bucket | None = None, token: str = "", **chosen: Any
) -> issues.Tracker:
    spec: dict[str, Any] = {
        "type": "Gitea", "clientId": "acme", "secretRef": {"name": "forge"}, "url": f"{server.url}/{repositories[0]}",
        "filter": chosen,
    }  # fmt: skip
    if len(repositories) > 1:
        spec |= {"url": server.url, "filter": chosen | {"include": list(repositories)}}
    opens = protocols.table(
        plain=True, tls=authorities.context(), monotonic=time.monotonic, wall=partial(datetime.now, UTC)
    )
    one = opens[connection.Type.GITEA](
        connection.Spec.model_validate(spec), {"token": token or server.token}, bucket or Counted()
    )
    assert isinstance(one, issues.Tracker)
    return one


async def poll(source: port.Source, cursor: port.Cursor | None = None) -> tuple[list[port.Item], port.Cursor]:
    """The items, each version of one once, as they are stored."""
    items: dict[tuple[str, str], port.Item] = {}
    last: port.Cursor = cursor or {}
    async for batch in source.batches(last):
        assert batch.failures == ()
        items |= {(one.source_id, one.version): one for one in batch.items}
        last = batch.cursor
    return list(items.values()), last


async def places(source: port.Source) -> list[str]:
    pages = [page async for page in source.ids()]
    assert [page.last for page in pages] == [False] * (len(pages) - 1) + [True]
    return [place for page in pages for place in page.places]


def named(items: list[port.Item]) -> list[str]:
    return sorted(one.source_id for one in items)


async def test_every_change_of_an_issue_is_one_new_version(server: gitea.Gitea) -> None:
    repository = server.repository("changes")
    first = server.issue(repository, "The pump leaks", "It drips.")
    second = server.issue(repository, "Another")
    source = partial(tracker, server, repository)
    items, cursor = await poll(source())
    assert named(items) == [f"{repository}#{first}", f"{repository}#{second}"]
    [found] = [one for one in items if one.source_id == f"{repository}#{first}"]
    assert found.urn == f"gitea::{repository}#{first}"
    assert found.text.startswith(
        f"#{first} The pump leaks\nKind: issue\nRepository: {repository}\nState: open\nAuthor: ada"
    )
    seen = {one.version for one in items}

    async def changed() -> port.Item:
        """The one new version, also where Gitea's seconds do not tell it from the one before."""
        nonlocal cursor
        for _ in range(2):
            again, cursor = await poll(source(), cursor)
            new = [one for one in again if one.version not in seen]
            if new:
                break
        assert named(new) == [f"{repository}#{first}"]
        seen.add(new[0].version)
        again, cursor = await poll(source(), cursor)
        assert {one.version for one in again} <= seen
        return new[0]

    server.ask("PATCH", f"repos/{repository}/issues/{first}", json={"title": "The pump leaks oil"})
    assert (await changed()).title == f"#{first} The pump leaks oil"
    comment = server.comment(repository, first, "Since Monday.")
    assert "--- Comment of ada," in (await changed()).text
    server.ask("PATCH", f"repos/{repository}/issues/comments/{comment}", json={"body": "Since Tuesday."})
    assert (await changed()).text.endswith("\nSince Tuesday.")
    label = server.ask("POST", f"repos/{repository}/labels", json={"name": "priority: high", "color": "#ff0000"})
    server.ask("POST", f"repos/{repository}/issues/{first}/labels", json={"labels": [label["id"]]})
    labelled = await changed()
    assert labelled.facts is not None
    assert labelled.facts.nodes[0].properties["priority"] == "high"
    server.ask("POST", f"repos/{repository}/issues/{first}/assets", files={"attachment": ("log.txt", b"error 7")})
    assert [(one.name, one.media_type, one.body) for one in (await changed()).files] == [
        ("log.txt", "text/plain", b"error 7")
    ]
    server.ask(
        "POST", f"repos/{repository}/issues/comments/{comment}/assets", files={"attachment": ("b.png", b"\x89PNG")}
    )
    assert [one.name for one in (await changed()).files] == ["log.txt", "b.png"]
    server.ask("PATCH", f"repos/{repository}/issues/{first}", json={"state": "closed", "assignees": ["ada"]})
    closed = await changed()
    assert "\nState: closed\n" in closed.text
    # Gitea does not time the deletion of a comment.
    server.ask("DELETE", f"repos/{repository}/issues/comments/{comment}")
    without = await changed()
    assert "Comment of" not in without.text
    await asyncio.sleep(SETTLED)
    _, cursor = await poll(source(), cursor)
    assert await poll(source(), cursor) == ([], cursor), "what is settled is asked for no more"
    assert [one.name for one in without.files] == ["log.txt"]


async def test_who_may_read_it(server: gitea.Gitea) -> None:
    repository = server.repository("shown")
    number = server.issue(repository, "One")
    members = access.restricted([f"group:gitea-repo:{repository}"])
    cursor: port.Cursor = {}
    for private in (False, True, False):
        server.ask("PATCH", f"repos/{repository}", json={"private": private})
        items, cursor = await poll(tracker(server, repository), cursor)
        said = {one.source_id: one.access for one in items}
        assert said == {f"{repository}#{number}": members if private else access.PUBLIC}


async def test_what_its_fields_and_its_text_say_are_facts(server: gitea.Gitea) -> None:
    repository = server.repository("facts")
    body = (
        "Fixes #2; blocked by #3, see ops/tools#9 and src/pump/valve.py. `x`\n```\n#77 a/b.py\n```\nhttps://h/a/b.py#4"
    )
    number = server.issue(repository, "One", body, assignees=["ada"])
    comment = server.comment(repository, number, "Also #5.")
    [found], _ = await poll(tracker(server, repository))
    assert found.facts is not None
    own = f"document::gitea::{repository}#"
    assert {(one.source, one.type, one.target) for one in found.facts.relationships} == {
        (f"{own}1", "reported_by", "user:ada"),
        (f"{own}1", "assigned_to", "user:ada"),
        (f"{own}1", "fixes", f"{own}2"),
        (f"{own}3", "blocks", f"{own}1"),
        (f"{own}1", "references", "document::gitea::ops/tools#9"),
        (f"{own}1", "references", f"{own}5"),
        (f"{own}1", "mentions_file", "file:src/pump/valve.py"),
        (f"{own}1/comments/{comment}", "in_thread", f"{own}1"),
        (f"{own}1/comments/{comment}", "written_by", "user:ada"),
    }
    assert [one.type for one in found.facts.nodes] == ["gitea_issue", "user", "gitea_comment"]
    properties = found.facts.nodes[0].properties
    assert {name: properties[name] for name in ("key", "summary", "issueType", "status", "assignee", "reporter")} == {
        "key": f"{repository}#1", "summary": "One", "issueType": "issue", "status": "open", "assignee": "ada",
        "reporter": "ada",
    }  # fmt: skip


async def test_issues_of_many_pages_and_their_list(server: gitea.Gitea) -> None:
    repository = server.repository("pages")
    numbers = [server.issue(repository, f"Issue {one}") for one in range(120)]
    await asyncio.sleep(SETTLED)
    bucket = Counted()
    items, cursor = await poll(tracker(server, repository, bucket=bucket))
    assert named(items) == sorted(f"{repository}#{one}" for one in numbers)
    assert len({one.source_id for one in items}) == len(items)
    # The repository, the list of comments and their number, three pages twice, the pull requests, comments that changed
    # meanwhile.
    assert bucket.requests == 1 + 1 + 1 + 3 + 3 + 1 + 1
    again = Counted()
    assert await poll(tracker(server, repository, bucket=again), cursor) == ([], cursor)
    assert again.requests <= 10
    listing = Counted()
    assert sorted(await places(tracker(server, repository, bucket=listing))) == named(items)
    assert listing.requests == 3 + 1
    server.ask("DELETE", f"repos/{repository}/issues/{numbers[7]}")
    assert len(await places(tracker(server, repository))) == 119
    # A poll that was cut goes on, and its parts are all.
    first: list[port.Batch] = []
    async for batch in tracker(server, repository).batches({}):
        first.append(batch)
        if batch.items:
            break
    rest, _ = await poll(tracker(server, repository), first[-1].cursor)
    assert len(first[-1].items) == progress.BATCH
    assert len({one.source_id for one in (*first[-1].items, *rest)}) == len(first[-1].items) + len(rest) == 119


async def test_pull_requests_and_what_the_filter_leaves_out(server: gitea.Gitea) -> None:
    repository = server.repository("pulls", commits=True)
    issue = server.issue(repository, "An issue")
    server.ask(
        "POST", f"repos/{repository}/contents/a.txt", json={"content": "YQ==", "new_branch": "work", "message": "Work"}
    )
    pull = server.ask("POST", f"repos/{repository}/pulls", json={"title": "A change", "head": "work", "base": "main"})
    both, _ = await poll(tracker(server, repository))
    assert named(both) == [f"{repository}#{issue}", f"{repository}#{pull['number']}"]
    assert "\nKind: pull request\n" in next(one.text for one in both if one.source_id.endswith(f"#{pull['number']}"))
    only = partial(tracker, server, repository, query="type=pulls")
    assert named((await poll(only()))[0]) == await places(only()) == [f"{repository}#{pull['number']}"]
    server.ask("PATCH", f"repos/{repository}/issues/{issue}", json={"state": "closed"})
    unfinished = partial(tracker, server, repository, query="state=open")
    assert named((await poll(unfinished()))[0]) == await places(unfinished()) == [f"{repository}#{pull['number']}"]
    late = partial(tracker, server, repository, since="2100-01-01T00:00:00Z")
    assert (named((await poll(late()))[0]), await places(late())) == ([], [])


async def test_a_repository_that_cannot_be_read_is_no_empty_one(server: gitea.Gitea) -> None:
    repository = server.repository("secret")
    server.issue(repository, "One")
    server.ask("POST", "admin/users", json={
        "username": "eve", "password": "word-of-the-test", "email": "eve@example.com", "must_change_password": False,
    })  # fmt: skip
    token = server.token_of("eve", "read:issue", "read:repository")
    server.ask("PUT", f"repos/{repository}/collaborators/eve", json={"permission": "read"})
    items, cursor = await poll(tracker(server, repository, token=token))
    assert len(items) == 1
    server.ask("DELETE", f"repos/{repository}/collaborators/eve")
    with pytest.raises(port.Misconfigured):
        await poll(tracker(server, repository, token=token), cursor)
    with pytest.raises(port.Misconfigured):
        await places(tracker(server, repository, token=token))
    with pytest.raises(port.Rejected):
        await poll(tracker(server, repository, token="0" * 40))
    # Another repository that is not there keeps none from being read.
    good: list[port.Item] = []

    async def read() -> None:
        async for batch in tracker(server, "ada/none", repository).batches({}):
            good.extend(batch.items)

    with pytest.raises(port.Misconfigured, match="Of 2 repositories 1 cannot be read"):
        await read()
    assert named(good) == [f"{repository}#1"]


async def test_a_server_that_is_killed_in_the_middle(server: gitea.Gitea) -> None:
    repository = server.repository("killed")
    numbers = [server.issue(repository, f"Issue {one}") for one in range(60)]
    for number in numbers:
        server.comment(repository, number, "A comment.")
    found: list[port.Item] = []
    cursor: port.Cursor = {}

    async def read() -> None:
        nonlocal cursor
        async for batch in tracker(server, repository).batches({}):
            found.extend(batch.items)
            cursor = batch.cursor
            if len(found) == progress.BATCH:
                server.kill()

    try:
        with pytest.raises(port.Unreachable):
            await read()
        with pytest.raises(port.Unreachable):
            await places(tracker(server, repository))
    finally:
        server.start()
    rest, cursor = await poll(tracker(server, repository), cursor)
    assert len(found) == progress.BATCH
    assert sorted({one.source_id for one in (*found, *rest)}) == sorted(f"{repository}#{one}" for one in numbers)
    assert len({(one.source_id, one.version) for one in (*found, *rest)}) == len(numbers)
