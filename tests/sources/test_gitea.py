"""Issues of a real Gitea: every version once, every change seen, and no error looks like an empty repository."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from clients import tls_trust
from crds import access, connection
from sources.core import limits, port
from sources.providers import table as protocols
from sources.providers.git_host import issues, progress
from tests.sources import gitea
from tests.sources.reading import listed as places
from tests.sources.reading import read

pytestmark = pytest.mark.services
SETTLED = issues.SETTLED.total_seconds() + 1


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
    forge: gitea.Gitea, *repositories: str, bucket: limits.Bucket | None = None, token: str = "", **chosen: Any
) -> issues.Tracker:
    spec: dict[str, Any] = {
        "type": "Gitea", "clientId": "acme", "secretRef": {"name": "forge"}, "url": f"{forge.url}/{repositories[0]}",
        "filter": chosen,
    }  # fmt: skip
    if len(repositories) > 1:
        spec |= {"url": forge.url, "filter": chosen | {"include": list(repositories)}}
    opens = protocols.table(
        plain=True, tls=tls_trust.context(), monotonic=time.monotonic, wall=partial(datetime.now, UTC)
    )
    one = opens[connection.Type.GITEA](
        connection.Spec.model_validate(spec), {"token": token or forge.token}, bucket or Counted()
    )
    assert isinstance(one, issues.Tracker)
    return one


async def poll(source: port.Source, cursor: port.Cursor | None = None) -> tuple[list[port.Item], port.Cursor]:
    """The items, each version of one once, as they are stored."""
    items, failures, last = await read(source, cursor)
    assert failures == []
    return list({(one.source_id, one.version): one for one in items}.values()), last


def named(items: list[port.Item]) -> list[str]:
    return sorted(one.source_id for one in items)


async def test_every_change_of_an_issue_is_one_new_version(forge: gitea.Gitea) -> None:
    repository = forge.repository("changes")
    first = forge.issue(repository, "The pump leaks", "It drips.")
    second = forge.issue(repository, "Another")
    source = partial(tracker, forge, repository)
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

    forge.ask("PATCH", f"repos/{repository}/issues/{first}", json={"title": "The pump leaks oil"})
    assert (await changed()).title == f"#{first} The pump leaks oil"
    comment = forge.comment(repository, first, "Since Monday.")
    assert "--- Comment of ada," in (await changed()).text
    forge.ask("PATCH", f"repos/{repository}/issues/comments/{comment}", json={"body": "Since Tuesday."})
    assert (await changed()).text.endswith("\nSince Tuesday.")
    label = forge.ask("POST", f"repos/{repository}/labels", json={"name": "priority: high", "color": "#ff0000"})
    forge.ask("POST", f"repos/{repository}/issues/{first}/labels", json={"labels": [label["id"]]})
    labelled = await changed()
    assert labelled.facts is not None
    assert labelled.facts.nodes[0].properties["priority"] == "high"
    forge.ask("POST", f"repos/{repository}/issues/{first}/assets", files={"attachment": ("log.txt", b"error 7")})
    assert [(one.name, one.media_type, one.body) for one in (await changed()).files] == [
        ("log.txt", "text/plain", b"error 7")
    ]
    forge.ask(
        "POST", f"repos/{repository}/issues/comments/{comment}/assets", files={"attachment": ("b.png", b"\x89PNG")}
    )
    assert [one.name for one in (await changed()).files] == ["log.txt", "b.png"]
    forge.ask("PATCH", f"repos/{repository}/issues/{first}", json={"state": "closed", "assignees": ["ada"]})
    closed = await changed()
    assert "\nState: closed\n" in closed.text
    # Gitea does not time the deletion of a comment.
    forge.ask("DELETE", f"repos/{repository}/issues/comments/{comment}")
    without = await changed()
    assert "Comment of" not in without.text
    await asyncio.sleep(SETTLED)
    _, cursor = await poll(source(), cursor)
    assert await poll(source(), cursor) == ([], cursor), "what is settled is asked for no more"
    assert [one.name for one in without.files] == ["log.txt"]


async def test_who_may_read_it(forge: gitea.Gitea) -> None:
    repository = forge.repository("shown")
    number = forge.issue(repository, "One")
    members = access.restricted([f"group:gitea-repo:{repository}"])
    cursor: port.Cursor = {}
    for private in (False, True, False):
        forge.ask("PATCH", f"repos/{repository}", json={"private": private})
        items, cursor = await poll(tracker(forge, repository), cursor)
        said = {one.source_id: one.access for one in items}
        assert said == {f"{repository}#{number}": members if private else access.PUBLIC}


async def test_what_its_fields_and_its_text_say_are_facts(forge: gitea.Gitea) -> None:
    repository = forge.repository("facts")
    body = (
        "Fixes #2; blocked by #3, see ops/tools#9 and src/pump/valve.py. `x`\n```\n#77 a/b.py\n```\nhttps://h/a/b.py#4"
    )
    number = forge.issue(repository, "One", body, assignees=["ada"])
    comment = forge.comment(repository, number, "Also #5.")
    [found], _ = await poll(tracker(forge, repository))
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


async def test_issues_of_many_pages_and_their_list(forge: gitea.Gitea) -> None:
    repository = forge.repository("pages")
    numbers = [forge.issue(repository, f"Issue {one}") for one in range(120)]
    await asyncio.sleep(SETTLED)
    bucket = Counted()
    items, cursor = await poll(tracker(forge, repository, bucket=bucket))
    assert named(items) == sorted(f"{repository}#{one}" for one in numbers)
    assert len({one.source_id for one in items}) == len(items)
    # The repository, the list of comments and their number, three pages twice, the pull requests, comments that changed
    # meanwhile.
    assert bucket.requests == 1 + 1 + 1 + 3 + 3 + 1 + 1
    again = Counted()
    assert await poll(tracker(forge, repository, bucket=again), cursor) == ([], cursor)
    assert again.requests <= 10
    listing = Counted()
    assert sorted(await places(tracker(forge, repository, bucket=listing))) == named(items)
    assert listing.requests == 3 + 1
    forge.ask("DELETE", f"repos/{repository}/issues/{numbers[7]}")
    assert len(await places(tracker(forge, repository))) == 119
    # A poll that was cut goes on, and its parts are all.
    first: list[port.Batch] = []
    async for batch in tracker(forge, repository).batches({}):
        first.append(batch)
        if batch.items:
            break
    rest, _ = await poll(tracker(forge, repository), first[-1].cursor)
    assert len(first[-1].items) == progress.BATCH
    assert len({one.source_id for one in (*first[-1].items, *rest)}) == len(first[-1].items) + len(rest) == 119


async def test_pull_requests_and_what_the_filter_leaves_out(forge: gitea.Gitea) -> None:
    repository = forge.repository("pulls", commits=True)
    issue = forge.issue(repository, "An issue")
    forge.ask(
        "POST", f"repos/{repository}/contents/a.txt", json={"content": "YQ==", "new_branch": "work", "message": "Work"}
    )
    pull = forge.ask("POST", f"repos/{repository}/pulls", json={"title": "A change", "head": "work", "base": "main"})
    both, _ = await poll(tracker(forge, repository))
    assert named(both) == [f"{repository}#{issue}", f"{repository}#{pull['number']}"]
    assert "\nKind: pull request\n" in next(one.text for one in both if one.source_id.endswith(f"#{pull['number']}"))
    only = partial(tracker, forge, repository, query="type=pulls")
    assert named((await poll(only()))[0]) == await places(only()) == [f"{repository}#{pull['number']}"]
    forge.ask("PATCH", f"repos/{repository}/issues/{issue}", json={"state": "closed"})
    unfinished = partial(tracker, forge, repository, query="state=open")
    assert named((await poll(unfinished()))[0]) == await places(unfinished()) == [f"{repository}#{pull['number']}"]
    late = partial(tracker, forge, repository, since="2100-01-01T00:00:00Z")
    assert (named((await poll(late()))[0]), await places(late())) == ([], [])


async def test_a_repository_that_cannot_be_read_is_no_empty_one(forge: gitea.Gitea) -> None:
    repository = forge.repository("secret")
    forge.issue(repository, "One")
    forge.ask("POST", "admin/users", json={
        "username": "eve", "password": "word-of-the-test", "email": "eve@example.com", "must_change_password": False,
    })  # fmt: skip
    token = forge.token_of("eve", "read:issue", "read:repository")
    forge.ask("PUT", f"repos/{repository}/collaborators/eve", json={"permission": "read"})
    items, cursor = await poll(tracker(forge, repository, token=token))
    assert len(items) == 1
    forge.ask("DELETE", f"repos/{repository}/collaborators/eve")
    with pytest.raises(port.Misconfigured):
        await poll(tracker(forge, repository, token=token), cursor)
    with pytest.raises(port.Misconfigured):
        await places(tracker(forge, repository, token=token))
    with pytest.raises(port.Rejected):
        await poll(tracker(forge, repository, token="0" * 40))
    # Another repository that is not there keeps none from being read.
    good: list[port.Item] = []

    async def read() -> None:
        async for batch in tracker(forge, "ada/none", repository).batches({}):
            good.extend(batch.items)

    with pytest.raises(port.Misconfigured, match="Of 2 repositories 1 cannot be read"):
        await read()
    assert named(good) == [f"{repository}#1"]


async def test_a_server_that_is_killed_in_the_middle(forge: gitea.Gitea) -> None:
    repository = forge.repository("killed")
    numbers = [forge.issue(repository, f"Issue {one}") for one in range(60)]
    for number in numbers:
        forge.comment(repository, number, "A comment.")
    found: list[port.Item] = []
    cursor: port.Cursor = {}

    async def read() -> None:
        nonlocal cursor
        async for batch in tracker(forge, repository).batches({}):
            found.extend(batch.items)
            cursor = batch.cursor
            if len(found) == progress.BATCH:
                forge.kill()

    try:
        with pytest.raises(port.Unreachable):
            await read()
        with pytest.raises(port.Unreachable):
            await places(tracker(forge, repository))
    finally:
        forge.start()
    rest, cursor = await poll(tracker(forge, repository), cursor)
    assert len(found) == progress.BATCH
    assert sorted({one.source_id for one in (*found, *rest)}) == sorted(f"{repository}#{one}" for one in numbers)
    assert len({(one.source_id, one.version) for one in (*found, *rest)}) == len(numbers)
