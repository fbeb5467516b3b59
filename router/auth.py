"""Who calls: run tokens, bearer tokens from a file and, when asked for, service accounts of the cluster.

Without the last two every client may enter and none is an administrator; a run token that is shown bounds its request
in any case (`router.runs`). The tokens' file is a JSON list of `{"name", "token", "admin"?, "ceiling"?, "models"?,
"tokensPerDay"?}`, mounted from a Secret and read again when it changes. Tokens of service accounts are reviewed by the
apiserver (TokenReview); its answer is kept for a while, by the digest of the token, and goes on being believed for
longer while the apiserver is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pydantic
import structlog
from pydantic import ConfigDict, Field

from contracts.tokens import token_reviews
from crds import errors, priority
from crds.modelnames import Names
from router.proxy import hygiene
from router.proxy.message import ANYBODY, Identity, Request
from router.proxy.refusal import Cause, Refusal
from router.rights import Rights

_log = structlog.get_logger("router.auth")

_ACCOUNT = "system:serviceaccount:"
_STALE = 600.0
_HINT = 'send "Authorization: Bearer TOKEN" with a token that the router knows'


class Invalid(errors.Permanent):
    """The tokens' file cannot be used."""


class Away(errors.Operational):
    """At the moment it cannot be checked whether a token is good."""


class _Entry(pydantic.BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=253)]
    token: Annotated[str, Field(min_length=16, max_length=4096, pattern=r"^[\x21-\x7e]+$")]
    admin: bool = False
    ceiling: str | None = None
    models: tuple[Annotated[str, Field(min_length=1, max_length=600)], ...] | None = None
    tokens_per_day: Annotated[int | None, Field(alias="tokensPerDay", ge=0)] = None

    @pydantic.field_validator("ceiling")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and priority.parse(value) is None:
            raise ValueError("is no priority: P0, P1, P2 or P3")
        return value


_ENTRIES = pydantic.TypeAdapter(list[_Entry])


