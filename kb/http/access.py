"""The gate of the API: a bearer token where a file of tokens is given, and the rate of the client that is asked for.

Every request's scope passes `check`, because `kb.http.body` reads scopes nowhere else. A token is never logged.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

from crds import scope
from kb import errors
from kb.access import grants, rates
from kb.erasure import closed
from kb.http import problems

ERASURES = "/api/v1/erasures"
_OPEN = frozenset({"/api/v1/openapi.json"})
# Questions that are sent as a body; every other method but GET and HEAD writes.
_QUESTIONS = ("/api/v1/retrieve", "/api/v1/search/", "/api/v1/chunks/", "/api/v1/graph/")


class Gate:
    """`book` is None where no token is asked for; `monotonic` gives seconds; `shut` knows the scopes being erased."""

    def __init__(
        self,
        book: grants.Book | None,
        limits: rates.Rates,
        monotonic: Callable[[], float],
        shut: closed.Closed | None = None,
    ) -> None:
        self._book = book
        self._rates = limits
        self._monotonic = monotonic
        self._closed = shut or closed.Closed()

    def enter(self, request: web.Request) -> grants.Grant | None:
        """Who it is. Raises `kb.errors.Unauthorized`."""
        if self._book is None or not request.path.startswith("/api/") or request.path in _OPEN:
            return None
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        found = self._book.find(token.strip()) if kind.lower() == "bearer" and token.strip() else None
        if found is None:
            raise errors.Unauthorized(
                "this knowledge base needs a bearer token that it knows",
                field="Authorization",
                remedy="Send `Authorization: Bearer TOKEN` with a token of its file of tokens.",
            )
        return found

    def admit(self, request: web.Request, grant: grants.Grant | None, where: scope.Scope) -> None:
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


_PASS = web.RequestKey("pass", tuple[Gate, grants.Grant | None])


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
