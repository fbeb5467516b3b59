"""Requests to a REST API of a source: rate limit, size, and what an answer means for the poll.

    401, 403                         Rejected; one about a rate limit is Unreachable with its pause
    404, 410                         Absent (a Misconfigured): the caller knows what is not there
    409, 412                         Conflicting (a Misconfigured)
    other 4xx                        Misconfigured with what the server says
    3xx to a change                  Misconfigured: nothing is changed at another address
    500                              Broken (an Unreachable): of a batch, perhaps one thing is the cause
    no JSON                          Garbled (an Unreachable): a proxy's page, for example
    JSON of another form             Foreign (an Unreachable), raised by the caller (`listed`)
    429, 5xx, silence                Unreachable with the pause that was asked for (RFC 9110 10.2.3); Untouched, a kind
                                     of it, where the server certainly did nothing

An answer is read up to `largest` bytes. Redirects are followed within the host that was asked; `download` follows those
to other hosts without the credentials, where `hosts` allows them. What a server repeats of the credentials is in no
message. The time is a parameter.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx
import orjson

from clients import http
from crds import addresses
from sources.core import hosts, limits, port, redact
from text import printable

SECONDS = 60.0
"""The longest silence of a server."""
LARGEST = 32 << 20
"""Bytes of an answer, unless a caller says less."""
_REDIRECTS = 5
_SAID_CHARS = 300
_LOOKED_AT = 16 << 10
"""Bytes of an answer of which the beginning is shown: what is cut must not be a part of a token."""
_PERMISSION = "Give the user or the token of spec.secretRef the right to read it."


class Absent(port.Misconfigured):
    """404 or 410: it is not there, or the user may not see that it is. So is what a path leads away from."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`json` is what the body says, None for an empty one (204, 304). Names of `headers` have no case."""

    status: int
    headers: httpx.Headers
    json: Any


class Untouched(port.Unreachable):
    """The server did nothing: it was not reached, or turned the request away (425, 429, a limit)."""


class Broken(port.Unreachable):
    """500: the server fails at this request; it may answer another one."""


class Garbled(port.Unreachable):
    """The answer is no JSON."""


class Conflicting(port.Misconfigured):
    """409 or 412: it is not as the request expects, perhaps because of the same request before."""


class Foreign(port.Unreachable):
    """The answer is JSON, and not of the form that the API has; a server may say an error by it."""


class TooLarge(port.Misconfigured):
    """The body has more bytes than were asked for."""


