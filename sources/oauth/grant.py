"""What a Secret says about how its access tokens are had: a refresh token, or the key of a GitHub App. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sources.core import port

APP = "github-app"
ENDPOINTS: Mapping[str, str] = {
    "google": "https://oauth2.googleapis.com/token",
    "microsoft": "https://login.microsoftonline.com/{tenant}/oauth2/v2.0/token",
    "atlassian": "https://auth.atlassian.com/oauth/token",
    APP: "https://api.github.com/app/installations/{installation_id}/access_tokens",
}
"""By `provider` of the Secret; `token_url` of the Secret goes before."""
_RENEW = "Let a person consent again and write the new refresh_token into the Secret: docs/connections.md, OAuth."
REMEDIES: Mapping[str, str] = {
    "google": f"{_RENEW} Google ends them after 7 days while the consent screen is in state Testing.",
    "microsoft": f"{_RENEW} Microsoft ends them after 90 days without use and with some changes of the password.",
    "atlassian": f"{_RENEW} Atlassian ends them after 90 days without use; scope offline_access is needed.",
    APP: "Write app_id, installation_id and a private_key that the App has now into the Secret:"
    " docs/connections.md, OAuth.",
}
_PART = re.compile(r"[A-Za-z0-9._-]{1,128}")
_FIELD = "spec.secretRef"
_SIGNS = frozenset({"provider", "refresh_token", "token_url", "app_id", "installation_id", "private_key"})
"""Keys that only such a Secret has."""


@dataclass(frozen=True, slots=True)
class Grant:
    """`provider` is "" for another one. `ca` has authorities beside the trusted ones, in PEM."""

    provider: str
    token_url: str
    client_id: str = ""
    client_secret: str = ""
    refresh_token: str = ""
    scope: str = ""
    app_id: str = ""
    private_key: str = ""
    ca: str = ""

    @property
    def id(self) -> str:
        """Another Secret has another one, and Connections with the same Secret have the same."""
        said = "\0".join((self.token_url, self.client_id, self.refresh_token, self.app_id, self.private_key))
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def key(self) -> bytes:
        """A Fernet key that only the Secret gives."""
        derived = HKDF(hashes.SHA256(), 32, salt=None, info=b"jervis refresh token").derive(
            f"{self.client_secret}\0{self.refresh_token}".encode()
        )
        return base64.urlsafe_b64encode(derived)

    @property
    def remedy(self) -> str:
        """When it is refused."""
        return REMEDIES.get(self.provider, _RENEW)


def of(values: Mapping[str, str], *, plain: bool) -> Grant | None:
    """None for a Secret without OAuth. `plain` allows a token endpoint without TLS. Raises `port.Misconfigured`."""
    found = {key: value.strip() for key, value in values.items()}
    if not _SIGNS & {key for key, value in found.items() if value}:
        return None
    provider = found.get("provider", "")
    if provider and provider not in ENDPOINTS:
        _wrong(f"provider of the Secret is {provider[:40]!r}.", f"Write one of {', '.join(ENDPOINTS)}, or token_url.")
    app = provider == APP or (not provider and "app_id" in found)
    needed = ["app_id", "installation_id", "private_key"] if app else ["client_id", "refresh_token"]
    if not provider:
        needed.append("token_url")
    lacking = [key for key in needed if not found.get(key)]
    if lacking:
        _wrong(f"The Secret lacks {' and '.join(lacking)}.", f"OAuth needs {', '.join(needed)}: docs/connections.md.")
    parts = {"tenant": found.get("tenant") or "common", "installation_id": found.get("installation_id", "")}
    for key, value in parts.items():
        if value and not _PART.fullmatch(value):
            _wrong(f"{key} of the Secret is {value[:40]!r}.", "Write letters, digits, dots, dashes.")
    url = found.get("token_url") or ENDPOINTS[provider].format(**parts)
    _judge(url, plain)
    common = {"provider": APP if app else provider, "token_url": url, "ca": found.get("ca.crt", "")}
    if app:
        return Grant(**common, app_id=found["app_id"], private_key=found["private_key"])
    return Grant(
        **common,
        client_id=found["client_id"],
        client_secret=found.get("client_secret", ""),
        refresh_token=found["refresh_token"],
        scope=found.get("scope", ""),
    )


def _judge(url: str, plain: bool) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        _wrong("token_url of the Secret is no URL.", "Write https://HOST/PATH.")
    if parts.scheme != "https" and not (plain and parts.scheme == "http"):
        _wrong("token_url of the Secret is no https:// address.", "Write https://HOST/PATH.")
    if not parts.hostname or "@" in parts.netloc:
        _wrong("token_url of the Secret names no host, or a login.", "Write https://HOST/PATH.")


def _wrong(message: str, remedy: str) -> NoReturn:
    raise port.Misconfigured(message, field=_FIELD, remedy=remedy)
