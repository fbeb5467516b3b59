"""The client's side: every request is refused here, answered from the router's own knowledge, or forwarded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from router import affinity, auth, catalogue, metrics, priority, report
from router.aliases import NONE, Aliases
from router.backends import book
from router.effects import Reason
from router.observer import Observer
from router.priority import Level
from router.proxy import body, encoding, hygiene, naming, paths, permit, refusal
from router.proxy.call import Call
from router.proxy.flight import Flight
from router.proxy.forward import Forwarder
from router.proxy.hosts import Hosts, cross_site
from router.proxy.message import ANYBODY, Identity, Own, Reply, Request
from router.proxy.paths import Kind
from router.proxy.refusal import Cause

_LISTS: Mapping[str, Callable[[list[book.Entry], Aliases, catalogue.Allowed | None], dict[str, Any]]] = {
    "/api/tags": catalogue.tags,
    "/api/ps": catalogue.loaded,
    "/v1/models": catalogue.openai,
    "/api/version": catalogue.version,
}
_BACKGROUND = "background"
_P0 = Level.P0


def _today() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes: `body` for one request, `buffered` for the bodies of all requests that have no answer yet. `beside`:
    requests that take no slot (questions about a model) at once."""

    body: int = 64 << 20
    buffered: int = 1 << 30
    beside: int = 64


