"""One page from the address that was judged, within its limits, every redirect judged anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import httpx

from clients import http
from crds import errors as root
from kb import errors
from kb.crawl import address

AGENT = "jervis-kb"
_REDIRECTS = 5
PAGE_BYTES = 4 << 20
"""Bytes of a page; a larger one is no text to read."""
PAGE_SECONDS = 20.0
"""Seconds for a page, its redirects included."""


@dataclass(frozen=True)
class Fetched:
    """`url` after redirects. `status` other than 200 comes without a body."""

    url: str
    target: address.Target
    status: int
    media_type: str
    charset: str | None
    body: bytes


class Refused(root.Permanent):
    """The page breaks a limit; it is left out and the crawl goes on."""


Permit = Callable[[str], Awaitable[None]]


async def _any(url: str) -> None:
    """Permits every URL."""


class Fetcher:
    """`opened` is a client of `clients.http` that finds addresses by an `address.Judge`. `max_bytes` bounds a body,
    `seconds` a page."""

    def __init__(
        self, opened: httpx.AsyncClient, *, max_bytes: int = PAGE_BYTES, seconds: float = PAGE_SECONDS
    ) -> None:
        self._http = opened
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._always: Permit = _any
        self._file_bytes: Mapping[str, int] = {}

    def under(self, permit: Permit) -> Fetcher:
        """One that asks `permit` as well, before every URL: of pages, robots.txt and redirects."""
        made = Fetcher(self._http, max_bytes=self._max_bytes, seconds=self._seconds)
        made._always, made._file_bytes = permit, self._file_bytes
        return made

    def taking(self, types: Collection[str], max_bytes: int) -> Fetcher:
        """One that asks for files of these media types, too, of at most `max_bytes` each."""
        made = self.under(self._always)
        made._file_bytes = dict.fromkeys(types, max_bytes)
        return made

    async def fetch(self, url: str, permit: Permit = _any) -> Fetched:
        """Raises `Refused`, `kb.errors.Invalid` (an address that may not be asked) or `kb.errors.Away`.

        `permit` is asked before each URL, of a redirect too, and raises `Refused` for one that is not to be fetched.
        """
        try:
            async with asyncio.timeout(self._seconds):
                for _ in range(1 + _REDIRECTS):
                    url = address.plain(url)
                    await self._always(url)
                    await permit(url)
                    found = await self._once(url)
                    if isinstance(found, Fetched):
                        return found
                    url = found
        except TimeoutError as error:
            raise Refused(f"it took longer than {self._seconds:g} seconds") from error
        except (httpx.DecodingError, httpx.InvalidURL, UnicodeError) as error:
            raise Refused(str(error)) from error
        except httpx.HTTPError as error:
            raise errors.Away("web", f"{urlsplit(url).hostname}: {type(error).__name__}: {error}"[:300]) from error
        raise Refused(f"it redirects more than {_REDIRECTS} times")

    async def _once(self, url: str) -> Fetched | str:
        target = address.parsed(url)
        headers = {
            "User-Agent": AGENT,
            "Accept": ", ".join(["text/html", "text/plain;q=0.5", *(f"{one};q=0.4" for one in self._file_bytes)]),
        }
        async with self._http.stream("GET", url, headers=headers) as answer:
            if answer.is_redirect:
                try:
                    return str(urljoin(url, answer.headers.get("Location", "")))
                except ValueError as error:
                    raise Refused("it redirects to what is no address") from error
            return await self._take(url, target, answer)

    async def _take(self, url: str, target: address.Target, answer: httpx.Response) -> Fetched:
        media_type, charset = _media(answer.headers)
        if answer.status_code != 200:
            return Fetched(url, target, answer.status_code, media_type, charset, b"")
        most = self._file_bytes.get(media_type, self._max_bytes)
        try:
            body = await http.read(answer, most)
        except http.TooLarge as error:
            raise Refused(f"it is larger than {most} bytes") from error
        return Fetched(url, target, 200, media_type, charset, body)


def _media(headers: Mapping[str, str]) -> tuple[str, str | None]:
    media_type, _, rest = headers.get("Content-Type", "").partition(";")
    name, _, value = rest.partition("=")
    return media_type.strip().lower(), value.strip(" \"'") or None if name.strip().lower() == "charset" else None
