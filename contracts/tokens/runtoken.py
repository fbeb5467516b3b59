"""The run token: the rights of one run of one task, signed by the operator, verified offline by the services it calls.

A JSON Web Token (RFC 7519), HS256, media type `jervis-run+jwt`. Registered claims: `iss` jervis-operator, `sub` the
task's uid, `aud` the services that accept it, `iat`, `exp`. Private claims: `ns`, `attempt`, `client`, `project`,
`group`, `mode`, `ceiling` (0..3, the most urgent priority allowed), `rules` and `teaches` that a person's words gave,
`principals` of a run on behalf of a user, `repository` of a Job that analyzes code, and `sandbox` of one that runs a
command of an agent. Each of the last three has a media type of its own: such a token opens less, or other routes, than
a run's. Whether the run still is one, a token does not say: `contracts.tokens.live_runs`.
Readers ignore unknown claims; a claim that changes its meaning gets another media type.

    Refused (Permanent)     the token is not accepted
    +-- Malformed           not a run token, too long, or unusable claims
    +-- UnknownKey          signed with a key that is not accepted (any more)
    +-- WrongSignature      changed after it was signed
    +-- WrongAudience       issued for another service
    +-- Expired             `exp` has passed
    +-- Ended               its run is over (`contracts.tokens.live_runs`)
    Unusable (Permanent)    the keys cannot sign or verify

The algorithm is fixed here and never read from the token (RFC 8725, 2.1). The time is a parameter.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import jwt
import pydantic
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from crds import access, errors, scope
from crds.pendingtask import Mode
from crds.priority import Priority

TYPE = "jervis-run+jwt"
AS_TYPE = "jervis-run-as+jwt"
"""Of a run that reads on behalf of a user: who ignores its `principals` would show it more, and refuses it."""
ANALYSIS_TYPE = "jervis-analysis+jwt"
"""Of a Job that analyzes code: who does not know it gives it no right of a run."""
SANDBOX_TYPE = "jervis-sandbox+jwt"
"""Of a Job that runs a command of an agent."""
_TYPES = (TYPE, AS_TYPE, ANALYSIS_TYPE, SANDBOX_TYPE)
ISSUER = "jervis-operator"
KNOWLEDGE_BASE = "jervis-kb"
ROUTER = "jervis-router"
SOURCES = "jervis-sources"
OPERATOR = "jervis-operator"
AUDIENCE = (KNOWLEDGE_BASE, ROUTER, SOURCES, OPERATOR)
ANALYSIS_AUDIENCE = (KNOWLEDGE_BASE, SOURCES)
KEY_BYTES = 32
"""Minimum length for HS256: RFC 7518, 3.2."""
TOKEN_CHARS = 8000
"""Longer tokens are refused unread. A token with the longest claims has about 900 characters, one with the most
principals about 6,700; a header may have 8,190 (aiohttp)."""
LEEWAY = timedelta(seconds=30)
"""How far the clocks of two nodes may differ."""
MOST_RULES = 8
"""That a token names: as many decisions as a status holds."""
_ALGORITHM = "HS256"
_REMEMBERED = 1024
_SCOPE = ("client", "project", "group")
_HEADER_CHARS = 512
_RENEW = "The operator writes a new token into the run's Secret; read the mounted file again before each call."

Ring = Mapping[str, bytes]
"""Key id -> secret. The first one signs, all of them verify."""


class Refused(errors.Permanent):
    """The token is not accepted. `message` never holds the token."""

    def __init__(self, message: str, remedy: str = _RENEW) -> None:
        super().__init__(message, field="Authorization", remedy=remedy)


class Malformed(Refused):
    """Not a run token, or unusable claims."""


class UnknownKey(Refused):
    """Signed with a key that is not accepted."""


class WrongSignature(Refused):
    """Changed after it was signed."""


class WrongAudience(Refused):
    """Issued for another service."""


class Expired(Refused):
    """`exp` has passed."""


class Ended(Refused):
    """The run is over, or another attempt has taken its place."""


class Unusable(errors.Permanent):
    """The keys cannot be used."""


class Run(BaseModel):
    """The run that a token is for, and its rights: `scope` names a client, `ceiling` is its most urgent priority."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_uid: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9-]+$")]
    namespace: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9-]+$")]
    attempt: Annotated[int, Field(ge=0, le=1_000_000)]
    scope: scope.Scope
    mode: Mode
    ceiling: Priority
    principals: Annotated[tuple[access.Principal, ...], Field(max_length=access.MOST_OF_ONE)] = ()
    """As whom the run reads; empty: all of the scope."""
    repository: Annotated[str, Field(max_length=511, pattern=r"^\S*$")] = ""
    """ORG/NAME of a Job that analyzes it for the task, or for the ad-hoc query of that id; empty: no analysis."""
    sandbox: bool = False
    """Of the Job that brings the workspace of a command and takes its result."""
    rules: Annotated[tuple[Annotated[str, Field(max_length=100)], ...], Field(max_length=MOST_RULES)] = ()
    """Keys of the rules that a person has approved in the task, as the apiserver had it when the token was signed."""
    teaches: bool = False
    """Whether a person has answered a question of the task: then a procedure may be written as a user's own."""

    @model_validator(mode="after")
    def _of_a_client(self) -> Run:
        if self.scope.is_global:
            raise ValueError("a run's scope names a client")
        if self.analysis and self.principals:
            raise ValueError("code is analyzed as a whole, on behalf of no user")
        if self.sandbox and (self.analysis or self.principals):
            raise ValueError("a sandbox is neither an analysis nor on behalf of a user")
        if (self.rules or self.teaches) and (self.sandbox or self.analysis or self.principals):
            raise ValueError("what others see is written by runs that act for the whole of their scope alone")
        return self

    @property
    def analysis(self) -> bool:
        """Whether it is a Job that analyzes code."""
        return bool(self.repository)

    @property
    def media_type(self) -> str:
        """`typ` of its token."""
        if self.sandbox:
            return SANDBOX_TYPE
        return ANALYSIS_TYPE if self.analysis else AS_TYPE if self.principals else TYPE


