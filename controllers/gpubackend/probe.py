"""Ask a server, Ollama's or one with OpenAI's API, what it is and what it has.

The URL is a user's input, called from the operator's place in the network. So its host is resolved first, every address
is judged (`crds.addresses`), and the connection goes to an address that was judged: a name that is resolved a second
time could lead elsewhere. Redirects are not followed, proxies not used. What a server answers beside its version and
its models is not repeated in any status; the log has the cause of a failure.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx

from crds import addresses
from crds.gpubackend import Engine

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host; empty when it has none."""

MOST_BYTES = 4 * 1024 * 1024
_MOST_ADDRESSES = 4
_VERSION = re.compile(r"[0-9]+(\.[0-9]+){0,3}([-+][0-9A-Za-z.-]{1,24})?")
_PRIVATE_REMEDY = "Set it to the address of a server."
_LOOPBACK_REMEDY = "It leads back to the operator's own pod. Set it to http://SERVICE:PORT of the server."


@dataclass(frozen=True, slots=True)
class Answer:
    """The server answered. `models` are the names of /api/tags or /v1/models; `version` is "" when it says none."""

    version: str
    models: frozenset[str]


@dataclass(frozen=True, slots=True)
class Failure:
    """It did not. `reason` is a CamelCase word, `message` a sentence with the remedy; `cause` is for the log alone."""

    reason: str
    message: str
    cause: str = ""


class _Failed(Exception):  # noqa: N818 - carries the failure to `ask`, and never leaves this module
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host by the system's resolver, IPv4 first."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []
    return sorted({str(row[4][0]) for row in found}, key=lambda text: (":" in text, text))


class Probe:
    """`http` must not use a proxy. `loopback` allows loopback addresses. `timeout` in seconds bounds a whole probe."""

    def __init__(
        self, http: httpx.AsyncClient, *, resolve: Resolve = resolve, loopback: bool = False, timeout: float = 5.0
    ) -> None:
        self._http, self._resolve, self._loopback, self._timeout = http, resolve, loopback, timeout

    async def ask(self, url: str, token: str = "", engine: Engine = Engine.OLLAMA) -> Answer | Failure:
        """GET /api/version and /api/tags, for engine OpenAI /health and /v1/models, with the bearer token, if there is
        one; never raises for what a server or network can do."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._ask(url, token, engine)
        except _Failed as failed:
            return failed.failure
        except (TimeoutError, httpx.HTTPError, OSError) as error:
            return _unreachable(self._timeout, f"{type(error).__name__}: {error}")

    async def _ask(self, url: str, token: str, engine: Engine) -> Answer:
        parts, port = _split(url)
        found = await self._judged(parts.hostname or "", port)
        headers = {"Host": parts.netloc, "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        refused: httpx.TransportError | None = None
        for address in found[:_MOST_ADDRESSES]:
            host = f"[{address}]" if ":" in address else address
            base = f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"
            name = parts.hostname or ""
            try:
                if engine is Engine.OPENAI:
                    await self._healthy(f"{base}/health", headers, name)
                    return _openai(await self._get(f"{base}/v1/models", headers, name, engine))
                about = await self._get(f"{base}/api/version", headers, name, engine)
                tags = await self._get(f"{base}/api/tags", headers, name, engine)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                refused = error
                continue
            return _answer(about, tags)
        raise refused or httpx.ConnectError("the name has no address")

    async def _judged(self, host: str, port: int) -> Sequence[str]:
        found = await self._resolve(host, port)
        for text in found:
            # One forbidden address spoils the name: its owner chooses which one is tried.
            try:
                why = addresses.never_called(text, loopback=self._loopback)
            except ValueError:
                why = "no IP address"
            if why:
                remedy = _LOOPBACK_REMEDY if "loopback" in why else _PRIVATE_REMEDY
                message = f"spec.url: host {host!r} leads to {why}, which is never called. {remedy}"
                raise _Failed(Failure("ForbiddenURL", message[:512], cause=text))
        return found

    async def _healthy(self, url: str, headers: dict[str, str], name: str) -> None:
        """llama.cpp lists its model while it loads it, and vLLM after its engine has died: /health knows. Some servers
        have none. Raises _Failed."""
        answer = await self._send(url, headers, name)
        await self._close(answer)
        if answer.status_code >= 500:
            text = "The server loads its model, or has failed: its /health says that it is not ready. See its log."
            raise _Failed(Failure("NotHealthy", text, cause=f"HTTP {answer.status_code}"))

    async def _send(self, url: str, headers: dict[str, str], name: str) -> httpx.Response:
        request = self._http.build_request("GET", url, headers=headers, extensions={"sni_hostname": name})
        return await self._http.send(request, stream=True, follow_redirects=False)

    async def _close(self, answer: httpx.Response) -> None:
        await answer.aclose()
        # The client knows addresses, not names: a cookie would go to every server at the same address.
        self._http.cookies.clear()

    async def _get(self, url: str, headers: dict[str, str], name: str, engine: Engine) -> Any:
        """JSON of a small document. Raises _Failed for an answer that is none."""
        answer = await self._send(url, headers, name)
        try:
            if answer.status_code != 200:
                raise _Failed(_status(answer.status_code, "Authorization" in headers, engine))
            body = bytearray()
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    raise _other(engine, f"an answer of more than {MOST_BYTES} bytes")
        finally:
            await self._close(answer)
        try:
            return json.loads(bytes(body))
        except (ValueError, RecursionError) as error:
            raise _other(engine, f"no JSON: {type(error).__name__}") from error


def _split(url: str) -> tuple[SplitResult, int]:
    """The URL's parts and its port. Raises _Failed for one that cannot be called."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        message = f"spec.url is no URL: {error}. Set it to http://HOST:PORT."
        raise _Failed(Failure("InvalidURL", message[:512])) from error
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        message = "spec.url is not an http(s) URL with a host and without credentials. Set it to http://HOST:PORT."
        raise _Failed(Failure("InvalidURL", message))
    return parts, port or (443 if parts.scheme == "https" else 80)


