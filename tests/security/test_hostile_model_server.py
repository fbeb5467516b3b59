"""A model server that answers with whatever it likes: router, clients and other servers stay as they are."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.clients import servers
from tests.router import process, wire

_MIB = 1 << 20
_HEAD = b"HTTP/1.1 200 OK\r\n"
ANSWERS = {
    "grows": servers.bomb(2),
    "says where to go": b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
    "two answers": _HEAD + b"Content-Length: 2\r\n\r\n{}" + _HEAD + b"Content-Length: 6\r\n\r\nsecond",
    "two lengths": _HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "length and chunks": _HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a head without an end": _HEAD + b"X: y\r\n" * 200_000,
    "a field of megabytes": _HEAD + b"X: " + b"y" * (4 * _MIB) + b"\r\nContent-Length: 0\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00" * 1000,
    "line breaks in a field": _HEAD + b"X-Own: a\rSet-Cookie: b=c\r\nContent-Length: 2\r\n\r\n{}",
}


async def _echo(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(wire.plain(b'{"done":true}'))
    return True


def _resident(pid: int) -> int:
    """Bytes of memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_hostile_answer_costs_its_own_request(tmp_path: Path, name: str) -> None:
    def to(backend: str) -> bytes:
        return wire.post("/api/generate", {"model": "m", "prompt": "x"}, [("X-Ollama-Router-Backend", backend)])

    async with servers.answering(ANSWERS[name]) as (number, heads), wire.backend(_echo) as honest:
        specs = [process.spec("hostile", f"http://127.0.0.1:{number}"), process.spec("honest", honest.url)]
        async with process.running(tmp_path, specs) as router:
            assert (await wire.ask(router.port, to("honest"))).status == 200
            before = _resident(router.process.pid)
            for _ in range(3):
                answer = await wire.ask(router.port, to("hostile"))
                assert answer.status in (200, 302, 500, 502, 503), answer.status
                assert answer.header("Set-Cookie") is None
                assert answer.header("Content-Encoding") is None
                assert b"second" not in answer.body
            assert _resident(router.process.pid) - before < 24 * _MIB
            assert (await wire.ask(router.port, to("honest"))).body == b'{"done":true}'
        assert not any("169.254" in head for head in heads)
