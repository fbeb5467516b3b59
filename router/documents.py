"""The router's own documents: `/router/status`, `/router/openapi.json`, `/metrics`, `/healthz`, `/readyz`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from contracts import openapi
from router import announce, explain, history, page, report, status, usagepage
from router.proxy.message import Own, Reply, Request

_TEXT = "text/plain; charset=utf-8"


def routes(state: report.Report, registry: CollectorRegistry) -> Mapping[str, Own]:
    """Handlers by path."""
    document = orjson.dumps(description())

    async def show(request: Request) -> Reply:
        return Reply(body=state.text())

    async def describe(request: Request) -> Reply:
        return Reply(body=document)

    async def metrics(request: Request) -> Reply:
        return Reply(body=generate_latest(registry), content_type=CONTENT_TYPE_LATEST)

    async def alive(request: Request) -> Reply:
        # Green without backends: a restart would lose the queue and bring none of them back.
        return Reply(body=b"ok\n", content_type=_TEXT)

    async def ready(request: Request) -> Reply:
        missing = state.ready()
        return Reply(503 if missing else 200, f"{missing or 'ok'}\n".encode(), _TEXT)

    async def active(request: Request) -> Reply:
        acts = state.leader.active
        return Reply(200 if acts else 503, b"ok\n" if acts else f"{report.STANDBY}\n".encode(), _TEXT)

    return {
        "/activez": active,
        "/router/status": show,
        "/router/openapi.json": describe,
        "/metrics": metrics,
        "/healthz": alive,
        "/readyz": ready,
    }


def description() -> dict[str, Any]:
    """OpenAPI 3.1 of the router's own paths; everything below /api and /v1 is Ollama's."""
    text = {"text/plain": openapi.TEXT}

    def get(path: str, summary: str, answers: Mapping[int, str], content: openapi.Content) -> openapi.Operation:
        said = {code: openapi.Answer(answer, content) for code, answer in answers.items()}
        return openapi.Operation("GET", path, summary, said)

    return openapi.document(
        "Jervis Ollama router",
        "v1",
        [
            get(
                "/router/status",
                "Backends, queue and the last P0 request",
                {200: "The state of this moment"},
                openapi.json(status.Status),
            ),
            get("/router/openapi.json", "This document", {200: "OpenAPI"}, openapi.json({"type": "object"})),
            get("/metrics", "Prometheus metrics", {200: "Text exposition"}, text),
            get("/healthz", "Is the process alive? Green without backends", {200: "ok"}, text),
            get("/activez", "Is this the router that decides?", {200: "ok", 503: "Another one is"}, text),
            get("/readyz", "Can it serve?", {200: "ok", 503: "What is missing, by backend"}, text),
            *announce.operations(),
            explain.operation(),
            usagepage.operation(),
            *page.operations(),
            history.operation(),
        ],
        about="Paths below /api and /v1 are passed to the Ollama backends byte for byte. Requests may "
        "carry X-Ollama-Priority (0..3, P0..P3, critical, coding, vlm, background), X-Request-Id, X-Session-Id (a "
        "conversation) and X-Jervis-Progress: true (signs of life in a stream that waits); answers carry "
        "X-Ollama-Router-Backend, X-Ollama-Router-Queue-Ms and X-Request-Id.",
    )