class Server:
    """Serves the requests of all connections (`incoming.Service`). `own` are the router's own documents by path, `ids`
    makes request ids."""

    def __init__(
        self,
        forwarder: Forwarder,
        backends: book.Book,
        state: report.Report,
        counters: metrics.Metrics,
        *,
        own: Mapping[str, Own],
        gate: auth.Gate,
        bounds: Bounds,
        ids: Callable[[], str],
        now: Callable[[], float],
        today: Callable[[], datetime] = _today,
        observer: Observer,
        hosts: Hosts | None = None,
        extra: Collection[str] = (),
        conversations: affinity.Affinity | None = None,
        aliases: Aliases = NONE,
    ) -> None:
        """`hosts` are the names that clients may call the router by, None for any; `extra` are further paths that pass
        to the backends; `aliases` are other names for models."""
        self._forwarder = forwarder
        self.heard = forwarder.heard
        self.abandon = forwarder.abandon
        self._book = backends
        self._state = state
        self._metrics = counters
        self._own = own
        self._gate = gate
        self._bounds = bounds
        self._ids = ids
        self._now = now
        self._today = today
        self._buffered = 0
        self._calm = bounds.buffered - bounds.buffered // 8
        self._hosts = hosts
        self._conversations = conversations or affinity.Affinity()
        self._extra = frozenset(extra)
        self._observer = observer
        self._aliases = aliases
        self._beside = asyncio.Semaphore(bounds.beside)
        self._reviews: set[asyncio.Task[None]] = set()

    # incoming.Service

    def admit(self, request: Request, length: int) -> Reply | None:
        try:
            self._admit(request, length)
            return None
        except refusal.Refusal as no:
            return self._refuse(no, request)

    def grown(self, request: Request, size: int, more: int) -> Reply | None:
        self._buffered += more
        if size > self._bounds.body:
            return self._refuse(_too_large(self._bounds.body), request)
        if self._buffered > self._calm and self._crowded(request, 0):
            return self._refuse(_too_much(), request)
        return None

    def kept(self, size: int) -> None:
        self._buffered += size

    def shrunk(self, size: int) -> None:
        self._buffered -= size

    def launch(self, request: Request) -> Flight | None:
        path = request.path
        if path not in paths.INFERENCE or len(request.body) > body.SMALL or not self._state.leader.active:
            return None
        if request.method != b"POST" or hygiene.CONTENT_ENCODING in request.special:
            return None
        try:
            if self._gate.checks and self._gate.needs(path):
                known = self._gate.known(request)
                if known is None:
                    return None
                _identify(request, known)
            seen = body.look(request.body, opening=self._conversations.on)
            if not seen.model or (self._aliases and seen.model in self._aliases):
                return None
            if (rights := request.identity.rights) is not None:
                permit.check(rights, request, Kind.INFERENCE, seen.asked, seen.model, self._observer.usage)
        except refusal.Refusal:
            return None  # `handle` comes to the same, and says it
        return self._forwarder.launch(self._understand(request, path, Kind.INFERENCE, seen))

    async def handle(self, request: Request, flight: Flight | None) -> Reply | None:
        path = request.path
        try:
            if flight is not None:
                await self._forwarder.run(flight)
                return None
            if self._gate.checks and self._gate.needs(path):
                _identify(request, self._gate.known(request) or await self._gate.ask(request))
            if path in paths.INFERENCE:
                self._stand_by()
                await self._infer(request, path)
                return None
            own = self._own.get(path)
            if own is not None and len(request.body) > body.SMALL:
                raise _too_large(body.SMALL)
            return await (own(request) if own is not None else self._api(request, path))
        except refusal.Refusal as no:
            return self._refuse(no, request)

    def _refuse(self, no: refusal.Refusal, request: Request) -> Reply:
        self._metrics.answered("router", no.status)
        if no.status in (401, 403):
            self._metrics.unauthorized.labels(str(no.status)).inc()
        if request.path in paths.INFERENCE:
            self._observer.refused(request, no)
        return refusal.answer(no, request.path)

    def _admit(self, request: Request, length: int) -> None:
        """What can be refused by its head alone. Raises Refusal."""
        if length > self._bounds.body:
            raise _too_large(self._bounds.body)
        # Without a body it adds nothing: a probe or a look at the status is answered also while the queue is full.
        if length and self._buffered + length > self._calm and self._crowded(request, length):
            raise _too_much()
        path = request.path
        special = request.special
        hosts = self._hosts
        if hosts is not None and (host := special.get(b"host")) not in hosts.good and not hosts.allow(host):
            raise _unknown_host(request)
        asks = self._gate.checks and self._gate.needs(path)
        identity = self._gate.known(request) if asks else None
        if path in self._own:
            if length > body.SMALL:
                raise _too_large(body.SMALL)
            if request.method == b"POST" and cross_site(request.lines, special.get(b"host")):
                raise refusal.Refusal(403, f"{path} is not for pages of another origin", close=True)
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
        if path in _LISTS and request.reading:
            return
        kind = self._kind(path)
        if kind is Kind.ADMIN and (identity is not None or not self._gate.checks):
            self._administrator(path, request, identity or ANYBODY)
        if kind is Kind.FOREIGN and path != "/":
            raise refusal.Refusal(404, f"{path} is not a path of Ollama's API", close=True)

    def _crowded(self, request: Request, more: int) -> bool:
        """Would `more` bytes, which are above `_calm`, be too much? The last eighth is for requests whose header says
        P0: their model, and so the table's word, is known only after the body has come."""
        claim = priority.level(request.get(hygiene.PRIORITY), "", self._book.table)
        return self._buffered + more > self._bounds.buffered or claim is not Level.P0

    def _administrator(self, path: str, request: Request, identity: Identity) -> str:
        """The backend that an administrator's request names. Raises Refusal."""
        if not identity.admin:
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

    async def _api(self, request: Request, path: str) -> Reply | None:
        if request.reading:
            if path == "/":
                return Reply(body=b"Ollama is running", content_type="text/plain; charset=utf-8")
            if path in _LISTS:
                return self._list(path, request.identity)
            if path.startswith(paths.MODEL_PREFIX):
                model, rights = self._aliases.resolve(path.removeprefix(paths.MODEL_PREFIX)), request.identity.rights
                record = catalogue.foreign(self._book.entries(), model)
                if record is not None and (rights is None or rights.may_use(model)):
                    return Reply(body=orjson.dumps(record))
        kind = self._kind(path)
        if kind is Kind.FOREIGN:
            raise refusal.Refusal(404, f"{path} is not a path of Ollama's API")
        if kind is Kind.ADMIN:
            backend = self._administrator(path, request, request.identity)
            await self._forwarder.pinned(self._understand(request, path, kind, await body.peek(request.body)), backend)
            return None
        self._stand_by()
        await self._pass(request, path, kind)
        return None

    def _kind(self, path: str) -> Kind:
        kind = paths.kind(path)
        return Kind.ADMIN if kind is Kind.OTHER and path not in self._extra else kind

    async def _infer(self, request: Request, path: str) -> None:
        """A path that runs a model, which nothing passes without a slot of that model. Raises Refusal."""
        if request.method == b"OPTIONS":  # what a browser asks before it sends something; Ollama knows its origins
            await self._pass(request, path, Kind.ABOUT_MODEL)
            return
        if request.method != b"POST":
            raise refusal.Refusal(405, f"{path} takes POST", headers=(("Allow", "POST"),))
        if hygiene.CONTENT_ENCODING in request.special:
            await self._decode(request)
        seen = await body.peek(request.body, opening=self._conversations.on)
        if not seen.model:
            raise refusal.Refusal(400, 'model is required: send a JSON object with "model"')
        await self._run(request, path, Kind.INFERENCE, seen)

    async def _decode(self, request: Request) -> None:
        name = encoding.coding(request.special[hygiene.CONTENT_ENCODING])
        if name:
            most = min(encoding.MOST, self._bounds.body, max(0, self._bounds.buffered - self._buffered))
            plain = await body.in_thread(encoding.decoded, request.body, name, most)
            self._exchange(request, plain)
        request.special = {k: v for k, v in request.special.items() if k != hygiene.CONTENT_ENCODING}

    async def _pass(self, request: Request, path: str, kind: Kind) -> None:
        """What takes no slot unless it names a model."""
        seen = await body.peek(request.body)
        if kind is Kind.ABOUT_MODEL:
            seen = naming.about(path, seen)
        call = self._understand(request, path, kind, await self._permitted(request, kind, seen))
        if call.metered:
            await self._forwarder.run(self._forwarder.launch(call))
            return
        async with self._beside:
            await self._forwarder.run(self._forwarder.launch(call))

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
            request.link.refuse(self._refuse(no, request))

    def _stand_by(self) -> None:
        """Raises Refusal on a router that does not decide; one that goes passes on what still comes to it."""
        if not self._state.leader.active and not self._state.draining:
            raise refusal.Refusal(503, f"{report.STANDBY}; try again", retry_after=1, close=True, reason=Cause.STANDBY)

    async def _run(self, request: Request, path: str, kind: Kind, seen: body.Peek) -> None:
        seen = await self._permitted(request, kind, seen)
        await self._forwarder.run(self._forwarder.launch(self._understand(request, path, kind, seen)))

    async def _permitted(self, request: Request, kind: Kind, seen: body.Peek) -> body.Peek:
        """The request with the model that an alias stands for, if its caller may use that. Raises Refusal."""
        aliased = bool(self._aliases) and seen.model in self._aliases
        if (rights := request.identity.rights) is not None:
            name = self._aliases.resolve(seen.model) if aliased else seen.model
            permit.check(rights, request, kind, seen.asked, name, self._observer.usage)
        if aliased:
            seen, plain = await naming.renamed(request, kind, seen, self._aliases)
            self._exchange(request, plain)
        return seen

    def _exchange(self, request: Request, plain: bytes | bytearray) -> None:
        """Another body in place of the one that came."""
        self._buffered += len(plain) - request.held
        request.body, request.held = plain, len(plain)

    def _list(self, path: str, identity: Identity) -> Reply:
        if missing := self._state.ready():
            raise refusal.Refusal(503, f"no backend is available: {missing}", retry_after=2, reason=Reason.UNAVAILABLE)
        allowed = None if identity.rights is None else identity.rights.may_use
        return Reply(body=orjson.dumps(_LISTS[path](self._book.entries(), self._aliases, allowed)))

    def _understand(self, request: Request, path: str, kind: Kind, seen: body.Peek) -> Call:
        asked, model, stream, images, _, tools, outline, opening, folded = seen
        header = request.get(hygiene.PRIORITY)
        identity = request.identity
        client = identity.name or request.link.peer
        level = priority.level(header, model, self._book.table)
        if identity.ceiling is not None or self._book.ceilings.stated:
            level = self._clamp(level, client, identity)
        if header:
            self._metrics.asked_for(level.label)
            if not priority.understood(header):
                self._metrics.unknown_priority.inc()
        user = level is _P0 and kind is Kind.INFERENCE and self._note(request)
        call = Call(
            request,
            path,
            kind,
            hygiene.request_id(request, self._ids),
            asked,
            model,
            level,
            paths.streams(path, stream),
            self._now(),
            client,
            images,
            user,
            tools,
            outline,
            affinity.session(model, request.get(hygiene.SESSION), opening)
            if self._conversations.on and path not in paths.EMBEDDING
            else 0,
            folded,
        )
        if (self._observer.watches or identity.name) and kind is Kind.INFERENCE:
            self._observer.begin(call)
        return call

    def _clamp(self, level: Level, client: str, identity: Identity) -> Level:
        """Claims above a client's ceiling are lowered to it and counted, never refused."""
        allowed = self._book.ceilings.clamp(client, level)
        if identity.ceiling is not None:
            allowed = max(allowed, priority.LEVELS[identity.ceiling])
        if allowed is not level:
            self._metrics.clamped.labels(level.label, allowed.label).inc()
        return allowed

    def _note(self, request: Request) -> bool:
        """A request of the most urgent level: when it came, and whether a person waits for it."""
        self._state.last_p0 = self._today()
        mode = request.get(hygiene.MODE)
        if mode is not None and mode.lower() == _BACKGROUND:
            return False
        self._state.last_user_p0 = self._state.last_p0
        return True


def _identify(request: Request, identity: Identity) -> None:
    """Whoever calls; what a run's token says about its mode stands above its header."""
    request.identity = identity
    if identity.background:
        request.special = {**request.special, hygiene.MODE: _BACKGROUND.encode()}


def _unknown_host(request: Request) -> refusal.Refusal:
    return refusal.Refusal(
        403,
        f"the router is not called {(request.get(b'host') or '')[:256]!r}: use its address, or add the name to "
        "JERVIS_ROUTER_ALLOWED_HOSTS",
        close=True,
    )


def _too_large(limit: int) -> refusal.Refusal:
    return refusal.Refusal(
        413,
        f"the body is larger than {limit} bytes; send less"
        + ("" if limit == body.SMALL else ", or raise JERVIS_ROUTER_MAX_BODY_BYTES"),
        close=True,
        reason=Cause.TOO_LARGE,
    )


def _too_much() -> refusal.Refusal:
    return refusal.Refusal(
        503,
        "server busy, please try again. too many bytes of requests are waiting",
        retry_after=5,
        close=True,
        reason=Reason.QUEUE_FULL,
    )