def _answer(about: Any, tags: Any) -> Answer:
    try:
        version, models = str(about.get("version", "")), tags.get("models") or ()
        known = frozenset(str(model["name"]) for model in models)
    except (KeyError, TypeError, AttributeError) as error:
        raise _other(Engine.OLLAMA, f"other JSON: {type(error).__name__}") from error
    return Answer(version if _VERSION.fullmatch(version) else "", known)


def _openai(listed: Any) -> Answer:
    try:
        return Answer("", frozenset(str(model["id"]) for model in listed["data"]))
    except (KeyError, TypeError) as error:
        raise _other(Engine.OPENAI, f"other JSON: {type(error).__name__}") from error


def _status(code: int, with_token: bool, engine: Engine) -> Failure:
    if code in (401, 403):
        if with_token:
            text = "The server refuses the token of spec.secretRef. Put the right one into that Secret."
        else:
            text = (
                "The server wants a bearer token. Put it under key 'token' of a Secret in this namespace, name the "
                "Secret in spec.secretRef, and add it to router.backendSecrets of the chart."
            )
        return Failure("Unauthorized", text, cause=f"HTTP {code}")
    if 300 <= code < 400:
        text = "The server answers with a redirect, which is not followed. Set spec.url to where it leads."
        return Failure("HTTPError", text, cause=f"HTTP {code}")
    text = f"The server answers with HTTP {code // 100}xx. {_remedy(engine)}"
    return Failure("HTTPError", text, cause=f"HTTP {code}")


def _unreachable(timeout: float, cause: str) -> Failure:
    text = (
        f"The server does not answer within {timeout:g} s, or cannot be reached. Check spec.url, the server and the "
        "NetworkPolicies; the operator's log has the cause."
    )
    return Failure("Unreachable", text, cause=cause[:300])


def _remedy(engine: Engine) -> str:
    if engine is Engine.OPENAI:
        return "Is this a server with OpenAI's API? Check spec.url, which has no /v1 at its end, and spec.engine."
    return "Is this an Ollama server? Check spec.url; for a server with OpenAI's API set spec.engine to OpenAI."


def _other(engine: Engine, cause: str) -> _Failed:
    openai = engine is Engine.OPENAI
    reason, what = ("NotOpenAI", "one with OpenAI's API") if openai else ("NotOllama", "an Ollama server")
    return _Failed(Failure(reason, f"It does not answer like {what}. {_remedy(engine)}", cause=cause))
