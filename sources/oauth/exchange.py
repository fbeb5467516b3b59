"""Asks a token endpoint: a refresh token for an access token, or a GitHub App's signature for one.

    invalid_grant, 401 for an App           Rejected: expired, revoked, or replaced by another
    invalid_client, unauthorized_client     Rejected: client_id and client_secret
    other errors of RFC 6749, 3xx, 404      Misconfigured
    429, 5xx, silence, no JSON              Unreachable

oauthlib makes the request's body and reads the answer; it makes no call. Sources: RFC 6749 5.2, 6; GitHub "Generating a
JSON Web Token (JWT) for a GitHub App".
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import jwt
import oauthlib.oauth2
import orjson
from oauthlib.oauth2.rfc6749 import errors as oauth_errors

from clients import http
from sources.core import hosts, port
from sources.oauth import grant

SECONDS = 20.0
"""In which the endpoint has to answer."""
_LARGEST = 256 << 10
_HOUR = 3600.0
_BEFORE = timedelta(seconds=60)
"""By which a signature is older than now: GitHub refuses one that is younger than its own clock."""
_LASTS = timedelta(minutes=9)
_FIELD = "spec.secretRef"
_ENDED = ("invalid_grant", "interaction_required", "consent_required", "login_required")
_CLIENT = ("invalid_client", "unauthorized_client")
_BUSY = ("temporarily_unavailable", "server_error")


@dataclass(frozen=True, slots=True)
class Fresh:
    """`access` is good for `seconds`; `refresh` is the refresh token from now on, "" where it stays."""

    access: str
    seconds: float
    refresh: str = ""


class Exchange:
    """`tls` has the trusted authorities; `wall` is UTC, for signatures alone."""

    def __init__(self, reached: hosts.Hosts, tls: ssl.SSLContext, *, wall: Callable[[], datetime]) -> None:
        self._hosts, self._tls, self._wall = reached, tls, wall
        self._skew = timedelta()

    async def spend(self, asked: grant.Grant, refresh: str) -> Fresh:
        """An access token for a refresh token. Raises `Rejected`, `Misconfigured`, `Unreachable`."""
        client = oauthlib.oauth2.WebApplicationClient(asked.client_id)
        more = {"client_secret": asked.client_secret} if asked.client_secret else {}
        body = client.prepare_refresh_body(
            refresh_token=refresh, client_id=asked.client_id, scope=asked.scope or None, **more
        )
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        status, _, raw = await self._post(asked, headers, body.encode())
        if 300 <= status < 400 or status in (404, 405, 410):
            raise self._elsewhere(asked, status)
        said = _object(asked, status, raw)
        try:
            # Scopes may be fewer than were asked for; the source says what is missing.
            token = client.parse_request_body_response(orjson.dumps({**said, "scope": ""}).decode())
        except oauth_errors.MissingTokenError as error:
            raise port.Unreachable(f"{_shown(asked)} answered {status} without an access token.") from error
        except oauth_errors.OAuth2Error as error:
            raise _refused(asked, error) from error
        return Fresh(
            str(token["access_token"]), _seconds(token.get("expires_in")), str(said.get("refresh_token") or "")
        )

    async def install(self, asked: grant.Grant) -> Fresh:
        """An installation token of a GitHub App. Raises as `spend`."""
        for again in (True, False):
            headers = {
                "Authorization": f"Bearer {self._signed(asked)}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
                "User-Agent": "jervis",
            }
            status, answered, raw = await self._post(asked, headers, b"")
            if status != 401 or not again or not self._learned(answered):
                break
        if status in (401, 403):
            raise port.Rejected(
                f"{_shown(asked)} refuses the GitHub App: {_text(_object(asked, status, raw).get('message'))}",
                field=_FIELD,
                remedy=asked.remedy,
            )
        if 300 <= status < 400 or status == 404:
            raise self._elsewhere(asked, status)
        said = _object(asked, status, raw)
        if status >= 400:
            raise port.Misconfigured(
                f"{_shown(asked)} answered {status}: {_text(said.get('message'))}", field=_FIELD, remedy=asked.remedy
            )
        if not isinstance(said.get("token"), str):
            raise port.Unreachable(f"{_shown(asked)} answered {status} without a token.")
        try:
            left = (datetime.fromisoformat(str(said["expires_at"])) - self._now()).total_seconds()
        except (KeyError, ValueError, TypeError):
            left = _HOUR
        return Fresh(said["token"], min(max(left, 0.0), _HOUR))

    def _now(self) -> datetime:
        return self._wall() + self._skew

    def _signed(self, asked: grant.Grant) -> str:
        start = self._now() - _BEFORE
        claims = {"iat": int(start.timestamp()), "exp": int((start + _LASTS).timestamp()), "iss": asked.app_id}
        try:
            return jwt.encode(claims, asked.private_key, algorithm="RS256")
        except (ValueError, TypeError, jwt.PyJWTError) as error:
            raise port.Misconfigured(
                "private_key of the Secret is no RSA key in PEM.",
                field=_FIELD,
                remedy="Write the file that GitHub gave: --from-file=private_key=FILE.",
            ) from error

    def _learned(self, answered: Mapping[str, str]) -> bool:
        """Whether the endpoint's clock differs from what was taken for it, by its header Date."""
        try:
            skew = parsedate_to_datetime(answered["date"]).astimezone(UTC) - self._wall()
        except (KeyError, ValueError, TypeError):
            return False
        differs = abs(skew - self._skew) > _BEFORE / 2
        self._skew = skew
        return differs

    def _elsewhere(self, asked: grant.Grant, status: int) -> port.Misconfigured:
        return port.Misconfigured(
            f"{_shown(asked)} answered {status}, so no tokens are given there.",
            field=_FIELD,
            remedy="Correct token_url, tenant or installation_id of the Secret; redirects are not followed.",
        )

    async def _post(
        self, asked: grant.Grant, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        tls = hosts.trusted(self._tls, asked.ca)
        try:
            async with (
                asyncio.timeout(SECONDS),
                http.client(tls=tls, find=self._hosts.called, seconds=SECONDS) as opened,
                opened.stream(
                    "POST", asked.token_url, content=body, headers={"Accept": "application/json", **headers}
                ) as answer,
            ):
                raw = await http.read(answer, _LARGEST)
        except http.TooLarge as error:
            raise port.Unreachable(f"{_shown(asked)} answered more than {_LARGEST} bytes.") from error
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            why = str(error)[:200] or type(error).__name__
            raise port.Unreachable(f"{_shown(asked)} did not answer: {why}.") from error
        if answer.status_code == 429 or answer.status_code >= 500:
            pause = answer.headers.get("Retry-After", "")
            raise port.Unreachable(
                f"{_shown(asked)} answered {answer.status_code}.", retry_after=float(pause) if pause.isdigit() else None
            )
        return answer.status_code, answer.headers, raw


def _refused(
    asked: grant.Grant, error: oauth_errors.OAuth2Error
) -> port.Rejected | port.Misconfigured | port.Unreachable:
    where, why = _shown(asked), f"{_text(error.error)}, {_text(error.description)}"
    if error.error in _ENDED:
        return port.Rejected(
            f"{where} takes the refresh token no more, it is expired, revoked or replaced: {why}",
            field=_FIELD,
            remedy=asked.remedy,
        )
    if error.error in _CLIENT:
        return port.Rejected(
            f"{where} refuses the client: {why}",
            field=_FIELD,
            remedy="Correct client_id and client_secret in the Secret; a client_secret may have expired.",
        )
    if error.error in _BUSY:
        return port.Unreachable(f"{where} cannot answer now: {why}")
    return port.Misconfigured(
        f"{where} refuses the request: {why}",
        field=_FIELD,
        remedy="Correct scope, tenant or token_url of the Secret.",
    )


def _shown(asked: grant.Grant) -> str:
    """Of a URL of a Secret only what is needed to find it."""
    return f"Token endpoint {httpx.URL(asked.token_url).host}"


def _object(asked: grant.Grant, status: int, raw: bytes) -> dict[str, Any]:
    try:
        said = orjson.loads(raw)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict):
        raise port.Unreachable(f"{_shown(asked)} answered {status} with no object of JSON.")
    return said


def _seconds(said: object) -> float:
    """RFC 6749 4.2.2 recommends `expires_in`; some write it as a text, and some leave it out."""
    try:
        return max(0.0, float(str(said)))
    except ValueError:
        return _HOUR


def _text(said: object) -> str:
    return " ".join(str(said or "no reason").split())[:200]
