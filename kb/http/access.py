"""The gate of the API: a bearer token where a file of tokens is given, the token of a run, and the rate of the client.

A run token is verified wherever one is shown, with a file of tokens or without: it never opens more than it says.
Every request's scope passes `check`, because `kb.http.body` reads scopes nowhere else. A token is never logged.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

from crds import priority, runtoken, scope
from kb import errors
from kb.access import grants, rates, runs
from kb.erasure import closed
from kb.http import problems

ERASURES = "/api/v1/erasures"
_OPEN = frozenset({"/api/v1/openapi.json"})
# Questions that are sent as a body; every other method but GET and HEAD writes.
_QUESTIONS = ("/api/v1/retrieve", "/api/v1/search/", "/api/v1/chunks/", "/api/v1/graph/")


Rights = grants.Grant | runs.Pass


class Gate:
    """`book` is None where no token is asked for; `monotonic` gives seconds; `shut` knows the scopes being erased.

    `verifier` is None where run tokens are unknown: then they are like any other text.
    """

    def __init__(
        self,
        book: grants.Book | None,
        limits: rates.Rates,
        monotonic: Callable[[], float],
        shut: closed.Closed | None = None,
        verifier: runtoken.Verifier | None = None,
    ) -> None:
        self._book = book
        self._rates = limits
        self._monotonic = monotonic
        self._closed = shut or closed.Closed()
        self._verifier = verifier

    def enter(self, request: web.Request) -> Rights | None:
        """What the request's token opens. Raises `kb.errors.Unauthorized` or, for a run's, `Forbidden`."""
        if not request.path.startswith("/api/") or request.path in _OPEN:
            return None
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip() if kind.lower() == "bearer" else ""
        if self._verifier is not None and runtoken.is_run_token(token):
            return self._run(request, self._verifier, token)
        if self._book is None:
            return None
        found = self._book.find(token) if token else None
        if found is None:
            raise errors.Unauthorized(
                "this knowledge base needs a bearer token that it knows",
                field="Authorization",
                remedy="Send `Authorization: Bearer TOKEN` with a token of its file of tokens.",
            )
        return found

    def _run(self, request: web.Request, verifier: runtoken.Verifier, token: str) -> runs.Pass:
        try:
            found = runs.Pass(verifier.verify(token))
        except runtoken.Refused as error:
            raise errors.Unauthorized(error.message, field=error.field, remedy=error.remedy) from error
        resource = request.match_info.route.resource
        if not found.permits(request.method, resource.canonical if resource is not None else ""):
            raise errors.Forbidden(
                f"{found.name} may not call {request.method} {request.path}",
                field="path",
                remedy="A run reads its own scope (docs/tokens.md); use a token of the file of tokens for the rest.",
            )
        return found

    def admit(self, request: web.Request, grant: Rights | None, where: scope.Scope) -> None:
        """Whether it may do that there, now. Raises `kb.errors.Forbidden`, `Crowded` or `Erasing`."""
        questions = request.method in ("GET", "HEAD") or request.path.startswith(_QUESTIONS)
        if grant is not None and not grant.allows(where, writing=not questions):
            raise errors.Forbidden(
                f"the token {grant.name!r} may not {'read' if questions else 'write'} in this scope",
                field="scope",
                remedy="Name a scope within the token's bounds, or use a token with wider ones.",
            )
        erases = request.path == ERASURES and not questions
        if grant is not None and erases and not grant.erase:
            raise errors.Forbidden(
                f"the token {grant.name!r} may not erase",
                field="scope",
                remedy="Use a token whose entry in the file of tokens says `erase: true`.",
            )
        self._rates.take(where.client_id, self._monotonic())
        if not questions and not erases:
            self._closed.check(where)


_PASS = web.RequestKey("pass", tuple[Gate, Rights | None])


def middleware(gate: Gate) -> Middleware:
    """Lets in whom the gate knows."""

    @web.middleware
    async def guard(request: web.Request, handler: problems.Handler) -> web.StreamResponse:
        request[_PASS] = (gate, gate.enter(request))
        return await handler(request)

    return guard


def check(request: web.Request, where: scope.Scope) -> None:
    """To be called with every scope that a request names. Raises `kb.errors.Forbidden`, `Crowded` or `Erasing`."""
    passed = request.get(_PASS)
    if passed is not None:
        gate, grant = passed
        gate.admit(request, grant, where)


def run(request: web.Request) -> runtoken.Claims | None:
    """The claims of the run that asks; None for a request without a run token."""
    passed = request.get(_PASS)
    return passed[1].claims if passed is not None and isinstance(passed[1], runs.Pass) else None


def capped(request: web.Request, named: priority.Priority | None) -> priority.Priority | None:
    """A priority that the request names, lowered to the ceiling of the run that asks."""
    asking = run(request)
    return named if named is None or asking is None else max(named, asking.ceiling)
