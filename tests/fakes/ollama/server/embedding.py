"""/api/embed, /api/embeddings, /v1/embeddings: real vectors, one slot per request."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from aiohttp import web

from tests.fakes.ollama.embedding import minilm
from tests.fakes.ollama.protocol import errors, names, reply, request
from tests.fakes.ollama.runner import engine
from tests.fakes.ollama.server import exchange

_STOPPED = 'do embedding request: Post "http://127.0.0.1:36457/embedding": EOF'
"""Ollama's words for a runner that ended before it had a vector (`llm/server.go`)."""


async def embed(asked: web.Request) -> web.StreamResponse:
    """POST /api/embed."""
    turn = asked[exchange.KEY]
    wanted = turn.body().embed()
    if not names.canonical(wanted.model):
        raise errors.unqualified(wanted.model)
    values, figures = await _vectors(turn, wanted)
    return await turn.wire.whole(reply.vectors(wanted.model, values, figures))


async def embeddings(asked: web.Request) -> web.StreamResponse:
    """POST /api/embeddings."""
    turn = asked[exchange.KEY]
    wanted = turn.body().embeddings()
    if not names.canonical(wanted.model):
        raise errors.unnamed()
    # Here a text is not cut, and whatever goes wrong has one status.
    values, _ = await _vectors(turn, replace(wanted, truncate=False), failed=500)
    return await turn.wire.whole({"embedding": values[0] if len(values) else []})


async def embedding_list(asked: web.Request) -> web.StreamResponse:
    """POST /v1/embeddings."""
    turn = asked[exchange.KEY]
    wanted = turn.body().embed()
    if turn.body().document.get("input") in (None, []):
        raise errors.Unreadable("invalid input")
    if wanted.encoding not in ("", "float", "base64"):
        supported = "Supported values: ['float', 'base64']."
        raise errors.Unreadable(f"Invalid value for 'encoding_format' = {wanted.encoding}. {supported}")
    if not names.canonical(wanted.model):
        raise errors.unqualified(wanted.model)
    values, figures = await _vectors(turn, wanted)
    return await turn.wire.whole(reply.embedding_list(wanted.model, values, figures, wanted.encoding == "base64"))


async def _vectors(
    turn: exchange.Exchange, wanted: request.Embedding, failed: int = 400
) -> tuple[minilm.Vectors, reply.Figures]:
    """`failed`: the status of what the runner cannot do, also of its end (`EmbedHandler` in Ollama's `routes.go`)."""
    model = turn.service.catalogue.find(wanted.model)
    if model is None:
        raise errors.not_pulled(wanted.model)
    if not model.embeds:
        raise errors.Refusal(501, "this model does not support embeddings")
    turn.entry.texts = len(wanted.texts)
    num_ctx = model.window(wanted.num_ctx, turn.service.settings.num_ctx)
    started = turn.service.loop.time()
    try:
        async with turn.slot(model, num_ctx, wanted.keep_alive, load_only=not wanted.texts) as held:
            if turn.crash is not None and not turn.crash.loading:
                turn.service.engine.crash(model.key)
                raise errors.Refusal(failed, turn.crash.message or _STOPPED)
            granted = turn.service.loop.time()
            limit = None if wanted.truncate else min(num_ctx, minilm.MAX_TOKENS)
            values, tokens = await asyncio.to_thread(turn.service.embedder.embed, wanted.texts, limit)
            if held.crashed:
                raise errors.Refusal(failed, _STOPPED)
    except minilm.Exceeds as longer:
        raise errors.Refusal(failed, "the input length exceeds the context length") from longer
    except minilm.Missing as missing:
        raise errors.Refusal(500, str(missing)) from missing
    except engine.Gone as gone:
        raise errors.Refusal(failed, str(gone).strip()) from gone
    turn.entry.tokens = tokens
    total = turn.service.loop.time() - started
    return minilm.narrow(values, wanted.dimensions), reply.Figures(
        "stop", total=total, load=granted - started, prompt_tokens=tokens
    )
