"""The door of the knowledge base: a typed client over one `httpx.AsyncClient` that the caller owns.

Unavailable (Operational)   busy, away, timeout, 429, 502, 503, 504: ask again, after `retry_after` if given
Rejected    (Permanent)     the request is wrong, or the service has a bug: asking again cannot help
"""

from __future__ import annotations

import httpx

from crds import priority, scope
from kb import doors, looking, transport, wire
from kb.transport import Rejected, Unavailable, token_file

__all__ = ["Client", "Rejected", "Unavailable", "token_file"]


class Client:
    """Calls one knowledge base. Timeouts, limits and TLS are those of the given `http` client.

    `token` is the bearer token of a knowledge base that asks for one, or gives it before each call (`token_file`).
    """

    def __init__(self, base_url: str, http: httpx.AsyncClient, token: str | transport.Token = "") -> None:
        self._transport = transport.Transport(base_url, http, token)
        self.rules = doors.Rules(self._transport)
        self.memory = doors.Memory(self._transport)
        self.aliases = doors.Aliases(self._transport)
        self.queue = doors.Queue(self._transport)
        self.erasing = doors.Erasing(self._transport)
        self.learning = doors.Learning(self._transport)
        self.looking = looking.Looking(self._transport)

    async def ingest(
        self, request: wire.IngestRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> wire.IngestReply:
        """Make a document known. Safe to repeat: the same request ends in the same ids.

        Raises `Unavailable` (nothing is half-visible; a repeated call goes on where this one stopped) or `Rejected`.
        """
        return await self._transport.call(
            "POST", "/api/v1/ingest/full", wire.IngestReply, body=request, urgency=urgency
        )

    async def retrieve(
        self, request: wire.RetrieveRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> wire.RetrieveReply:
        """Evidence for a question, best first; raises `Unavailable` or `Rejected`."""
        return await self._transport.call("POST", "/api/v1/retrieve", wire.RetrieveReply, body=request, urgency=urgency)

    async def store(self, owner: scope.Scope, body: bytes, media_type: str = "text/plain") -> wire.ContentRef:
        """Store content of any size for `owner`; the same body in the same scope gives the same key."""
        response = await self._transport.send(
            "POST",
            "/api/v1/content",
            params=owner.model_dump(by_alias=True),
            headers={"Content-Type": media_type},
            content=body,
        )
        return transport.parse(response, wire.ContentRef)

    async def fetch(self, viewer: scope.Scope, key: str) -> bytes:
        """The stored content under `key`, if `viewer` may see it; `Rejected` with code `not_found` otherwise."""
        response = await self._transport.send("GET", f"/api/v1/content/{key}", params=viewer.model_dump(by_alias=True))
        return response.content

    async def forget(self, owner: scope.Scope, source_urn: str) -> None:
        """Delete a document and everything that only it says; `Rejected` with code `not_found` if it is not there."""
        await self._transport.send(
            "DELETE", "/api/v1/documents", params={**owner.model_dump(by_alias=True), "sourceUrn": source_urn}
        )

    async def ready(self) -> None:
        """Return when the service says it can serve; raise `Unavailable` naming what is down."""
        await self._transport.send("GET", "/readyz")
