"""A stream that has received signs of life goes on at the router that decides next, under the head that it has."""

from __future__ import annotations

import asyncio
import functools
import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests import ports, waiting
from tests.router import process, wire

pytestmark = pytest.mark.apiserver

_ASKS = [("X-Jervis-Progress", "true"), ("X-Request-Id", "mine"), ("X-Ollama-Priority", "P3")]
_EVENTS = (b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n', b"data: [DONE]\n\n")
_LINES = (
    b'{"model":"m","message":{"role":"assistant","content":"hi"},"done":false}\n',
    b'{"model":"m","message":{"role":"assistant","content":""},"done":true}\n',
)
_OFTEN = {"progress_seconds": "0.05"}


async def _play(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """The answer to one request."""
    lines = message.path == "/api/chat"
    writer.write(wire.chunked_head("application/x-ndjson" if lines else "text/event-stream"))
    for piece in _LINES if lines else _EVENTS:
        writer.write(wire.chunk(piece))
        await writer.drain()
    writer.write(wire.chunk(b""))
    return True


class Client:
    """A client of one stream: its only head, and every piece of the body as it came."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.body = b""
        self.clean = False

    async def head(self) -> wire.Message:
        """The head of the answer."""
        return await wire.read_head(self._reader)

    async def until(self, text: bytes) -> None:
        """Read on until a piece has the text."""
        async with asyncio.timeout(waiting.PATIENCE):
            while text not in (piece := await self._piece()):
                assert piece, f"the stream ends: {self.body[-2000:]!r}"

    async def rest(self) -> None:
        """Read to the end."""
        async with asyncio.timeout(waiting.PATIENCE):
            try:
                while await self._piece():
                    pass
                self.clean = True
            except (asyncio.IncompleteReadError, ConnectionError):
                self.clean = False

    def said(self) -> list[bytes]:
        """The lines that are no signs."""
        lines = (line for line in self.body.split(b"\n") if line and not line.startswith(b": "))
        return [line for line in lines if b'"progress"' not in line]

    def errors(self) -> list[bytes]:
        """The lines that report an error."""
        return [line for line in self.said() if b'"error"' in line]

    async def _piece(self) -> bytes:
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        piece = (await self._reader.readexactly(size + 2))[:-2]
        self.body += piece
        return piece


class Pair:
    """Two routers with one Lease before one backend with one slot, whose answers begin when the gate is open; `first`
    decides."""

    def __init__(
        self, first: process.Router, second: process.Router, backend: wire.Backend, gate: asyncio.Event
    ) -> None:
        self.first, self.second, self.backend, self.gate = first, second, backend, gate
        self._frozen: set[process.Router] = set()

    @asynccontextmanager
    async def waiting(self, path: str = "/v1/chat/completions") -> AsyncIterator[Client]:
        """A stream that waits at `first` for the slot that another one has, and has received a sign."""
        body = {"model": "m", "stream": True, "messages": []}
        async with self.occupied(self.first, wire.post(path, body)), AsyncExitStack() as links:
            while True:
                reader, writer = await links.enter_async_context(wire.connected(self.first.port))
                writer.write(wire.post(path, body, _ASKS))
                client = Client(reader)
                head = await client.head()
                if head.status != 503:
                    break
                await wire.read_body(reader, head, until_eof=True)
                assert b"standing by" in head.body
                await self._decide(self.first)
            assert (head.status, head.header("X-Request-Id")) == (200, "mine")
            await client.until(b"queued, position 1")
            yield client

    def freeze(self, router: process.Router) -> None:
        """It does nothing any more, and keeps its connections."""
        self._frozen.add(router)
        router.process.send_signal(signal.SIGSTOP)

    def thaw(self, router: process.Router) -> None:
        """It goes on."""
        self._frozen.remove(router)
        router.process.send_signal(signal.SIGCONT)

    async def replace(self) -> None:
        """The first one does nothing until the second one decides in its place, and nothing after that."""
        self.freeze(self.first)
        await self.takes_over(self.second)

    async def takes_over(self, router: process.Router) -> None:
        """Wait until it decides, and its backend is up."""
        await waiting.eventually(functools.partial(_code, router), good=lambda seen: seen == 200)
        await router.until(lambda s: s["backends"][0]["healthy"])

    @asynccontextmanager
    async def occupied(self, router: process.Router, raw: bytes) -> AsyncIterator[None]:
        """A request that has the only slot. It is sent again when the router has lost its Lease, as it may on a busy
        machine; no other refusal is right."""

        async def send() -> wire.Message:
            while True:
                await self._decide(router)
                async with wire.connected(router.port) as (reader, writer):
                    writer.write(raw)
                    answer = await wire.read_answer(reader)
                if b"standing by" not in answer.body:
                    return answer

        sent = asyncio.create_task(send())
        running = asyncio.create_task(router.until(lambda s: s["backends"][0]["inFlight"] == 1))
        try:
            await asyncio.wait((sent, running), return_when=asyncio.FIRST_COMPLETED)
            assert not sent.done(), sent.result()
            await running
            yield
        finally:
            for task in (sent, running):
                task.cancel()
            await asyncio.gather(sent, running, return_exceptions=True)

    async def _decide(self, router: process.Router) -> None:
        """Have `router` decide, also when the other one has taken its Lease: that one never gives it back by itself."""
        (other,) = {self.first, self.second} - {router}
        while await _code(router) != 200:
            if other not in self._frozen and await _code(other) == 200:
                self.freeze(other)
                await self.takes_over(router)
                self.thaw(other)
            await asyncio.sleep(0.05)


async def _code(router: process.Router) -> int:
    """200 of the router that decides, 503 of the other."""
    return (await router.get("/activez")).status


@asynccontextmanager
async def _waiting(
    directory: Path, kubeconfig: Path, lease: str, path: str = "/v1/chat/completions", **second: str
) -> AsyncIterator[tuple[Pair, Client]]:
    """A pair, and a client whose stream waits at the first of it."""
    given = {"kubeconfig": str(kubeconfig), "namespace": "default", "lease": lease, "address": "127.0.0.1", **_OFTEN}
    gate = asyncio.Event()
    async with wire.backend(wire.gated(gate, _play)) as backend:
        specs = [process.spec("raw", backend.url, numParallel=1)]
        async with process.running(directory, specs, port=str(ports.free()), **given) as one:
            pair = Pair(one, one, backend, gate)
            await pair.takes_over(one)
            async with process.running(directory, specs, port=str(ports.free()), **given, **second) as two:
                pair.second = two
                async with pair.waiting(path) as client:
                    yield pair, client


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
async def test_it_goes_on_at_the_next_router_when_the_first_one_drains(
    tmp_path: Path, kubeconfig: Path, path: str
) -> None:
    async with _waiting(tmp_path, kubeconfig, f"drains-{path.count('/')}", path) as (pair, client):
        pair.first.terminate()
        # The second router's own signs, of a request that it has sent.
        await client.until(b"sent to raw, which has not begun to answer")
        pair.gate.set()
        await client.rest()
        assert client.clean
        whole = b"".join(_LINES if path == "/api/chat" else _EVENTS)
        assert client.body.endswith(whole)
        assert client.said() == [line for line in whole.split(b"\n") if line]
        assert client.body.count(b"HTTP/1.1") == 0
        assert len(pair.backend.requests) == 2, "no request was sent twice"
        assert await pair.first.ended() == 0


async def test_it_goes_on_at_the_next_router_when_the_first_one_loses_its_lease(
    tmp_path: Path, kubeconfig: Path
) -> None:
    async with _waiting(tmp_path, kubeconfig, "loses") as (pair, client):
        await pair.replace()
        pair.thaw(pair.first)
        await client.until(b"sent to raw, which has not begun to answer")
        pair.gate.set()
        await client.rest()
        assert client.clean
        assert client.body.endswith(b"".join(_EVENTS))
        assert client.said() == [line for line in b"".join(_EVENTS).split(b"\n") if line]
        assert len(pair.backend.requests) == 2
        # The first router serves on as a standby, and the connection is free for the next request.
        assert (await pair.first.get("/activez")).status == 503


async def test_a_next_router_that_is_down_is_shown_in_the_stream(tmp_path: Path, kubeconfig: Path) -> None:
    async with _waiting(tmp_path, kubeconfig, "down") as (pair, client):
        await pair.replace()
        pair.second.process.kill()
        pair.second.process.wait()
        pair.thaw(pair.first)
        await client.rest()
        assert not client.clean, "it is not taken for the end of an answer"
        assert client.said() == client.errors()
        (error,) = client.errors()
        assert "another router decides now" in json.loads(error.removeprefix(b"data: "))["error"]["message"]
        assert client.body.endswith(error + b"\n\n")
        pair.gate.set()


async def test_what_the_next_router_refuses_is_one_error_in_the_stream(tmp_path: Path, kubeconfig: Path) -> None:
    async with _waiting(tmp_path, kubeconfig, "refuses", deadlines="[600, 900, 1800, 1800, 1]") as (pair, client):
        await pair.replace()
        urgent = wire.post("/v1/chat/completions", {"model": "m", "stream": True}, [("X-Ollama-Priority", "P0")])
        async with pair.occupied(pair.second, urgent):
            pair.thaw(pair.first)
            await client.rest()
        assert not client.clean
        assert len(client.errors()) == 1, client.body[-2000:]
        assert b"waited for a slot" in client.errors()[0]
        pair.gate.set()


async def test_a_next_router_that_dies_on_the_way_is_one_error_in_the_stream(tmp_path: Path, kubeconfig: Path) -> None:
    async with _waiting(tmp_path, kubeconfig, "dies") as (pair, client):
        pair.first.terminate()
        await client.until(b"sent to raw, which has not begun to answer")
        pair.second.process.kill()
        await client.rest()
        assert not client.clean
        assert client.said() == client.errors()
        assert len(client.errors()) == 1
        pair.gate.set()