class Rest:
    """`base` is the address before every path; `headers` has the credentials. `bucket` and `monotonic` say when the
    next request may go; `wall` is UTC, for dates in Retry-After."""

    def __init__(
        self,
        base: str,
        headers: Mapping[str, str],
        bucket: limits.Bucket,
        tls: ssl.SSLContext,
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        reached: hosts.Hosts = hosts.LOCAL,
        largest: int = LARGEST,
    ) -> None:
        self._largest = largest
        self._base = base.rstrip("/") + "/"
        self._headers, self._bucket = dict(headers), bucket
        self._monotonic, self._wall, self._sleep = monotonic, wall, sleep
        self.date: datetime | None = None
        """The time that the source gave with its last answer (RFC 9110 6.6.1)."""
        self._sent_values = redact.Secrets()
        self._sent_values.keep(_values(headers))
        self._http = http.client(
            tls=tls, find=reached.called, timeout=httpx.Timeout(SECONDS, connect=10.0), cookies=True
        )

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    def url(self, path: str) -> str:
        """The address of a path; an address of the same host (a link of a page) stays. Raises `port.Unreachable` for
        one of another host, which must not get the credentials."""
        # In any case a server's own words stand in it: numbers and names that it gave before. Some write spaces.
        path = path.replace(" ", "%20")
        if addresses.leads_away(path):
            said = f"The source names {addresses.shown(path)[:200]!r}, which leads to another path."
            raise Absent(said, field="spec.url", remedy="It is left out; correct it at the source.")
        made = _joined(self._base, path)
        if _host(made) != _host(self._base):
            raise port.Unreachable(f"The source names {addresses.shown(made)[:200]}, an address of another host.")
        return made

    async def get(
        self, path: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """GET. `path` is below `base`, or the address of a next page. See the module for what is raised."""
        return await self.request("GET", path, params=params, headers=headers)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Any method, never repeated here. See the module for what is raised."""
        url = self.url(path)
        content = None if json is None else orjson.dumps(json)
        sent = {"Accept": "application/json", **self._headers, **(headers or {})}
        if content is not None:
            sent["Content-Type"] = "application/json"
        for _ in range(_REDIRECTS):
            async with self._sent(method, url, params, content, sent) as response:
                if response.has_redirect_location and method == "GET":
                    url, params = self.url(_joined(url, response.headers["Location"])), None
                    continue
                body = await self._answered(response, method)
                self._judge(response, body)
                self.date = dated(response.headers) or self.date
                return Answer(response.status_code, response.headers, self._parsed(response, body))
        raise port.Unreachable(f"{addresses.shown(url)[:200]} redirects without an end.")

    async def _answered(self, response: httpx.Response, method: str) -> bytes:
        """The body. A change that the server did not refuse may have been made, however large its answer is; one that
        it sends elsewhere was not made, and is not made there: its body and its target may be another's by then."""
        if method == "GET":
            return await _read(response, self._largest)
        if 300 <= response.status_code < 400:
            moved = printable.line(addresses.shown(response.headers.get("Location", "nothing")), 200)
            raise port.Misconfigured(
                f"{self._where(response)} answered {response.status_code}: it has moved to {moved}.",
                field="spec.url",
                remedy="Correct spec.url or spec.filter: the repository, project or host has another name.",
            )
        try:
            return await _read(response, self._largest)
        except TooLarge as error:
            if response.status_code < 400:
                raise port.Unreachable(error.message) from error
            return b""

    def _where(self, response: httpx.Response) -> str:
        return f"{response.request.method} {addresses.shown(str(response.request.url)).partition('?')[0][:200]}"

    async def download(self, path: str, most: int) -> bytes:
        """The bytes of a file; another host that it redirects to gets no credentials. Raises `TooLarge` over `most`
        bytes, else what `get` raises."""
        url = self.url(path)
        for _ in range(_REDIRECTS):
            own = _host(url) == _host(self._base)
            async with self._sent("GET", url, None, None, self._headers if own else {}) as response:
                if response.has_redirect_location:
                    url = _joined(url, response.headers["Location"])
                    continue
                body = await _read(response, most)
                self._judge(response, body)
                return body
        raise port.Unreachable(f"{addresses.shown(url)[:200]} redirects without an end.")

    @asynccontextmanager
    async def _sent(
        self, method: str, url: str, params: Mapping[str, Any] | None, content: bytes | None, headers: Mapping[str, str]
    ) -> Any:
        pause = self._bucket.reserve(self._monotonic())
        if pause:
            await self._sleep(pause)
        try:
            async with self._http.stream(method, url, params=params, content=content, headers=headers) as response:
                yield response
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            # No connection, no request: the server cannot have acted.
            unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            raise (Untouched if unsent else port.Unreachable)(
                f"{addresses.shown(url)[:200]} did not answer: {str(error)[:200] or type(error).__name__}."
            ) from error

    def _judge(self, response: httpx.Response, body: bytes) -> None:
        status = response.status_code
        if status < 400:
            return
        said = f"{self._where(response)} answered {status}: {self._said(body)}"
        pause = self._pause(response)
        if status == 500 and pause is None:
            raise Broken(said)
        if status == 403 and pause is None and b"rate limit" in body[:2000].lower():
            pause = 60.0  # GitHub's secondary limits name no time: "wait for at least one minute"
        if status in (425, 429) or (status == 403 and pause is not None):
            raise Untouched(said, retry_after=pause)
        if status == 408 or status >= 500:
            raise port.Unreachable(said, retry_after=pause)
        if status == 401:
            raise port.Rejected(said, field="spec.secretRef", remedy="Correct the credentials in the Secret.")
        if status == 403:
            raise port.Misconfigured(said, field="spec.secretRef", remedy=_PERMISSION)
        if status in (409, 412):
            raise Conflicting(said, field="spec", remedy="Correct spec.url or spec.filter.")
        if status in (404, 410):
            raise Absent(said, field="spec.url", remedy=f"Correct the address or the filter. {_PERMISSION}")
        raise port.Misconfigured(said, field="spec", remedy="Correct spec.url or spec.filter.")

    def _said(self, body: bytes) -> str:
        text = self._sent_values.hidden(body[:_LOOKED_AT].decode("utf-8", "replace"))
        return printable.line(text)[:_SAID_CHARS] or "nothing"

    def _parsed(self, response: httpx.Response, body: bytes) -> Any:
        if not body.strip():
            return None
        try:
            try:
                return orjson.loads(body)
            except orjson.JSONDecodeError:
                # Half a character at the end of a text that the source cut (RFC 8259 8.2): it becomes a question mark,
                # and the page can be read. Whatever else is wrong stays so.
                return orjson.loads(json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            where = addresses.shown(str(response.request.url))[:200]
            raise Garbled(f"{where} answered no JSON: {self._said(body)}") from error

    def _pause(self, response: httpx.Response) -> float | None:
        """Seconds by Retry-After, or by the reset of an exhausted limit as GitHub, GitLab and Atlassian tell it."""
        asked = response.headers.get("Retry-After", "")
        if asked:
            try:
                return max(0.0, float(asked))
            except ValueError:
                pass
            try:
                return max(0.0, (parsedate_to_datetime(asked).astimezone(UTC) - self._wall()).total_seconds())
            except ValueError:
                return None
        for prefix in ("X-RateLimit-", "RateLimit-"):
            if response.headers.get(f"{prefix}Remaining", "") == "0":
                try:
                    return max(0.0, float(response.headers[f"{prefix}Reset"]) - self._wall().timestamp())
                except (KeyError, ValueError):
                    return None
        return None


def dated(headers: httpx.Headers) -> datetime | None:
    """The time in `Date`, None where there is none."""
    try:
        return parsedate_to_datetime(headers.get("Date", "")).astimezone(UTC)
    except ValueError:
        return None


async def _read(response: httpx.Response, most: int) -> bytes:
    try:
        return await http.read(response, most)
    except http.TooLarge as error:
        raise TooLarge(f"{addresses.shown(str(response.request.url))[:200]} has more than {most} bytes.") from error


def _joined(base: str, said: str) -> str:
    """What a source says is an address, seen from another one. Raises `port.Unreachable`."""
    try:
        made = urljoin(base, said)
        _host(made)
    except ValueError as error:
        raise port.Unreachable(f"The source names {addresses.shown(said)[:200]!r}, which is no address.") from error
    return made


ONE_THING = (Broken, Garbled, Foreign, TooLarge, Absent)
"""What a server may answer about one thing for ever while it answers for others."""


def listed(answer: Any, name: str, where: str) -> list[Any]:
    """The list under `name` of an answer. Raises `Foreign`."""
    found = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(found, list):
        raise Foreign(f"{where[:200]} answered no list of {name}.")
    return found


def next_query(answer: Answer) -> Mapping[str, str] | None:
    """The query of the next page by the header Link (RFC 8288), None after the last one. The host's own idea of its
    address does not count: it may stand behind a proxy."""
    for link in answer.headers.get("Link", "").split(","):
        target, _, parameters = link.strip().partition(">")
        if 'rel="next"' in parameters:
            return dict(parse_qsl(urlsplit(target.removeprefix("<")).query))
    return None


def _host(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port_ = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port_


def _values(headers: Mapping[str, str]) -> dict[str, str]:
    """What the headers carry of a Secret: tokens, and the password of HTTP Basic."""
    found = {}
    for name, value in headers.items():
        if name.lower() in ("authorization", "private-token"):
            kind, _, found[name] = value.rpartition(" ")
            if kind == "Basic":
                user, _, found["password"] = base64.b64decode(found[name]).decode().partition(":")
                found["username"] = user
    return found
