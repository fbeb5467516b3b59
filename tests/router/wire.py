"""HTTP/1.1 on bare sockets, from both sides: for what a polite library would not do or not show."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests import waiting

Headers = list[tuple[str, str]]
Fields = Sequence[tuple[str, str]]


@dataclass
class Message:
    """A request or an answer as it came. `clean` is False when the connection ended before the message did."""

    start: str
    headers: Headers
    body: bytes = b""
    chunks: list[bytes] = field(default_factory=list)
    clean: bool = True

    @property
    def status(self) -> int:
        """Status code of an answer."""
        return int(self.start.split(" ")[1])

    @property
    def path(self) -> str:
        """Target of a request."""
        return self.start.split(" ")[1]

    def header(self, name: str) -> str | None:
        """The first header of that name."""
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


async def read_head(reader: asyncio.StreamReader) -> Message:
    """Start line and headers. Raises IncompleteReadError at the end of the connection."""
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    start, *lines = text[:-4].split("\r\n")
    return Message(start, [(n, v.strip()) for n, _, v in (line.partition(":") for line in lines)])


async def read_body(reader: asyncio.StreamReader, message: Message, *, until_eof: bool) -> None:
    """Fill `message` with what follows its head."""
    try:
        if (message.header("Transfer-Encoding") or "") == "chunked":
            while size := int(await reader.readuntil(b"\r\n"), 16):
                message.chunks.append(await reader.readexactly(size))
                await reader.readexactly(2)
            await reader.readexactly(2)
        elif (length := message.header("Content-Length")) is not None:
            message.chunks.append(await reader.readexactly(int(length)))
        elif until_eof:
            message.chunks.append(await reader.read())
    except asyncio.IncompleteReadError as error:
        message.chunks.append(error.partial if message.header("Content-Length") else b"")
        message.clean = False
    except ConnectionError:
        message.clean = False
    message.body = b"".join(message.chunks)


def request(method: str, path: str, body: bytes = b"", headers: Fields = ()) -> bytes:
    """A request's bytes; Host and Content-Length are added."""
    lines = [f"{method} {path} HTTP/1.1", "Host: router.test", *(f"{n}: {v}" for n, v in headers)]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def bearer(token: str) -> Headers:
    """The field that shows a token."""
    return [("Authorization", f"Bearer {token}")]


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client's connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):  # the other side was faster
            await writer.wait_closed()


async def ask(port: int, raw: bytes) -> Message:
    """Send one request on a new connection and read the whole answer."""
    async with asyncio.timeout(waiting.PATIENCE), connected(port) as (reader, writer):
        writer.write(raw)
        await writer.drain()
        return await read_answer(reader, head_only=raw.startswith(b"HEAD"))


async def read_answer(reader: asyncio.StreamReader, *, head_only: bool = False) -> Message:
    """A whole answer, or what came of it."""
    answer = await read_head(reader)
    if not head_only and answer.status not in (204, 304):
        await read_body(reader, answer, until_eof=True)
    return answer


def post(path: str, document: Any, headers: Fields = ()) -> bytes:
    """A JSON POST."""
    return request("POST", path, json.dumps(document).encode(), [("Content-Type", "application/json"), *headers])


Script = Callable[[Message, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool | None]]


