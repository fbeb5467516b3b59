"""An aiohttp client middleware under kopf's lists and watches of our kinds: counted for liveness, paced, never fatal.

kopf re-raises what a list or watch is refused with (403, 404, other 4xx, an ERROR event that is not 410) out of its
watcher, and then the whole operator stops. One namespace that is deleted or forbidden must not stop the others, so the
middleware answers kopf with `aiohttp.ClientPayloadError` instead: a connection that broke, after which kopf asks
again. The pause before that is made here. The session reaches kopf by its documented `kopf.AiohttpSession` login.

- Each 2xx answer, each piece of a watch and each 403 or 404 is a beat for liveness: the API has answered.
- Each request carries the token of now, so a rotated one is never refused.
- An ERROR event becomes 410, upon which kopf lists anew, later each time that a watch ends so; half a line at the end
  of a watch is dropped.
- A list that kopf makes again is reported: what was deleted since the watch broke is in no event.

Source: aiohttp "Client middleware"; kopf "Authentication", custom HTTP sessions.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import aiohttp
import structlog

from clients import backoff
from crds import GROUP, VERSION
from kube import beats

log = structlog.get_logger(__name__)

PLURALS = ("pendingtasks", "connections", "gpubackends")
_OURS = re.compile(
    rf"/apis/{re.escape(GROUP)}/{VERSION}/(?:namespaces/(?P<namespace>[^/]+)/)?(?P<plural>{'|'.join(PLURALS)})$"
)
PAUSE_SECONDS = 0.2
"""Between two watches of a collection, so that a server that ends each of them at once is not flooded."""
FAILED = backoff.Doubling(first=PAUSE_SECONDS, cap=4.0)
"""For ever: an apiserver that is away must not end the process."""
_MARK = b'{"type":"ERROR"'
_ERROR = re.compile(rb"^" + re.escape(_MARK) + rb".*", re.MULTILINE)
_EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'


class Answers(Protocol):
    """Receives what is found out here; `namespace` is None for a request over all namespaces."""

    def refused(self, namespace: str | None, plural: str, status: int, why: str) -> None:
        """403 or 404."""

    def resumed(self, namespace: str | None, plural: str) -> None:
        """kopf has listed anew, or is answered again after a refusal: events may be missing."""


@dataclass(slots=True)
class _Collection:
    failures: int = 0
    errors: int = 0
    """Watches in a row that ended with an ERROR event; the lists between them prove nothing."""
    refused: bool = False
    due: float = 0.0
    """Not before this moment, monotonic seconds."""
    lists: int = 0
    """Begun since the start."""
    listing: bool = False


class Reconnect:
    """The middleware. `authorization` gives the headers that say who we are."""

    def __init__(
        self,
        answers: Answers,
        answered: beats.Beats,
        authorization: Callable[[], dict[str, str]],
        *,
        counted: Callable[[str, int], None] = lambda verb, code: None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._answers, self._beats, self._authorization = answers, answered, authorization
        self._counted, self._monotonic, self._sleep = counted, monotonic, sleep
        self._collections: dict[str, _Collection] = {}

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Raises aiohttp.ClientPayloadError in place of everything that would stop kopf."""
        ours = _OURS.search(request.url.path)
        if ours is None or request.method != "GET":
            request.headers.update(self._authorization())
            return await handler(request)
        path, watch = ours[0], "watch" in request.url.query
        known = self._collections.setdefault(path, _Collection())
        await self._sleep(max(0.0, known.due - self._monotonic()))
        if watch:
            self._watches(known, ours)
        elif "continue" not in request.url.query:
            known.lists += 1
            known.listing = True
        request.headers.update(self._authorization())
        verb = "WATCH" if watch else "GET"
        try:
            response = await handler(request)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._counted(verb, 0)
            raise self._again(known, path, repr(error)) from error
        self._counted(verb, response.status)
        if response.status >= 300 or "json" not in response.content_type:
            raise await self._refused(known, ours, response)
        known.failures = 0
        self._beats.beat(path)
        if known.refused:
            known.refused = False
            self._answers.resumed(ours["namespace"], ours["plural"])
        if watch:
            known.due = self._monotonic() + PAUSE_SECONDS
            lines = Lines(
                response.content, lambda: self._beats.beat(path), lambda error: self._ended(known, path, error)
            )
            response.content = cast("aiohttp.StreamReader", lines)
        return response

    def _watches(self, known: _Collection, ours: re.Match[str]) -> None:
        """kopf asks for a watch when it has taken its list in."""
        if known.listing:
            known.listing = False
            if known.lists > 1:
                self._answers.resumed(ours["namespace"], ours["plural"])

    def _ended(self, known: _Collection, path: str, error: bytes) -> None:
        if not error:
            known.errors = 0
            return
        known.errors += 1
        known.due = self._monotonic() + FAILED.delay(known.errors)
        log.info("watch ends with an error", watch=path, error=error[:500].decode(errors="replace"))

    async def _refused(
        self, known: _Collection, ours: re.Match[str], response: aiohttp.ClientResponse
    ) -> aiohttp.ClientPayloadError:
        why = (await response.content.read(2048)).decode(errors="replace")
        wait = response.headers.get("Retry-After", "")
        response.release()
        if response.status in (403, 404):
            known.refused = True
            self._beats.beat(ours[0])
            self._answers.refused(ours["namespace"], ours["plural"], response.status, why)
        return self._again(known, ours[0], f"HTTP {response.status}", float(wait) if wait.isdigit() else 0.0)

    def _again(self, known: _Collection, path: str, why: str, wait: float = 0.0) -> aiohttp.ClientPayloadError:
        known.failures += 1
        known.due = self._monotonic() + max(wait, FAILED.delay(known.failures))
        log.info("watch begins again", watch=path, reason=why)
        return aiohttp.ClientPayloadError(f"{path}: {why}")


class Lines:
    """A response's content as whole lines, for kopf's `iter_chunked`; everything else is the content's own.

    `ended` is called with the ERROR event at which it ends, empty when the server ends it without one.
    """

    def __init__(
        self, content: aiohttp.StreamReader, received: Callable[[], None], ended: Callable[[bytes], None]
    ) -> None:
        self._content, self._received, self._ended = content, received, ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, n: int) -> AsyncIterator[bytes]:
        """Whole lines as they come; what follows the last line end is never given out."""
        rest = b""
        async for data in self._content.iter_chunked(n):
            self._received()
            whole, end, rest = (rest + data).rpartition(b"\n")
            if not end:
                continue
            failed = _ERROR.search(whole) if _MARK in whole else None
            if failed is not None:
                self._ended(failed[0])
                yield whole[: failed.start()] + _EXPIRED
                return
            yield whole + end
        self._ended(b"")
