"""Recorded answers of GitHub and GitLab themselves, replayed at the wire. `make recorded` fetches them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hack import recorded
from sources.providers.git_host import git_host as forge
from sources.providers.gitlab import reading as gitlab
from tests import httpserver
from tests.sources.forge import REPOSITORY
from tests.sources.test_forges import Store, tracker

pytestmark = pytest.mark.services


class Replay(httpserver.Server):
    """`rows` of a path, by page: (body, headers); the repository is public, every other path is an empty list."""

    method = "GET"

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], tuple[Any, dict[str, str]]] = {}

    async def answer(self, request: web.Request) -> web.Response:
        name = request.path.rpartition("/")[2]
        if request.path.endswith(REPOSITORY):
            return web.json_response({"private": False})
        if name.isdigit() and request.path.endswith(f"{REPOSITORY}/issues/{name}"):
            every = [row for (of, _), (rows, _) in self.rows.items() if of == "issues" for row in rows]
            return web.json_response(next(row for row in every if str(row["number"]) == name))
        if not request.path.endswith((f"{REPOSITORY}/issues", "/merge_requests")):
            return web.json_response([])
        body, headers = self.rows.get((name, request.query.get("page", "1")), ([], {}))
        return web.json_response(body, headers=headers)


def folder(name: str) -> Path:
    """Of one host."""
    found = recorded.place() / name
    assert found.is_dir(), "the recorded answers are missing: make recorded"
    return found


async def test_issues_of_github_over_five_pages() -> None:
    replay = Replay()
    steps = json.loads((folder("github") / "paginate-issues" / "normalized-fixture.json").read_text())
    for number, step in enumerate(steps, 1):
        replay.rows["issues", str(number)] = step["response"], {"Link": step["headers"]["link"]}
    store = Store()
    async with replay.serving():
        await store.poll(tracker(replay, "GitHub"))  # type: ignore[arg-type]  # it has a url
    assert len(steps) == 5
    recorded_rows = [row for step in steps for row in step["response"]]
    assert {one.source_id for one in store.latest.values()} == {
        f"{REPOSITORY}#{row['number']}" for row in recorded_rows
    }
    assert len(recorded_rows) == 13
    one = store.latest[f"{REPOSITORY}#1"]
    assert one.text.startswith(f"#1 Test issue 1\nKind: issue\nRepository: {REPOSITORY}\nState: open\n")
    assert "\nAuthor: octokit-fixture-user-a\n" in one.text


async def test_merge_requests_of_gitlab() -> None:
    replay = Replay()
    rows = json.loads((folder("gitlab") / "get_merge_requests.json").read_text())
    replay.rows["merge_requests", "1"] = rows, {"X-Total": str(len(rows))}
    store = Store()
    async with replay.serving():
        await store.poll(tracker(replay, "GitLab"))  # type: ignore[arg-type]  # it has a url
        assert await store.places(tracker(replay, "GitLab")) == set(store.latest)  # type: ignore[arg-type]
    assert set(store.latest) == {f"{REPOSITORY}!{row['iid']}" for row in rows}
    assert len(rows) == 3
    one = store.latest[f"{REPOSITORY}!15442"]
    assert one.urn == f"gitlab::{REPOSITORY}!15442"
    assert "\nBranches: use-structured-logging-for-db-load-balancer -> master\n" in one.text
    assert one.facts is not None
    assert ("assigned_to", "user:hfyngvason") in {(edge.type, edge.target) for edge in one.facts.relationships}


def test_an_issue_of_gitlab() -> None:
    row = json.loads((folder("gitlab") / "issue_move.json").read_text())
    thing = gitlab.GitLab().thing(row, REPOSITORY, forge.Choice())
    assert thing is not None
    assert (thing.mark, thing.number, thing.state) == ("#", row["iid"], row["state"])
