"""The tools for issues at Gitea, GitHub and GitLab, at the wire: what is asked, what is made, what is found again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from crds import scope
from sources.api import problems
from sources.core import port
from sources.effects import targets, wire
from tests.sources.effects.rig import Rig, running
from tests.sources.effects.world import conditions

pytestmark = pytest.mark.services
ROOTS = {
    "Gitea": ("/api/v1/repos/o/r", "comments", "number"),
    "GitHub": ("/api/v3/repos/o/r", "comments", "number"),
    "GitLab": ("/api/v4/projects/o%2Fr", "notes", "iid"),
}


class Host:
    """A rig with one repository of one kind of host, which has one issue."""

    def __init__(self, rig: Rig, kind: str) -> None:
        self.rig, self.kind = rig, kind
        root, word, number = ROOTS[kind]
        self.issues, self.comments = f"{root}/issues", f"{root}/issues/1/{word}"
        self.rows = rig.world.rows
        first = {number: 1, "title": "Old", "labels": [], "state": "open", "html_url": "u", "web_url": "u"}
        at = {"created_at": "2026-11-26T11:00:00Z", "updated_at": "2026-11-26T11:00:00Z"}
        self.rows |= {self.issues: [first | at], self.comments: []}
        self.rows[f"{root}/labels"] = [{"id": 7, "name": "bug"}, {"id": 8, "name": "urgent"}]
        rig.world.connect(type=kind)

    def changes(self) -> list[str]:
        return [method for method, _, _ in self.rig.world.calls]


@pytest_asyncio.fixture(params=ROOTS)
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    async with running() as rig:
        yield Host(rig, request.param)


async def test_each_tool_makes_its_change(host: Host) -> None:
    effect = host.rig.effect
    made = await effect("createIssue", "new", title="New", text="Text.", labels=["bug"])
    assert made.result == {"issue": "2", "url": "https://git.example/2"}
    row = host.rows[host.issues][1]
    body = row["description" if host.kind == "GitLab" else "body"]
    assert body.startswith("Text.\n\n<!-- jervis-effect: ")
    [(_, _, sent)] = host.rig.world.calls
    assert sent["labels"] == {"Gitea": [7], "GitHub": ["bug"], "GitLab": "bug"}[host.kind]

    said = await effect("addComment", "say", issue="1", text="Hello.\n/close\n")
    assert said.result["comment"] == str(host.rows[host.comments][0]["id"])
    written = host.rows[host.comments][0]["body"]
    assert written.splitlines()[1] == ("\\/close" if host.kind == "GitLab" else "/close")

    changed = await effect("updateIssue", "change", issue="1", title="Better", state="closed", labels=["urgent"])
    assert (changed.state, changed.result["issue"]) == (wire.State.DONE, "1")
    row = host.rows[host.issues][0]
    assert (row["title"], row["state"], [one["name"] for one in row["labels"]]) == ("Better", "closed", ["urgent"])
    name = "Authorization"
    assert {one.get(name, "").rpartition(" ")[2] for one in host.rig.world.headers if name in one} == {"t0k3n"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("createIssue", {"title": "New", "text": "Text."}),
        ("addComment", {"issue": "1", "text": "Hello."}),
        ("updateIssue", {"issue": "1", "title": "Better", "labels": ["bug"]}),
    ],
)
@pytest.mark.parametrize("left", [2, 3])
async def test_each_is_made_once_wherever_the_process_is_killed(
    host: Host, tool: str, arguments: dict[str, Any], left: int
) -> None:
    with host.rig.database.killed(left):
        await host.rig.effect(tool, **arguments)
    before = len(host.rig.world.calls)
    assert bool(before) == (left == 3)
    host.rig.later()
    for _ in range(2):
        assert (await host.rig.effect(tool, **arguments)).state is wire.State.DONE
    # What had happened is found, and what had not is done.
    assert len(host.rig.world.calls) == before or left == 2
    assert len(host.rows[host.comments]) == (tool == "addComment")
    assert len(host.rows[host.issues]) == 1 + (tool == "createIssue")
    assert host.rows[host.issues][0]["title"] == ("Better" if tool == "updateIssue" else "Old")


async def test_an_update_that_others_may_have_undone_is_unknown(host: Host) -> None:
    with host.rig.database.killed(3):
        await host.rig.effect("updateIssue", issue="1", title="Better")
    host.rig.later()
    host.rows[host.issues][0] |= {"title": "Someone's", "updated_at": "2026-11-26T12:03:00Z"}
    assert (await host.rig.effect("updateIssue", issue="1", title="Better")).state is wire.State.UNKNOWN
    assert host.rows[host.issues][0]["title"] == "Someone's"


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("addComment", {"issue": "ABC-1", "text": "T"}, "arguments.issue"),
        ("addComment", {"issue": "../1", "text": "T"}, "arguments.issue"),
        ("addComment", {"issue": "1", "text": "T", "repository": "o/other"}, "arguments.repository"),
        ("addComment", {"issue": "1", "text": "T", "repository": "../.."}, "arguments.repository"),
        ("addComment", {"issue": "1", "text": ""}, "arguments.text"),
        ("updateIssue", {"issue": "1"}, "arguments"),
        ("createIssue", {"title": "a\nb", "text": "T"}, "arguments.title"),
        ("sendMail", {"to": ["a@example.com"], "subject": "S", "text": "T"}, "connection"),
    ],
)
async def test_wrong_arguments_reach_no_host(host: Host, tool: str, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(problems.Invalid) as caught:
        await host.rig.effect(tool, **arguments)
    assert (caught.value.field, host.rig.world.calls) == (field, [])


async def test_a_connection_is_used_only_where_the_run_may() -> None:
    async with running() as rig:
        host = Host(rig, "Gitea")
        arguments = {"issue": "1", "text": "T"}
        asked = wire.Request(connection="tracker", key="k", arguments=arguments)
        mine = {"clientId": "acme", "projectId": "apollo", "groupId": ""}
        for spec, run in (
            ({"clientId": "globex"}, rig.run()),
            ({"projectId": "gemini"}, rig.run()),
            ({"groupId": "g"}, rig.run()),
            (mine, rig.run(scope.Scope(client_id="acme"))),
            ({}, rig.run(namespace="team-b")),
        ):
            rig.world.connect(type="Gitea", **spec)
            with pytest.raises(problems.NotFound):
                await rig.does.run(run, "addComment", asked)
        refused: list[tuple[dict[str, Any], list[dict[str, Any]], type[Exception]]] = [
            ({"suspend": True}, conditions(), problems.Forbidden),
            (
                {},
                conditions(Ready=("False", "NotAllowed"), CredentialsValid=("Unknown", "NotAllowed")),
                problems.Forbidden,
            ),
            ({}, conditions(CredentialsValid=("False", "CredentialsRejected")), problems.Forbidden),
            ({}, conditions(SendingReady=("False", "SecretNotFound")), problems.Forbidden),
            ({}, conditions(generation=0), targets.NotJudged),
            ({}, [], targets.NotJudged),
            ({"secretRef": {"name": "absent"}}, conditions(), port.Misconfigured),
        ]
        for more, said, kind in refused:
            rig.world.connect(type="Gitea", **more)
            rig.world.connections["tracker"]["status"]["conditions"] = said
            with pytest.raises(kind):
                await rig.does.run(rig.run(), "addComment", asked)
        assert not host.changes()
        rig.world.connect(type="Gitea", **mine)
        assert (await rig.does.run(rig.run(), "addComment", asked)).state is wire.State.DONE


async def test_a_label_that_gitea_does_not_have_is_named() -> None:
    async with running() as rig:
        host = Host(rig, "Gitea")
        with pytest.raises(problems.Invalid, match="'huge'") as caught:
            await rig.effect("createIssue", title="T", text="T", labels=["bug", "huge"])
        assert (caught.value.field, host.changes()) == ("arguments.labels", [])
