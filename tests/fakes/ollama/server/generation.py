"""/api/generate, /api/chat, /v1/completions, /v1/chat/completions: wait for a slot, compute the answer, pace it out."""

from __future__ import annotations

import asyncio
import base64
import json
import re

from aiohttp import web

from tests.fakes.ollama import catalogue, engines, faults, script, tesseract
from tests.fakes.ollama.protocol import errors, formats, names, reply, request
from tests.fakes.ollama.rules import answering, calling
from tests.fakes.ollama.runner import engine
from tests.fakes.ollama.server import exchange, wire

_TOKEN = re.compile(r"\s*\S{1,5}|\s+")
_YIELD_EVERY = 32


def tokens(text: str) -> list[str]:
    """`text` in pieces of a word or less, about the size of a model's tokens; joined they give `text` again."""
    return _TOKEN.findall(text)


async def generate(asked: web.Request) -> web.StreamResponse:
    """POST /api/generate."""
    turn = asked[exchange.KEY]
    wanted = turn.body().generate()
    return await _serve(turn, wanted, reply.Native(wanted.model, chat=False), "generate")


async def chat(asked: web.Request) -> web.StreamResponse:
    """POST /api/chat."""
    turn = asked[exchange.KEY]
    wanted = turn.body().chat()
    return await _serve(turn, wanted, reply.Native(wanted.model, chat=True), "chat")


async def completions(asked: web.Request) -> web.StreamResponse:
    """POST /v1/completions."""
    turn = asked[exchange.KEY]
    wanted = turn.body().completions()
    shape = reply.OpenAI(wanted.model, chat=False, id=f"cmpl-{turn.entry.seq}", include_usage=wanted.include_usage)
    return await _serve(turn, wanted, shape, "generate")


async def chat_completions(asked: web.Request) -> web.StreamResponse:
    """POST /v1/chat/completions."""
    turn = asked[exchange.KEY]
    wanted = turn.body().chat_completions()
    shape = reply.OpenAI(wanted.model, chat=True, id=f"chatcmpl-{turn.entry.seq}", include_usage=wanted.include_usage)
    return await _serve(turn, wanted, shape, "chat")


async def _serve(
    turn: exchange.Exchange, wanted: request.Generation, shape: reply.Shape, verb: str
) -> web.StreamResponse:
    if verb == "chat" and not names.canonical(wanted.model):
        raise errors.unnamed()
    model = turn.service.catalogue.find(wanted.model)
    if model is None:
        raise errors.not_found(wanted.model)
    if wanted.load_only and wanted.keep_alive == 0:
        turn.service.engine.expel(model.key)
        return await turn.wire.whole(shape.whole("", reply.Figures("unload"), turn.service.now()))
    if isinstance(wanted.think, str) and verb == "generate":
        raise errors.Refusal(400, f'think value "{wanted.think}" is not supported for this model')
    if model.embeds:
        raise errors.Refusal(400, f'"{wanted.model}" does not support {verb}')
    if wanted.think:
        raise errors.Refusal(400, f'"{wanted.model}" does not support thinking')
    engines.refuse(_engine(turn), wanted)
    num_ctx = model.window(wanted.num_ctx, turn.service.settings.num_ctx)
    started = turn.service.loop.time()
    try:
        async with turn.slot(model, num_ctx, wanted.keep_alive, load_only=wanted.load_only) as held:
            if wanted.load_only:
                return await turn.wire.whole(shape.whole("", reply.Figures("load"), turn.service.now()))
            return await _generate(turn, model, held, wanted, shape, num_ctx, started)
    except engine.Gone as gone:
        raise errors.Unstarted(500, str(gone), wanted.stream) from gone


