"""The wire of GitHub and of GitLab over one model of a repository, which changes between two requests.

Links name another host than the one that is asked, as behind a proxy. Source: docs.github.com/rest/issues,
docs.gitlab.com/api/issues, /api/notes; the fields are those of `test_recorded.py`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlencode

import orjson
from aiohttp import web

from tests import httpserver

REPOSITORY = "acme/shop"


@dataclass
class Comment:
    """One comment."""

    id: int
    body: str
    created: datetime
    updated: datetime
    internal: bool = False


@dataclass
class Entry:
    """An issue, or a request to merge."""

    number: int
    title: str
    created: datetime
    updated: datetime
    body: str = ""
    merge: bool = False
    comments: list[Comment] = field(default_factory=list)
    labels: tuple[str, ...] = ()
    closed: bool = False
    confidential: bool = False


class Forge(httpserver.Server):
    """`now` is the host's clock, which is not ours. `meanwhile` is called before each answer; `fails` are answers that
    come instead of the next ones: (status, headers, body)."""

    def __init__(self) -> None:
        self.now = datetime(2031, 3, 1, 12, 0, 0, tzinfo=UTC)
        self.entries: dict[int, Entry] = {}
        self.requests: list[str] = []
        self.answers: list[int] = []
        self.meanwhile: Callable[[], None] | None = None
        self.fails: list[tuple[int, dict[str, str], bytes]] = []
        self.loop = False
        self.bad: dict[int, str] = {}
        """Things that the host does not give, each with the way how: error (500 for its parts), foreign (rows without a
        title)."""
        self.hidden: set[int] = set()
        """Things that the list of everything lacks, though the host counts them."""
        self.files: dict[str, bytes] = {}
        self.tokens: list[str] = []
        self.visibility, self.merges = "public", "enabled"
        """Of the repository, and of its requests to merge in GitLab."""
        self.url = ""
        self._numbers, self._comments = itertools.count(1), itertools.count(1000)

    def tick(self, seconds: float) -> None:
        """Time goes on."""
        self.now += timedelta(seconds=seconds)

    def create(self, title: str, *, merge: bool = False, ago: float = 0.0, body: str = "") -> Entry:
        """A new one; `ago` seconds old when it becomes visible."""
        at = self.now - timedelta(seconds=ago)
        made = Entry(next(self._numbers), title, at, at, body, merge)
        self.entries[made.number] = made
        return made

    def change(self, number: int, title: str) -> None:
        """Another title."""
        self.entries[number].title, self.entries[number].updated = title, self.now

    def say(self, number: int, body: str) -> Comment:
        """A new comment."""
        made = Comment(next(self._comments), body, self.now, self.now)
        self.entries[number].comments.append(made)
        self.entries[number].updated = self.now
        return made

    def routes(self) -> dict[str, Any]:
        """GitHub's API is at /api/v3, GitLab's at /api/v4."""
        hub, lab = f"/api/v3/repos/{REPOSITORY}", "/api/v4/projects/{project}"
        return {
            hub: self._hub_repository,
            lab: self._lab_project,
            f"{hub}/issues": self._hub_issues,
            f"{hub}/issues/comments": self._hub_changes,
            f"{hub}/issues/{{number}}": self._hub_issue,
            f"{hub}/issues/{{number}}/comments": self._hub_comments,
            f"{lab}/issues": self._lab_list,
            f"{lab}/merge_requests": self._lab_list,
            f"{lab}/{{kind:issues|merge_requests}}/{{number}}": self._lab_issue,
            f"{lab}/{{kind}}/{{number}}/notes": self._lab_notes,
            f"{lab}/uploads/{{path:.+}}": self._file,
            "/user-attachments/{path:.+}": self._file,
        }

    def application(self) -> web.Application:
        """Its routes, around which faults happen."""
        application = web.Application(middlewares=[self._around])
        for path, answer in self.routes().items():
            application.router.add_get(path, answer)
        return application

    @web.middleware
    async def _around(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        self.tokens.append(request.headers.get("Authorization", ""))
        if self.meanwhile is not None:
            self.meanwhile()
        date = {"Date": format_datetime(self.now, usegmt=True)}
        if self.fails:
            status, headers, body = self.fails.pop(0)
            if status:
                self.answers.append(status)
                return web.Response(status=status, headers=headers | date, body=body)
        answer = await handler(request)
        answer.headers.update(date)
        self.answers.append(answer.status)
        return answer  # type: ignore[no-any-return]

    def _shown(self, one: Entry, row: dict[str, Any]) -> dict[str, Any]:
        """A row, which lacks its title where the host fails at that."""
        return {name: value for name, value in row.items() if self.bad.get(one.number) != "foreign" or name != "title"}

    def _fails(self, number: int) -> web.Response | None:
        failing = self.bad.get(number) == "error"
        return web.json_response({"message": "it cannot be rendered"}, status=500) if failing else None

    def _page(self, request: web.Request, rows: list[Any], total: bool) -> web.Response:
        size, page = int(request.query.get("per_page", "20")), int(request.query.get("page", "1"))
        last = max(1, -(-len(rows) // size))
        links = []
        for name, number in (("next", page + 1), ("last", last)):
            if page < last or self.loop:
                asked = {**request.query, "page": str(1 if self.loop else number)}
                links.append(f'<https://elsewhere.example/repositories/1/issues?{urlencode(asked)}>; rel="{name}"')
        headers = {"Link": ", ".join(links)} if links else {}
        if total:
            headers["X-Total"] = str(len(rows))
        some = rows[(page - 1) * size : page * size]
        if request.query.get("sort") == "created" or request.query.get("order_by") == "created_at":
            some = [row for row in some if row.get("iid", row.get("number")) not in self.hidden]
        body = orjson.dumps(some)
        headers["ETag"] = f'W/"{hashlib.sha256(body).hexdigest()}"'
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers=headers | {"Content-Type": "application/json"})

    def _sorted(self, request: web.Request, some: list[Entry], since: str, sort: str, direction: str) -> list[Entry]:
        after = request.query.get(since)
        if after:
            some = [one for one in some if one.updated >= datetime.fromisoformat(after)]
        if request.query.get("state", "all") != "all":
            some = [one for one in some if one.closed == (request.query["state"] == "closed")]
        by_update = request.query.get(sort, "").startswith("updated")
        return sorted(
            some,
            key=lambda one: (one.updated if by_update else one.created, one.number),
            reverse=request.query.get(direction) == "desc",
        )

    async def _hub_repository(self, _: web.Request) -> web.Response:
        said = {"full_name": REPOSITORY, "private": self.visibility != "public", "visibility": self.visibility}
        return web.json_response(said)

    async def _lab_project(self, request: web.Request) -> web.Response:
        if request.match_info["project"] != REPOSITORY:
            return web.json_response({"message": "404 Project Not Found"}, status=404)
        levels = {"issues_access_level": "enabled", "merge_requests_access_level": self.merges}
        return web.json_response({"id": 1, "visibility": self.visibility, **levels})

    async def _hub_issues(self, request: web.Request) -> web.Response:
        some = self._sorted(request, list(self.entries.values()), "since", "sort", "direction")
        return self._page(request, [self._hub(one) for one in some], total=False)

    async def _hub_issue(self, request: web.Request) -> web.Response:
        found = self.entries.get(int(request.match_info["number"]))
        if found is not None and (failure := self._fails(found.number)):
            return failure
        return web.json_response(self._hub(found)) if found else web.json_response({"message": "no"}, status=404)

    async def _lab_issue(self, request: web.Request) -> web.Response:
        found = self.entries.get(int(request.match_info["number"]))
        if found is None or found.merge != (request.match_info["kind"] == "merge_requests"):
            return web.json_response({"message": "404 Not found"}, status=404)
        return self._fails(found.number) or web.json_response(self._lab(found))

    async def _hub_comments(self, request: web.Request) -> web.Response:
        found = self.entries.get(int(request.match_info["number"]))
        if found is None:
            return web.json_response({"message": "Not Found"}, status=404)
        rows = [self._said(found, one) for one in found.comments]
        return self._fails(found.number) or self._page(request, rows, total=False)

    async def _hub_changes(self, request: web.Request) -> web.Response:
        after = datetime.fromisoformat(request.query.get("since", "1970-01-01T00:00:00+00:00"))
        rows = [(one.updated, self._said(entry, one)) for entry in self.entries.values() for one in entry.comments]
        rows = sorted((row for row in rows if row[0] >= after), key=lambda row: (row[0], row[1]["id"]))
        return self._page(request, [row for _, row in rows], total=False)

    def _hub(self, one: Entry) -> dict[str, Any]:
        row = {
            "id": 10_000 + one.number, "number": one.number, "title": one.title, "body": one.body or None,
            "state": "closed" if one.closed else "open", "state_reason": None,
            "labels": [{"name": name} for name in one.labels],
            "user": {"login": "jana"}, "assignees": [{"login": "petr"}], "milestone": None,
            "comments": len(one.comments), "created_at": _second(one.created), "updated_at": _second(one.updated),
            "closed_at": _second(one.updated) if one.closed else None,
            "html_url": f"https://github.com/{REPOSITORY}/issues/{one.number}",
            **({"pull_request": {"merged_at": None}} if one.merge else {}),
        }  # fmt: skip
        return self._shown(one, row)

    def _said(self, entry: Entry, one: Comment) -> dict[str, Any]:
        return {
            "id": one.id, "user": {"login": "petr"}, "body": one.body, "created_at": _second(one.created),
            "updated_at": _second(one.updated), "issue_url": f"https://api.github.com/repos/{REPOSITORY}/issues/{entry.number}",
        }  # fmt: skip

    async def _lab_list(self, request: web.Request) -> web.Response:
        if request.match_info["project"] != REPOSITORY:
            return web.json_response({"message": "404 Project Not Found"}, status=404)
        merge = request.path.endswith("merge_requests")
        some = [one for one in self.entries.values() if one.merge == merge]
        found = self._sorted(request, some, "updated_after", "order_by", "sort")
        return self._page(request, [self._lab(one) for one in found], total=True)

    async def _lab_notes(self, request: web.Request) -> web.Response:
        found = self.entries.get(int(request.match_info["number"]))
        if found is None:
            return web.json_response({"message": "404 Not found"}, status=404)
        rows = [
            {"id": one.id, "system": False, "author": {"username": "petr", "name": "Petr"}, "body": one.body,
             "created_at": _milli(one.created), "updated_at": _milli(one.updated), "internal": one.internal}
            for one in found.comments
        ]  # fmt: skip
        system = {"id": 1, "system": True, "author": None, "body": "changed label", "created_at": _milli(found.created),
                  "updated_at": _milli(found.created)}  # fmt: skip
        return self._fails(found.number) or self._page(request, [system, *rows], total=True)

    def _lab(self, one: Entry) -> dict[str, Any]:
        merge = {"source_branch": "work", "target_branch": "main"} if one.merge else {"issue_type": "issue"}
        row = {
            "id": 10_000 + one.number, "iid": one.number, "title": one.title, "description": one.body,
            "state": "closed" if one.closed else "opened", "labels": list(one.labels),
            "author": {"username": "jana", "name": "Jana"}, "assignees": [{"username": "petr", "name": "Petr"}],
            "milestone": None, "user_notes_count": len(one.comments), "created_at": _milli(one.created),
            "updated_at": _milli(one.updated), "confidential": one.confidential, **merge,
            "web_url": f"https://gitlab.example/{REPOSITORY}/-/issues/{one.number}",
        }  # fmt: skip
        return self._shown(one, row)

    async def _file(self, request: web.Request) -> web.Response:
        body = self.files.get(request.match_info["path"])
        return web.Response(body=body) if body is not None else web.Response(status=404)


def _second(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _milli(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
