"""The crawl: breadth first from one page, on its site, as robots.txt allows, until a limit or the links end."""

from __future__ import annotations

import asyncio
import urllib.robotparser
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from kb import errors
from kb.crawl import fetch, page

# RFC 9110: not found, and gone.
_GONE = frozenset({404, 410})
_TEXTS = frozenset({"text/html", "application/xhtml+xml", "text/plain", ""})
# RFC 9309, 2.5: as much as every crawler has to read of a robots.txt.
_RULES_BYTES = 500 << 10


@dataclass(frozen=True)
class Limits:
    """`depth` links from the first page; `pages` looked at; `seconds` for all of it, `reading` of them for one page.

    Of `reading` only the processor's time counts: what else the process does takes no page from a site.
    """

    depth: int
    pages: int
    seconds: float = 120.0
    reading: float = 5.0


@dataclass(frozen=True)
class Seen:
    """A page that was looked at: its content, or why it was not taken. `gone`: its site says that there is none.
    `status` is that of its answer, if there was one. `file`: what it is instead of a page."""

    url: str
    page: page.Page | None
    reason: str = ""
    gone: bool = False
    status: int = 200
    file: bytes | None = None


Site = tuple[str, str, int]


class Crawl:
    """One crawl; iterate over `pages` once, and over `revisited` after it. `truncated` says afterwards whether a limit
    ended it, `root` is the beginning of every URL of the site. `permit` is asked before each URL as the fetcher's. What
    is of the media types `files` is given back unread."""

    def __init__(
        self,
        fetcher: fetch.Fetcher,
        limits: Limits,
        permit: fetch.Permit | None = None,
        files: Collection[str] = (),
    ) -> None:
        self._files = files
        self._fetcher = fetcher
        self._limits = limits
        self._permit_also = permit
        self._site: Site | None = None
        self._rules_of: dict[Site, urllib.robotparser.RobotFileParser] = {}
        self._known: set[str] = set()
        self._looked = 0
        self._deadline = 0.0
        self.truncated = False
        self.root = ""

    async def pages(self, start: str) -> AsyncIterator[Seen]:
        """Raises `kb.errors.Invalid` or `kb.errors.Away` when the first page cannot be asked at all."""
        self._deadline = asyncio.get_running_loop().time() + self._limits.seconds
        self._looked = 1
        try:
            first = await self._fetcher.fetch(start, self._permit)
        except fetch.Refused as error:
            yield Seen(start, None, error.message)
            return
        self._site = first.target.site
        parts = urlsplit(first.url)
        self.root = f"{parts.scheme}://{parts.netloc}/"
        waiting: deque[tuple[str, int, fetch.Fetched | None]] = deque([(first.url, 0, first)])
        self._known = {start, first.url}
        self._looked = 0
        while waiting:
            url, depth, fetched = waiting.popleft()
            if self._over():
                return
            self._looked += 1
            seen = await self._look(url, fetched)
            yield seen
            if seen.page is None or not seen.page.follow or depth >= self._limits.depth:
                continue
            for link in seen.page.links:
                if link not in self._known and _site(link) == self._site:
                    self._known.add(link)
                    waiting.append((link, depth + 1, None))

    async def revisited(self, urls: Iterable[str]) -> AsyncIterator[Seen]:
        """Those of the URLs that are of the site and were not met, as far as the limits of the crawl allow."""
        for url in urls:
            if url in self._known or _site(url) != self._site:
                continue
            if self._over():
                return
            self._known.add(url)
            self._looked += 1
            yield await self._look(url, None)

    def _over(self) -> bool:
        self.truncated |= self._looked >= self._limits.pages or asyncio.get_running_loop().time() > self._deadline
        return self.truncated

    async def _permit(self, url: str) -> None:
        """Raises `fetch.Refused` for a URL that its site's robots.txt forbids, or of another site than the crawl's."""
        if self._permit_also is not None:
            await self._permit_also(url)
        site = _site(url)
        if site is None:
            return  # the fetcher says what is wrong with it
        if self._site is not None and site != self._site:
            raise fetch.Refused("it redirects to another site")
        if site not in self._rules_of:
            self._rules_of[site] = await self._rules(site)
        # The time grows with the number of rules, which the site chooses: it is a thread's, not the event loop's.
        if not await asyncio.to_thread(self._rules_of[site].can_fetch, fetch.AGENT, url):
            raise fetch.Refused("robots.txt forbids it")

    async def _look(self, url: str, fetched: fetch.Fetched | None) -> Seen:
        try:
            found = fetched or await self._fetcher.fetch(url, self._permit)
        except (fetch.Refused, errors.Invalid, errors.Away) as error:
            return Seen(url, None, error.message)
        if found.status != 200:
            return Seen(url, None, f"HTTP {found.status}", gone=found.status in _GONE, status=found.status)
        if found.media_type in self._files:
            return Seen(found.url, None, file=found.body)
        if found.media_type not in _TEXTS:
            return Seen(url, None, f"it is {found.media_type}; send files to /api/v1/ingest/file")
        try:
            read = await asyncio.to_thread(
                page.read, found.body, found.url, found.charset, seconds=self._limits.reading
            )
        except page.Costly as error:
            return Seen(found.url, None, error.message)
        if not read.index:
            return Seen(
                found.url, page.Page(read.title, "", read.links, read.follow, False), "it asks not to be indexed"
            )
        if not read.text:
            return Seen(found.url, read, "it has no text")
        return Seen(found.url, read)

    async def _rules(self, site: Site) -> urllib.robotparser.RobotFileParser:
        """RFC 9309: no file allows everything, a server that fails forbids everything."""
        scheme, host, port = site
        named = f"[{host}]" if ":" in host else host
        rules = urllib.robotparser.RobotFileParser()
        own = f"{scheme}://{named}:{port}/robots.txt"

        async def permit(url: str) -> None:
            if url != own and self._permit_also is not None:
                await self._permit_also(url)

        try:
            found = await self._fetcher.fetch(own, permit)
        except (fetch.Refused, errors.Invalid, errors.Away) as error:
            if self._site is None and not isinstance(error, fetch.Refused):
                raise  # it is the first that is asked of the site
            rules.parse(["User-agent: *", "Disallow: /"])
            return rules
        if found.status >= 500:
            rules.parse(["User-agent: *", "Disallow: /"])
        else:
            await asyncio.to_thread(rules.parse, _lines(found.body) if found.status == 200 else [])
        return rules


def _lines(rules: bytes) -> list[str]:
    """As many whole lines as are read; half a line would be another rule."""
    if len(rules) > _RULES_BYTES:
        rules = rules[: rules.rfind(b"\n", 0, _RULES_BYTES) + 1]
    return rules.decode("utf-8", "replace").splitlines()


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
