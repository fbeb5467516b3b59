"""What is decided before a request is whole: by its head, and by the bytes of all bodies that are buffered.

A refusal here ends the request before its body is read; what depends on the body is decided in `server`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from contracts import browsers
from router import auth, catalogue, metrics, priority
from router.backends import book
from router.effects import Reason
from router.observer import Observer
from router.priority import Level
from router.proxy import body, encoding, hygiene, paths, refusal
from router.proxy.message import ANYBODY, Identity, Own, Reply, Request
from router.proxy.paths import Kind
from router.proxy.refusal import Cause


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """Bytes: `body` for one request, `buffered` for the bodies of all requests that have no answer yet. `beside`:
    requests that take no slot (questions about a model) at once."""

    body: int = 64 << 20
    buffered: int = 1 << 30
    beside: int = 64


class Admission:
    """One per process, with the parameters of `server.Server`. Knows how many bytes are buffered."""

    def __init__(
        self,
        backends: book.Book,
        counters: metrics.Metrics,
        observer: Observer,
        gate: auth.Gate,
        bounds: BodyBounds,
        *,
        own: Mapping[str, Own],
        hosts: browsers.Hosts | None,
        origins: browsers.Origins,
        extra: Collection[str],
    ) -> None:
        self._book = backends
        self._metrics = counters
        self._observer = observer
        self._gate = gate
        self._bounds = bounds
        self._own = own
        self._hosts, self._origins = hosts, origins
        self._extra = frozenset(extra)
        self._buffered = 0
        self._calm = bounds.buffered - bounds.buffered // 8
        self._reviews: set[asyncio.Task[None]] = set()

    # incoming.Service

    def admit(self, request: Request, length: int) -> Reply | None:
        try:
            self._admit(request, length)
            return None
        except refusal.Refusal as no:
            return self.refuse(no, request)

    def grown(self, request: Request, size: int, more: int) -> Reply | None:
        self._buffered += more
        if size > self._bounds.body:
            return self.refuse(too_large(self._bounds.body), request)
        if self._buffered > self._calm and self._crowded(request, 0):
            return self.refuse(_too_much(), request)
        return None

    def kept(self, size: int) -> None:
        self._buffered += size

    def shrunk(self, size: int) -> None:
        self._buffered -= size

    # For the server

    def refuse(self, no: refusal.Refusal, request: Request) -> Reply:
        """The refusal as a reply, counted and logged."""
        self._metrics.answered("router", no.status)
        if no.status in (401, 403):
            self._metrics.unauthorized.labels(str(no.status)).inc()
        if request.path in paths.INFERENCE:
            self._observer.refused(request, no)
        return refusal.answer(no, request.path)

    def administrator(self, path: str, request: Request, identity: Identity) -> str:
        """The backend that an administrator's request names. Raises Refusal: for anybody else a path that is not known
        is none."""
        if not identity.admin:
            if allowed := ("GET", "HEAD") if path in catalogue.BY_PATH else paths.methods(path):
                names = " and ".join(allowed)
                raise refusal.Refusal(
                    405, f"{path} takes {names}", close=True, headers=(("Allow", ", ".join(allowed)),)
                )
            if paths.kind(path) is not Kind.ADMIN:
                raise refusal.Refusal(
                    404,
                    f"{path} is not served here. If the backends have it, name it in JERVIS_ROUTER_EXTRA_PATHS",
                    close=True,
                )
            raise refusal.Refusal(
                403,
                f"{path} changes one backend behind the others' back: it needs an administrator's token. "
                "Or run it against the Ollama server itself; the model appears here within seconds",
                close=True,
            )
        name = request.get(hygiene.BACKEND)
        if not name or self._book.find(name) is None:
            names = ", ".join(entry.name for entry in self._book.entries())
            raise refusal.Refusal(
                400, f"{path} needs the header X-Ollama-Router-Backend with the name of one of: {names}", close=True
            )
        return name

    def kind(self, path: str) -> Kind:
        """What a path is for; one that is not known is an administrator's unless a setting names it."""
        kind = paths.kind(path)
        return Kind.ADMIN if kind is Kind.OTHER and path not in self._extra else kind

    def exchange(self, request: Request, plain: bytes | bytearray) -> None:
        """Another body in place of the one that came."""
        self._buffered += len(plain) - request.held
        request.body, request.held = plain, len(plain)

    def most(self) -> int:
        """Bytes that a body may have when it is decoded."""
        return min(encoding.MOST, self._bounds.body, max(0, self._bounds.buffered - self._buffered))

    # Inside

    def _admit(self, request: Request, length: int) -> None:
        """What can be refused by its head alone. Raises Refusal."""
        if length > self._bounds.body:
            raise too_large(self._bounds.body)
        # Without a body it adds nothing: a probe or a look at the status is answered also while the queue is full.
        if length and self._buffered + length > self._calm and self._crowded(request, length):
            raise _too_much()
        path = request.path
        special = request.special
        hosts = self._hosts
        if hosts is not None and (host := special.get(b"host")) not in hosts.good and not hosts.allow(host):
            raise _unknown_host(request)
        if hygiene.ORIGIN in special:
            self._page(request, special[hygiene.ORIGIN].strip())
            if request.method == b"OPTIONS" and request.page:
                return
        asks = self._gate.checks and self._gate.needs(path)
        identity = self._gate.known(request) if asks else None
        if path in self._own:
            if length > body.SMALL:
                raise too_large(body.SMALL)
            return
        if request.link.above:
            raise refusal.Refusal(
                503, "too many connections, please try again", retry_after=5, close=True, reason=Reason.QUEUE_FULL
            )
        if asks and identity is None and not 0 <= length <= body.SMALL:
            self._review(request)
        if path in paths.INFERENCE:
            if hygiene.CONTENT_ENCODING in special:
                encoding.coding(special[hygiene.CONTENT_ENCODING])
            return
        if path in catalogue.BY_PATH and request.reading:
            return
        kind = self.kind(path)
        if kind is Kind.ADMIN and (identity is not None or not self._gate.checks):
            self.administrator(path, request, identity or ANYBODY)
        if kind is Kind.FOREIGN and path != "/":
            raise refusal.Refusal(404, f"{path} is not a path of Ollama's API", close=True)

    def _page(self, request: Request, origin: bytes) -> None:
        """A page of this origin calls. Raises Refusal(403)."""
        name = origin.decode("latin-1")
        if not self._origins.allow(name, request.get(b"host") or ""):
            raise refusal.Refusal(
                403,
                f"{request.path} is not for pages of {name[:256]!r}: add the origin to JERVIS_ROUTER_ORIGINS",
                close=True,
            )
        if self._origins.lists(name):
            request.page = hygiene.readable(origin)

    def _crowded(self, request: Request, more: int) -> bool:
        """Would `more` bytes, which are above `_calm`, be too much? The last eighth is for requests whose header says
        P0: their model, and so the table's word, is known only after the body has come."""
        claim = priority.level(request.get(hygiene.PRIORITY), "", self._book.table)
        return self._buffered + more > self._bounds.buffered or claim is not Level.P0

    def _review(self, request: Request) -> None:
        """Read a large body only when its sender is known."""
        task = asyncio.get_running_loop().create_task(self._reviewed(request))
        self._reviews.add(task)
        task.add_done_callback(self._reviews.discard)
        request.link.pause(task)

    async def _reviewed(self, request: Request) -> None:
        try:
            await self._gate.ask(request)
        except refusal.Refusal as no:
            request.link.refuse(self.refuse(no, request))


def too_large(limit: int) -> refusal.Refusal:
    """413 with the setting that bounds it. `limit` in bytes."""
    return refusal.Refusal(
        413,
        f"the body is larger than {limit} bytes; send less"
        + ("" if limit == body.SMALL else ", or raise JERVIS_ROUTER_MAX_BODY_BYTES"),
        close=True,
        reason=Cause.TOO_LARGE,
    )


def _unknown_host(request: Request) -> refusal.Refusal:
    return refusal.Refusal(
        403,
        f"the router is not called {(request.get(b'host') or '')[:256]!r}: use its address, or add the name to "
        "JERVIS_ROUTER_ALLOWED_HOSTS",
        close=True,
    )


def _too_much() -> refusal.Refusal:
    return refusal.Refusal(
        503,
        "server busy, please try again. too many bytes of requests are waiting",
        retry_after=5,
        close=True,
        reason=Reason.QUEUE_FULL,
    )
