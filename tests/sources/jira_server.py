"""Jira as its API pages describe it: Cloud (search/jql, bulkfetch) or Data Center (search), in memory and on
the wire.

Its search shows a change `late` after it, in any order, with times to the minute in the zone of the user; a token is
good for `token_life` changes of the site; a page of Data Center shifts when an issue before it changes.
"""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web

from tests.sources.atlassian_server import Server


@dataclass
class Issue:
    id: int
    key: str
    created: datetime
    updated: datetime
    fields: dict[str, Any] = field(default_factory=dict)
    comments: list[dict[str, Any]] = field(default_factory=list)
    history: int = 0
    hidden: bool = False
    """The user may not see it."""


class Jira(Server):
    """See `Server`."""

    def __init__(self, dice: random.Random, *, zone: str = "UTC", cloud: bool = True, page: int = 1000) -> None:
        super().__init__(dice, zone=zone, cloud=cloud, page=page)
        self.issues: dict[int, Issue] = {}
        self.index: dict[int, tuple[str, datetime]] = {}
        """What search knows: key and time of change."""
        self.pending: list[tuple[datetime, int]] = []
        self.projects = {"JERV": "1", "SHOP": "2", "SEC": "3"}
        self.poison_status = 400
        self.files: dict[str, bytes] = {}
        self.queries: list[str] = []
        self.custom: list[dict[str, Any]] = []
        self.tokens: dict[str, tuple[list[int], int, int]] = {}
        self.token_life = 10**9
        self.zone_name: str | None = zone
        self.changes = 0
        self._ids, self._numbers, self._token = itertools.count(10001), itertools.count(1), itertools.count(1)

    # The site

    def put(self, project: str = "JERV", **fields: Any) -> Issue:
        number = next(self._ids)
        made = Issue(
            number, f"{project}-{next(self._numbers)}", self.now, self.now, {"summary": f"Issue {number}", **fields}
        )
        self.issues[number] = made
        self.touch(made)
        return made

    def touch(self, one: Issue, **fields: Any) -> None:
        """Change it; search shows that later."""
        one.fields |= fields
        one.updated, one.history = self.now, one.history + 1
        self.changes += 1
        self.pending.append((self.now + self.late * self.dice.random(), one.id))

    def comment(self, one: Issue, body: Any, **more: Any) -> None:
        number = str(next(self._numbers))
        at = wire(self.now)
        author = {"accountId": "acc-1", "displayName": "Jana"}
        one.comments.append({"id": number, "author": author, "body": body, "created": at, "updated": at, **more})
        self.touch(one)

    def move(self, one: Issue, project: str) -> None:
        one.key = f"{project}-{next(self._numbers)}"
        self.touch(one)

    def delete(self, one: Issue) -> None:
        del self.issues[one.id]
        self.index.pop(one.id, None)
        self.changes += 1

    def settle(self) -> None:
        """Let search show what is due."""
        for due, number in list(self.pending):
            if due <= self.now:
                self.pending.remove((due, number))
                if number in self.issues:
                    self.index[number] = (self.issues[number].key, self.issues[number].updated)

    def seen(self, one: Issue) -> bool:
        return not one.hidden and one.key.rpartition("-")[0] not in self.unseen

    # The wire

    async def answer(self, request: web.Request, path: str) -> web.Response:
        """See `Server`."""
        if not request.headers.get("Authorization", "").startswith(("Basic ", "Bearer ")):
            return refused(401, "no credentials")
        version = "3" if self.cloud else "2"
        if path.startswith(("rest/api/3/attachment/content/", "secure/attachment/")):
            return web.Response(
                body=self.files[path.removeprefix("secure/attachment/").split("/")[0 if not self.cloud else -1]]
            )
        prefix = f"rest/api/{version}/"
        if not path.startswith(prefix):
            return refused(404, "no such resource")
        body = await request.json() if request.method == "POST" else {}
        rest = path.removeprefix(prefix)
        if rest == "search" and self.cloud:
            return refused(410, "The requested API has been removed. Use /rest/api/3/search/jql.")
        if rest == "myself":
            return web.json_response({"accountId": "me", **({"timeZone": self.zone_name} if self.zone_name else {})})
        if rest == "field":
            return web.json_response(self.custom)
        if rest == "project" and not self.cloud:
            return web.json_response(self._projects())
        if rest == "project/search" and self.cloud:
            start = int(request.query["startAt"])
            some = self._projects()[start : start + 2]
            return web.json_response({"values": some, "isLast": start + 2 >= len(self._projects())})
        if rest == ("search/jql" if self.cloud else "search"):
            return self._search(body)
        if rest == "issue/bulkfetch" and self.cloud:
            return self._details([int(one) for one in body["issueIdsOrKeys"]], body)
        found = re.fullmatch(r"issue/(\d+)/comment", rest)
        if found:
            comments = self.issues[int(found[1])].comments
            start, most = int(request.query["startAt"]), min(int(request.query["maxResults"]), 3)
            some = comments[start : start + most]
            return web.json_response({"startAt": start, "maxResults": most, "total": len(comments), "comments": some})
        return refused(404, f"no such resource {rest}")

    def _projects(self) -> list[dict[str, str]]:
        return [
            {"id": number, "key": key, "name": f"Project {key}"}
            for key, number in sorted(self.projects.items())
            if key not in self.unseen
        ]

    def _matching(self, jql: str) -> list[int]:
        """Ids in order. Raises `ValueError` for what is no query."""
        clauses, _, order = jql.partition(" ORDER BY ")
        found = []
        wanted = clauses.split(" AND ")
        for number, (key, updated) in self.index.items():
            one = self.issues[number]
            if number in self.lacking and order == "created ASC" and "id in (" not in clauses:
                continue
            if self.seen(one) and all(self._holds(clause, one, key, updated) for clause in wanted):
                found.append((updated if order == "updated ASC" else one.created, number))
        return [number for _, number in sorted(found)]

    def _holds(self, clause: str, one: Issue, key: str, updated: datetime) -> bool:
        match = re.fullmatch(r"project (in|not in) \((.*)\)", clause)
        if match:
            named = {name.strip(' "') for name in match[2].split(",")}
            for name in named:
                if name not in self.projects or name in self.unseen:
                    raise ValueError(f"The value '{name}' does not exist for the field 'project'.")
            return (key.rpartition("-")[0] in named) == (match[1] == "in")
        match = re.fullmatch(r'updated >= "(\d{4}-\d\d-\d\d \d\d:\d\d)"', clause)
        if match:
            # A minute that the clock shows twice is read as the later one.
            local = datetime.strptime(match[1], "%Y-%m-%d %H:%M").replace(tzinfo=ZoneInfo(self.zone), fold=1)
            return updated >= local.astimezone(UTC)
        match = re.fullmatch(r"\(labels = (\w+)\)", clause)
        if match:
            return match[1] in one.fields.get("labels", ())
        match = re.fullmatch(r"id in \(([\d, ]+)\)", clause)
        if match:
            return one.id in {int(part) for part in match[1].split(",")}
        raise ValueError(f"Error in the JQL Query: {clause}")

    def _search(self, body: dict[str, Any]) -> web.Response:
        self.queries.append(body["jql"])
        size, fields = min(body["maxResults"], self.page), body["fields"]
        if not self.cloud and "validateQuery" in body:
            return self._details(self._matching(body["jql"]), body)
        if body.get("nextPageToken"):
            ids, start, made = self.tokens.get(body["nextPageToken"], ([], 0, -(10**9)))
            if self.changes - made > self.token_life or not ids:
                return refused(400, "The provided next page token is invalid or expired.")
            ids = [one for one in ids if one in self.index]
        else:
            try:
                ids, start, made = self._matching(body["jql"]), int(body.get("startAt", 0)), self.changes
            except ValueError as error:
                return refused(400, str(error))
        some = ids[start : start + size]
        issues = [self._listed(number, fields) for number in some]
        if not self.cloud:
            return web.json_response({"startAt": start, "maxResults": size, "total": len(ids), "issues": issues})
        following = {}
        if start + size < len(ids):
            token = f"t{next(self._token)}"
            self.tokens[token] = (ids, start + size, made)
            following = {"nextPageToken": token}
        return web.json_response({"issues": issues, "isLast": not following, **following})

    def _listed(self, number: int, fields: list[str]) -> dict[str, Any]:
        key, updated = self.index[number]
        said: dict[str, Any] = {"updated": wire(updated, self.zone)} if "updated" in fields else {}
        if "security" in fields:
            said["security"] = self.issues[number].fields.get("security")
        return {"id": str(number), "key": key, "fields": said}

    def _details(self, ids: list[int], body: dict[str, Any]) -> web.Response:
        if self.poison & set(ids):
            return refused(self.poison_status, "One of the issues cannot be rendered.")
        found = [self._full(self.issues[number]) for number in ids if number in self.issues]
        return web.json_response({"issues": [one for one in found if one], "issueErrors": []})

    def _full(self, one: Issue) -> dict[str, Any] | None:
        if not self.seen(one):
            return None
        first = one.comments[:2]
        return {
            "id": str(one.id),
            "key": one.key,
            "changelog": {"histories": [{"id": str(one.history)}]},
            "fields": {
                "created": wire(one.created, self.zone),
                "updated": wire(one.updated, self.zone),
                "comment": {"comments": first, "total": len(one.comments), "maxResults": 2, "startAt": 0},
                **one.fields,
            },
        }


def refused(status: int, why: str) -> web.Response:
    return web.json_response({"errorMessages": [why]}, status=status)


def wire(at: datetime, zone: str = "UTC") -> str:
    """As Jira writes times: milliseconds and an offset without a colon."""
    local = at.astimezone(ZoneInfo(zone))
    return f"{local:%Y-%m-%dT%H:%M:%S}.{local.microsecond // 1000:03d}{local:%z}"
