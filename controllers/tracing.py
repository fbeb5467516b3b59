"""OpenTelemetry: one trace per task, with a root span for the task and one span per stay in a phase. Off by default.

No state is kept between spans: ids are derived from the task's uid (`contracts.trace`), times from its status. So a
restart or a change of the leader leaves no gap in a trace. Destination and sampling come from the standard variables
(OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES ...), which the SDK reads itself. The SDK
sends spans in its own thread; without a collector spans are lost, and tasks are not affected.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import httpx

from contracts import trace
from crds import pendingtask, phases
from crds.phases import Phase

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

SERVICE = "jervis-operator"
current: ContextVar[str] = ContextVar("traceparent", default="")
"""The traceparent of the current operation; "" if it is not traced."""


class Tracer(Protocol):
    """The interface that the reconciler reports to."""

    def trace_id(self, uid: str) -> str:
        """Id of the task's trace; "" if it is not traced."""

    def moved(self, task: pendingtask.PendingTask, source: Phase, target: Phase, reason: str, now: datetime) -> None:
        """`task`, given as it was before, has gone from `source` to `target`."""

    def close(self) -> None:
        """Send the remaining spans; blocks for a few seconds at most."""


class Off:
    """Nothing is traced; OpenTelemetry is not even imported."""

    def trace_id(self, uid: str) -> str:
        """Never traced."""
        return ""

    def moved(self, task: pendingtask.PendingTask, source: Phase, target: Phase, reason: str, now: datetime) -> None:
        """Ignored."""

    def close(self) -> None:
        """Nothing to send."""


class Telemetry:
    """Spans through OpenTelemetry's SDK; `exporter` is OTLP over HTTP unless a test brings its own."""

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        # Imported late: a process without tracing does not load it.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk import resources
        from opentelemetry.sdk import trace as sdk
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        class Ids(RandomIdGenerator):
            """Random ids, except those of root spans, which are given."""

            given: tuple[int, int] | None = None

            def generate_trace_id(self) -> int:
                return self.given[0] if self.given else super().generate_trace_id()

            def generate_span_id(self) -> int:
                return self.given[1] if self.given else super().generate_span_id()

        self._ids = Ids()
        named = resources.Resource.create()
        if str(named.attributes.get(resources.SERVICE_NAME, "")).startswith("unknown_service"):
            named = named.merge(resources.Resource({resources.SERVICE_NAME: SERVICE}))
        self._provider = sdk.TracerProvider(resource=named, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("jervis.controllers")

    def trace_id(self, uid: str) -> str:
        """Depends on the uid only; "" if the sampler excludes the task."""
        drawn = self._provider.sampler.should_sample(None, int(trace.trace_id(uid), 16), "task")
        return trace.trace_id(uid) if drawn.decision.name == "RECORD_AND_SAMPLE" else ""

    def moved(self, task: pendingtask.PendingTask, source: Phase, target: Phase, reason: str, now: datetime) -> None:
        """Send the span of `source`; in a terminal phase also that of the task."""
        if not self.trace_id(task.metadata.uid):
            return
        created = task.metadata.creation_timestamp or now
        entered = created if source is Phase.NEW else task.status.phase_times.get(source.value, now)
        details = {"jervis.phase.next": target.value, "jervis.reason": reason, "jervis.attempt": task.status.attempt}
        self._span(task, source.value, min(entered, now), now, details)
        if target in phases.TERMINAL:
            self._root(task, created, now, target)

    def close(self) -> None:
        """Flush and stop the SDK's thread."""
        self._provider.shutdown()

    def _span(
        self, task: pendingtask.PendingTask, name: str, start: datetime, end: datetime, details: dict[str, str | int]
    ) -> None:
        from opentelemetry import trace as api

        uid = task.metadata.uid
        around = api.SpanContext(
            int(trace.trace_id(uid), 16), int(trace.root_span(uid), 16), True, api.TraceFlags(api.TraceFlags.SAMPLED)
        )
        parent = api.set_span_in_context(api.NonRecordingSpan(around))
        attributes = {**_about(task), **details}
        span = self._tracer.start_span(name, parent, attributes=attributes, start_time=_nanoseconds(start))
        span.end(_nanoseconds(end))

    def _root(self, task: pendingtask.PendingTask, start: datetime, end: datetime, phase: Phase) -> None:
        from opentelemetry import context
        from opentelemetry import trace as api

        uid = task.metadata.uid
        self._ids.given = (int(trace.trace_id(uid), 16), int(trace.root_span(uid), 16))
        try:
            span = self._tracer.start_span(
                f"task {task.spec.type.value}",
                context.Context(),
                kind=api.SpanKind.CONSUMER,
                attributes={**_about(task), "jervis.phase": phase.value, "jervis.attempt": task.status.attempt},
                start_time=_nanoseconds(min(start, end)),
            )
        finally:
            self._ids.given = None
        if phase is Phase.ERROR:
            span.set_status(api.StatusCode.ERROR)
        span.end(_nanoseconds(end))


async def pass_on(request: httpx.Request) -> None:
    """An event hook of HTTP clients: sends the task's trace with each request that is made for it."""
    parent = current.get()
    if parent:
        request.headers[trace.HEADER] = parent


def _about(task: pendingtask.PendingTask) -> dict[str, str | int]:
    meta, spec = task.metadata, task.spec
    return {
        "jervis.task.uid": meta.uid,
        "jervis.task.name": meta.name,
        "k8s.namespace.name": meta.namespace,
        "jervis.task.type": spec.type.value,
        "jervis.client": spec.client_id,
        "jervis.correlation_id": spec.correlation_id,
    }


def _nanoseconds(at: datetime) -> int:
    return int(at.astimezone(UTC).timestamp() * 1_000_000) * 1000
