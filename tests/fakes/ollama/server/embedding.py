"""/api/embed, /api/embeddings, /v1/embeddings: real vectors, one slot per request."""

from __future__ import annotations

import asyncio

from aiohttp import web

from tests.fakes.ollama.embedding import minilm
from tests.fakes.ollama.protocol import errors, reply, request
from tests.fakes.ollama.runner import engine
from tests.fakes.ollama.server import exchange


async def embed(asked: web.Request) -> web.StreamResponse:
    """POST /api/embed."""
    turn = asked[exchange.KEY]
    wanted = turn.body().embed()
    values, figures = await _vectors(turn, wanted)
    return await turn.wire.whole(reply.vectors(wanted.model, values, figures))


async def embeddings(asked: web.Request) -> web.StreamResponse:
    """POST /api/embeddings."""
    turn = asked[exchange.KEY]
    values, _ = await _vectors(turn, turn.body().embeddings())
    return await turn.wire.whole({"embedding": values[0] if len(values) else []})


async def embedding_list(asked: web.Request) -> web.StreamResponse:
    """POST /v1/embeddings."""
    turn = asked[exchange.KEY]
    wanted = turn.body().embed()
    if not wanted.texts:
        raise errors.Refusal(400, "invalid input")
    values, figures = await _vectors(turn, wanted)
    return await turn.wire.whole(reply.embedding_list(wanted.model, values, figures, wanted.base64))


async def _vectors(turn: exchange.Exchange, wanted: request.Embedding) -> tuple[minilm.Vectors, reply.Figures]:
    model = turn.service.catalogue.find(wanted.model)
    if model is None:
        raise errors.not_found(wanted.model)
    if not model.embeds:
        raise errors.Refusal(501, "this model does not support embeddings")
    turn.entry.texts = len(wanted.texts)
    num_ctx = wanted.num_ctx or turn.service.settings.num_ctx
    started = turn.service.loop.time()
    try:
        async with turn.service.engine.slot(model, num_ctx, wanted.keep_alive, load_only=not wanted.texts) as held:
            turn.service.journal.grant(turn.entry)
            if turn.wire.fault is not None and (crash := turn.wire.fault.crash) is not None:
                turn.service.engine.crash(model.key)
                raise errors.Refusal(500, crash.message)
            granted = turn.service.loop.time()
            limit = None if wanted.truncate else min(num_ctx, model.context_length, minilm.MAX_TOKENS)
            values, tokens = await asyncio.to_thread(turn.service.embedder.embed, wanted.texts, limit)
            if held.crashed:
                raise errors.Refusal(500, 'do embedding request: Post "http://127.0.0.1:36457/embedding": EOF')
    except minilm.Exceeds as longer:
        raise errors.Refusal(400, "the input length exceeds the context length") from longer
    except minilm.Missing as missing:
        raise errors.Refusal(500, str(missing)) from missing
    except engine.Busy as busy:
        raise errors.Refusal(503, str(busy)) from busy
    except engine.Gone as gone:
        raise errors.Refusal(500, str(gone)) from gone
    turn.entry.tokens = tokens
    total = turn.service.loop.time() - started
    return minilm.narrow(values, wanted.dimensions), reply.Figures(
        "stop", total=total, load=granted - started, prompt_tokens=tokens
    )
