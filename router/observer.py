"""The end of each inference request: its line in the request log, its tokens in the usage, its span.

A line is one JSON object on standard output; the router's other messages are on standard error. docs/router.md lists
the fields.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import orjson

from crds.gpubackend import Engine
from router.proxy import counts, hygiene, refusal, summary
from router.proxy.call import Call
from router.proxy.message import Request
from router.proxy.summary import Summary
from router.usage import Usage

if TYPE_CHECKING:
    from contracts import otel_spans

_TRACEPARENT = re.compile(rb"(?im)^traceparent:[ \t]*([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})[ \t]*\r$")
_OPERATIONS = {
    "/api/generate": "text_completion",
    "/v1/completions": "text_completion",
    "/api/embed": "embeddings",
    "/api/embeddings": "embeddings",
    "/v1/embeddings": "embeddings",
    "/v1/images/generations": "generate_content",
    "/v1/images/edits": "generate_content",
}
# The conventions have no name for Ollama. `openai` is the flavour of a server's API, whose models may be of others:
# https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/
_PROVIDERS: Mapping[str, str] = {Engine.OLLAMA: "ollama", Engine.OPENAI: "openai"}
_UNKNOWN = "unknown"
"""Until a backend is chosen: the attribute must not be absent."""


class Wanted(StrEnum):
    """Which requests are logged."""

    OFF = "off"
    ERRORS = "errors"
    SAMPLED = "sampled"
    ALL = "all"


class Log:
    """`write` takes a line with its end. Requests that went well are written at `rate`, by `chance` (0 to 1)."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        rate: float,
        chance: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self._write = write
        self._rate = rate
        self._chance = chance
        self._wall = wall

    def put(self, fields: dict[str, Any], *, good: bool) -> None:
        """One request."""
        if good and self._rate < 1 and self._chance() >= self._rate:
            return
        head = {"event": "request", "timestamp": self._wall(), "level": "info" if good else "warning"}
        self._write(orjson.dumps(head | fields, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z))


def log(
    wanted: Wanted,
    write: Callable[[bytes], object],
    *,
    rate: float,
    chance: Callable[[], float],
    wall: Callable[[], datetime],
) -> Log | None:
    """The log for these settings."""
    if wanted is Wanted.OFF:
        return None
    shown = {Wanted.ERRORS: 0.0, Wanted.SAMPLED: rate, Wanted.ALL: 1.0}[wanted]
    return Log(write, rate=shown, chance=chance, wall=wall)


class Observer:
    """One per process. `outside` is the name that stands for another router instead of a backend's."""

    def __init__(
        self,
        usage: Usage,
        *,
        log: Log | None = None,
        telemetry: otel_spans.Telemetry | None = None,
        outside: str = "",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.usage = usage
        self._log = log
        self._telemetry = telemetry
        self._outside = outside
        self._now = now
        self.watches = log is not None or telemetry is not None
        """Whether requests without an identity matter, too."""

    def begin(self, call: Call) -> None:
        """A request that was understood and will be sent."""
        request, identity = call.request, call.request.identity
        made = request.summary = Summary(
            self._done,
            now=self._now,
            arrived=call.arrived,
            path=call.path,
            request_id=call.request_id,
            request_bytes=len(request.body),
            images=call.images,
            client=call.client,
            run=identity.run,
            account=identity.account,
            limited=identity.rights is not None,
            asked=call.asked,
            model=call.model,
            level=call.level.label,
        )
        if not self.watches:
            return
        found = _TRACEPARENT.search(request.lines)
        parent = "" if found is None else found.group(1).decode()
        if self._telemetry is not None:
            operation = _OPERATIONS.get(call.path, "chat")
            attributes = {
                "gen_ai.operation.name": operation,
                "gen_ai.provider.name": _UNKNOWN,
                "gen_ai.request.model": call.asked,
                "jervis.router.priority": call.level.label,
            }
            made.spans = summary.Spans(self._telemetry, f"{operation} {call.asked}", attributes, parent)
            parent = made.spans.traceparent
        made.trace = parent[3:35]

    def refused(self, request: Request, no: refusal.Refusal) -> None:
        """The router itself answered a request for a path that runs a model."""
        made = request.summary
        if made is not None:
            made.refused(no.status, no.reason)
        elif self._log is not None:
            found = _TRACEPARENT.search(request.lines)
            fields = {
                "id": hygiene.request_id(request, str) or None,
                "trace": found.group(1).decode()[3:35] if found is not None else None,
                "client": request.identity.name or request.link.peer,
                "path": request.path,
                "asked": no.model or None,
                "status": no.status,
                "outcome": summary.REFUSED,
                "reason": no.reason or None,
            }
            self._log.put({name: value for name, value in fields.items() if value is not None}, good=False)

    def _done(self, made: Summary) -> None:
        prompt, answer, estimated = made.tokens()
        # Another router counts what was passed on to it.
        if made.account and made.sent and made.outcome != summary.REFUSED and made.backend != self._outside:
            self.usage.add(made.account, prompt, answer, limited=made.limited)
        if self._log is not None:
            self._log.put(self._fields(made, prompt, answer, estimated=estimated), good=made.outcome == summary.OK)
        if made.spans is not None:
            attributes: dict[str, str | int | float] = {
                "gen_ai.provider.name": _PROVIDERS.get(made.engine, _UNKNOWN),
                "gen_ai.usage.input_tokens": prompt,
                "gen_ai.usage.output_tokens": answer,
                "http.response.status_code": made.status,
                "jervis.router.backend": made.backend,
                "jervis.router.outcome": made.outcome,
                "jervis.router.queue_seconds": made.waited,
            }
            error = "" if made.outcome == summary.OK else made.reason or made.outcome
            made.spans.end(attributes, error)

    def _fields(self, made: Summary, prompt: int, answer: int, *, estimated: bool) -> dict[str, Any]:
        end = self._now()
        load = counts.load_seconds(made.tail)
        fields = {
            "id": made.request_id,
            "trace": made.trace or None,
            "client": made.client,
            "run": made.run or None,
            "path": made.path,
            "asked": made.asked,
            "model": made.model,
            "priority": made.level,
            "backend": made.backend or None,
            "attempts": made.attempts,
            "wait_ms": _ms(made.waited),
            "load_ms": None if load is None else _ms(load),
            "first_byte_ms": _ms(made.first - made.sent) if made.sent and made.first else None,
            "ms": _ms(end - made.arrived),
            "prompt_tokens": prompt,
            "answer_tokens": answer,
            "tokens_estimated": True if estimated else None,
            "bytes": made.answer_bytes,
            "status": made.status or None,
            "outcome": made.outcome,
            "reason": made.reason or None,
        }
        return {name: value for name, value in fields.items() if value is not None}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
