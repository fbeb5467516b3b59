"""The client's side: what `admission` lets in is answered from the router's own knowledge, refused, or forwarded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime

import orjson

from contracts import browsers
from router import affinity, auth, catalogue, metrics, priority, report
from router.aliases import NONE, Aliases
from router.backends import book
from router.effects import Reason
from router.observer import Observer
from router.priority import Level
from router.proxy import body, encoding, forms, hygiene, naming, paths, permit, refusal
from router.proxy.admission import Admission, BodyBounds, too_large
from router.proxy.call import Call
from router.proxy.flight import Flight
from router.proxy.forward import Forwarder
from router.proxy.message import Identity, Own, Reply, Request
from router.proxy.paths import Kind
from router.proxy.refusal import Cause

_BACKGROUND = "background"
_OWN_PAGES = browsers.Origins()
_P0 = Level.P0


def _today() -> datetime:
    return datetime.now(UTC)


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
        bounds: BodyBounds,
        ids: Callable[[], str],
        now: Callable[[], float],
        today: Callable[[], datetime] = _today,
        observer: Observer,
        hosts: browsers.Hosts | None = None,
        origins: browsers.Origins = _OWN_PAGES,
        extra: Collection[str] = (),
        conversations: affinity.Affinity | None = None,
        aliases: Aliases = NONE,
    ) -> None:
        """`hosts` are the names that clients may call the router by, None for any; `origins` those of pages that may
        call; `extra` are further paths that pass
        to the backends; `aliases` are other names for models."""
        self._forwarder = forwarder
        self.proceed = forwarder.proceed
        self.abandon = forwarder.abandon
        made = self._admission = Admission(
            backends, counters, observer, gate, bounds, own=own, hosts=hosts, origins=origins, extra=extra
        )
        self.admit, self.grown, self.kept, self.shrunk = made.admit, made.grown, made.kept, made.shrunk
        self._book = backends
        self._state = state
        self._metrics = counters
        self._own = own
        self._gate = gate
        self._ids = ids
        self._now = now
        self._today = today
        self._conversations = conversations or affinity.Affinity()
        self._observer = observer
        self._aliases = aliases
        self._aliased = bool(aliases)
        self._beside = asyncio.Semaphore(bounds.beside)

    # incoming.Service

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
            seen = body.decoded(request.body, self._conversations.on)
            if not seen.model or (self._aliased and seen.model in self._aliases):
                return None
            if self._forwarder.suspects(seen.model, len(request.body)):
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
            if request.method == b"OPTIONS" and request.page:
                return _preflight(request)
            if self._gate.checks and self._gate.needs(path):
                _identify(request, self._gate.known(request) or await self._gate.ask(request))
            if path in paths.INFERENCE:
                self._stand_by()
                await self._infer(request, path)
                return None
            own = self._own.get(path)
            if own is not None and len(request.body) > body.SMALL:
                raise too_large(body.SMALL)
            return await (own(request) if own is not None else self._api(request, path))
        except refusal.Refusal as no:
            return self._admission.refuse(no, request)

    async def _api(self, request: Request, path: str) -> Reply | None:
        if request.reading:
            if path == "/":
                return Reply(body=b"Ollama is running", content_type="text/plain; charset=utf-8")
            if path in catalogue.BY_PATH:
                return self._list(path, request.identity)
            if path.startswith(paths.MODEL_PREFIX):
                model, rights = self._aliases.resolve(path.removeprefix(paths.MODEL_PREFIX)), request.identity.rights
                record = catalogue.foreign(self._book.entries(), model)
                if record is not None and (rights is None or rights.may_use(model)):
                    return Reply(body=orjson.dumps(record))
        kind = self._admission.kind(path)
        if kind is Kind.FOREIGN:
            raise refusal.Refusal(404, f"{path} is not a path of Ollama's API")
        if kind is Kind.ADMIN:
            backend = self._admission.administrator(path, request, request.identity)
            await self._forwarder.pinned(self._understand(request, path, kind, await body.peek(request.body)), backend)
            return None
        self._stand_by()
        await self._pass(request, path, kind)
        return None

    async def _infer(self, request: Request, path: str) -> None:
        """A path that runs a model, which nothing passes without a slot of that model. Raises Refusal."""
        if request.method == b"OPTIONS":
            await self._pass(request, path, Kind.ABOUT_MODEL)
            return
        if request.method != b"POST":
            raise refusal.Refusal(405, f"{path} takes POST", headers=(("Allow", "POST"),))
        if hygiene.CONTENT_ENCODING in request.special:
            await self._decode(request)
        form = _form(request)
        seen = await (
            forms.peek(request.body, form) if form else body.peek(request.body, opening=self._conversations.on)
        )
        if not seen.model:
            raise refusal.Refusal(400, await body.complaint(request.body))
        await self._run(request, path, Kind.INFERENCE, seen)

    async def _decode(self, request: Request) -> None:
        name = encoding.coding(request.special[hygiene.CONTENT_ENCODING])
        if name:
            plain = await body.in_thread(encoding.decoded, request.body, name, self._admission.most())
            self._admission.exchange(request, plain)
        request.special = {k: v for k, v in request.special.items() if k != hygiene.CONTENT_ENCODING}

    async def _pass(self, request: Request, path: str, kind: Kind) -> None:
        """What takes no slot unless it names a model."""
        form = _form(request) if kind is Kind.OTHER else b""
        seen = await (forms.peek(request.body, form) if form else body.peek(request.body))
        if kind is Kind.ABOUT_MODEL:
            seen = naming.about(path, seen)
        call = self._understand(request, path, kind, await self._permitted(request, kind, seen))
        if call.metered:
            await self._forwarder.run(self._forwarder.launch(call))
            return
        async with self._beside:
            await self._forwarder.run(self._forwarder.launch(call))

    def _stand_by(self) -> None:
        """Raises Refusal on a router that does not decide; one that goes passes on what still comes to it."""
        if not self._state.leader.active and not self._state.draining:
            raise refusal.Refusal(503, f"{report.STANDBY}; try again", retry_after=1, close=True, reason=Cause.STANDBY)

    async def _run(self, request: Request, path: str, kind: Kind, seen: body.Peek) -> None:
        seen = await self._permitted(request, kind, seen)
        call = self._understand(request, path, kind, seen)
        await self._forwarder.check(call)
        await self._forwarder.run(self._forwarder.launch(call))

    async def _permitted(self, request: Request, kind: Kind, seen: body.Peek) -> body.Peek:
        """The request with the model that an alias stands for, if its caller may use that. Raises Refusal."""
        aliased = self._aliased and seen.model in self._aliases
        name = self._aliases.resolve(seen.model) if aliased else seen.model
        if (rights := request.identity.rights) is not None:
            permit.check(rights, request, kind, seen.asked, name, self._observer.usage)
        if aliased and _form(request):
            raise refusal.Refusal(400, f"{seen.asked!r} is an alias, which a form cannot use; ask for {name!r} instead")
        if aliased:
            seen, plain = await naming.renamed(request, kind, seen, self._aliases)
            self._admission.exchange(request, plain)
        return seen

    def _list(self, path: str, identity: Identity) -> Reply:
        if missing := self._state.ready():
            raise refusal.Refusal(503, f"no backend is available: {missing}", retry_after=2, reason=Reason.UNAVAILABLE)
        allowed = None if identity.rights is None else identity.rights.may_use
        return Reply(body=orjson.dumps(catalogue.BY_PATH[path](self._book.entries(), self._aliases, allowed)))

    def _understand(self, request: Request, path: str, kind: Kind, seen: body.Peek) -> Call:
        asked, model, stream, images, _, tools, outline, opening, folded = seen
        special, identity = request.special, request.identity
        header = request.get(hygiene.PRIORITY) if hygiene.PRIORITY in special else None
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
            hygiene.request_id(request, self._ids) if hygiene.REQUEST_ID in special else self._ids(),
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
            hygiene.internal(request),
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


def _form(request: Request) -> bytes:
    """The boundary of a body that is a form, else empty."""
    return next(filter(None, map(forms.boundary, request.fields(b"content-type"))), b"")


def _preflight(request: Request) -> Reply:
    """What a browser asks before it sends something for a page that a setting names."""
    headers = (
        ("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE"),
        ("Access-Control-Allow-Headers", ", ".join(request.fields(b"access-control-request-headers"))),
        ("Access-Control-Max-Age", "600"),
    )
    return Reply(204, headers=headers)


def _identify(request: Request, identity: Identity) -> None:
    """The caller's identity; what a run's token says about its mode stands above its header."""
    request.identity = identity
    if identity.background:
        request.special = {**request.special, hygiene.MODE: _BACKGROUND.encode()}
