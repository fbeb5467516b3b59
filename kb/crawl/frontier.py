"""The crawl: breadth first from one page, on its site, as robots.txt allows, until a limit or the links end."""

from __future__ import annotations

import asyncio
import urllib.robotparser
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from kb import errors
from kb.crawl import fetch, page

_TEXTS = frozenset({"text/html", "application/xhtml+xml", "text/plain", ""})


@dataclass(frozen=True)
class Limits:
    """`depth` links from the first page; `pages` looked at; `seconds` for all of it."""

    depth: int
    pages: int
    seconds: float = 120.0


@dataclass(frozen=True)
class Seen:
    """A page that was looked at: its content, or why it was not taken."""

    url: str
    page: page.Page | None
    reason: str = ""


class Crawl:
    """One crawl; iterate over `pages` once. `truncated` says afterwards whether a limit ended it."""

    def __init__(self, fetcher: fetch.Fetcher, limits: Limits) -> None:
        self._fetcher = fetcher
        self._limits = limits
        self.truncated = False

    async def pages(self, start: str) -> AsyncIterator[Seen]:
        """Raises `kb.errors.Invalid` or `kb.errors.Away` when the first page cannot be asked at all."""
        deadline = asyncio.get_running_loop().time() + self._limits.seconds
        first = await self._fetcher.fetch(start)
        site = first.target.site
        rules = await self._rules(site)
        waiting: deque[tuple[str, int, fetch.Fetched | None]] = deque([(first.url, 0, first)])
        known = {start, first.url}
        looked = 0
        while waiting:
            url, depth, fetched = waiting.popleft()
            if looked >= self._limits.pages or asyncio.get_running_loop().time() > deadline:
                self.truncated = True
                return
            looked += 1
            seen = await self._look(url, fetched, site, rules)
            yield seen
            if seen.page is None or not seen.page.follow or depth >= self._limits.depth:
                continue
            for link in seen.page.links:
                if link not in known and _site(link) == site:
                    known.add(link)
                    waiting.append((link, depth + 1, None))

    async def _look(
        self,
        url: str,
        fetched: fetch.Fetched | None,
        site: tuple[str, str, int],
        rules: urllib.robotparser.RobotFileParser,
    ) -> Seen:
        if not rules.can_fetch(fetch.AGENT, url):
            return Seen(url, None, "robots.txt forbids it")
        try:
            found = fetched or await self._fetcher.fetch(url)
        except (fetch.Refused, errors.Invalid, errors.Away) as error:
            return Seen(url, None, error.message)
        if found.target.site != site:
            return Seen(url, None, "it redirects to another site")
        if found.status != 200:
            return Seen(url, None, f"HTTP {found.status}")
        if found.media_type not in _TEXTS:
            return Seen(url, None, f"it is {found.media_type}; send files to /api/v1/ingest/file")
        read = await asyncio.to_thread(page.read, found.body, found.url, found.charset)
        if not read.index:
            return Seen(
                found.url, page.Page(read.title, "", read.links, read.follow, False), "it asks not to be indexed"
            )
        if not read.text:
            return Seen(found.url, read, "it has no text")
        return Seen(found.url, read)

    async def _rules(self, site: tuple[str, str, int]) -> urllib.robotparser.RobotFileParser:
        """RFC 9309: no file allows everything, a server that fails forbids everything."""
        scheme, host, port = site
        named = f"[{host}]" if ":" in host else host
        rules = urllib.robotparser.RobotFileParser()
        try:
            found = await self._fetcher.fetch(f"{scheme}://{named}:{port}/robots.txt")
        except (fetch.Refused, errors.Invalid, errors.Away):
            rules.parse(["User-agent: *", "Disallow: /"])
            return rules
        if found.status >= 500:
            rules.parse(["User-agent: *", "Disallow: /"])
        else:
            rules.parse(found.body.decode("utf-8", "replace").splitlines() if found.status == 200 else [])
        return rules


def _site(url: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = (parts.hostname or "").rstrip(".").lower()
    if parts.scheme not in ("http", "https") or not host:
        return None
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)
