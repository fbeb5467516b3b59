"""What every call of the knowledge base has in common, for its client and that of the code graph, whose routes the same
service has: address, token, priority, and errors by retry meaning.

Unavailable (Operational)   busy, away, timeout, 429, 502, 503, 504, or of an earlier version that does not know a
                            field: ask again, after `retry_after` if given
Rejected    (Permanent)     the request is wrong, or the service has a bug: asking again cannot help
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pydantic
import stamina

from contracts import http_routes
from contracts.api import observations
from contracts.api.message import ErrorReply, Problem
from crds import access, addresses, errors, priority
from text import json_lines

_Reply = TypeVar("_Reply", bound=pydantic.BaseModel)

# What a gateway or the service answers while something is merely away or busy (seed 001 "Retriable errors").
_OPERATIONAL = frozenset({408, 425, 429, 502, 503, 504})
_UNKNOWN_FIELD = "Extra inputs are not permitted"
"""Pydantic's words; both sides have the same models."""
_CONNECT, _BESIDE = 5.0, 60.0
"""Seconds for a connection, and for the service's own work beside its calls to the router."""
_READ = httpx.ByteStream(b"")
_FIRST_WAIT = 0.2
LONGEST_WAIT = 10.0
"""Seconds between two attempts at most; the service asks for 5 when it is busy."""


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
    """Calls to one knowledge base over the caller's `http`; `token` is sent as bearer token when there is one.

    `patient`: a call with a priority, which may wait in the router's queue, is given up after `crds.priority.SILENCE`
    and the time of `_BESIDE` without a byte; the timeout of `http` is for the others.

    Questions are asked on behalf of `principals` (`crds.access`), where there are any.

    A call that may be repeated without harm is made at most `attempts` times, while it is Unavailable. What the service
    asks for with Retry-After is waited for, up to `LONGEST_WAIT` seconds; when it asks for more, the error is raised.
    """

    def __init__(
        self,
        base_url: str,
        http: httpx.AsyncClient,
        token: str | Token = "",
        *,
        patient: bool = False,
        attempts: int = 1,
        principals: Sequence[str] = (),
    ) -> None:
        self._attempts = attempts
        self._as = {access.HEADER: ", ".join(principals)} if principals else {}
        self._base = base_url.rstrip("/")
        self._shown = addresses.shown(self._base)
        self._http = http
        self._patient = patient
        self._token: Token = token if callable(token) else lambda: token

    async def request(
        self,
        route: http_routes.Route[_Reply],
        *,
        at: Sequence[str] = (),
        body: pydantic.BaseModel | None = None,
        params: Mapping[str, str | list[str]] | None = None,
        urgency: priority.Priority | None = None,
        repeatable: bool | None = None,
        on: observations.Observation | None = None,
    ) -> _Reply:
        """Ask a route that has a typed reply, and a typed body or none. `at` are the values of its path's parameters,
        `on` is what the request is based on, `repeatable` as in `send`."""
        headers = based(on)
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = body.model_dump_json(by_alias=True, exclude_none=True).encode()
        response = await self.raw(
            route, at=at, params=params, headers=headers, content=content, urgency=urgency, repeatable=repeatable
        )
        return parse(response, route.reply_model)

    async def raw(
        self,
        route: http_routes.Route[Any],
        *,
        at: Sequence[str] = (),
        params: Mapping[str, str | list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        urgency: priority.Priority | None = None,
        repeatable: bool | None = None,
    ) -> httpx.Response:
        """Ask a route whose body or reply are bytes, or which has none; `at` as in `request`, the rest as in `send`."""
        return await self.send(
            route.method,
            route.at(*at),
            params=params,
            headers=headers,
            content=content,
            urgency=urgency,
            repeatable=repeatable,
        )

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        urgency: priority.Priority | None = None,
        repeatable: bool | None = None,
    ) -> httpx.Response:
        """The answer, if it is a success; otherwise raises `Unavailable` or `Rejected`.

        `repeatable`: twice is the same as once. Without it GET and PUT are taken to be. A DELETE is not: its repetition
        would answer that nothing is there.
        """
        safe = method in ("GET", "PUT") if repeatable is None else repeatable
        async for attempt in stamina.retry_context(
            on=_again, attempts=self._attempts if safe else 1, timeout=None, wait_initial=_FIRST_WAIT
        ):
            with attempt:
                return await self._once(method, path, params, headers, content, urgency)
        raise AssertionError("the loop returns or raises")

    @asynccontextmanager
    async def stream(
        self,
        route: http_routes.Route[Any],
        *,
        at: Sequence[str] = (),
        body: pydantic.BaseModel | None = None,
        params: Mapping[str, str | list[str]] | None = None,
        urgency: priority.Priority | None = None,
    ) -> AsyncIterator[AsyncIterator[str]]:
        """Ask a route that answers in lines: they come as they are sent, blank ones left out; to leave the `async with`
        hangs up. `at` as in `request`.

        It is asked for once. Raises what `send` raises, also while lines are read.
        """
        content = None if body is None else body.model_dump_json(by_alias=True, exclude_none=True).encode()
        headers = {} if content is None else {"Content-Type": "application/json"}
        with self._translated():
            async with self._http.stream(
                route.method,
                self._url(route.at(*at)),
                params=params,
                headers=self._own(urgency) | headers,
                content=content,
                timeout=self._timeout(urgency),
            ) as response:
                if not response.is_success:
                    await response.aread()
                    raise _refusal(response)

                async def found() -> AsyncIterator[str]:
                    with self._translated():
                        async for line in json_lines.split(response.aiter_bytes()):
                            yield line.decode(errors="replace")

                yield found()

    async def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str | list[str]] | None,
        headers: Mapping[str, str] | None,
        content: bytes | None,
        urgency: priority.Priority | None,
    ) -> httpx.Response:
        with self._translated():
            response = await self._http.request(
                method,
                self._url(path),
                params=params,
                headers=self._own(urgency) | dict(headers or {}),
                content=content,
                timeout=self._timeout(urgency),
            )
        # httpx's stream refers back to its response: a cycle that would keep each call's document until the next
        # collection. All of it has been read.
        response.stream = _READ
        if response.is_success:
            return response
        raise _refusal(response)

    def _url(self, path: str) -> str:
        if addresses.leads_away(path):
            raise Rejected(f"{path[:200]!r} is no path of the knowledge base", field="path", remedy="Give a plain key.")
        return self._base + path

    def _own(self, urgency: priority.Priority | None) -> dict[str, str]:
        """The headers of every call."""
        token = self._token()
        own = self._as | ({"Authorization": f"Bearer {token}"} if token else {})
        return own if urgency is None else own | {priority.HEADER: str(int(urgency))}

    def _timeout(self, urgency: priority.Priority | None) -> httpx.Timeout:
        if urgency is None or not self._patient:
            return self._http.timeout
        return httpx.Timeout(priority.SILENCE[urgency] + _BESIDE, connect=_CONNECT)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Give httpx's errors our names."""
        try:
            yield
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


