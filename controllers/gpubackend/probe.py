"""Ask a server, Ollama's or one with OpenAI's API, what it is and what it has.

The URL is a user's input, called from the operator's place in the network, so the addresses of its host are judged
(`crds.addresses`, `clients.http`). What a server answers beside its version and its models is not repeated in any
status; the log has the cause of a failure.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from clients import http
from crds import addresses
from crds.gpubackend import Engine

MOST_BYTES = 4 * 1024 * 1024
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


class Judge:
    """Which addresses of a host that a user names are called. `loopback` allows those of this machine."""

    def __init__(self, resolve: http.Find = http.resolve, *, loopback: bool = False) -> None:
        self._resolve, self._loopback = resolve, loopback

    async def find(self, host: str, port: int) -> Sequence[str]:
        """The host's addresses, for `clients.http`. What it raises says `Probe.ask`."""
        resolved = await self._resolve(host, port)
        for text in resolved:
            # One forbidden address spoils the name: its owner chooses which one is tried.
            try:
                why = addresses.never_called(text, loopback=self._loopback)
            except ValueError:
                why = "no IP address"
            if why:
                remedy = _LOOPBACK_REMEDY if "loopback" in why else _PRIVATE_REMEDY
                message = f"spec.url: host {host!r} leads to {why}, which is never called. {remedy}"
                raise _Failed(Failure("ForbiddenURL", message[:512], cause=text))
        return resolved


class Probe:
    """`opened` is a client of `clients.http` with a `Judge`. `timeout` in seconds bounds a whole probe."""

    def __init__(self, opened: httpx.AsyncClient, *, timeout: float = 5.0) -> None:
        self._http, self._timeout = opened, timeout

    async def ask(self, url: str, token: str = "", engine: Engine = Engine.OLLAMA) -> Answer | Failure:
        """GET /api/version and /api/tags, for engine OpenAI /health and /v1/models, with the bearer token, if there is
        one; never raises for what a server or network can do."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._ask(url, token, engine)
        except _Failed as failed:
            return failed.failure
        except (TimeoutError, httpx.HTTPError, OSError, UnicodeError) as error:
            return _unreachable(self._timeout, f"{type(error).__name__}: {error}")

    async def _ask(self, url: str, token: str, engine: Engine) -> Answer:
        base = _base(url)
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if engine is Engine.OPENAI:
            await self._healthy(f"{base}/health", headers)
            return _openai(await self._get(f"{base}/v1/models", headers, engine))
        about = await self._get(f"{base}/api/version", headers, engine)
        return _answer(about, await self._get(f"{base}/api/tags", headers, engine))

    async def _healthy(self, url: str, headers: dict[str, str]) -> None:
        """llama.cpp lists its model while it loads it, and vLLM after its engine has died: /health knows. Some servers
        have none. Raises _Failed."""
        async with self._http.stream("GET", url, headers=headers) as answer:
            pass
        if answer.status_code >= 500:
            text = "The server loads its model, or has failed: its /health says that it is not ready. See its log."
            raise _Failed(Failure("NotHealthy", text, cause=f"HTTP {answer.status_code}"))

    async def _get(self, url: str, headers: dict[str, str], engine: Engine) -> Any:
        """JSON of a small document. Raises _Failed for an answer that is none."""
        try:
            async with self._http.stream("GET", url, headers=headers) as answer:
                if answer.status_code != 200:
                    raise _Failed(_status(answer.status_code, "Authorization" in headers, engine))
                body = await http.read(answer, MOST_BYTES)
        except (http.TooLarge, httpx.DecodingError) as error:
            raise _other(engine, str(error)) from error
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _other(engine, f"no JSON: {type(error).__name__}") from error


def _base(url: str) -> str:
    """The URL without what no path can follow. Raises _Failed for one that cannot be called."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL as error:
        message = f"spec.url is no URL: {error}. Set it to http://HOST:PORT."
        raise _Failed(Failure("InvalidURL", message[:512])) from error
    if parts.scheme not in ("http", "https") or not parts.raw_host or parts.userinfo or (parts.port or 0) > 65_535:
        message = "spec.url is not an http(s) URL with a host and without credentials. Set it to http://HOST:PORT."
        raise _Failed(Failure("InvalidURL", message))
    return str(parts.copy_with(query=None, fragment=None)).rstrip("/")


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
