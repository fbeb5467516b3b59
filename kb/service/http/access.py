"""The gate of the API: a bearer token where a file of tokens is given, the token of a run, and the rate of the client.

A run token is verified wherever one is shown, with a file of tokens or without: it never opens more than it says.
Every request's scope passes `check`, because `kb.service.http.body` reads scopes nowhere else. A token is never logged;
who used the API is written to the audit record (`kb.service.access.audit`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from contracts import http_routes, trace
from contracts.tokens import runtoken, token_file
from crds import access as accesses
from crds import priority, scope
from kb import errors, routes
from kb.erasure import closed
from kb.service.access import audit, rates, runs
from kb.service.http import problems

MCP = "/mcp"
"""Where agents call (`kb.service.http.mcp`): a use of the API like the routes below /api/."""
_OPEN = frozenset({"/api/v1/openapi.json"})
# https://www.w3.org/TR/trace-context/ (traceparent)
_TRACE = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$")

_PRINCIPAL = re.compile(accesses.PRINCIPAL)
Rights = token_file.Grant | runs.Pass


class Gate:
    """`book` is None where no token is asked for; `monotonic` gives seconds; `shut` knows the scopes being erased.

    `verifier` is None where run tokens are unknown: then they are like any other text.
    """

    def __init__(
        self,
        book: token_file.Book | None,
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
        if not _api(request):
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
        route = _registered(request)
        if route is None or not found.permits(route.callers):
            raise errors.Forbidden(
                f"{found.name} may not call {request.method} {request.path}",
                field="path",
                remedy="A run reads its own scope (docs/tokens.md); use a token of the file of tokens for the rest.",
            )
        return found

    def admit(self, request: web.Request, grant: Rights | None, where: scope.Scope) -> None:
        """Whether it may do that there, now. Raises `kb.errors.Forbidden`, `Crowded` or `Erasing`."""
        route = _asked(request)
        questions = _questions(request)
        if grant is not None and not grant.allows(where, writing=not questions):
            raise errors.Forbidden(
                f"the token {grant.name!r} may not {'read' if questions else 'write'} in this scope",
                field="scope",
                remedy="Name a scope within the token's bounds, or use a token with wider ones.",
            )
        erases = route is not None and route.erases
        if grant is not None and erases and not grant.erase:
            raise errors.Forbidden(
                f"the token {grant.name!r} may not erase",
                field="scope",
                remedy="Use a token whose entry in the file of tokens says `erase: true`.",
            )
        self._rates.take(where.client_id, self._monotonic())
        if not questions and not erases:
            # Until the answer is given: an erasure waits for the writes that began before it.
            request[ENTERED].enter_context(self._closed.entered(where))


ROUTES = web.AppKey("routes", Mapping[tuple[str, str], http_routes.Route[Any]])
"""The rows of what an application serves, by method and path."""
_INNER = web.RequestKey("inner", http_routes.Route[Any])
_PASS = web.RequestKey("pass", tuple[Gate, Rights | None])
ENTERED = web.RequestKey("entered", contextlib.ExitStack)
"""Ends with the request: the scopes in which it writes."""
_ENTRY = web.RequestKey("audit", audit.Entry)
_ENDED = web.RequestKey("ended", int)


def recording(trail: audit.Trail) -> Middleware:
    """Records every request to the API when it is answered; to stand before everything that refuses one."""

    @web.middleware
    async def record(request: web.Request, handler: problems.Handler) -> web.StreamResponse:
        if not _api(request):
            return await handler(request)
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else "unknown"
        parent = _TRACE.match(request.headers.get(trace.HEADER, ""))
        entry = audit.Entry(_action(request), f"{request.method} {route}", trace=parent[1] if parent else "")
        request[_ENTRY] = entry
        try:
            response = await handler(request)
            entry.status = request.get(_ENDED, response.status)
        finally:
            trail.record(entry)
        return response

    return record


def concerns(request: web.Request, *documents: str) -> None:
    """Tell the audit record which documents, by their ids, the request is about."""
    entry = request.get(_ENTRY)
    if entry is not None:
        entry.documents += documents


def calls(request: web.Request, what: str, *, writes: bool) -> None:
    """Tell the audit record what the request to `MCP` does; what only introduces itself or lists tools reads."""
    entry = request.get(_ENTRY)
    if entry is not None:
        entry.route, entry.action = what, audit.Action.WRITE if writes else audit.Action.READ


def ended(request: web.Request, status: int) -> None:
    """Tell the audit record the status of a failure that the answer of a tool carries."""
    request[_ENDED] = status


def inner(request: web.Request, route: http_routes.Route[Any]) -> web.Request:
    """The call of a route that a request to `MCP` makes; it is checked like any. Raises `kb.errors.Forbidden`."""
    passed = request.get(_PASS)
    rights = passed[1] if passed is not None else None
    if isinstance(rights, runs.Pass) and not rights.reads(route.callers):
        raise errors.Forbidden(
            f"{rights.name} may not call {route.method} {route.path}",
            field="name",
            remedy="A run reads its own scope (docs/tokens.md); use a token of the file of tokens for the rest.",
        )
    request[_INNER] = route
    return request


def may(request: web.Request, called: Iterable[http_routes.Route[Any]], *, writes: bool) -> bool:
    """Whether the token of the request can open these routes in any scope at all."""
    passed = request.get(_PASS)
    rights = passed[1] if passed is not None else None
    if isinstance(rights, runs.Pass):
        return all(rights.reads(route.callers) for route in called)
    return rights is None or rights.write or not writes


def of_client(request: web.Request, client_id: str) -> scope.Scope:
    """The scope that a call about something of a whole client is checked as: of a run of that client its own."""
    passed = request.get(_PASS)
    rights = passed[1] if passed is not None else None
    if isinstance(rights, runs.Pass) and rights.claims.scope.client_id == client_id:
        return rights.claims.scope
    return scope.Scope(client_id=client_id)


def of_run(request: web.Request) -> bool:
    """Whether a run asks."""
    passed = request.get(_PASS)
    return passed is not None and isinstance(passed[1], runs.Pass)


def who(request: web.Request) -> str:
    """The name of the token or the run that asks; "" without one."""
    passed = request.get(_PASS)
    return "" if passed is None or passed[1] is None else passed[1].name


def own(request: web.Request) -> scope.Scope | None:
    """The scope of a token that has one alone; None where there are several, or no token."""
    passed = request.get(_PASS)
    rights = passed[1] if passed is not None else None
    if isinstance(rights, runs.Pass):
        return rights.claims.scope
    found = [bound.widest() for bound in rights.scopes] if rights is not None else []
    return found[0] if len(found) == 1 else None


def _api(request: web.Request) -> bool:
    """Whether the request uses the API, and not only the page, the metrics or the probes beside it."""
    return request.path == MCP or (request.path.startswith("/api/") and request.path not in _OPEN)


def _questions(request: web.Request) -> bool:
    route = _asked(request)
    return request.method in ("GET", "HEAD") if route is None else route.reads


def _registered(request: web.Request) -> http_routes.Route[Any] | None:
    """The row of the route that the request came to."""
    resource = request.match_info.route.resource
    served = request.config_dict.get(ROUTES, {})
    return None if resource is None else served.get((request.method, resource.canonical))


def _asked(request: web.Request) -> http_routes.Route[Any] | None:
    """The row of what is asked for: that of the call that a request to `MCP` makes, else that of the request."""
    return request.get(_INNER) or _registered(request)


def _action(request: web.Request) -> audit.Action:
    if _questions(request) or request.path == MCP:
        return audit.Action.READ
    erases = request.path == routes.ERASURES_ASK.path or request.method == "DELETE"
    return audit.Action.ERASE if erases else audit.Action.WRITE


def middleware(gate: Gate) -> Middleware:
    """Lets in whom the gate knows."""

    @web.middleware
    async def guard(request: web.Request, handler: problems.Handler) -> web.StreamResponse:
        rights = gate.enter(request)
        request[_PASS] = (gate, rights)
        entry = request.get(_ENTRY)
        if entry is not None and rights is not None:
            entry.who, entry.kind = rights.name, "run" if isinstance(rights, runs.Pass) else "token"
        with contextlib.ExitStack() as request[ENTERED]:
            return await handler(request)

    return guard


def check(request: web.Request, where: scope.Scope) -> None:
    """To be called with every scope that a request names. Raises `kb.errors.Forbidden`, `Crowded` or `Erasing`."""
    entry = request.get(_ENTRY)
    if entry is not None:
        entry.scopes.append(where)
    passed = request.get(_PASS)
    if passed is not None:
        gate, grant = passed
        gate.admit(request, grant, where)


def viewer(request: web.Request, where: scope.Scope) -> scope.Scope:
    """`where` as the one who asks sees it: with the principals of its token, or with those that the question names,
    which are no others. Raises `kb.errors.Invalid`, `Forbidden`.

    Routes without `principals` know nothing of them: they are closed to a question that has some. A run's own content
    and memory are its own, and so is what the tools at `MCP` ask for.
    """
    passed = request.get(_PASS)
    rights = passed[1] if passed is not None else None
    held = rights.principals if rights is not None else ()
    named = _principals(request)
    if held and not set(named) <= set(held):
        raise errors.Forbidden(
            f"the token {rights.name!r} may not ask as others" if rights is not None else "not as others",
            field=accesses.HEADER,
            remedy="Name principals of the token alone, or leave the header out.",
        )
    principals = named or held
    if not principals or not _questions(request):
        return where
    route = _registered(request)
    shows = _INNER in request or (route is not None and route.principals)
    if shows or (isinstance(rights, runs.Pass) and not named):
        return scope.Viewer(**where.model_dump(), principals=principals)
    raise errors.Forbidden(
        f"{request.method} {request.path} does not answer on behalf of a user",
        field=accesses.HEADER,
        remedy="Ask by /api/v1/retrieve, /search, /chunks or /graph.",
    )


def _principals(request: web.Request) -> tuple[str, ...]:
    text = request.headers.get(accesses.HEADER)
    if text is None:
        return ()
    found = tuple(dict.fromkeys(part for one in text.split(",") if (part := one.strip())))
    if not found or len(found) > accesses.MOST_OF_ONE or not all(_PRINCIPAL.fullmatch(one) for one in found):
        raise errors.Invalid(
            f"the header has to name 1 to {accesses.MOST_OF_ONE} principals",
            field=accesses.HEADER,
            remedy="Give user:NAME and group:NAME in small letters, separated by commas.",
        )
    return found


def run(request: web.Request) -> runtoken.Claims | None:
    """The claims of the run that asks; None for a request without a run token."""
    passed = request.get(_PASS)
    return passed[1].claims if passed is not None and isinstance(passed[1], runs.Pass) else None


def capped(request: web.Request, named: priority.Priority | None) -> priority.Priority | None:
    """A priority that the request names, lowered to the ceiling of the token that it shows."""
    passed = request.get(_PASS)
    ceiling = None if passed is None or passed[1] is None else passed[1].ceiling
    return named if named is None or ceiling is None else max(named, ceiling)
