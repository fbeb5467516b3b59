"""Routes, and the wiring of one simulated server from its settings."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import yaml
from aiohttp import web

from tests.fakes.ollama import catalogue, faults, script, settings
from tests.fakes.ollama.embedding import minilm
from tests.fakes.ollama.protocol import quantity
from tests.fakes.ollama.runner import engine, pool
from tests.fakes.ollama.server import admin, embedding, exchange, generation, information, reranking, service

_MAX_BODY = 256 * 1024 * 1024  # images travel as base64


def build(chosen: settings.Settings, loop: asyncio.AbstractEventLoop, now: Callable[[], datetime]) -> web.Application:
    """The application for these settings. ValueError names the setting or the file that is wrong."""
    keep_alive = _keep_alive(chosen.keep_alive)
    limits = pool.Limits(
        vram=chosen.vram,
        num_parallel=chosen.num_parallel,
        max_loaded=chosen.max_loaded_models,
        max_queue=chosen.max_queue,
        keep_alive=keep_alive,
        load_seconds_per_gib=chosen.load_seconds_per_gib,
        unload_seconds=chosen.unload_seconds,
        on_gpu=chosen.kind == "gpu",
    )
    app = web.Application(client_max_size=_MAX_BODY, middlewares=[exchange.frame])
    app[service.KEY] = service.Service(
        settings=chosen,
        catalogue=catalogue.read(chosen.models),
        engine=engine.Engine(limits, loop),
        embedder=minilm.Embedder(chosen.embedding_threads),
        pace=service.Pace(chosen.tokens_per_second, chosen.prompt_tokens_per_second),
        now=now,
        keep_alive=keep_alive,
        plan=faults.parse(_load("faults", chosen.faults, [])),
        script=script.parse(_load("script", chosen.script, {})),
    )
    app.add_routes(_routes())
    return app


def _routes() -> list[web.RouteDef]:
    refused = [web.post(f"/api/{verb}", information.refused) for verb in ("pull", "push", "create", "copy")]
    return [
        web.get("/", information.root),
        web.get("/api/version", information.version),
        web.get("/api/tags", information.tags),
        web.get("/api/ps", information.ps, allow_head=False),
        web.post("/api/show", information.show),
        web.post("/api/generate", generation.generate),
        web.post("/api/chat", generation.chat),
        web.post("/api/embed", embedding.embed),
        web.post("/api/embeddings", embedding.embeddings),
        web.delete("/api/delete", information.delete),
        *refused,
        web.get("/v1/models", information.models, allow_head=False),
        web.get("/v1/models/{model:.+}", information.model, allow_head=False),
        web.post("/v1/chat/completions", generation.chat_completions),
        web.post("/v1/completions", generation.completions),
        web.post("/v1/embeddings", embedding.embedding_list),
        web.post("/v1/rerank", reranking.rerank),
        web.get("/simulator/state", admin.state),
        web.get("/simulator/requests", admin.requests),
        web.delete("/simulator/requests", admin.forget),
        web.get("/simulator/counters", admin.counters),
        web.put("/simulator/faults", admin.put_faults),
        web.put("/simulator/script", admin.put_script),
        web.put("/simulator/pace", admin.put_pace),
        web.put("/simulator/loads", admin.finish_loads),
        web.delete("/simulator/runners/{model}", admin.end_runner),
        web.put("/simulator/gates/{gate}", admin.open_gate),
        web.delete("/simulator/gates/{gate}", admin.shut_gate),
    ]


def _keep_alive(text: str) -> float:
    """OLLAMA_KEEP_ALIVE: unlike the request's field, a bare number as text is allowed here and means seconds."""
    try:
        seconds = quantity.to_seconds(text if not _is_number(text) else float(text))
    except ValueError as error:
        raise ValueError(f"keep_alive: {error}; write for example 5m, 300 or -1") from error
    return math.inf if seconds is None else seconds


def _is_number(text: str) -> bool:
    return text.strip().lstrip("+-").replace(".", "", 1).isdigit()


def _load(setting: str, path: str, nothing: object) -> object:
    if not path:
        return nothing
    if not Path(path).is_file():
        raise ValueError(f"{setting}: there is no file {path}")
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{setting}: {path} is neither YAML nor JSON: {error}") from error
