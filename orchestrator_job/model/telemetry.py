"""Spans of a run: its nodes, agents, tools and model calls, by OpenTelemetry's conventions for generative AI.

    run > job.NODE > invoke_agent NAME > execute_tool NAME > invoke_agent NAME ...
                   '> chat MODEL       '> chat MODEL

No span has a word of a prompt, an answer, or the arguments of a call: names, counts and classes of errors alone. What a
model wrote becomes no name of a span either. What a resumed run takes from its journal is not done again, and has no
spans. Beside the spans the usage of each node is counted, for the trace that `kubectl jervis trace` draws.

Source: https://github.com/open-telemetry/semantic-conventions-genai, v0.1.0 (`gen_ai.*`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx

from contracts import otel_spans
from crds import priority as priorities
from router import client as router_client
from router.client import schema

OPERATION, CONVERSATION = "gen_ai.operation.name", "gen_ai.conversation.id"
PROVIDER = "ollama"
"""gen_ai.provider.name: the API that the router speaks to a run, whatever the engine behind it; its spans name that."""


@dataclass(slots=True)
class Usage:
    """Model calls that were answered, and the tokens that they took."""

    calls: int = 0
    tokens: int = 0


_usage: ContextVar[Usage | None] = ContextVar("usage", default=None)


def count(calls: int, tokens: int) -> None:
    """Of the node that is running: what others have asked models for it."""
    used = _usage.get()
    if used is not None:
        used.calls += calls
        used.tokens += tokens


class Recorder:
    """Opens the spans of one run. `conversation` is known once the task was read."""

    def __init__(self, recorded: otel_spans.Spans) -> None:
        self._spans = recorded
        self.conversation = ""

    @contextmanager
    def node(self, name: str, round_number: int, delegation: str | None = None) -> Iterator[Usage]:
        """A node of the graph; what its model calls take is counted."""
        about: dict[str, otel_spans.Value] = {"jervis.round": round_number, **self._said()}
        if delegation is not None:
            about["jervis.delegation"] = delegation
        used = Usage()
        before = _usage.get()
        _usage.set(used)
        try:
            with self._spans.span(f"job.{name}", about):
                yield used
        finally:
            _usage.set(before)

    def agent(self, name: str, delegation: str, model: str) -> AbstractContextManager[otel_spans.Tell]:
        """The loop of an agent."""
        about = {
            OPERATION: "invoke_agent",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.agent.name": name,
            "gen_ai.request.model": model,
            "jervis.delegation": delegation,
            **self._said(),
        }
        return self._spans.span(f"invoke_agent {name}", about)

    def tool(self, name: str, agent: str) -> AbstractContextManager[otel_spans.Tell]:
        """A call of a tool that there is."""
        about = {
            OPERATION: "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.agent.name": agent,
            **self._said(),
        }
        return self._spans.span(f"execute_tool {name}", about)

    @contextmanager
    def chat(self, model: str, more: Mapping[str, otel_spans.Value]) -> Iterator[_Answered]:
        """One try to have a model answer; give it the reply."""
        about = {
            OPERATION: "chat",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": model,
            **more,
            **self._said(),
        }
        with self._spans.span(f"chat {model}", about, kind="CLIENT") as tell:
            yield _Answered(tell)

    def _said(self) -> dict[str, otel_spans.Value]:
        return {CONVERSATION: self.conversation} if self.conversation else {}


class _Answered:
    def __init__(self, tell: otel_spans.Tell) -> None:
        self._tell = tell

    def __call__(self, reply: router_client.Reply) -> None:
        """Put on the span what the reply took."""
        if reply.model:
            self._tell("gen_ai.response.model", reply.model)
        self._tell("gen_ai.usage.input_tokens", reply.prompt_tokens)
        self._tell("gen_ai.usage.output_tokens", reply.answer_tokens)
        ended = "length" if reply.cut else "tool_call" if reply.calls else "stop"
        self._tell("gen_ai.response.finish_reasons", (ended,))
        used = _usage.get()
        if used is not None:
            used.calls += 1
            used.tokens += reply.prompt_tokens + reply.answer_tokens


class Router(router_client.Client):
    """The router's client whose model calls are spans; each retry is one of its own."""

    def __init__(
        self,
        recorder: Recorder,
        base_url: str,
        http: httpx.AsyncClient,
        *,
        mode: str,
        token: Callable[[], str | None],
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(base_url, http, mode=mode, token=token, before=before)
        self._recorder = recorder

    async def converse(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        priority: priorities.Priority,
        format_schema: schema.Wire | None = None,
        num_ctx: int | None = None,
        num_predict: int | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        temperature: float | None = None,
        think: bool | None = None,
        unthought: int | None = None,
    ) -> router_client.Reply:
        """As `router.client.Client.converse`."""
        about: dict[str, otel_spans.Value] = {"gen_ai.output.type": "text" if format_schema is None else "json"}
        if num_predict is not None:
            about["gen_ai.request.max_tokens"] = num_predict
        with self._recorder.chat(model, about) as answered:
            reply = await super().converse(
                model,
                messages,
                priority,
                format_schema,
                num_ctx,
                num_predict,
                tools,
                temperature=temperature,
                think=think,
                unthought=unthought,
            )
            answered(reply)
        return reply
