"""Backends that break: before the first byte the request moves on, after it the client is shown what happened."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crds.gpubackend import Circuit
from router.backends.circuit import Breaker
from router.proxy.budget import Budget
from tests import waiting
from tests.router import process, wire

_BREAK = b'{"response":"one","done":false}\n'


@pytest.mark.parametrize(
    ("content_type", "sent", "shown"),
    [
        ("application/x-ndjson", _BREAK, _BREAK + b'{"error":"backend \'raw\': '),
        ("application/x-ndjson", _BREAK + b'{"resp', _BREAK + b'{"resp\n{"error":"backend \'raw\': '),
        ("text/event-stream", b"data: {}\n\n", b'data: {}\n\ndata: {"error":{"message":"backend \'raw\': '),
        ("text/event-stream", b"data: {", b'data: {\n\ndata: {"error":{"message":"backend \'raw\': '),
    ],
)
async def test_death_in_a_stream_is_an_error_line_and_no_clean_end(
    tmp_path: Path, content_type: str, sent: bytes, shown: bytes
) -> None:
    path = "/api/generate" if content_type == "application/x-ndjson" else "/v1/completions"
    script = wire.closing(wire.chunked_head(content_type), wire.chunk(sent))
    async with process.before(tmp_path, script) as (router, backend):
        answer = await router.post(path, {"model": "m", "stream": True})
        assert not answer.clean
        assert answer.body.startswith(shown)
        assert b"[DONE]" not in answer.body
        assert b'"done":true' not in answer.body
        assert answer.body.endswith(b"\n")
        assert len(backend.requests) == 1
        assert (await router.backend("raw"))["inFlight"] == 0
        assert await router.metric('jervis_router_backend_failures_total{backend="raw",phase="stream"}') == 1


async def test_death_inside_a_declared_length_adds_nothing(tmp_path: Path) -> None:
    script = wire.closing(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: 900\r\n\r\n", _BREAK
    )
    async with process.before(tmp_path, script) as (router, _):
        answer = await router.post("/api/generate", {"model": "m"})
        assert (answer.clean, answer.body) == (False, _BREAK)


@pytest.mark.parametrize(
    "broken",
    [
        wire.closing(),
        wire.closing(b"HTTP/1.1 200 OK\r\n"),
        wire.closing(wire.chunked_head()),
        wire.closing(b"SSH-2.0-OpenSSH\r\n"),
        wire.closing(
            wire.plain(b'{"error":"llama runner process has terminated"}', status="500 Internal Server Error")
        ),
        wire.closing(wire.plain(b'{"error":"server busy"}', status="503 Service Unavailable")),
        wire.closing(wire.plain(b'{"error":"model \'m\' not found"}', status="404 Not Found")),
    ],
    ids=["nothing", "half a head", "head only", "not HTTP", "500", "503", "404"],
)
async def test_request_moves_to_another_backend_before_the_first_byte(tmp_path: Path, broken: wire.Script) -> None:
    # "a" comes first: equal backends are taken by name.
    opened = process.before_two(tmp_path, broken, wire.answering(wire.plain(b'{"done":true}')))
    async with opened as (router, first, second):
        answer = await router.post("/api/chat", {"model": "m"})
        assert (answer.status, answer.body) == (200, b'{"done":true}')
        assert answer.header("X-Ollama-Router-Backend") == "b"
        # A connection that a probe had used may have closed just now, as far as the router can know.
        again = await router.metric('jervis_router_retries_total{reason="keepalive"}')
        assert (len(first.requests), len(second.requests)) == (1 + again, 1)
        assert [b["inFlight"] for b in (await router.status())["backends"]] == [0, 0]


async def test_alone_the_backend_s_own_error_is_passed_on(tmp_path: Path) -> None:
    body = b'{"error":"model requires more system memory"}'
    script = wire.closing(wire.plain(body, status="500 Internal Server Error"))
    async with process.before(tmp_path, script) as (router, backend):
        answer = await router.post("/api/chat", {"model": "m"})
        assert (answer.status, answer.body, len(backend.requests)) == (500, body, 1)


async def test_alone_without_an_answer_is_502_and_says_try_again(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.closing()) as (router, backend):
        answer = await router.post("/v1/chat/completions", {"model": "m"})
        assert (answer.status, answer.header("Retry-After")) == (502, "2")
        assert "try again" in answer.json()["error"]["message"]
        again = await router.metric('jervis_router_retries_total{reason="keepalive"}')
        assert len(backend.requests) == 1 + again


async def test_circuit_opens_after_failures_in_a_row_and_heals(tmp_path: Path) -> None:
    settings = {"circuit_pause_seconds": "0.5", "restart_grace_seconds": "0", "quarantine_seconds": "0"}
    async with process.before(tmp_path, wire.closing(), **settings) as (router, backend):
        raw = wire.post("/api/chat", {"model": "m"})
        backend.probing.clear()  # a circuit is half-opened by a probe, however long the pause seems on a busy machine
        statuses = [(await router.send(raw)).status for _ in range(7)]
        assert statuses == [502] * 5 + [503] * 2
        again = await router.metric('jervis_router_retries_total{reason="keepalive"}')
        assert len(backend.requests) == 5 + again
        backend.script = wire.answering()
        backend.probing.set()
        await router.until(lambda s: s["backends"][0]["circuit"] == "HalfOpen")
        assert (await router.send(raw)).status == 200
        assert (await router.backend("raw"))["circuit"] == "Closed"


async def test_connection_that_closes_as_it_is_used_again_costs_nobody_an_error(tmp_path: Path) -> None:
    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(wire.plain(b"{}"))
        # Takes the next request and answers it by closing: what a keep-alive timeout looks like from outside.
        await reader.readuntil(b"\r\n\r\n")
        return False

    async with process.before(tmp_path, script) as (router, backend):
        for _ in range(10):
            assert (await router.post("/api/embed", {"model": "m", "input": "x"})).status == 200
        assert len(backend.requests) == 10
        assert (await router.backend("raw"))["circuit"] == "Closed"


async def test_what_is_not_repeatable_is_sent_once(tmp_path: Path) -> None:
    opened = process.before_two(tmp_path, wire.closing(), wire.answering(), extra_paths='["/api/unheard-of"]')
    async with opened as (router, first, second):
        answer = await router.post("/api/unheard-of", {"model": "m"})
        assert answer.status == 502
        assert (len(first.requests), len(second.requests)) == (1, 0)


async def test_silent_backend_is_given_up_per_phase(tmp_path: Path) -> None:
    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if message.json()["prompt"] == "begin":
            writer.write(wire.chunked_head() + wire.chunk(_BREAK))
        await reader.read()

    # The first byte of what begins comes in time on a busy machine, too.
    settings = {"first_byte_seconds": "2", "between_chunks_seconds": "0.5"}
    async with process.before(tmp_path, script, **settings) as (router, _):
        never = await router.post("/api/generate", {"model": "m", "prompt": "never"})
        assert (never.status, "silent for 2 s" in never.json()["error"]) == (504, True)
        begun = await router.post("/api/generate", {"model": "m", "prompt": "begin"})
        assert (begun.clean, begun.status) == (False, 200)
        assert "silent for 0.5 s" in begun.body.decode().splitlines()[-1]


async def test_client_that_takes_nothing_is_cut_off_and_the_backend_was_never_drowned(tmp_path: Path) -> None:
    sent = 0

    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(wire.chunked_head())
        while True:
            writer.write(wire.chunk(b"x" * 65536))
            await writer.drain()
            sent += 65536

    async with (
        process.before(tmp_path, script, client_stall_seconds="0.5") as (router, _),
        wire.connected(router.port) as (_, writer),
    ):
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # the stub lacks what every transport has
        writer.write(wire.post("/api/generate", {"model": "m"}))
        await waiting.eventually(
            lambda: router.metric("jervis_router_client_stalls_total"), good=lambda count: count == 1
        )
        await router.until(lambda s: s["backends"][0]["inFlight"] == 0)
        # Socket buffers of two connections and twice the router's high-water mark, not the whole flood.
        assert sent < 32 << 20
        assert (await router.backend("raw"))["circuit"] == "Closed"


# The circuit breaker and the retry budget: pure, with the time as an argument.


def _state(breaker: Breaker) -> Circuit:
    """Read anew: mypy takes an attribute for unchanged by calls."""
    return breaker.state


def test_failures_in_a_row_open_it_and_a_success_between_does_not() -> None:
    breaker = Breaker(threshold=3)
    assert [breaker.failed(0), breaker.failed(0), breaker.succeeded(), breaker.failed(0)] == [False] * 4
    assert not breaker.failed(0)
    assert _state(breaker) is Circuit.CLOSED
    assert breaker.failed(0)
    assert _state(breaker) is Circuit.OPEN


def test_a_late_success_or_failure_does_not_move_an_open_one() -> None:
    breaker = Breaker(threshold=1)
    breaker.failed(0)
    assert not breaker.succeeded()
    assert not breaker.failed(1)
    assert breaker.state is Circuit.OPEN


def test_a_probe_after_the_pause_half_opens_and_the_next_request_decides() -> None:
    breaker = Breaker(threshold=3, pause=5, longest=15)
    moment = 0.0
    for pause in (5, 10, 15, 15):
        while _state(breaker) is not Circuit.OPEN:
            breaker.failed(moment)
        assert not breaker.probed(moment + pause - 0.1)
        assert breaker.probed(moment + pause)
        assert _state(breaker) is Circuit.HALF_OPEN
        moment += pause
    assert breaker.succeeded()
    assert breaker.state is Circuit.CLOSED
    for _ in range(3):
        breaker.failed(moment)
    assert breaker.probed(moment + 5)  # from the start again


def test_budget_is_a_share_of_the_requests_with_a_small_reserve() -> None:
    budget = Budget(share=0.1, reserve=3)
    assert [budget.spend() for _ in range(4)] == [True, True, True, False]
    spent = 0
    for _ in range(1000):
        budget.earn()
        spent += budget.spend()
    assert 98 <= spent <= 100
