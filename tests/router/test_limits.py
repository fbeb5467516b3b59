"""Memory and processor are bounded, whatever clients send."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from router import memory, report, scheduler
from router.backends import book
from tests import waiting
from tests.router import apiserver, process, wire

_CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
MIB = 1 << 20


def test_shares_follow_from_the_limit(tmp_path: Path) -> None:
    assert memory.limit(tmp_path) is None
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(f"{1 << 63}\n")
    assert memory.limit(tmp_path) is None
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(f"{512 * MIB}\n")
    assert memory.limit(tmp_path) == 512 * MIB
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.limit(tmp_path) is None
    (tmp_path / "memory.max").write_text(f"{256 * MIB}\n")
    assert memory.limit(tmp_path) == 256 * MIB
    for limit in (128 * MIB, 256 * MIB, 512 * MIB, 4096 * MIB, None):
        shares = memory.shares(limit)
        assert shares.buffered + shares.unsent + shares.connections * (40 << 10) <= (limit or 4096 * MIB)
        assert shares.connections >= 256


async def test_a_hang_up_is_seen_although_another_request_was_sent_ahead(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def hold(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if message.json()["messages"]:
            await reader.read()
            ended.set()

    async with process.before(tmp_path, hold) as (router, backend):
        async with wire.connected(router.port) as (_, writer):
            writer.write(wire.post("/api/chat", _CHAT) + wire.post("/api/chat", _CHAT) * 2)
            await waiting.eventually(lambda: len(backend.requests), good=lambda number: number == 1)
        async with asyncio.timeout(waiting.PATIENCE):
            await ended.wait()
        await router.until(lambda s: s["backends"][0]["inFlight"] == 0)


async def test_requests_sent_ahead_are_answered_in_order_up_to_a_bound(tmp_path: Path) -> None:
    go = asyncio.Event()
    async with (
        process.before(tmp_path, wire.gated(go, wire.echo)) as (router, _),
        asyncio.timeout(waiting.PATIENCE),
        wire.connected(router.port) as (reader, writer),
    ):
        writer.write(b"".join(wire.post("/api/chat", {**_CHAT, "n": n}) for n in range(100)))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
        go.set()
        answers = [(await wire.read_answer(reader)).json()["n"] for _ in range(33)]
        assert answers == list(range(33))
        assert await reader.read() == b""


async def test_answers_that_are_not_read_stop_the_next_ones(tmp_path: Path) -> None:
    async with process.running(tmp_path, [process.spec("raw", "http://127.0.0.1:1")]) as router:
        before = _resident(router)
        async with wire.connected(router.port) as (_, writer):
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # the stub lacks what every transport has
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(3):
                    while True:
                        writer.write(wire.request("GET", "/router/openapi.json") * 30)
                        await writer.drain()
                        await asyncio.sleep(0.002)
            assert _resident(router) - before < 32 * MIB
            assert (await router.status())["active"]


async def test_the_clients_that_take_least_are_cut_off_when_all_leave_too_much(tmp_path: Path) -> None:
    piece = random.Random(1).randbytes(256 << 10)

    async def flood(message: wire.Message, reader: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(wire.chunked_head())
        with suppress(ConnectionError):
            while True:
                writer.write(wire.chunk(piece))
                await writer.drain()

    limit = str(128 * MIB)  # leaves 4 MiB for what clients do not take
    async with process.before(tmp_path, flood, memory_limit_bytes=limit) as (router, _):
        links = [await asyncio.open_connection("127.0.0.1", router.port) for _ in range(60)]
        try:
            for _, writer in links:
                writer.transport.pause_reading()  # type: ignore[attr-defined]  # as above
                writer.write(wire.post("/api/chat", _CHAT))
            assert (
                0 < await waiting.eventually(lambda: router.metric("jervis_router_client_stalls_total"), good=bool) < 60
            )
        finally:
            for _, writer in links:
                writer.close()


async def test_a_body_that_dribbles_is_given_up_although_it_makes_progress(tmp_path: Path) -> None:
    settings = {"client_read_seconds": "1", "client_bytes_per_second": "1000"}
    async with (
        process.running(tmp_path, [process.spec("raw", "http://127.0.0.1:1")], **settings) as router,
        wire.connected(router.port) as (reader, writer),
    ):
        writer.write(b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")

        async def dribble() -> None:
            with suppress(ConnectionError):
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.05)

        dribbling = asyncio.create_task(dribble())
        try:
            async with asyncio.timeout(waiting.PATIENCE):
                assert (await wire.read_head(reader)).status == 408
        finally:
            dribbling.cancel()


async def test_connections_are_bounded_and_idle_ones_make_room(tmp_path: Path) -> None:
    specs = [process.spec("raw", "http://127.0.0.1:1")]
    async with process.running(tmp_path, specs, max_connections="8") as router:
        idle = [await asyncio.open_connection("127.0.0.1", router.port) for _ in range(8)]
        more = []

        async def closed() -> int:
            """One more comes each time: those of the last second are not idle yet, and stay while there is room."""
            more.append(await asyncio.open_connection("127.0.0.1", router.port))
            assert (await router.get("/healthz")).status == 200
            return sum(reader.at_eof() for reader, _ in idle)

        await waiting.eventually(closed, good=lambda number: number == 8)
        assert [await reader.read() for reader, _ in idle] == [b""] * 8
        for _, writer in (*idle, *more):
            writer.close()


async def test_liveness_is_answered_above_the_bound_and_requests_are_not(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.silent, max_connections="4") as (router, _):
        busy = [await asyncio.open_connection("127.0.0.1", router.port) for _ in range(4)]
        for _, writer in busy:
            writer.write(wire.post("/api/chat", _CHAT))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 4)
        assert (await router.get("/healthz")).status == 200
        assert (await router.post("/api/chat", _CHAT)).status == 503
        assert await router.metric("jervis_router_connections_refused_total") >= 2
        for _, writer in busy:
            writer.close()


async def test_a_name_that_is_no_unicode_is_answered(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, _):
        raw = wire.request("POST", "/api/chat", b'{"model":"\\ud800"}')
        assert (await router.send(raw)).status == 404


async def test_questions_about_a_model_do_not_all_reach_the_backend_at_once(tmp_path: Path) -> None:
    go, running, most = asyncio.Event(), 0, 0

    async def count(message: wire.Message, reader: Any, writer: asyncio.StreamWriter) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running >= 64:
            go.set()
        await go.wait()
        running -= 1
        writer.write(wire.plain(b"{}"))

    async with process.before(tmp_path, count) as (router, _):
        asks = [router.post("/api/show", {"model": "m"}) for _ in range(300)]
        assert {a.status for a in await asyncio.gather(*asks)} == {200}
        assert most == 64


async def test_a_document_of_the_backend_is_read_up_to_a_bound(tmp_path: Path) -> None:
    async def endless(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(wire.chunked_head("application/json"))
        while True:
            writer.write(wire.chunk(b" " * 65536))
            await writer.drain()

    async with wire.backend(endless, probes=False) as backend:
        specs = [process.spec("raw", backend.url)]
        async with process.running(tmp_path, specs, probe_timeout_seconds="60") as router:
            document = await router.until(lambda s: "bytes" in s["backends"][0]["reason"])
            assert document["backends"][0]["healthy"] is False


# Tokens.


async def test_a_large_body_is_not_read_before_its_sender_is_known(tmp_path: Path) -> None:
    go, asked = asyncio.Event(), asyncio.Event()

    async def review(request: web.Request) -> web.StreamResponse:
        asked.set()
        await go.wait()
        return web.json_response({"status": {"authenticated": False}})

    async with (
        apiserver.serving(review, tmp_path) as kubeconfig,
        process.running(
            tmp_path, [process.spec("raw", "http://127.0.0.1:1")], token_review="true", kubeconfig=kubeconfig
        ) as router,
    ):
        before = _resident(router)
        async with wire.connected(router.port) as (reader, writer):
            length = 60 << 20
            head = (
                f"POST /api/chat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer who\r\nContent-Length: {length}\r\n\r\n"
            )
            writer.write(head.encode())
            await asked.wait()
            writer.write(b" " * length)
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await writer.drain()
            assert _resident(router) - before < 16 * MIB
            go.set()
            async with asyncio.timeout(waiting.PATIENCE):
                assert (await wire.read_head(reader)).status == 401


# One document for all.


def _report(cost: float) -> tuple[report.Report, list[float]]:
    """One whose documents take `cost` seconds of processor time each, and its clock."""
    spent, clock = itertools.count(), [0.0]
    state = report.Report(
        book.Book(now=lambda: 0.0),
        scheduler.Scheduler(),
        now=lambda: 0.0,
        spent=lambda: cost * next(spent),
        clock=lambda: clock[0],
    )
    return state, clock


def test_everyone_who_asks_at_one_moment_gets_the_same_document() -> None:
    state, clock = _report(0.25)
    first = state.document()  # took 0.25 s, so it is shared for 2.5 s
    assert all(state.document() is first for _ in range(5))
    assert state.text() is state.text()
    clock[0] += 2.5
    second = state.document()
    assert second is not first
    state.draining = True
    assert state.document() is not second


def test_a_document_that_costs_little_is_made_for_each_who_asks_unless_they_take_an_older_one() -> None:
    state, clock = _report(0.0005)
    first = state.document()
    assert state.document(age=1) is first
    second = state.document()
    assert second is not first, "a client sees what its last request did"
    clock[0] += 1
    assert state.document(age=1) is not second


# The attack.


def _resident(router: process.Router) -> int:
    lines = Path(f"/proc/{router.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _hostile() -> list[bytes]:
    """Requests that each took the router more memory or time than it has."""
    name = b'{"model":"%s"}' % (b"n" * (4 << 20))
    bomb = b'{"model":"m","a":[' + b"{}," * (4 << 18) + b"{}]}"
    deep = b'{"model":"m","a":' + b"[" * 500_000 + b"]" * 500_000 + b"}"
    many = b'{"model":"m","options":{' + b",".join(b'"num_ctx":%d' % n for n in range(300_000)) + b"}}"
    image = b'{"model":"m","images":["' + b"A" * (16 << 20) + b'"]}'
    head = b"GET /api/tags HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 6_000 + b"\r\n"
    ahead = wire.request("GET", "/metrics") * 4_000
    return [*(wire.request("POST", "/api/chat", body) for body in (name, bomb, deep, many, image)), head, ahead]


async def _strike(port: int, raw: bytes) -> None:
    with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(raw)
                await writer.drain()
                while await reader.read(65536):
                    pass
            finally:
                writer.close()


async def test_under_attack_it_keeps_to_the_limit_of_the_chart_and_goes_on_streaming(tmp_path: Path) -> None:
    """256 MiB is what the chart of the demonstration gives it. The stream has a token every 20 ms and must never stand
    still for long enough to lose a Lease."""

    async def stream(message: wire.Message, reader: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(wire.chunked_head())
        with suppress(ConnectionError):
            if b'"stream-me"' not in message.body:
                writer.write(wire.chunk(b'{"done":true}\n') + wire.chunk(b""))
                await writer.drain()
                return
            for n in range(400):
                writer.write(wire.chunk(b'{"n":%d}\n' % n))
                await writer.drain()
                await asyncio.sleep(0.02)
            writer.write(wire.chunk(b""))
            await writer.drain()

    limit = 256 * MIB
    opened = process.before(tmp_path, stream, memory_limit_bytes=str(limit), client_read_seconds="5")
    async with opened as (router, _):
        chat = json.dumps({**_CHAT, "tag": "stream-me"}).encode()
        watched = asyncio.create_task(router.send(wire.request("POST", "/api/chat", chat)))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
        strikes = [_strike(router.port, raw) for raw in _hostile() for _ in range(12)]
        await asyncio.gather(*strikes)
        answer = await watched
        assert answer.clean
        assert [json.loads(line)["n"] for line in answer.body.splitlines()] == list(range(400))
        assert router.process.poll() is None
        assert _resident(router) < limit
        assert (await router.post("/api/chat", _CHAT)).status == 200


async def test_it_listens_on_both_families(tmp_path: Path) -> None:
    async with process.running(tmp_path, [process.spec("raw", "http://127.0.0.1:1")], host="") as router:
        for address in ("127.0.0.1", "::1"):
            try:
                reader, writer = await asyncio.open_connection(address, router.port)
            except OSError:
                assert address == "::1"  # this machine has no IPv6
                continue
            writer.write(wire.request("GET", "/healthz"))
            assert (await wire.read_answer(reader)).status == 200
            writer.close()
