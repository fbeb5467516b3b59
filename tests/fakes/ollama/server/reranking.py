"""/v1/rerank, which Ollama itself lacks: as llama.cpp's server, the best first, with whatever model it is asked for.

In place of a cross-encoder: the share of the question's words that the document has.
"""

from __future__ import annotations

import re

from aiohttp import web

from tests.fakes.ollama.protocol import errors
from tests.fakes.ollama.server import exchange


async def rerank(asked: web.Request) -> web.StreamResponse:
    """POST /v1/rerank."""
    turn = asked[exchange.KEY]
    wanted = turn.body().rerank()
    model = turn.service.catalogue.find(wanted.model)
    if model is None:
        raise errors.not_found(wanted.model)
    turn.entry.texts = len(wanted.documents)
    async with turn.slot(model, turn.service.settings.num_ctx):
        words = _words(wanted.query)
        scores = [len(words & _words(text)) / (len(words) or 1) for text in wanted.documents]
    order = sorted(range(len(scores)), key=lambda at: -scores[at])[: wanted.top_n]
    results = [{"index": at, "relevance_score": scores[at]} for at in order]
    return await turn.wire.whole({"model": wanted.model, "object": "list", "results": results})


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
