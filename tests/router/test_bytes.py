"""What a backend sends reaches the client byte for byte, and what a client sends reaches the backend."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.router import process, wire

_TEXT = "Žluťoučký kůň 🐎 úpěl ďábelské ódy — 日本語のテキスト\n"
_GENERATE = wire.post("/api/generate", {"model": "m", "prompt": "x"})


class Stage:
    """A raw backend whose next answer a test chooses, behind a router."""

    def __init__(self, router: process.Router, backend: wire.Backend) -> None:
        self.router = router
        self.backend = backend
        self.pieces: list[bytes] = []
        self.keep = False

    async def play(self, message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Write the pieces, giving each a chance to travel alone."""
        for piece in self.pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return self.keep

    async def answer(self, *pieces: bytes, to: bytes = _GENERATE) -> wire.Message:
        """What comes through the router when the backend answers a request with these pieces."""
        self.pieces = list(pieces)
        return await self.router.send(to)


@pytest.fixture(name="stage")
async def _stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async def silent(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        raise AssertionError("the script is set below")

    async with process.before(tmp_path, silent) as (router, backend):
        stage = Stage(router, backend)
        backend.script = stage.play
        yield stage


async def test_chunked_body_is_identical_whatever_its_boundaries(stage: Stage) -> None:
    for seed in range(60):
        chance = random.Random(seed)
        body = (_TEXT * chance.randint(1, 60)).encode() + chance.randbytes(chance.randint(0, 3000))
        answer = await stage.answer(*_torn(body, chance))
        assert answer.clean, seed
        assert answer.body == body, seed
        assert answer.status == 200
        assert answer.header("Content-Type") == "text/plain; charset=utf-8"


def _torn(body: bytes, chance: random.Random) -> list[bytes]:
    """A chunked answer in pieces that respect neither characters nor chunks."""
    pieces, rest = [], body
    while rest:
        size = min(len(rest), chance.choice((1, 2, 3, 7, 64, 1000, 8192)))
        pieces.append(wire.chunk(rest[:size]))
        rest = rest[size:]
    flow = wire.chunked_head("text/plain; charset=utf-8") + b"".join(pieces) + wire.chunk(b"")
    cuts = sorted(chance.sample(range(1, len(flow)), min(40, len(flow) - 1)))
    return [flow[a:b] for a, b in zip([0, *cuts], [*cuts, len(flow)], strict=True)]


async def test_status_type_and_body_with_a_length(stage: Stage) -> None:
    body = b'{"error":"as the backend says it \xff"}'
    for status in ("200 OK", "201 Created", "400 Bad Request", "404 Not Found", "503 Service Unavailable"):
        answer = await stage.answer(
            wire.plain(body, "application/json; charset=utf-8", status), to=wire.post("/api/show", {"model": "m"})
        )
        assert (answer.start, answer.body) == (f"HTTP/1.1 {status}", body)
        assert answer.header("Content-Type") == "application/json; charset=utf-8"
        assert answer.header("Content-Length") == str(len(body))


async def test_a_trailer_never_becomes_a_header(stage: Stage) -> None:
    trailers = b"0\r\nX-Late: 1\r\nContent-Type: text/html\r\nConnection: close, Content-Type\r\n\r\n"
    answer = await stage.answer(wire.chunked_head("text/plain") + wire.chunk(b"hello") + trailers)
    assert (answer.clean, answer.body, answer.header("Content-Type")) == (True, b"hello", "text/plain")
    assert answer.header("Content-Length") is None
    assert answer.header("X-Late") is None


async def test_body_that_ends_with_the_connection(stage: Stage) -> None:
    body = random.Random(1).randbytes(300_000)
    answer = await stage.answer(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n", body)
    assert answer.clean
    assert answer.body == body


async def test_nothing_is_lost_or_doubled_when_the_client_is_slower_than_the_backend(stage: Stage) -> None:
    chance = random.Random(4)
    body = chance.randbytes(24 << 20)
    cuts = [0, *sorted(chance.sample(range(1, len(body)), 900)), len(body)]
    chunks = b"".join(wire.chunk(body[a:b]) for a, b in itertools.pairwise(cuts))
    stage.pieces = [wire.chunked_head("application/octet-stream"), chunks, wire.chunk(b"")]
    async with wire.connected(stage.router.port) as (reader, writer):
        writer.write(_GENERATE)
        for _ in range(3):  # let everything between here and there fill up
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # the stub lacks what every transport has
            await asyncio.sleep(0.1)
            writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
            await asyncio.sleep(0)
        answer = await wire.read_answer(reader)
    assert answer.clean
    assert len(answer.body) == len(body)
    assert answer.body == body


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "br", "Zstd"])
async def test_an_answer_encoded_unasked_goes_to_no_client(stage: Stage, coding: str) -> None:
    body = random.Random(2).randbytes(5000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 5000\r\n\r\n"
    answer = await stage.answer(
        head.encode() + body, to=wire.post("/api/generate", {"model": "m"}, [("Accept-Encoding", "gzip")])
    )
    assert answer.status == 502
    assert b"which was not asked for" in answer.body
    assert answer.header("Content-Encoding") is None
    assert stage.backend.requests[-1].header("Accept-Encoding") is None


async def test_an_answer_that_says_it_is_plain_passes(stage: Stage) -> None:
    answer = await stage.answer(b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}")
    assert (answer.status, answer.body) == (200, b"{}")


async def test_a_backend_shows_no_page_as_the_routers_own(stage: Stage) -> None:
    fields = (
        b"Set-Cookie: a=b", b"Content-Type: text/html", b"Content-Length: 4", b"X-Own: 1",
    )  # fmt: skip
    answer = await stage.answer(b"\r\n".join((b"HTTP/1.1 200 OK", *fields, b"", b"<p/>")))
    assert (answer.status, answer.body, answer.header("X-Own")) == (200, b"<p/>", "1")
    assert answer.header("Set-Cookie") is None
    assert answer.header("Content-Security-Policy") == "sandbox"
    assert answer.header("X-Content-Type-Options") == "nosniff"


async def test_answers_without_a_body(stage: Stage) -> None:
    answer = await stage.answer(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (answer.status, answer.body, answer.header("Transfer-Encoding")) == (204, b"", None)
    answer = await stage.answer(
        b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n", to=wire.request("HEAD", "/v1/models/m")
    )
    assert (answer.status, answer.header("Content-Length")) == (200, "17")


async def test_interim_answer_is_not_the_answer(stage: Stage) -> None:
    answer = await stage.answer(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", wire.plain(b'{"done":true}'))
    assert (answer.status, answer.body) == (200, b'{"done":true}')


async def test_to_http_1_0_no_chunks(stage: Stage) -> None:
    stage.pieces = [wire.chunked_head() + wire.chunk(b"a\n") + wire.chunk(b"b\n") + wire.chunk(b"")]
    raw = _GENERATE.replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    answer = await stage.router.send(raw)
    assert answer.body == b"a\nb\n"
    assert answer.header("Transfer-Encoding") is None


async def test_request_reaches_the_backend_untouched_but_for_its_hygiene(stage: Stage) -> None:
    stage.pieces = [wire.plain(b"{}")]
    body = b'{"prompt":"\xc5\xbdlu\xc5\xa5\\ud83d","Model":"M:Latest" , "options":{}}  trailing'
    await stage.router.send(
        wire.request(
            "POST",
            "/api/generate?a=%20b&a=c",
            body,
            [
                ("content-type", "text/plain"),
                ("X-Ollama-Priority", "0"),
                ("X-Ollama-Priority", "3"),
                ("X-Request-Id", "trace-7"),
                ("Connection", "keep-alive, X-Secret-Hop"),
                ("X-Secret-Hop", "1"),
                ("Keep-Alive", "timeout=5"),
                ("TE", "trailers"),
                ("X-Custom", "kept"),
                ("Authorization", "Bearer kept"),
            ],
        )
    )
    seen = stage.backend.requests[-1]
    assert seen.start == "POST /api/generate?a=%20b&a=c HTTP/1.1"
    assert seen.body == body
    assert seen.header("Host") == f"127.0.0.1:{stage.backend.port}"
    assert [n.lower() for n, _ in seen.headers if n.lower() not in ("host", "content-length")] == [
        "content-type",
        "x-custom",
        "authorization",
        "x-request-id",
    ]
    assert seen.header("X-Request-Id") == "trace-7"


async def test_answer_says_where_it_was_made_and_how_long_it_waited(stage: Stage) -> None:
    answer = await stage.answer(
        b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\nContent-Length: 2\r\n\r\n{}",
        to=wire.post("/api/chat", {"model": "m"}, [("X-Request-Id", "abc")]),
    )
    assert answer.header("X-Ollama-Router-Backend") == "raw"
    assert int(answer.header("X-Ollama-Router-Queue-Ms") or "-1") >= 0
    assert answer.header("X-Request-Id") == "abc"
    assert (answer.header("X-Hop"), answer.header("X-Kept")) == (None, "2")
    again = await stage.router.send(wire.post("/api/chat", {"model": "m"}))
    assert again.header("X-Request-Id") not in (None, "", "abc")


async def test_chunked_request_body_arrives_whole(stage: Stage) -> None:
    stage.pieces = [wire.plain(b"{}")]
    head = b"POST /api/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    await stage.router.send(head + wire.chunk(b'{"model":') + wire.chunk(b'"m"}') + wire.chunk(b""))
    seen = stage.backend.requests[-1]
    assert (seen.body, seen.header("Content-Length"), seen.header("Transfer-Encoding")) == (
        b'{"model":"m"}',
        "13",
        None,
    )


async def test_expectation_is_met_by_the_router(stage: Stage) -> None:
    stage.pieces = [wire.plain(b"{}")]
    async with wire.connected(stage.router.port) as (reader, writer):
        raw = wire.post("/api/chat", {"model": "m"}, [("Expect", "100-continue")])
        head, _, body = raw.partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        assert (await wire.read_head(reader)).status == 100
        writer.write(body)
        assert (await wire.read_head(reader)).status == 200
    assert stage.backend.requests[-1].header("Expect") is None


async def test_large_bodies_in_both_directions_and_the_limit(stage: Stage) -> None:
    answer_body = random.Random(3).randbytes(9 << 20)
    stage.pieces = [wire.plain(answer_body, "application/octet-stream")]
    raw = wire.post("/api/chat", {"model": "m", "images": ["A" * (24 << 20)]})
    answer = await stage.router.send(raw)
    assert answer.body == answer_body
    assert stage.backend.requests[-1].body == raw.partition(b"\r\n\r\n")[2]
    before = len(stage.backend.requests)
    head = b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % ((64 << 20) + 1)
    refused = await stage.router.send(head)
    assert refused.status == 413
    assert "larger than 67108864 bytes" in refused.json()["error"]
    assert len(stage.backend.requests) == before


async def test_connection_is_used_again_after_a_whole_answer(stage: Stage) -> None:
    stage.pieces, stage.keep = [wire.plain(b"{}")], True
    async with wire.connected(stage.router.port) as (reader, writer):
        for number in range(50):
            writer.write(wire.post("/api/embed", {"model": "m", "input": str(number)}))
            answer = await wire.read_answer(reader)
            assert (answer.status, answer.body) == (200, b"{}")
    assert [r.json()["input"] for r in stage.backend.requests] == [str(n) for n in range(50)]
    # One for the requests; probes have at most one of their own.
    assert stage.backend.connections <= 3
