"""Confluence as its API pages describe it: the search for content of Cloud (cursors) and of Data Center (start, limit).

Search shows a change `late` after it, knows minutes in the zone of the user, and lists only what is current and shown
to the user. A move to another space, a restoration and a restriction change neither the version nor its time.
"""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from aiohttp import web

from tests.sources.atlassian_server import Server
from tests.sources.jira_server import wire

MOST_READERS = 100
"""Users, or groups, of a restriction that one answer has."""


@dataclass
class Content:
    id: int
    type: str
    space: str
    title: str
    body: str
    created: datetime
    when: datetime
    number: int = 1
    status: str = "current"
    parent: int = 0
    """The page above, or the one that a comment or an attachment belongs to."""
    hidden: bool = False
    readers: dict[str, list[str]] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    file: bytes = b""


class Confluence(Server):
    """See `Server`."""

    prefix = "/wiki"

    def __init__(self, dice: random.Random, *, zone: str = "UTC", cloud: bool = True, page: int = 1000) -> None:
        super().__init__(dice, zone=zone, cloud=cloud, page=page)
        self.contents: dict[int, Content] = {}
        self.index: dict[int, tuple[datetime, int]] = {}
        self.pending: list[tuple[datetime, int]] = []
        self.spaces = ["DEV", "OPS", "SEC"]
        self.poison_status = 500
        self._ids = itertools.count(101)

    # The site

    def put(self, space: str = "OPS", kind: str = "page", **more: Any) -> Content:
        number = next(self._ids)
        said = {"title": f"Page {number}", "body": f"<p>Text {number}.</p>", **more}
        made = Content(number, kind, space, created=self.now, when=self.now, **said)
        self.contents[number] = made
        self._show(made)
        return made

    def edit(self, one: Content, body: str) -> None:
        one.body, one.number, one.when = body, one.number + 1, self.now
        self._show(one)

    def _show(self, one: Content) -> None:
        self.pending.append((self.now + self.late * self.dice.random(), one.id))

    def move(self, one: Content, space: str) -> None:
        """With all that belongs to it; no new version."""
        one.space = space
        for each in self.contents.values():
            if each.parent == one.id and each.type in ("comment", "attachment"):
                each.space = space

    def settle(self) -> None:
        for due, number in list(self.pending):
            if due <= self.now:
                self.pending.remove((due, number))
                self.index[number] = (self.contents[number].when, self.contents[number].number)

    def seen(self, one: Content) -> bool:
        if one.hidden or one.status != "current" or one.space in self.unseen:
            return False
        return one.type not in ("comment", "attachment") or self.seen(self.contents[one.parent])

    def live(self) -> set[Content]:
        return {one for one in self.contents.values() if one.type in ("page", "blogpost") and self.seen(one)}

    # The wire

    async def answer(self, request: web.Request, path: str) -> web.Response:
        """See `Server`."""
        if path == "rest/api/user/current":
            return web.json_response({"accountId": "me", **({"timeZone": self.zone} if self.cloud else {})})
        if path == ("api/v2/spaces" if self.cloud else "rest/api/space"):
            shown = [{"id": n, "key": key, "name": f"Space {key}"} for n, key in enumerate(self.spaces, 1)]
            return self._paged([one for one in shown if one["key"] not in self.unseen], request, 2, path)
        if path == "rest/api/content/search":
            try:
                return self._search(request)
            except ValueError as error:
                return web.json_response({"message": str(error)}, status=400)
        if path.startswith("download/"):
            return web.Response(body=self.contents[int(path.removeprefix("download/"))].file)
        return web.json_response({"message": "no such resource"}, status=404)

    def _paged(self, found: list[Any], request: web.Request, most: int, path: str) -> web.Response:
        size = min(int(request.query["limit"]), most)
        start = int(request.query.get("cursor", request.query.get("start", 0)))
        links = {}
        if start + size < len(found):
            following = {**request.query, "limit": str(size), "cursor" if self.cloud else "start": str(start + size)}
            links = {"next": f"/{path}?{urlencode(following)}"}
        return web.json_response({"results": found[start : start + size], "_links": links})

    def _search(self, request: web.Request) -> web.Response:
        clauses, _, order = request.query["cql"].partition(" ORDER BY ")
        wanted = _parts(clauses)
        found = [
            one for one in self.contents.values()
            if one.id in self.index and self.seen(one) and all(self._holds(each, one) for each in wanted)
        ]  # fmt: skip
        if order == "created ASC" and "container" not in clauses:
            found = [one for one in found if one.id not in self.lacking]
        found.sort(key=lambda one: (self.index[one.id][0] if order.startswith("lastm") else one.created, one.id))
        expand = request.query.get("expand", "")
        if self.poison & {one.id for one in found} and "body" in expand:
            return web.json_response({"message": "rendering failed"}, status=self.poison_status)
        made = [self._wire(one, expand) for one in found]
        return self._paged(made, request, self.page, "rest/api/content/search")

    def _holds(self, clause: str, one: Content) -> bool:
        if clause.startswith("((space"):
            pairs = re.findall(r'space = "(.*?)" AND title = "(.*?)"', clause)
            return one.type in ("page", "blogpost") and (one.space, one.title) in pairs
        match = re.fullmatch(r"(type|space|id|container) (in|not in) \((.*)\)", clause)
        if match:
            named = {name.strip(' "') for name in match[3].split(",")}
            if match[1] == "space" and named - set(self.spaces) | named & self.unseen:
                raise ValueError("There is no space with this key.")
            value = {"type": one.type, "space": one.space, "id": str(one.id), "container": str(one.parent)}[match[1]]
            return (value in named) == (match[2] == "in")
        match = re.fullmatch(r"type = (\w+)", clause)
        if match:
            return one.type == match[1]
        match = re.fullmatch(r"\(label = (\w+)\)", clause)
        if match:
            return match[1] in one.labels
        match = re.fullmatch(r'lastmodified >= "(\d{4}-\d\d-\d\d \d\d:\d\d)"', clause)
        if match:
            local = datetime.strptime(match[1], "%Y-%m-%d %H:%M").replace(tzinfo=ZoneInfo(self.zone), fold=1)
            return self.index[one.id][0] >= local.astimezone(UTC)
        raise ValueError(f"Could not parse cql: {clause}")

    def _wire(self, one: Content, expand: str) -> dict[str, Any]:
        when, number = self.index[one.id] if "body" not in expand else (one.when, one.number)
        made: dict[str, Any] = {"id": str(one.id), "type": one.type, "status": one.status, "title": one.title}
        if "space" in expand:
            made["space"] = {"key": one.space}
        if "version" in expand:
            made["version"] = {"number": number, "when": wire(when, self.zone)}
        if "container" in expand and one.type in ("comment", "attachment"):
            made["container"] = {"id": str(one.parent), "type": "page"}
        if "body" in expand:
            made["body"] = {"storage": {"value": one.body, "representation": "storage"}}
        if "history" in expand:
            author = {"accountId": "acc-1", "displayName": "Jana", "email": "jana@acme.example"}
            made["history"] = {"createdBy": author, "createdDate": wire(one.created, self.zone)}
        if "ancestors" in expand:
            made["ancestors"] = self._ancestors(one)
        if "restrictions" in expand:
            limits = {
                kind: {
                    "results": [{"accountId" if kind == "user" else "id": name} for name in names[:MOST_READERS]],
                    "start": 0,
                    "limit": MOST_READERS,
                    "size": min(len(names), MOST_READERS),
                }
                for kind, names in one.readers.items()
            }
            made["restrictions"] = {"read": {"restrictions": limits}}
        if "labels" in expand:
            made["metadata"] = {"labels": {"results": [{"name": name} for name in one.labels]}}
        if one.type == "attachment":
            made["extensions"] = {"mediaType": "text/plain", "fileSize": len(one.file)}
            made["_links"] = {"download": f"/download/{one.id}"}
        return made

    def _ancestors(self, one: Content) -> list[dict[str, str]]:
        found = []
        while one.parent in self.contents and one.type in ("page", "blogpost"):
            one = self.contents[one.parent]
            found.append({"id": str(one.id), "title": one.title})
        return found[::-1]


def _parts(clauses: str) -> list[str]:
    """What AND joins outside of parentheses."""
    found, depth = [""], 0
    for word in clauses.split(" "):
        depth += word.count("(") - word.count(")")
        if word == "AND" and depth == 0:
            found.append("")
        else:
            found[-1] += f" {word}"
    return [one.strip() for one in found]