class Backend:
    """An Ollama server of bare sockets: answers probes properly and leaves everything else to `script`, or probes too.

    The script gets the request, read whole, and may do with the connection what it likes; a true return keeps the
    connection for the next request, otherwise it is closed.
    """

    def __init__(self, script: Script, models: Sequence[str], *, probes: bool = True) -> None:
        self.script = script
        self._probes = probes
        self.models = list(models)
        self.ps: list[Any] = []
        self.mute = False
        """It answers nothing any more, not even probes; connections are accepted by the kernel."""
        self.probing = asyncio.Event()
        """Probes are answered while it is set."""
        self.probing.set()
        self.requests: list[Message] = []
        self.connections = 0
        self.probes = 0
        """How many of them were answered."""
        self.port = 0
        self.server: asyncio.Server | None = None
        self._links: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._writers: weakref.WeakSet[asyncio.StreamWriter] = weakref.WeakSet()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection came. It is booked before anything is awaited, so that `close` finds it whenever it comes."""
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer))
        self._links[task] = writer
        self._writers.add(writer)
        task.add_done_callback(self._links.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                message = await read_head(reader)
                await read_body(reader, message, until_eof=False)
                if self.mute:
                    await asyncio.Event().wait()
                if self._probes and (document := self._probe(message.path)) is not None:
                    await self.probing.wait()
                    body = json.dumps(document).encode()
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                        % (len(body), body)
                    )
                    self.probes += 1
                    continue
                self.requests.append(message)
                if not await self.script(message, reader, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def end(self) -> None:
        """It is away from now on, with every connection."""
        assert self.server is not None
        self.server.close()
        await self.close()

    async def close(self) -> None:
        """End every connection, those that the kernel has accepted and the loop has not yet shown us included."""
        for _ in range(3):
            await asyncio.sleep(0)
        links = dict(self._links)
        for task in links:
            task.cancel()
        for writer in self._writers:
            # A task that never began closes nothing, and what its peer never reads keeps a closed transport open.
            writer.transport.abort()
        await asyncio.gather(*links, return_exceptions=True)
        await asyncio.sleep(0)  # transports say goodbye in the next round of the loop

    def _probe(self, path: str) -> Any:
        listed = {"models": [{"name": m, "model": m, "modified_at": "2026-01-01T00:00:00Z"} for m in self.models]}
        return {"/api/version": {"version": "0.0.0-raw"}, "/api/tags": listed, "/api/ps": {"models": self.ps}}.get(path)


@asynccontextmanager
async def backend(
    script: Script, models: Sequence[str] = ("m:latest",), port: int = 0, *, probes: bool = True
) -> AsyncIterator[Backend]:
    """A Backend for the length of the block."""
    served = Backend(script, models, probes=probes)
    server = await asyncio.start_server(served.accept, "127.0.0.1", port, limit=1 << 26)
    served.server = server
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        await served.end()


def plain(body: bytes, content_type: str = "application/json", status: str = "200 OK") -> bytes:
    """An answer with a length."""
    return f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def chunked_head(content_type: str = "application/x-ndjson") -> bytes:
    """The head of a stream."""
    return f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    """One chunk of a stream; empty data makes the last one."""
    return b"%x\r\n%s\r\n" % (len(data), data)


_NOTHING = plain(b"{}")


def answering(raw: bytes = _NOTHING) -> Script:
    """Every request gets this answer, and the connection is kept."""
    return replying(lambda message: raw)


def replying(reply: Callable[[Message], bytes]) -> Script:
    """Every request gets an answer that follows from it, and the connection is kept."""

    async def script(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(reply(message))
        return True

    return script


def closing(*pieces: bytes) -> Script:
    """Every request gets these pieces, then its connection is closed."""

    async def script(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
        await writer.drain()

    return script


def in_turn(*answers: bytes) -> Script:
    """Every request gets the next of the answers, then its connection is closed."""
    left = iter(answers)

    async def script(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(next(left))
        await writer.drain()

    return script


def gated(gate: asyncio.Event, script: Script | None = None) -> Script:
    """What the script does, or an answer with `{}`, once the gate is open."""
    then = script or answering()

    async def waits(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool | None:
        await gate.wait()
        return await then(message, reader, writer)

    return waits


def pausing(gate: asyncio.Event) -> Script:
    """A stream that has begun, and ends once the gate is open."""

    async def script(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(chunked_head() + chunk(b'{"done":false}\n'))
        await gate.wait()
        writer.write(chunk(b'{"done":true}\n') + chunk(b""))
        return True

    return script


echo = replying(lambda message: plain(message.body or b"{}"))
"""Every request gets its own body back."""


async def silent(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """No answer; it sees that its client hangs up."""
    await reader.read()


async def deaf(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """No answer; it does not see that its client hangs up."""
    await asyncio.Event().wait()
