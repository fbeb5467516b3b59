"""Spans of what a process does, as children of whoever asked for it. Off by default, and then nothing is imported.

Where spans go, and how many of them, is said by the standard variables (OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES ...), which OpenTelemetry's SDK reads itself. Sending happens in a thread
of the SDK's; a collector that is away costs spans, never work.

The parent travels as `traceparent` (https://www.w3.org/TR/trace-context/), whether this process traces or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from crds import trace

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter

Value = str | int | float | bool
Attributes = Mapping[str, Value]
Tell = Callable[[str, Value], None]
"""Adds an attribute to the span that is open."""

_NONE: Attributes = MappingProxyType({})
_current: ContextVar[str] = ContextVar("traceparent", default="")
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Request(Protocol):
    """As much of a request of httpx as is needed here."""

    @property
    def headers(self) -> Headers: ...


class Headers(Protocol):
    """Headers that can be set."""

    def __setitem__(self, name: str, value: str) -> None: ...


class Spans(Protocol):
    """`parent` is a traceparent; None is whatever is open, "" nothing. A malformed one counts as none."""

    def span(
        self, name: str, told: Attributes = _NONE, *, parent: str | None = None, server: bool = False
    ) -> AbstractContextManager[Tell]:
        """A span around a `with`; an error that leaves it is told. `server`: it answers a request from outside."""
        ...

    def close(self) -> None:
        """Send what is left; blocks for a few seconds at the most."""
        ...


class Off:
    """Nothing is traced, but a parent that came in still goes on to whoever is called."""

    @contextmanager
    def span(
        self, name: str, told: Attributes = _NONE, *, parent: str | None = None, server: bool = False
    ) -> Iterator[Tell]:
        with _inside(_current.get() if parent is None else _valid(parent)):
            yield _nothing

    def close(self) -> None:
        """Nothing is open."""


class Telemetry:
    """Spans of `service` through OpenTelemetry's SDK; `exporter` is OTLP over HTTP unless a test brings its own."""

    def __init__(self, service: str, exporter: SpanExporter | None = None) -> None:
        # Imported late: whoever does not trace pays nothing for it.
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
        self, name: str, told: Attributes = _NONE, *, parent: str | None = None, server: bool = False
    ) -> Iterator[Tell]:
        from opentelemetry import trace as api

        around = _context(_current.get() if parent is None else _valid(parent))
        kind = api.SpanKind.SERVER if server else api.SpanKind.INTERNAL
        span = self._tracer.start_span(name, around, kind=kind, attributes=dict(told))
        own = span.get_span_context()
        flags = int(own.trace_flags)
        try:
            with _inside(f"00-{own.trace_id:032x}-{own.span_id:016x}-{flags:02x}"):
                yield span.set_attribute
        except BaseException as error:
            # Its text may hold what somebody wrote; its class says enough.
            span.set_status(api.StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            span.end()

    def close(self) -> None:
        """Flush and end the SDK's thread."""
        self._provider.shutdown()


def start(on: bool, service: str) -> Spans:
    """What a setting `tracing` asks for."""
    return Telemetry(service) if on else Off()


def current() -> str:
    """The traceparent of what is being done; "" when nobody traces it."""
    return _current.get()


async def pass_on(request: Request) -> None:
    """An event hook of HTTP clients: whoever is called hears of the span that is open."""
    parent = _current.get()
    if parent:
        request.headers[trace.HEADER] = parent


@contextmanager
def _inside(parent: str) -> Iterator[None]:
    # Not reset by its token: a generator that is closed by the event loop ends in another context than it began in.
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
    """Nobody listens."""
