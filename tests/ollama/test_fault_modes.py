"""The simulator refuses, breaks off and dies as Ollama's own program does: each fault is played on both."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from router.backends import verdict
from tests.ollama import gguf, twins
from tests.ollama.twins import (
    EMBEDDER,
    ENDLESS,
    OPTIONS,
    OTHER,
    SPEAKER,
    TOOLS,
    Real,
    Seen,
    Server,
    Simulated,
)
from tests.waiting import PATIENCE, eventually

PROGRAM = os.environ.get("JERVIS_TEST_OLLAMA", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="JERVIS_TEST_OLLAMA names no program: see make test-ollama")

_ASKED = [{"role": "user", "content": "one two three four five six seven eight nine ten eleven twelve thirteen"}]
_LONG = [{"role": "user", "content": "a " * 5000}]
_TOOL = {"type": "function", "function": {"name": "a", "parameters": {}}}
_DEADLY = {"type": "string", "maxLength": 2001}
_REPEATING = {"type": "string", "pattern": "^a{100}$"}
"""Ollama ends an answer of thirty equal tokens, and these models have no token of two letters."""
_UNENDING = {"type": "array", "items": {"const": "ab"}, "minItems": 300}
"""What these models write by themselves may end at once."""
_PATHS = ("/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/show", "/v1/chat/completions",
          "/v1/completions", "/v1/embeddings")  # fmt: skip
_SETTINGS = {**twins.ONE_AT_A_TIME, "DEBUG": "1"}
Row = tuple[str, str, object]


def _chat(**more: Any) -> Row:
    return "POST", "/api/chat", {"model": SPEAKER, "messages": _ASKED, "stream": False, "options": OPTIONS} | more


def _generate(**more: Any) -> Row:
    body = {"model": SPEAKER, "prompt": _ASKED[0]["content"], "stream": False, "options": OPTIONS}
    return "POST", "/api/generate", body | more


def _embed(path: str = "/api/embed", **more: Any) -> Row:
    return "POST", path, {"model": EMBEDDER, "input": "a"} | more


def _openai(**more: Any) -> Row:
    body = {"model": SPEAKER, "messages": _ASKED, "max_tokens": 12, "temperature": 0, "seed": 7}
    return "POST", "/v1/chat/completions", body | more


def _any(*values: Any) -> tuple[Any, ...]:
    return values


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}


_ROWS: list[Row] = [
    # paths and methods
    *((method, path, None) for method in ("GET", "HEAD")
      for path in ("/", "/api/ps", "/api/tags", "/api/nothing")),
    *(("GET", path, None) for path in ("/api/chat", "/v1/nothing", "/v1/chat/completions", "/v1/models/speaker")),
    ("HEAD", "/api/chat", None), ("HEAD", "/api/version", None), ("POST", "/api/tags", {}),
    ("PUT", "/api/chat", {}), ("POST", "/api/nothing", {}),
    ("GET", "/v1/models/nobody", None), ("DELETE", "/api/delete", {"model": "nobody"}),
    # bodies, and names of models
    *(("POST", path, body) for path in _PATHS
      for body in (b"", b" ", b"{", b"[]", b'"x"', b"null", b"{}", b'{"model": "a" "b"}', {"model": ""}, {"model": 7},
                   {"model": "nobody"}, {"model": "no body!"})),
    ("POST", "/v1/embeddings", {"model": "nobody", "input": "a"}), _openai(model="nobody"), _openai(model=""),
    # answers and their ends
    _chat(), _chat(stream=True), _generate(), _generate(stream=True), _openai(), _openai(stream=True),
    _chat(format={"const": "ab"}, options={**OPTIONS, "num_predict": 0}),
    # types
    _chat(messages="x"), _chat(messages=[{"role": 7}]), _chat(messages=[{"content": "a"}], format={"const": "ab"}),
    _chat(stream="yes"),
    _chat(messages=[{"role": "user", "content": [{"type": "text", "text": "x"}]}]), _chat(options=7),
    *(_chat(options={**OPTIONS, name: value}) for name, value in
      {"num_ctx": "x", "temperature": "hot", "num_predict": 1.5, "stop": "x", "nothing": 1}.items()),
    _chat(options={**OPTIONS, "stop": [7]}), _generate(prompt=7), _openai(messages="x"), _openai(max_tokens="x"),
    _chat(messages=[{"role": "user", "content": "a", "images": ["%"]}]),
    # the window
    *(_chat(options={**OPTIONS, "num_ctx": size}) for size in (1, 300, 100_000)),
    *(_chat(messages=_LONG, truncate=False, stream=stream) for stream in (False, True)),
    _chat(messages=_LONG, truncate=False, options={**OPTIONS, "num_ctx": 300}),
    _chat(messages=_LONG, options={**OPTIONS, "num_ctx": 300}), _generate(prompt="a " * 5000, truncate=False),
    # grammars
    *(_chat(format=value) for value in _any("", None, "xml", 7, [], True, {"type": "nothing"}, {"$ref": "#/nothing"},
                                        {"type": "string", "pattern": "("}, {"properties": {"a": {"type": "b"}}})),
    _chat(format="xml", stream=True), _chat(format={"type": "nothing"}, stream=True), _generate(format="xml"),
    *(_openai(response_format=_schema({"type": "nothing"}), stream=stream) for stream in (False, True)),
    # what the model cannot do
    _chat(tools=[_TOOL]), _chat(tools="x"),
    _chat(model=TOOLS, tools=[{"type": "x"}], format={"const": "ab"}),
    _chat(model=TOOLS, tools=[{"function": {"name": 7}}]),
    *(_openai(reasoning_effort=value) for value in ("high", "x")),
    *(make(think=value) for make in (_chat, _generate) for value in (True, False, "high", "x", 7)),
    _chat(model=EMBEDDER), _chat(model=EMBEDDER, messages=[]), _generate(model=EMBEDDER), _openai(model=EMBEDDER),
    # time in memory
    *(_chat(keep_alive=value) for value in _any("5", "x", True, {}, "-1", -1, "1m")),
    _chat(messages=[]), _chat(messages=[], keep_alive=0), _generate(prompt=""), _generate(keep_alive=0),
    _generate(prompt="", keep_alive=0),
    # vectors
    *(_embed(input=value)
      for value in _any("a", ["a", "b"], [], "", None, [""], [1], 7, {}, ["a", ["b"]], "a " * 5000)),
    *(_embed(input=value, truncate=False) for value in ("a " * 5000, ["a", "a " * 5000])),
    *(_embed(dimensions=value) for value in (-1, 8, 10_000)), _embed(truncate="x"), _embed(options={"num_ctx": "x"}),
    *(_embed("/api/embeddings", prompt=value) for value in ("a", "", 7, "a " * 5000)),
    *(_embed("/v1/embeddings", input=value) for value in ("a", ["a"], [], "", None, [1], 7)),
    _embed("/v1/embeddings", encoding_format="x"), _embed(keep_alive=0),
]  # fmt: skip


@pytest.fixture(name="simulated", scope="module")
def _simulated() -> Iterator[Any]:
    with twins.simulator() as fake:
        yield fake


@pytest.fixture(name="real", scope="module")
def _real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    home = tmp_path_factory.mktemp("ollama")
    with twins.program(PROGRAM, home, _SETTINGS) as (url, program):
        twins.fill(url)
        yield url, program, home / "log"


@pytest.fixture(name="both")
async def _both(real: Any, simulated: Any) -> AsyncIterator[tuple[Server, Server]]:
    url, program, log = real
    async with twins.client(url) as first, twins.client(simulated.url) as second:
        servers = Real(first, program, log), Simulated(second, simulated)
        for server in servers:
            server.faults()
        yield servers


async def _compared(both: tuple[Server, Server], seen: list[Any]) -> Any:
    """What both have shown, which is the same, as is their memory then."""
    assert seen[1] == seen[0]
    shown = await twins.memory(both[0])

    async def same() -> bool:
        nonlocal shown
        shown = await twins.memory(both[0])
        return shown == await twins.memory(both[1])

    # A model leaves the memory some time after its last answer.
    with contextlib.suppress(AssertionError):
        await eventually(same)
    assert await twins.memory(both[1]) == shown
    return seen[0]


def _named(row: object) -> str:
    return str(row)[:80] if not isinstance(row, str) else row


@pytest.mark.parametrize(("method", "path", "body"), _ROWS, ids=_named)
async def test_a_request(both: tuple[Server, Server], method: str, path: str, body: object) -> None:
    if path == "/api/embeddings" and isinstance(body, dict):
        body = {name: value for name, value in body.items() if name != "input"}
    await _compared(both, [await twins.ask(server, method, path, body) for server in both])


@pytest.mark.parametrize("row", [_chat(), _chat(stream=True), _generate(stream=True), _openai(), _openai(stream=True)])
async def test_a_grammar_that_ends_the_runner(both: tuple[Server, Server], row: Row) -> None:
    method, path, body = row
    assert isinstance(body, dict)
    deadly = {"response_format": _schema(_DEADLY)} if path.startswith("/v1/") else {"format": _DEADLY}
    seen = []
    for server in both:
        server.faults({"match": {"model": SPEAKER}, "engine": "diesOfBounds"})
        seen.append(await twins.ask(server, method, path, body | deadly))
    answer = await _compared(both, seen)
    assert (answer.status, answer.crashed) == (500, True)
    await _compared(both, [await twins.ask(server, method, path, body) for server in both])


@pytest.mark.parametrize("row", [make(stream=stream, **form) for stream in (False, True) for make, form in (
    (_chat, {"format": _REPEATING, "options": ENDLESS}), (_generate, {"format": _REPEATING, "options": ENDLESS}),
    (_openai, {"response_format": _schema(_REPEATING), "max_tokens": 99}))])  # fmt: skip
async def test_an_answer_that_repeats_itself(both: tuple[Server, Server], row: Row) -> None:
    both[1].faults({"engine": "endsEarly"})
    answer = await _compared(both, [await twins.ask(server, *row) for server in both])
    assert (answer.status, answer.whole, len(answer.records)) == (200, True, 1)


@pytest.mark.parametrize("row", [
    _chat(stream=True, options=ENDLESS, format=_UNENDING), _generate(stream=True, options=ENDLESS, format=_UNENDING),
    _openai(stream=True, max_tokens=9999, response_format=_schema(_UNENDING)),
    ("POST", "/v1/completions", {"model": SPEAKER, "prompt": "on and on and on", "stream": True, "seed": 7}),
])  # fmt: skip
async def test_a_runner_that_ends_in_the_middle_of_a_stream(both: tuple[Server, Server], row: Row) -> None:
    async def answer(server: Server) -> Seen:
        async def during() -> None:
            if isinstance(server, Real):
                server.end_runner()

        server.faults({"crash": {"afterLines": 1}})
        seen = await twins.ask(server, *row, during)
        server.faults()
        return seen

    seen = await _compared(both, [await answer(server) for server in both])
    assert (seen.status, seen.whole, len(seen.records)) == (200, True, 2)
    # It was in the memory all the time; now it is there in truth.
    await _compared(both, [await twins.ask(server, *_chat()) for server in both])


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (_chat(options=ENDLESS, format=_UNENDING), {"crash": {"afterLines": 1}}),
        (_embed(input=["a " * 1000] * 500), {"crash": {}}),
        (_embed("/v1/embeddings", input=["a " * 1000] * 500), {"crash": {}}),
    ],
)
async def test_a_runner_that_ends_before_a_whole_answer(
    both: tuple[Server, Server], row: Row, fault: dict[str, Any]
) -> None:
    seen = []
    for server in both:
        # It is loaded, so that the time of a load is not taken for work.
        await twins.ask(server, *(_chat() if row[1] == "/api/chat" else _embed()))
        server.faults(fault)
        asked = asyncio.create_task(twins.ask(server, *row))
        if isinstance(server, Real):
            await server.works()
            server.end_runner()
        seen.append(await asked)
        server.faults()
    if row[1] != "/api/chat":
        # Of several texts the one that waited may fail first: there was nothing to connect to.
        answers = {"do embedding request", "connection refused"}
        assert all(any(words in str(answer.records) for words in answers) for answer in seen), seen
        seen = [replace(answer, records=(), crashed=True) for answer in seen]
    answer = await _compared(both, seen)
    failed = verdict.Verdict.MODEL_FAILED
    assert (answer.status, answer.crashed, answer.judged) == (500 if row[1] == "/api/chat" else 400, True, failed)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_waits_for_a_runner_that_ends(both: tuple[Server, Server], stream: bool) -> None:
    async def answers(server: Server) -> list[Seen]:
        async def during() -> None:
            waiting.append(asyncio.create_task(twins.ask(server, *_chat(stream=stream))))
            await server.waits(asked)
            server.end_runner()
            server.go_on()

        await twins.ask(server, *_chat())
        server.faults({"times": 1, "stall": {"afterBytes": 300, "gate": "hold"}})
        waiting: list[asyncio.Task[Seen]] = []
        asked = server.asked() + 1
        first = await twins.ask(server, *_chat(stream=True, options=ENDLESS, format=_UNENDING), during=during)
        second = await waiting[0]
        # Until the server has noticed the runner's end it tries to connect.
        assert second.records[0] in ("llama runner process no longer running: -1 ", "connection refused")
        server.faults()
        return [first, replace(second, records=())]

    await _compared(both, [await answers(server) for server in both])


async def test_a_runner_that_ends_while_it_loads(both: tuple[Server, Server]) -> None:
    real, simulated = both
    assert isinstance(real, Real)

    async def tried() -> Seen:
        await twins.ask(real, *_generate(prompt="", keep_alive=0))
        await eventually(lambda: twins.memory(real), good=lambda seen: not seen)
        loads = real.loads()
        asked = asyncio.create_task(twins.ask(real, *_chat()))
        await eventually(real.loads, good=lambda count: count > loads)
        with contextlib.suppress(ProcessLookupError, ValueError):
            real.end_runner()
        return await asked

    def loading(seen: Seen) -> bool:
        return any(str(record).startswith("llama runner process has terminated") for record in seen.records)

    # A signal may come too late; it was in time when the server says so.
    seen = await eventually(tried, good=loading)
    await twins.ask(simulated, *_generate(prompt="", keep_alive=0))
    simulated.faults({"crash": {"loading": True}})
    await _compared(both, [seen, await twins.ask(simulated, *_chat())])


async def test_a_model_that_is_deleted_while_it_is_in_memory(both: tuple[Server, Server]) -> None:
    async def answers(server: Server) -> list[Seen]:
        async def delete() -> None:
            deleted.append(await twins.ask(server, "DELETE", "/api/delete", {"model": OTHER}))

        deleted: list[Seen] = []
        stream = await twins.ask(server, *_chat(model=OTHER, stream=True), during=delete)
        rows = [_chat(model=OTHER), _generate(model=OTHER), _chat(model=OTHER, messages=[], keep_alive=0)]
        return [stream, *deleted, *[await twins.ask(server, *row) for row in rows]]

    await _compared(both, [await answers(server) for server in both])
    assert await twins.memory(both[0]) != []


async def test_a_client_that_hangs_up(both: tuple[Server, Server]) -> None:
    for server in both:
        server.faults({"times": 1, "stall": {"afterBytes": 1}})
        body = {"model": SPEAKER, "messages": _ASKED, "options": ENDLESS, "format": _UNENDING}
        async with server.http.stream("POST", "/api/chat", json=body) as answer:
            await anext(answer.aiter_bytes())
    await _compared(both, [await twins.ask(server, *_chat()) for server in both])


async def test_a_full_queue(both: tuple[Server, Server]) -> None:
    async def refused(server: Server) -> list[Seen]:
        async def during() -> None:
            with server.hold():
                # One is about to be served, one waits behind it, and the third is refused.
                rows = [_generate(model=TOOLS), _generate(model=TOOLS), _generate(model=TOOLS, stream=True)]
                waiting.update(asyncio.create_task(twins.ask(server, *row)) for row in rows)
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
                first.extend([task.result() for task in done][:1])

        await twins.ask(server, *_chat())
        server.faults({"times": 1, "stall": {"afterBytes": 300, "gate": "hold"}})
        waiting, first = set[asyncio.Task[Seen]](), list[Seen]()
        await twins.ask(server, *_chat(stream=True, options=ENDLESS, format=_UNENDING), during=during)
        await asyncio.gather(*waiting)
        server.faults()
        return first

    [answer] = await _compared(both, [await refused(server) for server in both])
    assert answer.status == 503


async def test_a_server_that_ends_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    async def answer(server: Server) -> Seen:
        async def kill() -> None:
            server.kill()

        server.faults({"stall": {"afterBytes": 300}})
        seen = await twins.ask(server, *_chat(stream=True, options=ENDLESS, format=_UNENDING), during=kill)
        with pytest.raises(httpx.ConnectError):
            await server.http.get("/api/ps")
        return seen

    with twins.program(PROGRAM, tmp_path, _SETTINGS) as (url, program), twins.simulator() as fake:
        twins.make(url, SPEAKER, gguf.tiny(3, context=twins.CONTEXT))
        async with twins.client(url) as first, twins.client(fake.url) as second:
            real = await answer(Real(first, program, tmp_path / "log"))
            assert await answer(Simulated(second, fake)) == real
    assert (real.status, real.whole) == (200, False)