class Claims(Run):
    """A run, and when and by which services its token is accepted."""

    audience: tuple[str, ...] = AUDIENCE
    issued_at: AwareDatetime
    expires_at: AwareDatetime

    @model_validator(mode="after")
    def _lasts(self) -> Claims:
        if self.expires_at <= self.issued_at:
            raise ValueError("a token expires after it was issued")
        return self


def ring(secrets: Iterable[bytes]) -> Ring:
    """Keys by id, in the given order; the first signs. Raises Unusable.

    An id is the start of the key's SHA-256, so ids are unique without being assigned.
    """
    made: dict[str, bytes] = {}
    for secret in secrets:
        if len(secret) < KEY_BYTES:
            raise _unusable(f"a key has {len(secret)} bytes, at least {KEY_BYTES} are needed")
        try:
            jwt.get_algorithm_by_name(_ALGORITHM).prepare_key(secret)
        except jwt.InvalidKeyError as error:
            raise _unusable("a key is a certificate, a public key or a JWK") from error
        made[hashlib.sha256(secret).hexdigest()[:12]] = secret
    if not made:
        raise _unusable("there is no key")
    return made


def is_run_token(token: str) -> bool:
    """Whether a bearer token has a type of run tokens; nothing is verified."""
    return _header(token).get("typ") in _TYPES


class Signer:
    """Signs with the first key of `keys()`, which is called for each token; `now` gives the time in UTC."""

    def __init__(self, keys: Callable[[], Ring], now: Callable[[], datetime]) -> None:
        self._keys = keys
        self._now = now

    def sign(self, run: Run, lifetime: timedelta, audience: tuple[str, ...] = AUDIENCE) -> str:
        """A token for `run` from now on, for `lifetime` (at least a second; whole seconds count)."""
        issued = self._now().astimezone(UTC).replace(microsecond=0)
        lifetime = timedelta(seconds=int(lifetime.total_seconds()))
        fields = {name: getattr(run, name) for name in Run.model_fields}
        claims = Claims(**fields, audience=audience, issued_at=issued, expires_at=issued + lifetime)
        return write(_payload(claims), self._keys(), claims.media_type)


def write(payload: Mapping[str, Any], keys: Ring, media_type: str) -> str:
    """`payload` as a JSON Web Token, signed with the first of `keys`."""
    key_id, secret = next(iter(keys.items()))
    return jwt.encode(dict(payload), secret, _ALGORITHM, headers={"kid": key_id, "typ": media_type})


def read(token: str, keys: Ring, media_types: Collection[str]) -> tuple[str, Mapping[str, Any]]:
    """Media type and payload of a token of one of these types that any of `keys` signed. Raises Malformed, UnknownKey,
    WrongSignature."""
    header = _header(token)
    media_type, key_id = str(header.get("typ")), header.get("kid")
    if media_type not in media_types:
        raise Malformed(f"the token is not of type {TYPE}")
    if not isinstance(key_id, str) or key_id not in keys:
        raise UnknownKey("the run token is signed with a key that is not accepted")
    try:
        payload = jwt.decode(token, keys[key_id], algorithms=[_ALGORITHM], options=_SIGNATURE_ONLY)
    except jwt.InvalidSignatureError as error:
        raise WrongSignature("the run token's signature does not match") from error
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise Malformed("the run token cannot be read") from error
    return media_type, payload


