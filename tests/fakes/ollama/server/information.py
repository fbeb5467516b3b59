"""The endpoints that tell and change nothing: /, version, tags, ps, show, /v1/models; and the ones that are refused."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from tests.fakes.ollama import catalogue
from tests.fakes.ollama.embedding import minilm
from tests.fakes.ollama.protocol import errors, names, reply
from tests.fakes.ollama.server import exchange

VERSION = "0.17.4"
NAME = "Jervis simulator of Ollama (answers by rules, not a language model)"
_INSTALLED = datetime(2026, 1, 1, tzinfo=UTC)
_FOREVER = timedelta(days=292 * 365)  # what Ollama shows for a pinned model: its largest duration


async def root(asked: web.Request) -> web.StreamResponse:
    """GET and HEAD /."""
    asked[exchange.KEY].entry.status = 200
    return web.Response(text="Ollama is running", headers={"Server": reply.SERVER})


async def version(asked: web.Request) -> web.StreamResponse:
    """GET /api/version."""
    return await asked[exchange.KEY].wire.whole({"version": VERSION, "simulator": True, "name": NAME})


async def tags(asked: web.Request) -> web.StreamResponse:
    """GET /api/tags."""
    turn = asked[exchange.KEY]
    return await turn.wire.whole({"models": [_listed(model) for model in turn.service.catalogue.all()]})


async def ps(asked: web.Request) -> web.StreamResponse:
    """GET /api/ps: models in memory, those still loading included, as Ollama lists them."""
    turn = asked[exchange.KEY]
    now = turn.service.now()
    return await turn.wire.whole({"models": [_loaded(record, now) for record in turn.service.engine.loaded()]})


async def show(asked: web.Request) -> web.StreamResponse:
    """POST /api/show {model}."""
    turn = asked[exchange.KEY]
    document = turn.body().document
    name = document.get("model") or document.get("name") or ""
    if not isinstance(name, str):
        raise errors.Unreadable("json: cannot unmarshal number into Go struct field ShowRequest.model of type string")
    if not name:
        raise errors.unnamed()
    if not names.canonical(name):
        raise errors.unqualified(name)
    model = turn.service.catalogue.find(name)
    if model is None:
        raise errors.not_found(name)
    family = names.family(model.name)
    return await turn.wire.whole(
        {
            "modelfile": f"# {NAME}\nFROM {model.name}\n",
            "parameters": "",
            "template": "{{ .Prompt }}",
            "details": model.details,
            "model_info": {
                "general.architecture": family,
                "general.parameter_count": int((names.billions(model.name) or 0) * 1e9),
                f"{family}.context_length": model.context_length,
                f"{family}.embedding_length": minilm.DIMENSIONS,
            },
            "capabilities": model.capabilities,
            "modified_at": reply.stamp(_INSTALLED),
        }
    )


async def models(asked: web.Request) -> web.StreamResponse:
    """GET /v1/models."""
    turn = asked[exchange.KEY]
    return await turn.wire.whole({"object": "list", "data": [_openai(m) for m in turn.service.catalogue.all()]})


async def model(asked: web.Request) -> web.StreamResponse:
    """GET /v1/models/{model}."""
    turn = asked[exchange.KEY]
    found = turn.service.catalogue.find(asked.match_info["model"])
    if found is None:
        raise errors.not_found(asked.match_info["model"])
    return await turn.wire.whole(_openai(found))


async def delete(asked: web.Request) -> web.StreamResponse:
    """DELETE /api/delete {model}."""
    turn = asked[exchange.KEY]
    name = str(turn.body().document.get("model") or turn.body().document.get("name") or "")
    if not turn.service.catalogue.remove(name):
        raise errors.not_found(name)
    turn.entry.status = 200
    return web.Response(headers={"Server": reply.SERVER})


async def refused(asked: web.Request) -> web.StreamResponse:
    """/api/pull, create, push, copy: nothing is added to the catalogue after the simulator's start."""
    verb = asked.path.rsplit("/", 1)[-1]
    raise errors.Refusal(
        501, f"this is a simulator: it cannot {verb} models; its models are chosen by --models at its start"
    )


def _listed(entry: catalogue.Model) -> dict[str, Any]:
    return {
        "name": entry.name,
        "model": entry.name,
        "modified_at": reply.stamp(_INSTALLED),
        "size": entry.size,
        "digest": entry.digest,
        "details": entry.details,
        "capabilities": entry.capabilities,
    }


def _loaded(record: dict[str, Any], now: datetime) -> dict[str, Any]:
    entry: catalogue.Model = record["model"]
    left = record["expires_in"]
    return {
        "name": entry.name,
        "model": entry.name,
        "size": record["size"],
        "digest": entry.digest,
        "details": entry.details,
        "expires_at": reply.stamp(now + (timedelta(seconds=left) if math.isfinite(left) else _FOREVER)),
        "size_vram": record["size_vram"],
        "context_length": record["num_ctx"],
    }


def _openai(entry: catalogue.Model) -> dict[str, Any]:
    return {"id": entry.name, "object": "model", "created": int(_INSTALLED.timestamp()), "owned_by": "library"}
