"""The router's own documents: `/router/status`, `/router/openapi.json`, `/metrics`, `/healthz`, `/readyz`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from router import report, status
from router.proxy.server import Own

_TEXT = "text/plain; charset=utf-8"


def routes(state: report.Report, registry: CollectorRegistry) -> Mapping[str, Own]:
    """Handlers by path."""
    document = orjson.dumps(openapi())

    async def show(request: web.BaseRequest) -> web.Response:
        return web.Response(
            body=state.document().model_dump_json(by_alias=True).encode(), content_type="application/json"
        )

    async def describe(request: web.BaseRequest) -> web.Response:
        return web.Response(body=document, content_type="application/json")

    async def metrics(request: web.BaseRequest) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def alive(request: web.BaseRequest) -> web.Response:
        # Green without backends: a restart would lose the queue and bring none of them back.
        return web.Response(text="ok\n")

    async def ready(request: web.BaseRequest) -> web.Response:
        missing = state.ready()
        return web.Response(text=f"{missing or 'ok'}\n", status=503 if missing else 200)

    return {
        "/router/status": show,
        "/router/openapi.json": describe,
        "/metrics": metrics,
        "/healthz": alive,
        "/readyz": ready,
    }


def openapi() -> dict[str, Any]:
    """OpenAPI 3.1 of the router's own paths; everything below /api and /v1 is Ollama's."""
    schema = status.Status.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
    parts = schema.pop("$defs", {})

    def get(summary: str, answers: Mapping[int, str], content: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "get": {
                "summary": summary,
                "responses": {str(code): {"description": text, "content": content} for code, text in answers.items()},
            }
        }

    text = {"text/plain": {"schema": {"type": "string"}}}
    state = {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Jervis Ollama router",
            "version": "v1",
            "description": "Paths below /api and /v1 are passed to the Ollama backends byte for byte. Requests may "
            "carry X-Ollama-Priority (0..3, P0..P3, critical, coding, vlm, background) and X-Request-Id; answers carry "
            "X-Ollama-Router-Backend, X-Ollama-Router-Queue-Ms and X-Request-Id.",
        },
        "paths": {
            "/router/status": get("Backends, queue and the last P0 request", {200: "The state of this moment"}, state),
            "/router/openapi.json": get(
                "This document", {200: "OpenAPI"}, {"application/json": {"schema": {"type": "object"}}}
            ),
            "/metrics": get("Prometheus metrics", {200: "Text exposition"}, text),
            "/healthz": get("Is the process alive? Green without backends", {200: "ok"}, text),
            "/readyz": get("Can it serve?", {200: "ok", 503: "What is missing, by backend"}, text),
        },
        "components": {"schemas": {**parts, "Status": schema}},
    }
