"""Issues of GitHub, GitLab and Gitea: lists shift while they are read, changes become visible late, comments change."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from bench.connectors import knowledge, site
from crds import connection, pendingtask
from sources.core import assignments, port
from sources.providers import table
from sources.providers.git_host import issues
from sources.providers.gitea import reading as gitea
from sources.providers.github import reading as github
from sources.providers.gitlab import reading as gitlab
from tests.sources import forge

PAGE = 5
_ANSWERS: Mapping[str, tuple[int, dict[str, str], bytes]] = {
    "limit": (429, {"Retry-After": "30"}, b"{}"), "away": (503, {}, b""), "broken": (200, {}, b'[{"id": 1'),
}  # fmt: skip


class GiteaServer(forge.Forge):
    """Gitea's wire over the model: lists in the order of creation, totals in every answer, and a comment whose change
    or deletion no issue shows. Source: Gitea 1.26, /api/swagger."""

    def routes(self) -> dict[str, Any]:
        """At /api/v1."""
        tea = f"/api/v1/repos/{forge.REPOSITORY}/issues"
        return {
            f"/api/v1/repos/{forge.REPOSITORY}": self._hub_repository,
            tea: self._tea_issues,
            f"{tea}/comments": self._tea_changes,
            f"{tea}/{{number}}": self._tea_issue,
            f"{tea}/{{number}}/comments": self._tea_comments,
        }

    def _tea(self, one: forge.Entry) -> dict[str, Any]:
        said = self._hub(one)
        said["pull_request"] = {"merged": False} if one.merge else None
        return said

    def _tea_page(self, request: web.Request, rows: list[tuple[datetime, dict[str, Any]]]) -> web.Response:
        since = request.query.get("since")
        some = [row for at, row in rows if not since or at.replace(microsecond=0) >= datetime.fromisoformat(since)]
        size, page = int(request.query["limit"]), int(request.query["page"])
        headers = {"X-Total-Count": str(len(some))}
        if page * size < len(some):
            headers["Link"] = f'<https://git.example/api/v1/issues?page={page + 1}&limit={size}>; rel="next"'
        shown = some[(page - 1) * size : page * size]
        if not since:
            shown = [row for row in shown if row.get("number") not in self.hidden]
        return web.json_response(shown, headers=headers)

    async def _tea_issues(self, request: web.Request) -> web.Response:
        some = [one for one in self.entries.values() if one.merge == (request.query["type"] == "pulls")]
        some.sort(key=lambda one: (one.created, one.number), reverse=True)
        return self._tea_page(request, [(one.updated, self._tea(one)) for one in some])

    async def _tea_issue(self, request: web.Request) -> web.Response:
        found = self.entries.get(int(request.match_info["number"]))
        if found is not None and (failure := self._fails(found.number)):
            return failure
        return web.json_response(self._tea(found)) if found else web.json_response({"message": "no"}, status=404)

    async def _tea_changes(self, request: web.Request) -> web.Response:
        rows = [(one.updated, self._said(entry, one)) for entry in self.entries.values() for one in entry.comments]
        return self._tea_page(request, sorted(rows, key=lambda row: int(row[1]["id"])))

    async def _tea_comments(self, request: web.Request) -> web.Response:
        found = self.entries.get(int(request.match_info["number"]))
        if found is None:
            return web.json_response({"message": "no"}, status=404)
        return self._fails(found.number) or web.json_response([self._said(found, one) for one in found.comments])


class _Forge(site.Site):
    provider = ""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.server = self.made()
        self.server.now = site.START
        self.server.meanwhile = lambda: self.meanwhile and self.meanwhile()

    def made(self) -> forge.Forge:
        """The model server."""
        return forge.Forge()

    @property
    def now(self) -> datetime:
        """See `Site`."""
        return self.server.now

    def tick(self, much: timedelta) -> None:
        """See `Site`."""
        self.server.now += much

    @property
    def url(self) -> str:
        """See `Site`."""
        return f"{self.server.url}/{forge.REPOSITORY}"

    def serving(self) -> contextlib.AbstractAsyncContextManager[Any]:
        """See `Site`."""
        return self.server.serving()

    def change(self, dice: random.Random, number: int) -> None:
        """See `Site`."""
        server, said = self.server, knowledge.token(number)
        server.tick(dice.choice((0.0, 0.3, 1.0, 20.0, 40.0)))
        kinds = ("new", "new", "late", "edit", "edit", "say", "say", "reword", "unsay", "close", "delete")
        what = dice.choice((*kinds, *site.TROUBLES))
        if what in ("new", "late") or not server.entries:
            ago = dice.uniform(1, 120) if what == "late" else 0.0
            server.create(f"New {said}", merge=dice.random() < 0.2, ago=ago)
            return
        one = server.entries[dice.choice(sorted(server.entries))]
        if what == "edit":
            server.change(one.number, f"Edit {said}")
        elif what == "say":
            server.say(one.number, f"Comment {said}")
            one.updated = server.now
        elif what == "reword" and one.comments:
            comment = dice.choice(one.comments)
            comment.body, comment.updated = f"Reworded {said}", server.now
            if self.provider == "gitlab":
                one.updated = server.now
        elif what == "unsay" and one.comments:
            one.comments.remove(dice.choice(one.comments))
            if self.provider != "gitea":
                one.updated = server.now  # docs/connections.md: else it leaves with the next change of its issue
        elif what == "close":
            one.closed = not one.closed
            server.change(one.number, f"Closed {said}")
        elif what == "delete":
            del server.entries[one.number]
        elif what == "unreadable":
            server.bad[one.number] = dice.choice(("error", "foreign"))
        elif what == "readable":
            self.heal(dice)
        elif what == "short":
            server.hidden = {number for number in server.entries if dice.random() < 0.3}
        elif what == "whole":
            server.hidden = set()

    @property
    def unreadable(self) -> Mapping[str, str]:
        """See `Site`. One without a title has its place as title."""
        entries = [one for one in self.server.entries.values() if one.number in self.server.bad]
        return {
            f"{self.provider}::{self._place(one)}": one.title
            if self.server.bad[one.number] == "error"
            else self._place(one)
            for one in entries
        }

    def heal(self, dice: random.Random) -> None:
        """See `Site`."""
        self.server.hidden = set()
        self.server.bad = {number: how for number, how in sorted(self.server.bad.items()) if dice.random() < 0.5}

    def live(self) -> dict[str, frozenset[str]]:
        """See `Site`."""
        return {
            f"{self.provider}::{self._place(one)}": frozenset(
                text.split()[-1] for text in (one.title, *(each.body for each in one.comments))
            )
            for one in self.server.entries.values()
        }

    def _place(self, one: forge.Entry) -> str:
        return f"{forge.REPOSITORY}{'!' if one.merge and self.provider == 'gitlab' else '#'}{one.number}"

    def rows(self) -> list[site.Row]:
        """See `Site`."""
        live, found = self.live(), []
        for one in self.server.entries.values():
            place = self._place(one)
            urn, text = f"{self.provider}::{place}", " ".join(sorted(live[f"{self.provider}::{place}"]))
            item = port.Item(
                source_id=place, version=f"{one.updated.isoformat()} {text}", type=pendingtask.Type.BUG_TRACKER,
                urn=urn, title=place, text=text, place=place,
            )  # fmt: skip
            found.append(site.Row(item, one.updated.astimezone(UTC).replace(microsecond=0), place))
        return found

    def faults(self, fault: tuple[int, str] | None) -> None:
        """See `Site`."""
        self.server.fails = [(0, {}, b"")] * fault[0] + [_ANSWERS[fault[1]]] if fault else []

    def fault(self) -> str:
        """See `Site`."""
        if self.meanwhile is not None:
            self.meanwhile()
        status = self.server.fails.pop(0)[0] if self.server.fails else 0
        return str(status) if status else ""

    def _opens(self, make: Callable[[], Any]) -> Callable[[assignments.Claim], port.Source]:
        tls = site.tls()
        makes = issues.opened(make, table.RULES[self.type], True, tls, lambda: 0.0, lambda: self.now)
        return lambda claim: makes(claim.spec, {"token": "secret"}, self.bucket)


class GitHub(_Forge):
    """See `_Forge`."""

    type, provider = connection.Type.GITHUB, "github"

    def opens(self, assigned: assignments.Assignments) -> Callable[[assignments.Claim], port.Source]:
        """See `Site`."""
        return self._opens(lambda: github.GitHub(page=PAGE))


class GitLab(_Forge):
    """See `_Forge`."""

    type, provider = connection.Type.GITLAB, "gitlab"

    def opens(self, assigned: assignments.Assignments) -> Callable[[assignments.Claim], port.Source]:
        """See `Site`."""
        return self._opens(lambda: gitlab.GitLab(page=PAGE))


class Gitea(_Forge):
    """See `_Forge`."""

    type, provider = connection.Type.GITEA, "gitea"

    def made(self) -> forge.Forge:
        """See `_Forge`."""
        return GiteaServer()

    def opens(self, assigned: assignments.Assignments) -> Callable[[assignments.Claim], port.Source]:
        """See `Site`."""
        return self._opens(lambda: gitea.Gitea(page=PAGE))
