"""Pages and blog posts of Confluence Cloud and Data Center, by the search for content (CQL).

A poll lists which pages, posts, comments and attachments changed since a while before the last change that was seen
(`window`), and fetches the pages that they belong to. What has no new time although it appears (a page that was moved,
restored, or shown to the user again) is fetched when the list of everything names it (`fetch`). Drafts, archived and
trashed pages are not listed.

Source: developer.atlassian.com "Search content" (v1, both products), "Spaces" (v2; v1 in Data Center).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
import structlog

from crds import connection
from sources.core import port, rest, time_cursor
from sources.providers.atlassian import sites as atlassian
from sources.providers.confluence import page as confluence_page

log = structlog.get_logger("sources")

DETAILS = 25
"""Pages of an answer with their contents. Confluence may answer fewer."""
PARTS_BYTES = 32 << 20
"""Of the comments of pages that are fetched together; of more the newest are read."""
_PAGES = "type in (page, blogpost)"
_ALL = "type in (page, blogpost, comment, attachment)"
_SEARCH = "rest/api/content/search"
Listed = Mapping[str, Any]


class Confluence(atlassian.Poll):
    """See `atlassian.Poll`."""

    tells = True
    product, kind, right, sizes = "Confluence", "space", "view", (100, 200)

    def __init__(self, opens: atlassian.Api, chosen: connection.Filter, of: str, size: int, ids_size: int) -> None:
        super().__init__(opens, chosen, of, size, ids_size)
        self._readers: dict[str, frozenset[str] | None] = {}
        self._asked: set[str] = set()
        """Ancestors whose readers were asked for; those of one that is not shown stay unknown."""

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        async with self._session() as absent:
            if self._filter.query:
                # A query that is refused must not look like pages that cannot be read.
                await self._api.get(_SEARCH, {"cql": self._admitted(), "limit": 1})
            async for batch in self._changes(time_cursor.Window.read(cursor, self._of, self._api.date)):
                yield batch
            self._complain(absent)

    async def ids(self) -> AsyncGenerator[port.Page]:
        """See `port.Source`. What a space has that the user sees no more is not known: it is kept."""
        async with self._session() as absent:
            self._complain(absent)
            visible = frozenset(self._places.values())
            asked = f"space,ancestors,{confluence_page.RESTRICTIONS}"
            async for found in self._search(f"{self._admitted()} ORDER BY created ASC", asked, self._ids_size):
                self._note_readers(found)
                await self._learn_readers(found)
                told = {confluence_page.place(one): confluence_page.may_read(one, self._readers) for one in found}
                yield port.Page(tuple(told), within=visible, access=told)
            yield port.Page((), last=True, within=visible)

    async def fetch(self, places: Sequence[str]) -> AsyncGenerator[port.Batch]:
        """See `port.Fetching`."""
        async with self._session():
            names = [place.rpartition("/")[2] for place in places]
            for start in range(0, len(names), self._size):
                async for items, failures in self._take(names[start : start + self._size]):
                    yield time_cursor.Window("").batch(items, failures)

    async def _visible(self) -> Sequence[Listed]:
        """See `atlassian.Poll`."""
        me = (await self._api.get("rest/api/user/current")).json
        self._zone = atlassian.zone(me.get("timeZone"))
        listed: list[Listed] = []
        try:
            async for found in self._follow("api/v2/spaces", {"limit": 250}):
                listed += found
                atlassian.countable(listed, "spaces")
        except rest.Absent:
            async for found in self._follow("rest/api/space", {"limit": 200}):
                listed += found
                atlassian.countable(listed, "spaces")
        return [one for one in listed if one.get("status", "current") == "current"]

    def _since(self, at: datetime) -> str:
        assert self._zone is not None
        return f"lastmodified >= {time_cursor.quoted(time_cursor.minute(at, self._zone))}"

    def _admitted(self) -> str:
        """What is read at all, in the list and in the poll."""
        query = [f"({self._filter.query})"] if self._filter.query else []
        since = [self._since(self._filter.since)] if self._filter.since else []
        return " AND ".join([_PAGES, *self._where(), *query, *since])

    def _changed(self, at: datetime) -> str:
        # Comments and attachments have no labels: the query of the filter is asked of their pages.
        return " AND ".join([_ALL, *self._where(), self._since(at)]) + " ORDER BY lastmodified ASC"

    async def _changes(self, seen: time_cursor.Window) -> AsyncGenerator[port.Batch]:
        cql = self._changed(seen.since(self._filter.since))
        while True:
            following = cql
            async with aclosing(self._search(cql, "version,space,container", self._size)) as pages:
                async for found in pages:
                    stamps, foreign = _stamps(found)
                    if foreign:
                        yield seen.batch((), foreign)
                    new = {name: at for name, at in stamps.items() if seen.new(name, at[0])}
                    if new:
                        names = list(dict.fromkeys(_page_of(one) for _, one in new.values()))
                        async with aclosing(self._take(names)) as portions:
                            async for items, failures in portions:
                                yield seen.batch(items, failures)
                        for name, (at, _) in new.items():
                            seen.take(name, at, at)
                        yield seen.batch()
                    if stamps:
                        newest = max(at[0] for at, _ in stamps.values())
                        following = self._changed(datetime.fromtimestamp(newest / 1000, UTC))
                    if following.rsplit('"', 2)[1] > cql.rsplit('"', 2)[1]:
                        break
                else:
                    return
            cql = following

    async def _take(self, names: Sequence[str]) -> AsyncGenerator[tuple[list[port.Item], list[port.Failure]]]:
        """Portions of these pages; one that is not admitted, or not shown, is left out."""
        for start in range(0, len(names), DETAILS):
            wanted = [one for one in names[start : start + DETAILS] if one.isdigit()]
            found, bad = await atlassian.apart(self._details, wanted)
            ids = [str(one["id"]) for one in found]
            comments, older, lacking = await self._parts("comment", ids, "body.storage,version,history,container")
            attached, _, more = await self._parts("attachment", ids, "version,container,metadata,extensions")
            bad |= more | lacking
            await self._learn_readers(found)
            items, failures, size = list[port.Item](), list[port.Failure](), 0
            for page in found:
                name = str(page["id"])
                if name in bad:
                    continue
                try:
                    item = await self._item(page, comments.get(name, []), older.get(name, 0), attached.get(name, []))
                except atlassian.UNFORESEEN as error:
                    log.exception("page not read", page=name)
                    where = confluence_page.place(page) if page.get("space") else ""
                    reason = f"This page cannot be read: {error!r}."
                    failures.append(port.Failure(name, str(page.get("title") or "")[:200], reason, where))
                    continue
                items.append(item)
                size += atlassian.weight(item)
                if size > atlassian.BATCH_BYTES:
                    yield items, failures
                    items, failures, size = [], [], 0
            failures += [await self._failure(name, reason) for name, reason in bad.items()]
            if items or failures:
                yield items, failures

    async def _details(self, names: Sequence[str]) -> list[Listed]:
        found: list[Listed] = []
        cql = f"id in ({', '.join(names)}) AND {self._admitted()}"
        async for some in self._search(cql, confluence_page.EXPAND, DETAILS):
            found += [one for one in some if one.get("id") and one.get("status", "current") == "current"]
        return found

    async def _failure(self, name: str, reason: str) -> port.Failure:
        """Its place needs its space, which a search without contents tells."""
        found: list[Listed] = []
        try:
            async for some in self._search(f"id in ({name}) AND {_PAGES}", "space", 1):
                found += some
        except (port.Misconfigured, rest.Broken, rest.Garbled, rest.Foreign) as error:
            log.info("place of a page not known", page=name, reason=error.message)
        where = confluence_page.place(found[0]) if found else ""
        return port.Failure(name, str(found[0]["title"])[:200] if found else "", reason, where)

    async def _parts(
        self, kind: str, ids: Sequence[str], expand: str
    ) -> tuple[dict[str, list[Listed]], dict[str, int], dict[str, str]]:
        """Comments or attachments of pages, by page, oldest first; how many older ones are left out; and of which pages
        Confluence does not give them, with the reason."""
        parts: dict[str, dict[str, Listed]] = {}
        sizes, older = Counter[str](), Counter[str]()

        async def ask(pages: Sequence[str]) -> list[str]:
            cql = f"type = {kind} AND container in ({', '.join(pages)}) ORDER BY created ASC"
            async for some in self._search(cql, expand, self._size):
                for one in some:
                    page, name = _page_of(one), str(one.get("id") or "")
                    if name and name not in parts.setdefault(page, {}):
                        parts[page][name] = one
                        sizes[page] += len(orjson.dumps(one))
                while sizes.total() > PARTS_BYTES:
                    page = max(sizes, key=lambda name: sizes[name])
                    sizes[page] -= len(orjson.dumps(parts[page].pop(next(iter(parts[page])))))
                    older[page] += 1
            return list(pages)

        _, bad = await atlassian.apart(ask, ids)
        return {page: list(found.values()) for page, found in parts.items()}, older, bad

    async def _learn_readers(self, pages: Sequence[Listed]) -> None:
        """The restrictions of all ancestors."""
        above = {str(one["id"]) for page in pages for one in page.get("ancestors") or ()}
        names = sorted(above - self._readers.keys() - self._asked)
        self._asked.update(names)
        for start in range(0, len(names), self._size):
            some = ", ".join(names[start : start + self._size])
            # Of an ancestor that is not given nothing is known, and its pages are shown to fewer.
            with suppress(rest.Broken, rest.Garbled, rest.Foreign):
                async for found in self._search(f"id in ({some})", confluence_page.RESTRICTIONS, self._size):
                    self._note_readers(found)

    def _note_readers(self, pages: Sequence[Listed]) -> None:
        for one in pages:
            # Of a page whose readers are not all listed nothing is known.
            with suppress(*atlassian.UNFORESEEN):
                self._readers[str(one["id"])] = confluence_page.readers(one)

    async def _item(
        self, page: Listed, comments: Sequence[Listed], older: int, attached: Sequence[Listed]
    ) -> port.Item:
        listed = [
            {
                "name": one.get("title", ""),
                "size": (one.get("extensions") or {}).get("fileSize") or 0,
                "mediaType": (one.get("extensions") or {}).get("mediaType") or "",
                "path": str(one["_links"]["download"]).lstrip("/"),
            }
            for one in attached
        ]
        files, lines = await atlassian.files(self._api, listed)
        pages = await self._titled(await asyncio.to_thread(confluence_page.links, page))
        access = confluence_page.may_read(page, self._readers)
        # A large page takes seconds: the claims of other Connections are renewed meanwhile.
        return await asyncio.to_thread(
            confluence_page.item, page, comments, files, attached, lines, pages, access, older
        )

    async def _titled(self, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """URNs of pages that are linked to by their title, of those that the user sees."""
        found: dict[tuple[str, str], str] = {}
        there = [one for one in wanted if one[0].casefold() in self._places]
        for start in range(0, len(there), 10):
            asked = [
                f"(space = {time_cursor.quoted(space)} AND title = {time_cursor.quoted(title)})"
                for space, title in there
            ]
            cql = f"{_PAGES} AND ({' OR '.join(asked[start : start + 10])})"
            try:
                async for some in self._search(cql, "space", self._size):
                    found |= {(str(one["space"]["key"]), str(one["title"])): confluence_page.urn(one) for one in some}
            except (port.Misconfigured, rest.Broken) as error:
                log.info("linked pages not looked up", reason=error.message)
        return found

    async def _search(self, cql: str, expand: str, size: int) -> AsyncGenerator[list[Listed]]:
        async for found in self._follow(_SEARCH, {"cql": cql, "expand": expand, "limit": size}):
            yield found

    async def _follow(self, path: str, params: Mapping[str, Any]) -> AsyncGenerator[list[Listed]]:
        """Pages until the last one. Pages of Cloud are named by a cursor; those of Data Center are counted, so each is
        asked for from the last thing of the one before it: if that is not there, something moved."""
        asked, last, visited = dict(params), "", set[str]()
        while True:
            if repr(asked) in visited:
                raise rest.Foreign(f"The pages of {path} lead in a circle.")
            visited.add(repr(asked))
            page = (await self._api.get(path, asked)).json
            found = rest.listed(page, "results", path)
            if last:
                if not found or str(found[0]["id"]) != last:
                    raise port.Unreachable("The list changed while it was read.")
                found = found[1:]
            yield [one for one in found if isinstance(one, Mapping)]
            following = (page.get("_links") or {}).get("next")
            if not following:
                return
            asked, last = {**params, **dict(parse_qsl(urlsplit(str(following)).query))}, ""
            if "cursor" not in asked and "start" in asked and found:
                asked["start"], last = str(int(asked["start"]) - 1), str(found[-1]["id"])


def _stamps(found: Sequence[Listed]) -> tuple[dict[str, tuple[time_cursor.Stamp, Listed]], list[port.Failure]]:
    """When the listed things changed, by kind and id; and what is listed and is none."""
    stamps: dict[str, tuple[time_cursor.Stamp, Listed]] = {}
    foreign = list[port.Failure]()
    for one in found:
        try:
            stamps[f"{one['type']}:{one['id']}"] = (confluence_page.stamp(one), one)
        except atlassian.UNFORESEEN as error:
            name = str(one.get("id") or f"entry {time_cursor.of(one)}")
            reason = f"Confluence lists it without an id or a version: {error!r}."
            foreign.append(port.Failure(name, str(one.get("title") or "")[:200], reason))
    return stamps, foreign


def _page_of(one: Listed) -> str:
    """The id of the page that a comment or an attachment belongs to, or its own."""
    if one.get("type") in ("comment", "attachment"):
        return str((one.get("container") or {}).get("id") or "")
    return str(one["id"])


opened = Confluence.opened