def based(on: observations.Observation | None) -> dict[str, str]:
    """The header that names the observation; none without one."""
    return {} if on is None else {observations.OBSERVATION: on.header}


def _again(error: Exception) -> bool | float:
    """Whether to make the call once more, or after how many seconds."""
    if not isinstance(error, Unavailable):
        return False
    if error.retry_after is None:
        return True
    return error.retry_after if error.retry_after <= LONGEST_WAIT else False


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
        problem = ErrorReply.model_validate_json(response.content).error
    except pydantic.ValidationError:
        # Not our service's shape: a gateway's page, or a different service altogether; its status still tells.
        problem = Problem(code="unreadable", message=f"HTTP {response.status_code}: {response.text[:200]}")
    if response.status_code == 422 and _UNKNOWN_FIELD in problem.message:
        # Fields are ours, so the service is of an earlier version: in an update it is replaced soon.
        return Unavailable(f"the knowledge base is of another version than its caller: {problem.message}")
    if response.status_code in _OPERATIONAL:
        message = f"{problem.message} {problem.remedy}" if problem.remedy else problem.message
        return Unavailable(message, retry_after=_seconds(response.headers.get("Retry-After")))
    return Rejected(
        problem.message, field=problem.field, remedy=problem.remedy, code=problem.code, status=response.status_code
    )


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; the date form of RFC 9110 10.2.3 is not used by our service and reads as None."""
    return float(header) if header is not None and header.isascii() and header.isdigit() else None
