"""A head that comes again is not parsed again: what the backend gets, and what is refused, is the same all the same."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from router.proxy.message import Request
from router.proxy.repeated import Repeated
from tests.router import process, wire


def _raw(body: bytes, *fields: str, length: str = "") -> bytes:
    head = ["POST /api/embed HTTP/1.1", "Host: x", *fields, f"Content-Length: {length or len(body)}", "Accept: */*"]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


_FIRST = _raw(b'{"model":"m"}', "User-Agent: test")


def _learned(raw: bytes = _FIRST, **special: bytes) -> Repeated:
    """As after the parser has read `raw`."""
    repeated = Repeated()
    fields = {name.replace("_", "-").encode(): value for name, value in special.items()}
    # It is asked for the head alone, so there is no connection to be named.
    repeated.learn(Request(None, b"POST", b"/api/embed", b"", {b"content-length": b"13"} | fields))  # type: ignore[arg-type]  # see above
    repeated.seen(raw)
    return repeated


@pytest.mark.parametrize("body", [b"", b"{}", b'{"model":"m"}', b"x" * 70_000])
def test_the_same_head_with_another_body_is_known(body: bytes) -> None:
    found = _learned().recall(_raw(body, "User-Agent: test"))
    assert found is not None
    assert (found[0].target, found[1]) == (b"/api/embed", body)


@pytest.mark.parametrize(
    "raw",
    [
        _raw(b"{}", "User-Agent: tost"),
        _raw(b"{}", "User-Agent: test", "X-Ollama-Priority: 0"),
        _raw(b"{}", "User-Agent: test", length="+2"),
        _raw(b"{}", "User-Agent: test", length="2 "),
        _raw(b"{}", "User-Agent: test", length="0x2"),
        _raw(b"{}", "User-Agent: test", length="3"),
        _raw(b"{}", "User-Agent: test", length="1"),
        _raw(b"{}", "User-Agent: test", length="00000000002"),
        _raw(b"{}", "User-Agent: test")[:-1],
        _raw(b"{}", "User-Agent: test") + _raw(b"{}", "User-Agent: test"),
        _raw(b"{}", "User-Agent: test")[:40],
        b"",
    ],
)
def test_anything_else_is_left_to_the_parser(raw: bytes) -> None:
    assert _learned().recall(raw) is None


@pytest.mark.parametrize("field", ["transfer_encoding", "expect", "upgrade", "te", "trailer"])
def test_a_head_that_changes_how_messages_are_read_is_not_remembered(field: str) -> None:
    assert _learned(**{field: b"x"}).recall(_FIRST) is None


def test_of_two_requests_in_one_piece_none_is_remembered() -> None:
    assert _learned(_FIRST + _FIRST).recall(_FIRST) is None


def test_a_client_whose_heads_always_differ_is_given_up() -> None:
    repeated = Repeated()
    for number in range(10):
        raw = _raw(b"{}", f"X-Request-Id: {number}")
        assert repeated.recall(raw) is None
        repeated.learn(Request(None, b"POST", b"/api/embed", b"", {b"content-length": b"2"}))  # type: ignore[arg-type]  # as above
        repeated.seen(raw)
    assert repeated.recall(raw) is None


def _sent(message: wire.Message) -> bytes:
    kept = [(n, v) for n, v in message.headers if n.lower() != "x-request-id"]
    return wire.plain(json.dumps([message.start, kept, message.body.decode()]).encode())


@pytest.fixture(name="port")
async def _port(tmp_path: Path) -> AsyncIterator[int]:
    """Of a router that knows one token, before a backend that answers with what it was sent."""
    tokens = process.tokens(tmp_path, {"name": "alice", "token": "alice-alice-alice"})
    async with process.before(tmp_path, wire.replying(_sent), tokens_file=tokens, max_body_bytes="65536") as (
        router,
        _,
    ):
        yield router.port


async def test_on_one_connection_everything_is_as_on_one_for_each(port: int) -> None:
    good, bad = "Authorization: Bearer alice-alice-alice", "Authorization: Bearer nobody-nobody-no"
    raws = [_raw(json.dumps({"model": "m", "input": "x" * n}).encode(), good) for n in (1, 2, 300, 2, 40_000, 1)]
    raws += [_raw(b'{"model":"m","n":%d}' % n, good, "X-Ollama-Priority: 0") for n in range(3)]
    raws += [_raw(b'{"model":"n"}', good), _raw(b'{"model":"m"}', good)]
    apart = [await wire.ask(port, raw) for raw in raws]
    async with wire.connected(port) as (reader, writer):
        for number, raw in enumerate(raws):
            writer.write(raw)
            answer = await wire.read_answer(reader)
            assert (answer.status, answer.body) == (apart[number].status, apart[number].body)
        # A whole request and a half, then the other half: the boundary is found again.
        writer.write(raws[0] + raws[1][:50])
        assert (await wire.read_answer(reader)).body == apart[0].body
        writer.write(raws[1][50:])
        assert (await wire.read_answer(reader)).body == apart[1].body
        # The same head with a token that is not known is another head, and a body that is too large is refused.
        writer.write(_raw(b'{"model":"m"}', bad))
        assert (await wire.read_answer(reader)).status == 401
    async with wire.connected(port) as (reader, writer):
        for size, status in ((20, 200), (20, 200), (65_537, 413)):
            writer.write(_raw(b'{"model":"m"}'.ljust(size), good))
            assert (await wire.read_answer(reader)).status == status
        assert await reader.read() == b""


async def test_a_compressed_body_is_decoded_each_time(port: int) -> None:
    fields = ("Authorization: Bearer alice-alice-alice", "Content-Encoding: gzip")
    async with wire.connected(port) as (reader, writer):
        for number in range(3):
            writer.write(_raw(gzip.compress(b'{"model":"m","n":%d}' % number), *fields))
            answer = await wire.read_answer(reader)
            assert answer.status == 200
            assert json.loads(answer.json()[2])["n"] == number
