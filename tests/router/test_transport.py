"""Connections for many calls behave as httpx's own: each case runs on both. Those for few calls may wait for long."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from router import client
from tests import ports, waiting
from tests.router import wire


@pytest.fixture(name="http", params=["httpx", "aiohttp"])
async def _http(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    transport = client.transport() if request.param == "aiohttp" else None
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(transport=transport, verify=False, trust_env=False, limits=limits) as made:
        yield made


async def _arrived(server: wire.Backend, number: int) -> None:
    await waiting.eventually(lambda: len(server.requests), good=lambda count: count == number)


async def test_what_is_sent_and_what_comes_back(http: httpx.AsyncClient) -> None:
    body = '{"ä": 1}'.encode()
    packed = gzip.compress(b"small")
    head = b"HTTP/1.1 201 Created\r\nX-Two: a\r\nX-Two: b\r\nSet-Cookie: c=d\r\nContent-Encoding: gzip\r\n"
    raw = head + b"Content-Length: %d\r\n\r\n" % len(packed) + packed
    async with wire.backend(wire.answering(raw)) as server:
        for _ in range(2):
            answer = await http.post(
                server.url + "/a%2Fb/ä?q=1%202&q=3", content=body, headers={"X-Ollama-Priority": "0", "x-own": "own"}
            )
            assert (answer.status_code, answer.content) == (201, b"small")
            assert answer.headers.get_list("x-two") == ["a", "b"]
        first, second = server.requests
        assert server.connections == 1
        assert (first.path, first.body) == ("/a%2Fb/%C3%A4?q=1%202&q=3", body)
        assert (first.header("X-Ollama-Priority"), first.header("x-own")) == ("0", "own")
        assert first.header("Host") == f"127.0.0.1:{server.port}"
        assert [first.header(name) for name in ("Content-Type", "Cookie")] == [None, None]
        assert (second.header("Cookie"), second.header("Content-Length")) == ("c=d", str(len(body)))


async def test_a_password_in_the_address_is_sent_as_such_and_nowhere_else(http: httpx.AsyncClient) -> None:
    async with wire.backend(wire.closing(wire.plain(b"{}"))) as server:
        await http.get(f"http://jervis:pass%20word@127.0.0.1:{server.port}/x")
        [seen] = server.requests
        assert (seen.path, seen.header("Host")) == ("/x", f"127.0.0.1:{server.port}")
        assert seen.header("Authorization") == "Basic " + base64.b64encode(b"jervis:pass word").decode()


async def test_no_redirect_is_followed_and_a_get_has_no_body(http: httpx.AsyncClient) -> None:
    raw = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    async with wire.backend(wire.closing(raw)) as server:
        answer = await http.get(server.url)
        assert (answer.status_code, answer.content, len(server.requests)) == (302, b"", 1)
        assert [server.requests[0].header(name) for name in ("Content-Length", "Transfer-Encoding")] == [None, None]


async def test_three_hundred_calls_at_once_wait_for_no_connection(http: httpx.AsyncClient) -> None:
    gate = asyncio.Event()
    async with wire.backend(wire.gated(gate)) as server:
        calls = [asyncio.create_task(http.post(server.url, content=b"x", timeout=90)) for _ in range(300)]
        await _arrived(server, 300)
        gate.set()
        assert [(await call).status_code for call in calls] == [200] * 300


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"", httpx.RemoteProtocolError),
        (b"what?\r\n\r\n", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes.", httpx.RemoteProtocolError),
        (wire.chunked_head() + b"5\r\nabc", httpx.RemoteProtocolError),
    ],
    ids=["nothing", "no HTTP", "short of its length", "short of its chunk"],
)
async def test_an_answer_that_breaks_off_is_named(
    http: httpx.AsyncClient, raw: bytes, error: type[httpx.TransportError]
) -> None:
    async with wire.backend(wire.closing(raw)) as server:
        with pytest.raises(error) as caught:
            await http.post(server.url, content=b"x")
        assert not isinstance(caught.value, httpx.TimeoutException)
        assert str(caught.value)


async def test_silence_is_a_timeout_before_the_answer_and_inside(http: httpx.AsyncClient) -> None:
    async def silent(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if message.path == "/inside":
            writer.write(wire.chunked_head() + wire.chunk(b"begun"))
        await reader.read()
        return False

    async with wire.backend(silent) as server:
        for path in ("/before", "/inside"):
            with pytest.raises(httpx.ReadTimeout):
                await http.post(server.url + path, content=b"x", timeout=httpx.Timeout(0.2, connect=5))


async def test_where_nobody_listens_and_what_is_no_address(http: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.ConnectError):
        await http.get(f"http://127.0.0.1:{ports.free()}")
    for text in ("router:11430/x", "/path", "ftp://127.0.0.1/x"):
        with pytest.raises(httpx.UnsupportedProtocol):
            await http.get(text)


@pytest.mark.parametrize("path", ["/before", "/inside", "/unread"])
async def test_a_caller_that_is_cancelled_hangs_up(http: httpx.AsyncClient, path: str) -> None:
    gone = asyncio.Event()

    async def listening(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if path != "/before":
            writer.write(wire.chunked_head() + wire.chunk(b"begun"))
        if path == "/unread":
            call.cancel()  # before the loop hands what came to the caller: the kernel says reset in place of end
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            assert path != "/before"
        gone.set()
        return False

    async with wire.backend(listening) as server:
        call = asyncio.create_task(http.post(server.url + path, content=b"x"))
        if path != "/unread":
            await _arrived(server, 1)
            call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(waiting.PATIENCE):
            await gone.wait()


async def test_a_stream_that_is_left_early_hangs_up_and_the_next_call_works(http: httpx.AsyncClient) -> None:
    gone = asyncio.Event()

    async def play(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(wire.chunked_head() + wire.chunk(b"begun"))
        if message.path == "/short":
            writer.write(wire.chunk(b""))
            return True
        await reader.read()
        gone.set()
        return False

    async with wire.backend(play) as server:
        async with http.stream("POST", server.url + "/long", content=b"x") as answer:
            async for piece in answer.aiter_raw():
                assert piece == b"begun"
                break
        async with asyncio.timeout(waiting.PATIENCE):
            await gone.wait()
        assert (await http.post(server.url + "/short", content=b"x")).content == b"begun"


@pytest.mark.parametrize("made", [client.few, client.transport])
async def test_the_kernel_asks_whether_the_other_side_is_still_there(
    made: Callable[[], httpx.AsyncBaseTransport],
) -> None:
    """Column `tr` of /proc/net/tcp: 02 while a keepalive timer runs."""
    gate = asyncio.Event()

    async def timers() -> list[str]:
        text = await asyncio.to_thread(Path("/proc/net/tcp").read_text)
        rows = [line.split() for line in text.splitlines()[1:]]
        return [row[5][:2] for row in rows if row[2].endswith(f":{server.port:04X}") and row[3] == "01"]

    answers = wire.gated(gate, wire.closing(wire.plain(b"{}")))
    async with wire.backend(answers) as server, httpx.AsyncClient(transport=made()) as http:
        call = asyncio.create_task(http.get(server.url, timeout=None))  # it ends with the test
        await waiting.eventually(timers, good=lambda seen: seen == ["02"])
        gate.set()
        assert (await call).status_code == 200


@pytest.mark.parametrize(("given", "asked"), [("", True), ("127.0.0.1", False)])
async def test_a_command_calls_through_the_proxy_of_its_environment(
    monkeypatch: pytest.MonkeyPatch, given: str, asked: bool
) -> None:
    path = wire.replying(lambda message: wire.plain(message.path.encode()))
    async with wire.backend(path) as proxy, wire.backend(path) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", given)
        url = f"{server.url}/x"
        async with httpx.AsyncClient(transport=client.few(url)) as http:
            assert (await http.get(url)).text == (url if asked else "/x")
        assert len(proxy.requests) == asked
        # A Job's services are in the cluster: no proxy hears of them.
        async with httpx.AsyncClient(transport=client.few()) as http:
            assert (await http.get(url)).text == "/x"
