"""What every call through the door has in common: address, token, priority, and errors by retry meaning.

Unavailable (Operational)   busy, away, timeout, 429, 502, 503, 504: ask again, after `retry_after` if given
Rejected    (Permanent)     the request is wrong, or the service has a bug: asking again cannot help
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import httpx
import pydantic

from crds import addresses, errors, priority
from kb import wire

_Reply = TypeVar("_Reply", bound=pydantic.BaseModel)

# What a gateway or the service answers while something is merely away or busy (seed 001 "Retriable errors").
_OPERATIONAL = frozenset({408, 425, 429, 502, 503, 504})
_READ = httpx.ByteStream(b"")


class Unavailable(errors.Operational):
    """The knowledge base, or something it stands on, is busy or away."""


class Rejected(errors.Permanent):
    """The knowledge base refused the request; `field` and `remedy` are set where it named them.

    `code` is the machine-readable code of the answer, `status` its HTTP status (0: the answer was unreadable).
    """

    def __init__(
        self, message: str, *, field: str | None = None, remedy: str | None = None, code: str = "", status: int = 0
    ) -> None:
        super().__init__(message, field=field, remedy=remedy)
        self.code = code
        self.status = status


Token = Callable[[], str]
"""Gives the bearer token for one call, "" for none. Raises Unavailable while there is none to be had."""


def token_file(path: str) -> Token:
    """A `token` for a client: the file's content, read before each call because it is renewed; none for an empty path.
    A file that cannot be read makes the call Unavailable: it may be there in a moment."""

    def read() -> str:
        try:
            return Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"the token for the knowledge base cannot be read: {error}") from error

    return read if path else str


class Transport:
    """Calls to one knowledge base over the caller's `http`; `token` is sent as bearer token when there is one."""

    def __init__(self, base_url: str, http: httpx.AsyncClient, token: str | Token = "") -> None:
        self._base = base_url.rstrip("/")
        self._shown = addresses.shown(self._base)
        self._http = http
        self._token: Token = token if callable(token) else lambda: token

    async def call(
        self,
        method: str,
        path: str,
        reply: type[_Reply],
        *,
        body: pydantic.BaseModel | None = None,
        params: Mapping[str, str] | None = None,
        urgency: priority.Priority | None = None,
    ) -> _Reply:
        """Send a typed body, or none, and read a typed reply."""
        headers = {} if urgency is None else {priority.HEADER: str(int(urgency))}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = body.model_dump_json(by_alias=True, exclude_none=True).encode()
        response = await self.send(method, path, params=params, headers=headers, content=content)
        return parse(response, reply)

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        """The answer, if it is a success; otherwise raises `Unavailable` or `Rejected`."""
        token = self._token()
        own = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            response = await self._http.request(
                method,
                self._base + path,
                params=params,
                headers=own | dict(headers or {}),
                content=content,
            )
        except httpx.TimeoutException as error:
            raise Unavailable(f"the knowledge base did not answer in time ({type(error).__name__})") from error
        except (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ProxyError) as error:
            raise Unavailable(f"the knowledge base at {self._shown} cannot be reached: {error}") from error
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise Rejected(
                f"{self._shown!r} is not a usable address of the knowledge base: {error}",
                field="baseUrl",
                remedy="Give an http:// or https:// URL with a host.",
            ) from error
        # httpx's stream refers back to its response: a cycle that would keep each call's document until the next
        # collection. All of it has been read.
        response.stream = _READ
        if response.is_success:
            return response
        raise _refusal(response)


def parse(response: httpx.Response, reply: type[_Reply]) -> _Reply:
    """The body as `reply`; `Rejected` when it is none."""
    try:
        return reply.model_validate_json(response.content)
    except pydantic.ValidationError as error:
        raise Rejected(
            f"the knowledge base answered {response.status_code} with a body that is no {reply.__name__}: {error}",
            remedy="Check that the URL is that of a knowledge base of this version.",
        ) from error


def _refusal(response: httpx.Response) -> errors.JervisError:
    try:
        problem = wire.ErrorReply.model_validate_json(response.content).error
    except pydantic.ValidationError:
        # Not our service's shape: a gateway's page, or a different service altogether; its status still tells.
        problem = wire.Problem(code="unreadable", message=f"HTTP {response.status_code}: {response.text[:200]}")
    if response.status_code in _OPERATIONAL:
        return Unavailable(problem.message, retry_after=_seconds(response.headers.get("Retry-After")))
    return Rejected(
        problem.message, field=problem.field, remedy=problem.remedy, code=problem.code, status=response.status_code
    )


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; the date form of RFC 9110 10.2.3 is not used by our service and reads as None."""
    return float(header) if header is not None and header.isascii() and header.isdigit() else None