class Tokens:
    """Identities by the digest of their token."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._known: dict[bytes, Identity] = {}

    def load(self) -> None:
        """Read the file if it changed. Raises Invalid; what was known before then stays."""
        try:
            facts = self._path.stat()
            stamp = (facts.st_mtime_ns, facts.st_size)
            if stamp == self._stamp:
                return
            entries = _ENTRIES.validate_json(self._path.read_bytes())
        except OSError as error:
            raise self._invalid(str(error)) from error
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise self._invalid(f"{where}: {first['msg']}" if where else str(first["msg"])) from error
        self._known = {token_reviews.digest(entry.token): _identity(entry) for entry in entries}
        self._stamp = stamp

    def find(self, key: bytes) -> Identity | None:
        """Whose token has this digest?"""
        return self._known.get(key)

    def limits(self) -> dict[str, int]:
        """Tokens a day by identity, for those that have a limit; the highest of several tokens of one name."""
        found: dict[str, int] = {}
        for one in self._known.values():
            if one.rights is not None and one.rights.tokens_per_day is not None:
                found[one.account] = max(found.get(one.account, 0), one.rights.tokens_per_day)
        return found

    def _invalid(self, problem: str) -> Invalid:
        return Invalid(
            f"The tokens' file {self._path}: {problem}.",
            field="JERVIS_ROUTER_TOKENS_FILE",
            remedy='Give a JSON list of {"name", "token", "admin", "ceiling", "models", "tokensPerDay"}; '
            "a token has at least 16 characters.",
        )


def _identity(entry: _Entry) -> Identity:
    models = None if entry.models is None else Names(entry.models)
    rights = None if models is None and entry.tokens_per_day is None else Rights(models, entry.tokens_per_day)
    return Identity(entry.name, entry.admin, priority.parse(entry.ceiling) if entry.ceiling else None, rights=rights)


@dataclass(frozen=True, slots=True)
class Accounts:
    """What service accounts may do, as `namespace/name`. `allowed` may enter; `ceilings` are the most urgent priorities
    that count; both name an account or a whole namespace (`namespace/*`). `viewers` is the name of the account that
    tickets of the history are made of: a viewer of tasks may make its tokens, so none enters, of any namespace."""

    allowed: frozenset[str] = frozenset()
    admins: frozenset[str] = frozenset()
    ceilings: Mapping[str, priority.Priority] = field(default_factory=dict)
    viewers: str = ""

    def identity(self, user: str) -> Identity | None:
        """For a user name of the cluster; None for one that may not enter."""
        if not user.startswith(_ACCOUNT):
            return None
        account = user.removeprefix(_ACCOUNT).replace(":", "/", 1)
        namespace, _, name = account.partition("/")
        admin = account in self.admins
        if (self.viewers and name == self.viewers) or not (admin or {account, f"{namespace}/*"} & self.allowed):
            return None
        ceiling = self.ceilings.get(account, self.ceilings.get(f"{namespace}/*"))
        return Identity(user, admin, ceiling)


Review = Callable[[str], Awaitable[str | None]]
"""Asks the cluster whose token it is: the user's name, None when it is no user's. Raises Away."""


def reviewed(review: Review, accounts: Accounts, *, now: Callable[[], float]) -> token_reviews.Reviewed[Identity]:
    """Whose a token of the cluster is; believed for ten minutes while the cluster is away."""

    async def ask(token: str) -> Identity | None:
        user = await review(token)
        return None if user is None else accounts.identity(user)

    return token_reviews.Reviewed(ask, now=now, stale=_STALE)


FindRun = Callable[[str, str], Identity | None]
"""(path, token) -> the run that a run token is for, None for a token of another kind. Raises Refusal."""


class Gate:
    """Decides who a request is from. Without `tokens` and `reviewed` it is open, but for what a run token says.

    `checks`: requests have to be looked at at all. `closed`: tokens are the router's own business and reach no backend.
    `required`: no caller is served without a token.
    """

    def __init__(
        self,
        tokens: Tokens | None = None,
        reviewed: token_reviews.Reviewed[Identity] | None = None,
        *,
        runs: FindRun | None = None,
        free: Iterable[str] = (),
        required: bool = True,
        anonymous: Identity = ANYBODY,
    ) -> None:
        """`free` are paths that need no token. Without `required` none does, but a token that is shown must be good.
        `anonymous` is a caller without one."""
        self._tokens = tokens
        self._reviewed = reviewed
        self._runs = runs
        self._free = frozenset(free)
        self.closed = tokens is not None or reviewed is not None
        self._anonymous = anonymous
        self.checks = self.closed or runs is not None or anonymous is not ANYBODY
        self.required = required and self.closed

    def needs(self, path: str) -> bool:
        """Must a request for this path say who it is from?"""
        return self.checks and path not in self._free

    def known(self, request: Request) -> Identity | None:
        """Who it is, if that can be said at once; None when `ask` must find out. Raises Refusal(401)."""
        if not self.required and not _shows(request):
            return self._anonymous
        if self._runs is not None and (run := self._runs(request.path, _shown(request))) is not None:
            return run
        if not self.closed:
            return self._anonymous
        token = _bearer(request)
        key = token_reviews.digest(token)
        found = self._tokens.find(key) if self._tokens is not None else None
        if found is not None:
            return found
        if self._reviewed is None:
            raise refused("the token is not known")
        known, identity = self._reviewed.recall(key)
        if known and identity is None:
            raise refused("the token is not valid")
        return identity

    async def ask(self, request: Request) -> Identity:
        """Who it is. Raises Refusal(401), or 503 while the token cannot be checked."""
        found = self.known(request)
        if found is not None:
            return found
        assert self._reviewed is not None
        token = _bearer(request)
        try:
            identity = await self._reviewed.find(token, request.link.peer)
        except errors.Operational as error:
            raise unchecked(error) from error
        if identity is None:
            raise refused("the token is not valid")
        return identity

    def limits(self) -> dict[str, int]:
        """Tokens a day by identity, for those that have a limit."""
        return {} if self._tokens is None else self._tokens.limits()

    async def watch(self, interval: float = 5.0) -> None:
        """Read the tokens' file again when it changes; for ever."""
        while self._tokens is not None:
            await asyncio.sleep(interval)
            try:
                self._tokens.load()
            except Invalid as error:
                _log.error("tokens file", error=error.message, remedy=error.remedy)


def refused(why: str) -> Refusal:
    """401 that says which token to send."""
    return unauthorized(f"{why}; {_HINT}")


def unauthorized(why: str) -> Refusal:
    """401."""
    return Refusal(401, why, headers=(("WWW-Authenticate", 'Bearer realm="jervis"'),))


def unchecked(error: errors.Operational) -> Refusal:
    """503: who asks now may be let in later."""
    why = f"the token cannot be checked at the moment: {error.message}"
    return Refusal(503, why, retry_after=2, reason=Cause.TOKEN_UNCHECKED)


def accounts(
    allowed: Sequence[str],
    admins: Sequence[str],
    ceilings: Mapping[str, priority.Priority] | None = None,
    *,
    namespace: str,
    viewers: str = "",
) -> Accounts:
    """From settings. Without `allowed` those of `namespace`, the release's, may enter."""
    return Accounts(frozenset(allowed or (f"{namespace}/*",)), frozenset(admins), ceilings or {}, viewers)


def _shows(request: Request) -> bool:
    return hygiene.AUTHORIZATION in request.special or hygiene.API_KEY in request.special


def _shown(request: Request) -> str:
    """The token of the request, "" when it has none."""
    scheme, _, token = (request.get(hygiene.AUTHORIZATION) or "").partition(" ")
    if scheme.lower() == "bearer" and (token := token.strip()):
        return token
    return request.get(hygiene.API_KEY) or ""


def _bearer(request: Request) -> str:
    if token := _shown(request):
        return token
    raise refused("the request has no bearer token")