class Verifier:
    """Accepts tokens for `audience` signed by any key of `keys()`. Verified tokens are cached by their digest. `lives`
    raises `Ended` for a run that is over, and `errors.Operational` where that is not known (`live_runs`)."""

    def __init__(
        self,
        keys: Callable[[], Ring],
        now: Callable[[], datetime],
        audience: str,
        lives: Callable[[Claims], None] = lambda claims: None,
    ) -> None:
        self._keys = keys
        self._now = now
        self._audience = audience
        self._lives = lives
        self._ring: Ring | None = None
        self._known: OrderedDict[bytes, Claims] = OrderedDict()

    def verify(self, token: str) -> Claims:
        """The claims of a token that is accepted now. Raises Refused, and what `lives` raises."""
        if len(token) > TOKEN_CHARS or not token.isascii():
            raise Malformed(f"the run token is longer than {TOKEN_CHARS} characters or not ASCII")
        keys = self._keys()
        if keys is not self._ring:
            self._ring = keys
            self._known.clear()
        digest = hashlib.sha256(token.encode("ascii")).digest()
        claims = self._known.get(digest)
        if claims is None:
            claims = self._known[digest] = self._read(token, keys)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(digest)
        if self._now() >= claims.expires_at + LEEWAY:
            raise Expired(f"the run token expired at {claims.expires_at.isoformat()}")
        self._lives(claims)
        return claims

    def _read(self, token: str, keys: Ring) -> Claims:
        media_type, payload = read(token, keys, _TYPES)
        claims = _claims(payload)
        if media_type != claims.media_type:
            raise Malformed("the run token's type and its claims do not belong together")
        if self._audience not in claims.audience:
            raise WrongAudience(f"the run token is not meant for {self._audience}")
        return claims


# PyJWT would use the machine's clock; issuer, audience and expiry are checked above with our clock.
_SIGNATURE_ONLY: Any = {
    "verify_signature": True,
    "enforce_minimum_key_length": True,
    **{f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")},
}


def _payload(claims: Claims) -> dict[str, Any]:
    owner = (claims.scope.client_id, claims.scope.project_id, claims.scope.group_id)
    return {
        "iss": ISSUER,
        "sub": claims.task_uid,
        "aud": list(claims.audience),
        "iat": int(claims.issued_at.timestamp()),
        "exp": int(claims.expires_at.timestamp()),
        "ns": claims.namespace,
        "attempt": claims.attempt,
        **{name: text for name, text in zip(_SCOPE, owner, strict=True) if text},
        "mode": claims.mode.value,
        "ceiling": int(claims.ceiling),
        **({"principals": list(claims.principals)} if claims.principals else {}),
        **({"repository": claims.repository} if claims.repository else {}),
        **({"sandbox": True} if claims.sandbox else {}),
        **({"rules": list(claims.rules)} if claims.rules else {}),
        **({"teaches": True} if claims.teaches else {}),
    }


def _claims(payload: Mapping[str, Any]) -> Claims:
    try:
        if payload["iss"] != ISSUER:
            raise Malformed("the run token was issued by another program")
        client, project, group = (payload.get(name, "") for name in _SCOPE)
        return Claims(
            task_uid=payload["sub"],
            namespace=payload["ns"],
            attempt=payload["attempt"],
            scope=scope.Scope(client_id=client, project_id=project, group_id=group),
            mode=payload["mode"],
            ceiling=payload["ceiling"],
            principals=tuple(payload.get("principals", ())),
            repository=payload.get("repository", ""),
            sandbox=payload.get("sandbox", False),
            rules=tuple(payload.get("rules", ())),
            teaches=payload.get("teaches", False),
            audience=tuple(payload["aud"]),
            issued_at=datetime.fromtimestamp(payload["iat"], UTC),
            expires_at=datetime.fromtimestamp(payload["exp"], UTC),
        )
    except (KeyError, TypeError, ValueError, OverflowError, OSError, pydantic.ValidationError) as error:
        raise Malformed("the run token's claims cannot be used") from error


def _header(token: str) -> Mapping[str, Any]:
    """The token's header, unverified; empty when there is none."""
    first, dots, _ = token[:_HEADER_CHARS].partition(".")
    return _decoded(first) if dots and first.isascii() else {}


@functools.lru_cache(maxsize=256)  # all tokens of one key have the same header
def _decoded(first: str) -> Mapping[str, Any]:
    try:
        header = json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return header if isinstance(header, dict) else {}


def _unusable(problem: str) -> Unusable:
    return Unusable(
        f"The keys of run tokens: {problem}.",
        field="runToken.existingSecret",
        remedy="Give random text of 32 to 4096 characters, for example of `openssl rand -base64 48`.",
    )
