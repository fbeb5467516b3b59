"""The client of the knowledge base: typed, over one `httpx.AsyncClient` that the caller owns.

Unavailable (Operational)   busy, away, timeout, 429, 502, 503, 504: ask again, after `retry_after` if given
Rejected    (Permanent)     the request is wrong, or the service has a bug: asking again cannot help
"""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from clients import kb_transport
from clients.kb_transport import Rejected, Unavailable, token_file
from codegraph import client as code_client
from crds import priority, scope
from kb import api, routes
from kb.client import agent, exploring, pages, resources

__all__ = ["Client", "Rejected", "Unavailable", "token_file"]


class Client:
    """Calls one knowledge base. Timeouts, limits and TLS are those of the given `http` client. A `patient` one waits
    for calls that run a model as long as the router lets their priority wait (`crds.priority.SILENCE`).

    `token` is the bearer token of a knowledge base that asks for one, or gives it before each call (`token_file`).
    Calls that may be repeated without harm are made up to `attempts` times while they are Unavailable, as Retry-After
    says (`clients.kb_transport.Transport`); a caller that has a patience of its own gives 1. Its questions
    are asked on behalf of `principals`.
    """

    def __init__(
        self,
        base_url: str,
        http: httpx.AsyncClient,
        token: str | kb_transport.Token = "",
        *,
        patient: bool = False,
        attempts: int = 3,
        principals: Sequence[str] = (),
    ) -> None:
        self._transport = kb_transport.Transport(
            base_url, http, token, patient=patient, attempts=attempts, principals=principals
        )
        self.rules = resources.Rules(self._transport)
        self.types = resources.EntityTypes(self._transport)
        self.links = resources.Links(self._transport)
        self.memory = resources.Memory(self._transport)
        self.aliases = resources.Aliases(self._transport)
        self.documents = resources.Documents(self._transport)
        self.queue = resources.Queue(self._transport)
        self.erasing = resources.Erasing(self._transport)
        self.projects = resources.Projects(self._transport)
        self.reindexing = resources.Reindexing(self._transport)
        self.learning = resources.Learning(self._transport)
        self.looking = exploring.Exploring(self._transport)
        self.code = code_client.CodeGraph(self._transport)
        self.agent = agent.Agent(self._transport)
        self.pages = pages.Pages(self._transport)
        self.analyze = code_client.JoernQueries(self._transport)

    @property
    def transport(self) -> kb_transport.Transport:
        """Calls any route by its row in `kb.routes` or `codegraph.routes`."""
        return self._transport

    async def ingest(
        self, request: api.IngestRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> api.IngestReply:
        """Make a document known. Safe to repeat: the same request ends in the same ids.

        Raises `Unavailable` (nothing is half-visible; a repeated call goes on where this one stopped) or `Rejected`.
        """
        return await self._transport.request(routes.INGEST, body=request, urgency=urgency, repeatable=True)

    async def observe(self, owner: scope.Scope, on: api.Observation) -> None:
        """A source is observed under a new number: what names a smaller one is `Rejected` with code `conflict` from now
        on, also what is on its way. Returns when nothing of it is being done any more."""
        body = api.Observed(scope=owner, observation=on).model_dump_json(by_alias=True).encode()
        headers = {"Content-Type": "application/json"}
        await self._transport.raw(routes.OBSERVE, headers=headers, content=body, repeatable=True)

    async def git_commits(
        self,
        request: api.GitCommits,
        *,
        urgency: priority.Priority = priority.Priority.P3,
        on: api.Observation | None = None,
    ) -> api.GitCommitsReply:
        """Make commits of a branch known, or known no more, without a model. Safe to repeat. `on`: see `observe`.

        Each commit has an outcome of its own, which may have failed. Raises `Unavailable` (also where all of them
        failed because something is away) or `Rejected`.
        """
        return await self._transport.request(routes.GIT_COMMITS, body=request, urgency=urgency, repeatable=True, on=on)

    async def retrieve(
        self, request: api.RetrieveRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> api.RetrieveReply:
        """Evidence for a question, best first; raises `Unavailable` or `Rejected`."""
        return await self._transport.request(routes.RETRIEVE, body=request, urgency=urgency, repeatable=True)

    async def store(self, owner: scope.Scope, body: bytes, media_type: str = "text/plain") -> api.ContentRef:
        """Store content of any size for `owner`; the same body in the same scope gives the same key."""
        response = await self._transport.raw(
            routes.CONTENT_STORE,
            params=owner.model_dump(by_alias=True),
            headers={"Content-Type": media_type},
            content=body,
            repeatable=True,
        )
        return kb_transport.parse(response, api.ContentRef)

    async def fetch(self, viewer: scope.Scope, key: str) -> bytes:
        """The stored content under `key`, if `viewer` may see it; `Rejected` with code `not_found` otherwise."""
        response = await self._transport.raw(routes.CONTENT_LOAD, at=(key,), params=viewer.model_dump(by_alias=True))
        return response.content

    async def forget(self, owner: scope.Scope, source_urn: str, on: api.Observation | None = None) -> None:
        """Delete a document and everything that only it says; `Rejected` with code `not_found` if it is not there, and
        with `conflict` if `on` is older than what is known (`observe`)."""
        params = {**owner.model_dump(by_alias=True), "sourceUrn": source_urn}
        await self._transport.raw(routes.DOCUMENTS_FORGET, params=params, headers=kb_transport.based(on))

    async def ready(self) -> None:
        """Return when the service says it can serve; raise `Unavailable` naming what is down."""
        await self._transport.send("GET", "/readyz")
