"""The tools at Jira and Confluence, at the wire of their REST APIs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from sources.api import problems
from sources.core import port
from sources.effects import wire
from sources.providers.atlassian import effects as atlassian
from tests import httpserver
from tests.sources.effects.rig import Rig, running
from tests.sources.parts import refused

pytestmark = pytest.mark.services
TEXT = "One <b>\ntwo\n\nThree & four"


def issue(project: str) -> dict[str, Any]:
    place = {"key": project, "id": "10", "name": f"Project {project}"}
    return {"fields": {"updated": "t0", "project": place}, "properties": {}}


class Site:
    """One issue, one page; properties and versions as Atlassian keeps them. `version` of Jira's API: 3 of Cloud, 2 of
    Data Center, which answers 404 to the other one."""

    def __init__(self, version: str = "3") -> None:
        self.version = version
        self.issues: dict[str, dict[str, Any]] = {"ABC-1": issue("ABC")}
        self.comments: list[dict[str, Any]] = []
        self.page = {"type": "page", "title": "Plan", "space": {"key": "OPS"}, "body": "<p>Old</p>"}
        self.versions: list[dict[str, Any]] = [{"number": 1, "message": ""}]
        self.changes: list[tuple[str, str, Any]] = []
        self.indexed = True

    async def answer(self, request: web.Request) -> web.Response:
        path = request.path.removeprefix("/wiki").removeprefix("/rest/api/")
        if request.method != "GET":
            body = await request.json()
            self.changes.append((request.method, path, body))
            found = self.change(path, body)
        else:
            found = self.read(path, dict(request.query))
        return web.json_response(found) if found is not None else web.json_response({"message": "no"}, status=404)

    def change(self, path: str, body: dict[str, Any]) -> Any:
        path = self._own(path)
        kept = {one["key"]: one["value"] for one in body.get("properties", ())}
        if path == "3/issue":
            key = f"ABC-{len(self.issues) + 1}"
            self.issues[key] = {"fields": {**body["fields"], "updated": "t1"}, "properties": kept}
            return {"key": key, "self": f"https://jira.example/{key}"}
        if found := re.fullmatch(r"3/issue/([A-Z]+-[0-9]+)/comment", path):
            self.comments.append({"id": str(len(self.comments) + 1), "self": found[1], **body, "properties": kept})
            return self.comments[-1]
        if found := re.fullmatch(r"3/issue/([A-Z]+-[0-9]+)", path):
            self.issues[found[1]]["fields"] |= {**body["fields"], "updated": "t1"}
            self.issues[found[1]]["properties"] |= kept
            return {}
        if body["version"]["number"] != len(self.versions) + 1:
            return None
        self.versions.append(body["version"])
        self.page |= {"title": body["title"], "body": body["body"]["storage"]["value"]}
        return {"id": "42"}

    def _own(self, path: str) -> str:
        """A path of this product's API as one of Cloud's."""
        number, _, rest = path.partition("/")
        if number not in ("2", "3"):
            return path
        rest = "search/jql" if (number, rest) == ("2", "search") else rest
        return f"3/{rest}" if number == self.version else "none"

    def read(self, path: str, query: dict[str, str]) -> Any:
        if path == "2/serverInfo":
            return {"deploymentType": "Cloud" if self.version == "3" else "Server"}
        path = self._own(path)
        if found := re.fullmatch(r"3/project/([A-Z]+)", path):
            return {"key": found[1], "id": "10", "name": f"Project {found[1]}"}
        if path == "3/search/jql":
            assert query["jql"].startswith('project = "ABC" AND ')
            rows = [{"key": key, "self": key, **one} for key, one in self.issues.items()]
            if self.version == "2":
                assert "properties" not in query
                rows = [{**one, "properties": None, "fields": {"summary": "", **one["fields"]}} for one in rows]
            return {"issues": rows if self.indexed else []}
        if path == "3/issue/ABC-1/comment":
            return {"comments": self.comments[::-1][: int(query["maxResults"])]}
        if found := re.fullmatch(r"3/comment/([0-9]+)/properties/jervis-effect", path):
            value = self.comments[int(found[1]) - 1]["properties"].get("jervis-effect")
            return value and {"key": "jervis-effect", "value": value}
        if found := re.fullmatch(r"3/issue/([A-Z]+-[0-9]+)", path):
            return self.issues.get(found[1])
        if path == "content/42":
            body = {"storage": {"value": self.page["body"]}}
            if query.get("status") == "historical":
                found_one = [one for one in self.versions[:-1] if one["number"] == int(query["version"])]
                return {"id": "42", "version": found_one[0]} if found_one else None
            return {**self.page, "id": "42", "body": body, "version": self.versions[-1]}
        return None


@pytest_asyncio.fixture
async def both(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Rig, Site]]:
    site, application = Site(getattr(request, "param", "3")), web.Application()
    application.router.add_route("*", "/{path:.*}", site.answer)
    async with httpserver.serving(application) as url, running() as rig:
        rig.world.connect("jira", type="Jira", url=url, filter={"include": ["ABC"]})
        rig.world.connect("wiki", type="Confluence", url=f"{url}/wiki", filter={"include": ["OPS"]})
        yield rig, site


CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("addComment", "jira", {"issue": "ABC-1", "text": TEXT}),
    ("createIssue", "jira", {"title": "New", "text": TEXT, "labels": ["bug"]}),
    ("updateIssue", "jira", {"issue": "ABC-1", "title": "Better"}),
    ("editPage", "wiki", {"page": "42", "text": TEXT}),
]


@pytest.mark.parametrize(
    ("tool", "connection", "arguments"), CALLS, ids=lambda one: one if isinstance(one, str) else ""
)
@pytest.mark.parametrize("left", [2, 3, None])
@pytest.mark.parametrize("both", ["3", "2"], indirect=True, ids=["Cloud", "Data Center"])
async def test_each_is_made_once_wherever_the_process_is_killed(
    both: tuple[Rig, Site], tool: str, connection: str, arguments: dict[str, Any], left: int | None
) -> None:
    rig, site = both
    if left is not None:
        with rig.database.killed(left):
            await rig.effect(tool, connection=connection, **arguments)
        rig.later()
    # A new issue that the index does not have yet may exist: nothing says that it does not.
    if (tool, left) == ("createIssue", 2):
        assert (await rig.effect(tool, connection=connection, **arguments)).state is wire.State.DONE
    found = await rig.effect(tool, connection=connection, **arguments)
    assert (found.state, len(site.changes)) == (wire.State.DONE, 1)
    assert found.result
    assert await rig.effect(tool, connection=connection, **arguments) == found
    assert len(site.changes) == 1


async def test_an_issue_that_the_index_does_not_have_is_unknown(both: tuple[Rig, Site]) -> None:
    rig, site = both
    site.indexed = False
    with rig.database.killed(3):
        await rig.effect("createIssue", connection="jira", title="New", text="T")
    rig.later()
    assert (await rig.effect("createIssue", connection="jira", title="New", text="T")).state is wire.State.UNKNOWN
    assert len(site.changes) == 1


@pytest.mark.parametrize("after", ["", "edited", "removed"])
async def test_a_page_that_others_edited_since_has_the_version_of_the_effect(
    both: tuple[Rig, Site], after: str
) -> None:
    rig, site = both
    with rig.database.killed(3):
        await rig.effect("editPage", connection="wiki", page="42", text=TEXT)
    if after:
        site.versions.append({"number": 3, "message": "of a person"})
    if after == "removed":
        del site.versions[1]
    rig.later()
    found = await rig.effect("editPage", connection="wiki", page="42", text=TEXT)
    assert (found.state, len(site.changes)) == (wire.State.UNKNOWN if after == "removed" else wire.State.DONE, 1)


@pytest.mark.parametrize("both", ["2"], indirect=True)
async def test_data_center_has_texts_as_wiki_markup_in_which_nothing_is_markup(both: tuple[Rig, Site]) -> None:
    rig, site = both
    await rig.effect(
        "addComment", connection="jira", issue="ABC-1", text="Ask [~jana] {color:red}\nh1. well-known - *x*"
    )
    await rig.effect("createIssue", "k2", "jira", title="[New]", text="T_1")
    await rig.effect("updateIssue", "k3", "jira", issue="ABC-1", text="bq. !a.png!")
    said = r"Ask \[\~jana\] \{color:red\}" + "\n" + r"&#104;1. well-known \- \*x\*"
    assert site.comments[0]["body"] == said
    assert (
        site.issues["ABC-2"]["fields"] | {"summary": "[New]", "description": r"T\_1"} == site.issues["ABC-2"]["fields"]
    )
    assert site.issues["ABC-1"]["fields"]["description"] == r"&#98;q. \!a.png\!"


async def test_an_issue_that_cloud_does_not_have_is_not_found(both: tuple[Rig, Site]) -> None:
    rig, site = both
    with pytest.raises(port.Misconfigured):
        await rig.effect("addComment", connection="jira", issue="ABC-9", text="T")
    assert site.changes == []


async def test_a_page_keeps_what_it_says_and_text_is_no_markup(both: tuple[Rig, Site]) -> None:
    rig, site = both
    found = await rig.effect("editPage", connection="wiki", page="42", text=TEXT, version=1)
    assert found.result == {"page": "42", "version": "2"}
    added = "<p>One &lt;b&gt;<br />two</p><p>Three &amp; four</p>"
    assert (site.page["title"], site.page["body"]) == ("Plan", f"<p>Old</p>{added}")
    with refused(problems.Conflict, field="arguments.version"):
        await rig.effect("editPage", "k2", "wiki", page="42", text=TEXT, version=1)
    await rig.effect("editPage", "k3", "wiki", page="42", text=TEXT, way="replace", title="Plan B")
    assert (site.page["title"], site.page["body"]) == ("Plan B", added)
    site.page["space"] = {"key": "HR"}
    with refused(problems.Invalid, field="arguments.page", match="'HR'"):
        await rig.effect("editPage", "k4", "wiki", page="42", text=TEXT)
    assert len(site.versions) == 3


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("addComment", {"issue": "XYZ-1", "text": "T"}, "arguments.repository"),
        ("addComment", {"issue": "1", "text": "T"}, "arguments.issue"),
        ("createIssue", {"title": "T", "text": "T", "repository": "XYZ"}, "arguments.repository"),
        ("updateIssue", {"issue": "ABC-1", "state": "closed"}, "arguments.state"),
    ],
)
async def test_what_jira_does_not_take_is_named(
    both: tuple[Rig, Site], tool: str, arguments: dict[str, Any], field: str
) -> None:
    rig, site = both
    with pytest.raises(problems.Invalid) as caught:
        await rig.effect(tool, connection="jira", **arguments)
    assert (caught.value.field, site.changes) == (field, [])


@pytest.mark.parametrize("excluded", ["SECRET", "secret", "10", "project secret"])
@pytest.mark.parametrize("included", [(), ("SECRET",), ("secret", "ABC")])
async def test_what_the_connection_excludes_is_out_of_reach(
    both: tuple[Rig, Site], excluded: str, included: tuple[str, ...]
) -> None:
    rig, site = both
    site.issues["SECRET-1"], site.page["space"] = issue("SECRET"), {"key": "SECRET", "id": 10, "name": "Project SECRET"}
    chosen = {"include": list(included), "exclude": [excluded]}
    for name in ("jira", "wiki"):
        rig.world.connect(name, **{**rig.world.connections[name]["spec"], "filter": chosen})
    for key, (tool, connection, arguments) in enumerate(
        (
            ("addComment", "jira", {"issue": "SECRET-1", "text": "T"}),
            ("createIssue", "jira", {"repository": "SECRET", "title": "T", "text": "T"}),
            ("updateIssue", "jira", {"issue": "SECRET-1", "title": "T"}),
            ("editPage", "wiki", {"page": "42", "text": "T"}),
        )
    ):
        with pytest.raises(problems.Invalid):
            await rig.effect(tool, f"k{key}", connection, **arguments)
    assert site.changes == []


async def test_an_issue_that_was_moved_is_where_it_is_now(both: tuple[Rig, Site]) -> None:
    rig, site = both
    site.issues["ABC-1"] = issue("HR")
    for key, (tool, arguments) in enumerate((("addComment", {"text": "T"}), ("updateIssue", {"title": "T"}))):
        with pytest.raises(problems.Invalid, match="'HR'") as caught:
            await rig.effect(tool, f"k{key}", "jira", issue="ABC-1", **arguments)
        assert (caught.value.field, site.changes) == ("arguments.issue", [])


def test_lines_are_paragraphs_of_the_document_format() -> None:
    said = atlassian.document("a\nb\n\n\n\nc\r\n")
    shown = [[one.get("text", one["type"]) for one in part["content"]] for part in said["content"]]
    assert shown == [["a", "hardBreak", "b"], ["c"]]
