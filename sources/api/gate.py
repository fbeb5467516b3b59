"""Who may call: a run with its run token, or a bearer token of the file of tokens (`contracts.tokens.token_file`).

Unlike the knowledge base the API takes no call without a token: it acts on other systems. A token is never logged.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from contracts.tokens import runtoken, token_file
from crds import scope
from sources.api import problems


@dataclass(frozen=True, slots=True)
class Caller:
    """Exactly one of the two: the verified claims of a run, or the grant of a token of the file."""

    claims: runtoken.Claims | None = None
    grant: token_file.Grant | None = None

    @property
    def name(self) -> str:
        """For messages and the audit record."""
        if self.claims is not None and self.claims.analysis:
            return f"analysis {self.claims.task_uid} in {self.claims.namespace}"
        if self.claims is not None:
            return f"run {self.claims.attempt} of task {self.claims.task_uid} in {self.claims.namespace}"
        return self.grant.name if self.grant is not None else ""

    @property
    def principals(self) -> tuple[str, ...]:
        """As whom it reads; (): all of its scope."""
        of = self.claims or self.grant
        return of.principals if of is not None else ()

    def allows(self, where: scope.Scope, *, writing: bool) -> bool:
        """Whether it may act in `where`: a run in its own scope alone, a token within its bounds."""
        if self.claims is not None:
            return where == self.claims.scope
        return self.grant is not None and self.grant.allows(where, writing=writing)


_CALLER = web.RequestKey("caller", Caller)


class Gate:
    """`verifier` is None where run tokens are unknown, `book` where there is no file of tokens."""

    def __init__(self, verifier: runtoken.Verifier | None, book: token_file.Book | None) -> None:
        self._verifier, self._book = verifier, book

    def enter(
        self, request: web.Request, *, runs: bool, tokens: bool, analyses: bool = False, whole: bool = False
    ) -> None:
        """Who asks, for `caller`. Raises `problems.Unauthorized` or, where its kind may not call, `Forbidden`."""
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip() if kind.lower() == "bearer" else ""
        if self._verifier is not None and runtoken.is_run_token(token):
            try:
                found = Caller(claims=self._verifier.verify(token))
            except runtoken.Refused as error:
                raise problems.Unauthorized(error.message, field=error.field, remedy=error.remedy) from error
        else:
            grant = self._book.find(token) if token and self._book is not None else None
            if grant is None:
                raise problems.Unauthorized(
                    "this API needs a run token, or a bearer token that it knows",
                    field="Authorization",
                    remedy="Send `Authorization: Bearer TOKEN` with the token of a run, or one of sources.tokens.",
                )
            found = Caller(grant=grant)
        if not (tokens if found.claims is None else analyses if found.claims.analysis else runs):
            raise problems.Forbidden(
                f"{found.name} may not call {request.method} {request.path}",
                field="path",
                remedy="See docs/effects.md for which tokens a path takes.",
            )
        if whole and found.principals:
            raise problems.Forbidden(
                f"{found.name} sees what its principals see, and who may see this is not known",
                field="path",
                remedy="Ask the knowledge base, or use a token without principals.",
            )
        request[_CALLER] = found


def caller(request: web.Request) -> Caller:
    """Who asks; of a route that is not open."""
    return request[_CALLER]


def run(request: web.Request) -> runtoken.Claims:
    """The claims of the run that asks; of a route for runs alone."""
    claims = request[_CALLER].claims
    assert claims is not None
    return claims
