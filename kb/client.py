"""The door of the knowledge base: a typed client over one `httpx.AsyncClient` that the caller owns.

Unavailable (Operational)   busy, away, timeout, 429, 502, 503, 504: ask again, after `retry_after` if given
Rejected    (Permanent)     the request is wrong, or the service has a bug: asking again cannot help
"""

from __future__ import annotations

from typing import TypeVar

import httpx
import pydantic

from crds import errors, priority, scope
from kb import wire

_Reply = TypeVar("_Reply", bound=pydantic.BaseModel)

# What a gateway or the service answers while something is merely away or busy (seed 001 "Retriable errors").
_OPERATIONAL = frozenset({408, 425, 429, 502, 503, 504})


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


class Client:
    """Calls one knowledge base. Timeouts, limits and TLS are those of the given `http` client."""

    def __init__(self, base_url: str, http: httpx.AsyncClient) -> None:
        self._base = base_url.rstrip("/")
        self._http = http

    async def ingest(
        self, request: wire.IngestRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> wire.IngestReply:
        """Make a document known. Safe to repeat: the same request ends in the same ids.

        Raises `Unavailable` (nothing is half-visible; a repeated call goes on where this one stopped) or `Rejected`.
        """
        return await self._post("/api/v1/ingest/full", request, wire.IngestReply, urgency)

    async def retrieve(
        self, request: wire.RetrieveRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> wire.RetrieveReply:
        """Evidence for a question, best first; raises `Unavailable` or `Rejected`."""
        return await self._post("/api/v1/retrieve", request, wire.RetrieveReply, urgency)

    async def store(self, owner: scope.Scope, body: bytes, media_type: str = "text/plain") -> wire.ContentRef:
        """Store content of any size for `owner`; the same body in the same scope gives the same key."""
        response = await self._send(
            "POST",
            "/api/v1/content",
            params=owner.model_dump(by_alias=True),
            headers={"Content-Type": media_type},
            content=body,
        )
        return _parse(response, wire.ContentRef)

    async def fetch(self, viewer: scope.Scope, key: str) -> bytes:
        """The stored content under `key`, if `viewer` may see it; `Rejected` with code `not_found` otherwise."""
        response = await self._send("GET", f"/api/v1/content/{key}", params=viewer.model_dump(by_alias=True))
        return response.content

    async def forget(self, owner: scope.Scope, source_urn: str) -> None:
        """Delete a document and everything that only it says; `Rejected` with code `not_found` if it is not there."""
        await self._send(
            "DELETE", "/api/v1/documents", params={**owner.model_dump(by_alias=True), "sourceUrn": source_urn}
        )

    async def ready(self) -> None:
        """Return when the service says it can serve; raise `Unavailable` naming what is down."""
        await self._send("GET", "/readyz")

    async def _post(
        self, path: str, request: pydantic.BaseModel, reply: type[_Reply], urgency: priority.Priority
    ) -> _Reply:
        response = await self._send(
            "POST",
            path,
            headers={"Content-Type": "application/json", priority.HEADER: str(int(urgency))},
            content=request.model_dump_json(by_alias=True, exclude_none=True).encode(),
        )
        return _parse(response, reply)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        try:
            response = await self._http.request(
                method, self._base + path, params=params, headers=headers, content=content
            )
        except httpx.TimeoutException as error:
            raise Unavailable(f"the knowledge base did not answer in time ({type(error).__name__})") from error
        except (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ProxyError) as error:
            raise Unavailable(f"the knowledge base at {self._base} cannot be reached: {error}") from error
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise Rejected(
                f"{self._base!r} is not a usable address of the knowledge base: {error}",
                field="baseUrl",
                remedy="Give an http:// or https:// URL with a host.",
            ) from error
        if response.is_success:
            return response
        raise _refusal(response)


def _parse(response: httpx.Response, reply: type[_Reply]) -> _Reply:
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
