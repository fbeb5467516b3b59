"""Issues of Jira Cloud (REST v3) and Data Center (REST v2): by the time of their last change, to the minute.

A poll lists what changed since a while before the last change that was seen (`window`) and fetches what is new in it.
The list goes on from the minute that it reached, not by page: pages shift when an issue is changed meanwhile, and the
tokens of pages expire. Within one minute there is no other way than pages. JQL knows minutes in the time zone of the
user. An issue for which the server fails is a failure, the others of its batch are not.

Source: developer.atlassian.com "Issue search" (search/jql), "Issues" (bulkfetch), "Search and reconcile".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson
import structlog

from sources.core import port, rest, time_cursor
from sources.providers.atlassian import sites as atlassian
from sources.providers.jira import issue as jira_issue

log = structlog.get_logger("sources")

COMMENTS = 100
"""Of a page. Jira may answer fewer."""
MOST_COMMENTS, COMMENT_BYTES = 5000, 16 << 20
"""Of an issue: the newest are read."""
RESTARTS = 5
Listed = Mapping[str, Any]


class Shifted(port.Unreachable):
    """A list has to be asked for again from its beginning."""


class Jira(atlassian.Poll):
    """See `atlassian.Poll`."""

    tells = True
    product, kind, right, names = "Jira", "project", "browse", ("name", "id", "key")
    _version = 3
    _custom: jira_issue.Custom | None = None

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        async with self._session() as absent:
            seen = time_cursor.Window.read(cursor, self._of, self._api.date)
            async for batch in self._changes(seen):
                yield batch
            self._complain(absent)

    async def ids(self) -> AsyncGenerator[port.Page]:
        """See `port.Source`. What an issue of a project that the user sees no more is not known: it is kept."""
        async with self._session() as absent:
            self._complain(absent)
            jql = self._jql(self._since(), "created")
            visible = frozenset(self._places.values())
            async for found in self._pages(jql, ["security"], self._ids_size):
                told = {jira_issue.place(one): jira_issue.readers(one) for one in found}
                yield port.Page(tuple(told), within=visible, access=told)
            yield port.Page((), last=True, within=visible)

    async def fetch(self, places: Sequence[str]) -> AsyncGenerator[port.Batch]:
        """See `port.Fetching`."""
        async with self._session():
            names = [place.split("/")[1] for place in places]
            for start in range(0, len(names), self._size):
                # Only what the list admits, which the ids alone do not say.
                jql = self._jql(self._since(), "created", names[start : start + self._size])
                async for found in self._pages(jql, ["key"], self._size):
                    listed = dict.fromkeys([str(one["id"]) for one in found], (0, 0))
                    async for batch in self._take(time_cursor.Window(""), listed):
                        yield batch

    async def _visible(self) -> Sequence[Listed]:
        """See `atlassian.Poll`; the version, too."""
        try:
            me = await self._get("myself")
        except rest.Absent:
            self._version = 2
            me = await self._get("myself")
        self._zone = atlassian.zone(me.get("timeZone"))
        if self._version == 2:
            return rest.listed({"project": await self._get("project")}, "project", "project")
        found: list[Listed] = []
        while True:
            page = await self._get("project/search", {"startAt": len(found), "maxResults": 50, "orderBy": "key"})
            found += rest.listed(page, "values", "project/search")
            atlassian.countable(found, "projects")
            if page.get("isLast", True) or not page["values"]:
                return found

    def _since(self) -> datetime:
        """From when on everything is read."""
        return time_cursor.Window("").since(self._filter.since)

    def _jql(self, since: datetime, order: str, names: Sequence[str] = ()) -> str:
        assert self._zone is not None
        query = [f"({self._filter.query})"] if self._filter.query else []
        query += [f"id in ({', '.join(names)})"] if names else []
        asked = f"updated >= {time_cursor.quoted(time_cursor.minute(since, self._zone))}"
        return f"{' AND '.join([*self._where(), *query, asked])} ORDER BY {order} ASC"

    async def _changes(self, seen: time_cursor.Window) -> AsyncGenerator[port.Batch]:
        jql = self._jql(seen.since(self._filter.since), "updated")
        restarts = 0
        while True:
            following = jql
            try:
                async with aclosing(self._pages(jql, ["updated"], self._size, once=True)) as pages:
                    async for found in pages:
                        stamps, foreign = _stamps(found)
                        if foreign:
                            yield seen.batch((), foreign)
                        new = {name: at for name, at in stamps.items() if seen.new(name, at)}
                        async for batch in self._take(seen, new):
                            yield batch
                        if stamps:
                            newest = datetime.fromtimestamp(max(stamps.values())[0] / 1000, UTC)
                            following = self._jql(newest, "updated")
                        if _from(following) > _from(jql):
                            break
                    else:
                        return
            except Shifted:
                restarts += 1
                if restarts > RESTARTS:
                    raise
                continue
            jql, restarts = following, 0

    async def _pages(
        self, jql: str, fields: Sequence[str], size: int, *, once: bool = False
    ) -> AsyncGenerator[list[Listed]]:
        """Pages until the last one. One that shifted or whose token expired is asked for again from the first page, or
        raises `Shifted` where the caller does that (`once`)."""
        restarts = 0
        token: tuple[str, str] | None = None
        count, tokens = 0, set[tuple[str, str]]()
        while True:
            try:
                found, token, total = await self._page(jql, fields, size, token)
                if token in tokens:
                    raise Shifted("The pages of the list lead in a circle.")
            except Shifted:
                restarts += 1
                if once or restarts > RESTARTS:
                    raise
                token, count, tokens = None, 0, set()
                continue
            tokens |= {token} if token is not None else set()
            count += len(found)
            yield found
            if token is None:
                if count < total:
                    raise port.Unreachable(f"Jira counts {total} issues and lists {count}.")
                return

    async def _page(
        self, jql: str, fields: Sequence[str], size: int, token: tuple[str, str] | None
    ) -> tuple[list[Listed], tuple[str, str] | None, int]:
        """(issues, what names the next page, how many there are or 0)."""
        body: dict[str, Any] = {"jql": jql, "maxResults": size, "fields": list(fields)}
        if self._version == 3:
            if token is not None:
                body["nextPageToken"] = token[0]
            try:
                page = await self._post("search/jql", body)
            except port.Misconfigured as error:
                if token is None:
                    raise
                raise Shifted(f"The list cannot be continued: {error.message}") from error
            following = page.get("nextPageToken")
            if not following and page.get("isLast") is False:
                raise Shifted("The list breaks off before its end.")
            return rest.listed(page, "issues", "search/jql"), (following, "") if following else None, 0
        # Each page begins with the last issue of the one before it: if it does not, something moved.
        start = int(token[0]) if token is not None else 0
        page = await self._post("search", {**body, "startAt": max(start - 1, 0)})
        found, total = rest.listed(page, "issues", "search"), int(page.get("total") or 0)
        if start:
            if not found or str(found[0]["id"]) != (token or ("", ""))[1]:
                raise Shifted("The list changed while it was read.")
            found = found[1:]
        reached = start + len(found)
        return found, (str(reached), str(found[-1]["id"])) if found and reached < total else None, total

    async def _take(
        self, seen: time_cursor.Window, listed: Mapping[str, time_cursor.Stamp]
    ) -> AsyncGenerator[port.Batch]:
        """Batches of these issues, in order."""
        if not listed:
            return
        if self._custom is None:
            self._custom = jira_issue.Custom.read(await self._get("field"))
        found, bad = await atlassian.apart(self._details, list(listed))
        by_id = {str(one["id"]): one for one in found if isinstance(one, Mapping) and "id" in one}
        items, failures, size, broken = list[port.Item](), list[port.Failure](), 0, 0
        for name, at in listed.items():
            issue, taken = by_id.get(name), at
            if issue is not None:
                try:
                    items.append(await self._item(issue))
                    taken = jira_issue.stamp(issue)
                    size, broken = size + atlassian.weight(items[-1]), 0
                except atlassian.UNFORESEEN as error:
                    log.exception("issue not read", issue=name)
                    bad[name] = f"This issue cannot be read: {error!r}."
                except rest.ONE_THING as error:
                    broken += 1
                    if broken > atlassian.MOST_BAD:
                        raise
                    bad[name] = f"Jira does not give all of this issue: {error.message}"
            if name in bad:
                failures.append(await self._failure(name, issue, bad[name]))
            # One that is neither is not there any more, or is not shown: the list of everything decides.
            seen.take(name, taken, at)
            if len(items) + len(failures) >= atlassian.BATCH or size > atlassian.BATCH_BYTES:
                yield seen.batch(items, failures)
                items, failures, size = [], [], 0
        yield seen.batch(items, failures)

    async def _failure(self, name: str, issue: Listed | None, reason: str) -> port.Failure:
        """Its place needs its key, which a search tells."""
        if issue is None:
            body = {"jql": f"id in ({name})", "maxResults": 1, "fields": ["key", "summary"]}
            try:
                page = await self._post("search/jql" if self._version == 3 else "search", body)
                found = rest.listed(page, "issues", "search")
            except (port.Misconfigured, rest.Broken, rest.Garbled, rest.Foreign):
                found = []
            issue = found[0] if found else None
        try:
            place = jira_issue.place(issue) if issue else ""
        except atlassian.UNFORESEEN:
            place = ""
        key, fields = place.rpartition("/")[2], (issue or {}).get("fields")
        summary = str(fields.get("summary") or "") if isinstance(fields, Mapping) else ""
        return port.Failure(name, f"{key} {summary}".strip()[:200], reason, place)

    async def _details(self, names: Sequence[str]) -> list[Listed]:
        assert self._custom is not None
        fields = [*jira_issue.FIELDS, *(one for one in (self._custom.sprint, self._custom.epic) if one)]
        if self._version == 3:
            body: dict[str, Any] = {"issueIdsOrKeys": list(names), "fields": fields, "expand": ["changelog"]}
            answer = await self._post("issue/bulkfetch", body)
            errors = answer.get("issueErrors") or []
            if errors:
                raise rest.Broken(f"Jira cannot return the issue: {str(errors[0].get('errorMessage'))[:200]}")
        else:
            body = {
                "jql": f"id in ({', '.join(names)})", "maxResults": len(names), "fields": fields,
                "expand": ["changelog"], "validateQuery": False,
            }  # fmt: skip
            answer = await self._post("search", body)
        return rest.listed(answer, "issues", "the details of issues")

    async def _item(self, issue: Listed) -> port.Item:
        assert self._custom is not None
        fields = issue["fields"]
        comments, older = await self._comments(issue)
        listed = [
            {
                "name": one.get("filename", ""),
                "size": one.get("size", 0),
                "mediaType": one.get("mimeType", ""),
                "path": f"rest/api/3/attachment/content/{one['id']}"
                if self._version == 3
                else f"secure/attachment/{one['id']}/{quote(str(one.get('filename', '')))}",
            }
            for one in fields.get("attachment") or ()
        ]
        files, lines = await atlassian.files(self._api, listed)
        visible = frozenset(self._places.values())
        return await asyncio.to_thread(jira_issue.item, issue, comments, files, lines, self._custom, visible, older)

    async def _comments(self, issue: Listed) -> tuple[list[Listed], int]:
        """(the newest of them, oldest first; how many older ones are left out)."""
        first = issue["fields"].get("comment") or {}
        found = {str(one["id"]): one for one in first.get("comments") or ()}
        total = int(first.get("total") or 0)
        if len(found) < total:
            found, start, size = {}, max(0, total - MOST_COMMENTS), 0
            for _ in range(2 * MOST_COMMENTS):
                asked = {"startAt": start, "maxResults": COMMENTS, "orderBy": "created"}
                page = await self._get(f"issue/{issue['id']}/comment", asked)
                some = rest.listed(page, "comments", "comment")
                for one in some:
                    found[str(one["id"])] = one
                    size += _size(one)
                while size > COMMENT_BYTES and len(found) > 1:
                    size -= _size(found.pop(next(iter(found))))
                start += len(some)
                if not some or start >= int(page["total"]):
                    break
        said = sorted(found.values(), key=lambda one: (time_cursor.milliseconds(one["created"]), int(one["id"])))
        return said, max(0, total - len(found))

    async def _get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return (await self._api.get(f"rest/api/{self._version}/{path}", params)).json

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return (await self._api.request("POST", f"rest/api/{self._version}/{path}", json=body)).json


def _stamps(found: Sequence[Any]) -> tuple[dict[str, time_cursor.Stamp], list[port.Failure]]:
    """When the listed issues changed, by id; and what is listed and is none."""
    stamps: dict[str, time_cursor.Stamp] = {}
    foreign = list[port.Failure]()
    for one in found:
        try:
            stamps[str(int(one["id"]))] = jira_issue.stamp(one)
        except atlassian.UNFORESEEN as error:
            name = str(one.get("id") or "") if isinstance(one, Mapping) else ""
            key = str(one.get("key") or "") if isinstance(one, Mapping) else ""
            place = jira_issue.place(one) if name and key else ""
            name = name or f"entry {time_cursor.of(one)}"
            foreign.append(port.Failure(name, key, f"Jira lists it without an id or a time: {error!r}.", place))
    return stamps, foreign


def _size(comment: Listed) -> int:
    return len(orjson.dumps(comment))


def _from(jql: str) -> str:
    """The minute of a query, which is its last text."""
    return jql.rsplit('"', 2)[1]


opened = Jira.opened
