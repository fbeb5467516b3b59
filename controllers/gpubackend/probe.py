"""Ask an Ollama server what it is and what it has. The URL is a user's input: it is looked at before it is called."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

_METADATA = frozenset({"metadata.google.internal", "metadata"})


@dataclass(frozen=True, slots=True)
class Answer:
    """The server answered. `models` are the names of /api/tags."""

    version: str
    models: frozenset[str]


@dataclass(frozen=True, slots=True)
class Failure:
    """It did not. `reason` is a CamelCase word, `message` a sentence with the remedy."""

    reason: str
    message: str


def refusal(url: str) -> Failure | None:
    """Why this URL must not be called; None when it may."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower().rstrip(".")
    except ValueError as error:
        return Failure("InvalidURL", f"spec.url {url!r} is no URL: {error}. Set it to http://host:port.")
    if parts.scheme not in ("http", "https") or not host:
        return Failure("InvalidURL", f"spec.url {url!r} is not an http(s) URL with a host. Set it to http://host:port.")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        local = host in _METADATA
    else:
        local = address.is_link_local or address.is_multicast or address.is_unspecified
    if local:
        return Failure("ForbiddenURL", f"spec.url points at {host}, a link-local or metadata address.")
    return None


async def ask(http: httpx.AsyncClient, url: str, *, timeout: float = 5.0) -> Answer | Failure:
    """GET /api/version and /api/tags; never raises for what a server or network can do."""
    forbidden = refusal(url)
    if forbidden is not None:
        return forbidden
    base = url.rstrip("/")
    try:
        version = await http.get(f"{base}/api/version", timeout=timeout)
        version.raise_for_status()
        tags = await http.get(f"{base}/api/tags", timeout=timeout)
        tags.raise_for_status()
        return Answer(
            version=str(version.json().get("version", ""))[:128],
            models=frozenset(str(model["name"]) for model in tags.json().get("models") or ()),
        )
    except httpx.TimeoutException:
        return Failure(
            "Timeout", f"{base} did not answer within {timeout:g} s. Check the server and its network policy."
        )
    except httpx.HTTPStatusError as error:
        return Failure(
            "HTTPError", f"{error.request.url} answered {error.response.status_code}. Is this an Ollama server?"
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Failure("Unreachable", f"{base} cannot be reached: {error or type(error).__name__}. Check spec.url.")
    except (ValueError, KeyError, TypeError, AttributeError):
        return Failure("NotOllama", f"{base} does not answer like an Ollama server. Check spec.url.")