async def _generate(
    turn: exchange.Exchange,
    model: catalogue.Model,
    held: engine.Slot,
    wanted: request.Generation,
    shape: reply.Shape,
    num_ctx: int,
    started: float,
) -> web.StreamResponse:
    loop, pace = turn.service.loop, turn.service.pace
    granted = loop.time()
    prompt_tokens = sum(len(tokens(message.content)) for message in wanted.messages) + len(tokens(wanted.offered))
    if problem := formats.problem(wanted.format):
        raise errors.Unstarted(500, problem, wanted.stream)
    counts = wanted.num_ctx is not None or turn.service.settings.default_window_counts
    if not wanted.truncate and counts and prompt_tokens > num_ctx:
        raise errors.Unstarted(400, "the input length exceeds the context length", wanted.stream)
    prompt_tokens = min(prompt_tokens, num_ctx) if counts else prompt_tokens  # of a longer one the middle is left out
    said = await _said(turn, wanted)
    crash = turn.crash
    dying = crash.after_lines if crash is not None else None
    if (crash is not None and dying is None and not crash.loading) or engines.dies(_engine(turn), wanted):
        turn.service.engine.crash(model.key)
        words = crash.message if crash is not None else ""
        raise errors.Unstarted(500, words or faults.STOPPED, wanted.stream)
    calls = said.made if isinstance(said, script.Calls) else ()
    # The template of a model writes its calls as JSON: they cost what their text costs.
    text = json.dumps(calls) if isinstance(said, script.Calls) else said
    if pace.prompt_tokens_per_second:
        await _until(granted + prompt_tokens / pace.prompt_tokens_per_second)
    read = loop.time()
    pieces, reason = _limit(text, wanted)
    if held.crashed:
        raise errors.Unstarted(500, faults.STOPPED, wanted.stream)
    written = engines.write(_engine(turn), pieces, wanted)
    if written.pieces is not pieces:
        pieces, reason = _bounded(written.pieces, reason, wanted)
    if wanted.stream:
        await turn.wire.start(shape.content_type)
        for thought in written.thoughts:
            await turn.wire.write(shape.thought(thought, turn.service.now()))
    error = turn.wire.fault.error if turn.wire.fault else None
    for count, piece in enumerate(pieces, start=1):
        if error is not None and count > error.after_lines:
            return await _break(turn, wanted, shape, error)
        if pace.tokens_per_second:
            await _until(read + count / pace.tokens_per_second)
        elif count % _YIELD_EVERY == 0:
            await asyncio.sleep(0)
        if wanted.stream and not calls:
            await turn.wire.write(shape.piece(piece, turn.service.now()))
        turn.entry.tokens = count
        if count == dying:
            turn.service.engine.crash(model.key)
        if held.crashed:
            words = crash.message if crash is not None else ""
            return await _break(turn, wanted, shape, faults.ErrorLine(message=words or faults.BROKEN))
    if error is not None:
        return await _break(turn, wanted, shape, error)
    ended = loop.time()
    figures = reply.Figures(
        reason, ended - started, granted - started, prompt_tokens, read - granted, len(pieces), ended - read
    )
    if not written.ends:
        figures = reply.Figures("")
    if wanted.stream and not written.ends:
        return await turn.wire.end()
    if wanted.stream:
        if calls:
            await turn.wire.write(shape.calls(calls, turn.service.now()))
        await turn.wire.write(shape.last(figures, turn.service.now()))
        return await turn.wire.end()
    return await turn.wire.whole(shape.whole("" if calls else "".join(pieces), figures, turn.service.now(), calls))


async def _said(turn: exchange.Exchange, wanted: request.Generation) -> str | script.Calls:
    """The answer: from the script if it speaks about this tag, else from the rules.

    A scripted fault takes effect here.
    """
    try:
        scripted = turn.service.script.take(turn.entry.tag, "\n".join(message.content for message in wanted.messages))
    except script.Exhausted as exhausted:
        raise errors.Refusal(500, str(exhausted)) from exhausted
    if isinstance(scripted, faults.Fault):
        turn.wire.fault = scripted
        await turn.wire.begin()
        scripted = None
    if scripted is None and wanted.tools:
        turns = [(message.role, message.content) for message in wanted.messages]
        made = calling.calls(turns, wanted.tools)
        scripted = script.Calls(tuple(made)) if made else None
    if isinstance(scripted, script.Calls):
        return scripted
    if scripted is None:
        # In a thread: ranking evidence runs the embedding model, and other streams must go on meanwhile.
        written = await _written(turn, wanted)
        scripted = await asyncio.to_thread(answering.answer, wanted, turn.service.embedder.embed, written)
    if turn.wire.fault is not None and turn.wire.fault.malformed == "answer":
        # Without its beginning, too: of an answer that only lacks its end much can be used.
        return scripted[: max(1, len(scripted) * 2 // 3)].removeprefix("{")
    return scripted


async def _written(turn: exchange.Exchange, wanted: request.Generation) -> list[str]:
    """The writing in each image."""
    bodies = [base64.b64decode(image) for message in wanted.messages for image in message.images]
    try:
        return await asyncio.gather(*(turn.service.reader.read(body) for body in bodies))
    except tesseract.Unable as error:
        raise errors.Refusal(500, str(error)) from error


def _limit(text: str, wanted: request.Generation) -> tuple[list[str], str]:
    """The tokens that are sent and why they end: at a stop sequence, or at num_predict."""
    for stop in wanted.stop:
        text = text.split(stop, 1)[0] if stop else text
    return _bounded(tokens(text), "stop", wanted)


def _bounded(pieces: list[str], reason: str, wanted: request.Generation) -> tuple[list[str], str]:
    # 0 is no bound, as are negative numbers.
    if wanted.num_predict is not None and 0 < wanted.num_predict < len(pieces):
        return pieces[: wanted.num_predict], "length"
    return pieces, reason


def _engine(turn: exchange.Exchange) -> faults.Engine | None:
    return turn.wire.fault.engine if turn.wire.fault is not None else None


async def _break(
    turn: exchange.Exchange, wanted: request.Generation, shape: reply.Shape, error: faults.ErrorLine
) -> web.StreamResponse:
    """The runner dies: an error line in a stream, a 500 otherwise."""
    if not wanted.stream:
        raise errors.Refusal(500, error.message)
    await turn.wire.write(shape.broken(error.message, turn.service.now()))
    await turn.wire.end()
    raise wire.Cut("error line")


async def _until(moment: float) -> None:
    delay = moment - asyncio.get_running_loop().time()
    if delay > 0:
        await asyncio.sleep(delay)
