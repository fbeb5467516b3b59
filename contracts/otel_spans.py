"""Spans of a process's work, as children of the caller's span. Off by default; then OpenTelemetry is not imported.

The SDK reads exporter and sampler from its standard variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER,
OTEL_RESOURCE_ATTRIBUTES ...). It sends in its own thread; if the collector is unavailable, only spans are lost.

The parent is passed as `traceparent` (https://www.w3.org/TR/trace-context/), whether this process traces or not.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol

from contracts import trace

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

Value = str | int | float | bool | tuple[str, ...]
Kind = Literal["INTERNAL", "SERVER", "CLIENT"]
"""Names of OpenTelemetry's SpanKind: work of this process, a request that it serves, one that it makes."""
Attributes = Mapping[str, Value]
Tell = Callable[[str, Value], None]
"""Adds an attribute to the open span."""

CLOSE_SECONDS = 3.0
"""For the remaining spans at the end of the process."""
_NONE: Attributes = MappingProxyType({})
_current: ContextVar[str] = ContextVar("traceparent", default="")
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class OutgoingRequest(Protocol):
    """The part of httpx.Request that is used here."""

    @property
    def headers(self) -> Headers: ...


class Headers(Protocol):
    """Headers that can be set."""

    def __setitem__(self, name: str, value: str) -> None: ...


class Spans(Protocol):
    """`parent` is a traceparent; None means the open span, "" no parent. A malformed one counts as none."""

    def span(
        self, name: str, attributes: Attributes = _NONE, *, parent: str | None = None, kind: Kind = "INTERNAL"
    ) -> AbstractContextManager[Tell]:
        """A span around a `with`; it records the class of an error that leaves it."""
        ...

    def close(self) -> None:
        """Send the remaining spans; blocks for a few seconds at most."""
        ...


class Off:
    """Records no spans, but passes the caller's `traceparent` on."""

    @contextmanager
    def span(
        self, name: str, attributes: Attributes = _NONE, *, parent: str | None = None, kind: Kind = "INTERNAL"
    ) -> Iterator[Tell]:
        with _inside(_current.get() if parent is None else _valid(parent)):
            yield _nothing

    def close(self) -> None:
        """Does nothing."""


class Open:
    """A span without a `with`, for work that callbacks end. `traceparent` is what its children get as `parent`."""

    def __init__(self, span: Span) -> None:
        self._span = span
        own = span.get_span_context()
        self.traceparent = f"00-{own.trace_id:032x}-{own.span_id:016x}-{int(own.trace_flags):02x}"

    def end(self, attributes: Attributes = _NONE, *, error: str = "") -> None:
        """It is over. `error` is one word for what went wrong, "" for nothing."""
        if error:
            from opentelemetry import trace as api

            self._span.set_status(api.StatusCode.ERROR, error)
            self._span.set_attribute("error.type", error)
        self._span.set_attributes(dict(attributes))
        self._span.end()


class Telemetry:
    """Spans of `service` through OpenTelemetry's SDK; `exporter` is OTLP over HTTP unless a test passes another one."""

    def __init__(self, service: str, exporter: SpanExporter | None = None) -> None:
        # Imported late: a process that does not trace does not pay for it.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk import resources
        from opentelemetry.sdk import trace as sdk
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        named = resources.Resource.create()
        if str(named.attributes.get(resources.SERVICE_NAME, "")).startswith("unknown_service"):
            named = named.merge(resources.Resource({resources.SERVICE_NAME: service}))
        self._provider = sdk.TracerProvider(resource=named, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(service)

    @contextmanager
    def span(
        self, name: str, attributes: Attributes = _NONE, *, parent: str | None = None, kind: Kind = "INTERNAL"
    ) -> Iterator[Tell]:
        from opentelemetry import trace as api

        around = _context(_current.get() if parent is None else _valid(parent))
        span = self._tracer.start_span(name, around, kind=api.SpanKind[kind], attributes=dict(attributes))
        own = span.get_span_context()
        flags = int(own.trace_flags)
        try:
            with _inside(f"00-{own.trace_id:032x}-{own.span_id:016x}-{flags:02x}"):
                yield span.set_attribute
        except BaseException as error:
            # The class only: the text may contain user data.
            span.set_status(api.StatusCode.ERROR, type(error).__name__)
            span.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            span.end()

    def open(self, name: str, attributes: Attributes = _NONE, *, parent: str, kind: str = "INTERNAL") -> Open:
        """A span that its `Open` ends. `kind` is a name of OpenTelemetry's SpanKind."""
        from opentelemetry import trace as api

        around = _context(_valid(parent))
        return Open(self._tracer.start_span(name, around, kind=api.SpanKind[kind], attributes=dict(attributes)))

    def close(self) -> None:
        """Flush and stop the SDK's thread, which tries for half a minute where the collector is away."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)


def start(on: bool, service: str) -> Spans:
    """The Spans for a setting `tracing`."""
    return Telemetry(service) if on else Off()


def current() -> str:
    """The traceparent of the present work; "" when it is not traced."""
    return _current.get()


async def pass_on(request: OutgoingRequest) -> None:
    """An event hook of HTTP clients: sends the open span as `traceparent`."""
    parent = _current.get()
    if parent:
        request.headers[trace.HEADER] = parent


@contextmanager
def _inside(parent: str) -> Iterator[None]:
    # Not reset by its token: a generator that the event loop closes ends in another context than it began in.
    before = _current.get()
    _current.set(parent)
    try:
        yield
    finally:
        _current.set(before)


def _valid(parent: str) -> str:
    return parent if _TRACEPARENT.fullmatch(parent) else ""


def _context(parent: str) -> Context:
    from opentelemetry import context
    from opentelemetry import trace as api

    if not parent:
        return context.Context()
    _, trace_id, span_id, flags = parent.split("-")
    around = api.SpanContext(int(trace_id, 16), int(span_id, 16), True, api.TraceFlags(int(flags, 16)))
    return api.set_span_in_context(api.NonRecordingSpan(around), context.Context())


def _nothing(name: str, value: Value) -> None:
    """Ignores the attribute."""
