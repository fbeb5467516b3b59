"""What is kept of one inference request for the request log, for usage and for spans. No content.

`forward.Forwarder` and `relay.Relay` record what happens; there is none where nothing of a request is wanted. The
numbers are taken as they come, and everything that costs more (tokens, JSON) waits for the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from crds import errors
from router.proxy import counts
from router.proxy.paths import EMBEDDING

if TYPE_CHECKING:
    from contracts import otel_spans

_BYTES_PER_TOKEN = 4
_EVENTS = frozenset({"/v1/responses", "/v1/messages"})
"""Their server-sent events name a type in a line of its own."""

OK, ERROR, BROKEN, REFUSED, HANGUP = "ok", "error", "broken", "refused", "hangup"
"""Outcomes: a whole answer; a backend's error; an answer that broke off; the router's own refusal; the client left."""


class Spans:
    """The span of a request and those of its waits and attempts, as they follow each other."""

    def __init__(self, telemetry: otel_spans.Telemetry, name: str, attributes: Mapping[str, str], parent: str) -> None:
        self._telemetry = telemetry
        self._whole = telemetry.open(name, attributes, parent=parent, kind="SERVER")
        self.wait()

    @property
    def traceparent(self) -> str:
        """Of the present wait or attempt."""
        return self._part.traceparent

    def wait(self) -> None:
        """The request waits for a slot."""
        self._part = self._telemetry.open("queue", parent=self._whole.traceparent)

    def next(self, backend: str) -> None:
        """It has one."""
        self._part.end()
        attributes = {"jervis.router.backend": backend}
        self._part = self._telemetry.open("backend", attributes, parent=self._whole.traceparent, kind="CLIENT")

    def moved(self, why: str) -> None:
        """That attempt gave no answer."""
        self._part.end(error=why)
        self.wait()

    def end(self, attributes: Mapping[str, str | int | float], error: str) -> None:
        """All is over."""
        self._part.end(error=error)
        self._whole.end(attributes, error=error)


class Summary:
    """Used as a context manager around the way of a request that a task runs: it ends however that ends, but for a
    refusal, which is recorded where it is answered. All times are monotonic seconds."""

    __slots__ = (
        "_done",
        "_ended",
        "_images",
        "_now",
        "_queued",
        "account",
        "answer_bytes",
        "arrived",
        "asked",
        "attempts",
        "backend",
        "client",
        "engine",
        "first",
        "level",
        "limited",
        "lines",
        "model",
        "outcome",
        "path",
        "reason",
        "request_bytes",
        "request_id",
        "run",
        "sent",
        "spans",
        "status",
        "tail",
        "trace",
        "waited",
    )

    def __init__(
        self,
        done: Callable[[Summary], None],
        *,
        now: Callable[[], float],
        arrived: float,
        path: str,
        request_id: str,
        request_bytes: int,
        images: bool,
        client: str,
        run: str,
        account: str,
        limited: bool,
        asked: str,
        model: str,
        level: str,
    ) -> None:
        """`done` receives it, once. `account` is the identity that its tokens count for, "" for none, and `limited`
        whether that has a limit. The others are as in `call.Call`."""
        self._done, self._now, self._ended = done, now, False
        self.path, self.request_id, self.client = path, request_id, client
        self.asked, self.model, self.level = asked, model, level
        self.run, self.account, self.limited = run, account, limited
        self.arrived = self._queued = arrived
        self.waited = 0.0
        """In the queue, over all attempts."""
        self.sent = self.first = 0.0
        """When the last attempt got its slot, and the first byte of its answer; 0 for never."""
        self.backend = self.engine = self.reason = self.outcome = ""
        """`engine` is the backend's `crds.gpubackend.Engine`, empty while it has none."""
        self.attempts = self.status = 0
        self.request_bytes = request_bytes
        self.answer_bytes = self.lines = 0
        self.tail = b""
        self._images = images
        self.trace = ""
        """The id of its trace."""
        self.spans: Spans | None = None

    def attempt(self, backend: str, engine: str = "") -> None:
        """It got a slot, and is sent. Of another router the engine is not known."""
        self.attempts += 1
        self.backend, self.engine = backend, engine
        self.sent = self._now()
        self.waited += self.sent - self._queued
        if self.spans is not None:
            self.spans.next(backend)

    def moved(self, why: str) -> None:
        """The attempt gave no answer; it waits again."""
        self._queued, self.sent, self.backend, self.engine = self._now(), 0.0, "", ""
        if self.spans is not None:
            self.spans.moved(why)

    def began(self, status: int) -> None:
        """The answer's first byte is there."""
        self.first = self._now()
        self.status = status

    def piece(self, piece: bytes) -> None:
        """A piece of the answer's body."""
        self.answer_bytes += len(piece)
        self.lines += piece.count(b"\n")

    def tokens(self) -> tuple[int, int, bool]:
        """(prompt, answer, estimated). An answer that did not end, or that states nothing, is estimated: four bytes of
        a prompt or of an answer in one piece, and a line (an event) of a stream make a token."""
        stated = counts.read(self.tail)
        if stated != counts.NOTHING:
            return stated.prompt or 0, stated.answer or 0, False
        if not self.sent or self.status >= 400:
            return 0, 0, False
        prompt = 0 if self._images else self.request_bytes // _BYTES_PER_TOKEN
        if self.path in EMBEDDING:
            return prompt, 0, True
        if self.lines <= 1:  # an answer in one piece
            return prompt, self.answer_bytes // _BYTES_PER_TOKEN, True
        lines = 1 if self.path.startswith("/api/") else 3 if self.path in _EVENTS else 2
        return prompt, self.lines // lines, True

    def refused(self, status: int, reason: str) -> None:
        """The router itself answered."""
        self.status, self.reason = status, reason
        self.end(REFUSED)

    def end(self, outcome: str = "") -> None:
        """It is over. Without an `outcome` that is what was recorded, else what the status says."""
        if self._ended:
            return
        self._ended = True
        if not self.sent:
            self.waited += self._now() - self._queued
        self.outcome = outcome or self.outcome or (ERROR if self.status >= 400 else OK)
        self._done(self)

    def __enter__(self) -> None:
        """See the class."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.end()
        elif issubclass(kind, asyncio.CancelledError):
            self.end(HANGUP)
        elif not issubclass(kind, errors.JervisError):  # a Refusal
            self.end(BROKEN)
