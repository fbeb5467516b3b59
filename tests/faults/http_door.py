"""The door of an HTTP/1.1 partner: kube-apiserver or the knowledge base.

Requests carry a Content-Length (all clients of the operator do so); answers have that or are chunked. A watch is passed
on chunk by chunk, and its `timeoutSeconds` can be shortened: any server may end a watch early, and with it the time
after which a watch counts as dead can be shortened honestly.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from tests.faults.door import GONE, CutError, Door, Link
from tests.faults.faults import Fate, Fault
from tests.faults.sites import Call

_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
_STATUS = {Fault.CONFLICT: 409, Fault.THROTTLED: 429, Fault.BUSY: 503, Fault.LOST_ANSWER: 500}


@dataclass(frozen=True, slots=True)
class Message:
    """A request or an answer as it was on the wire."""

    line: str
    headers: dict[str, str]
    head: bytes
    body: bytes = b""

    @property
    def status(self) -> int:
        """Of an answer."""
        return int(self.line.split(" ", 2)[1])

    @property
    def chunked(self) -> bool:
        """Its body has no length."""
        return "chunked" in self.headers.get("transfer-encoding", "")


async def head(reader: asyncio.StreamReader) -> Message:
    """Up to the blank line; raises IncompleteReadError at the connection's end."""
    raw = await reader.readuntil(b"\r\n\r\n")
    line, *rest = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
    return Message(line, headers, raw)


async def body(reader: asyncio.StreamReader, message: Message) -> bytes:
    """The body as it is on the wire, chunk marks included."""
    if not message.chunked:
        return await reader.readexactly(int(message.headers.get("content-length", "0")))
    parts = []
    while True:
        parts.append(await chunk(reader))
        if parts[-1].startswith(b"0\r\n"):
            return b"".join(parts)


async def chunk(reader: asyncio.StreamReader) -> bytes:
    """One chunk with its marks."""
    size = await reader.readuntil(b"\r\n")
    return size + await reader.readexactly(int(size.split(b";")[0], 16) + 2)


async def _chunk_or_cut(reader: asyncio.StreamReader) -> bytes:
    """One chunk, or b"" where the connection broke."""
    try:
        return await chunk(reader)
    except GONE:
        return b""


def failure(code: int, *, reason: str = "", retry_after: int = 0) -> bytes:
    """An answer as the apiserver words its refusals."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason or _REASONS[code],
        "message": f"injected fault {code}",
    }
    said = json.dumps(document).encode()
    lines = [
        f"HTTP/1.1 {code} {HTTPStatus(code).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(said)}",
    ]
    if retry_after:
        lines.append(f"Retry-After: {retry_after}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + said


def gone() -> bytes:
    """The event that tells a watcher that its resourceVersion is too old, as a chunk."""
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired"}
    line = json.dumps({"type": "ERROR", "object": {**said, "message": "too old resource version: 1 (2)"}}).encode()
    return b"%x\r\n%s\n\r\n" % (len(line) + 1, line)


@dataclass
class HttpDoor(Door):
    """`classify(method, target, body)` tells what a request is. `watch_seconds` shortens every watch; 0 does not.

    A silent watch breaks after `silent_seconds`, unless the client has left it by then.
    A request that is held goes on its way once `let_go` is set, whoever still waits for its answer; `arrived` says what
    it was told. `speak(name)` lets the user of a task say something. No watch reports what is deleted in
    namespace `deaf_to`.
    """

    classify: Callable[[str, str, bytes], Call] | None = None
    watch_seconds: int = 0
    silent_seconds: float = 600.0
    speak: Callable[[str], Awaitable[None]] | None = None
    deaf_to: str = ""
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: list[tuple[Call, int]] = field(default_factory=list)
    _held: set[asyncio.Task[None]] = field(default_factory=set)

    async def _exchange(self, link: Link) -> bool:
        request = await head(link.reader)
        method, target, _ = request.line.split(" ")
        content = await body(link.reader, request)
        assert self.classify is not None
        call, since = self.classify(method, target, content), time.monotonic()
        self.journal.saw(call)
        fate = self.decide(call)
        if call.site.verb == "WATCH":
            return await self._watch(link, request, fate)
        status = 0
        try:
            status = await self._request(link, request, content, call, fate)
        finally:
            self.journal.wrote(call, since, status)
        return True

    async def _request(self, link: Link, request: Message, content: bytes, call: Call, fate: Fate | None) -> int:
        """Forward and answer; the status that the client was told."""
        if self.strike(fate, Fault.KILL_BEFORE, Fault.RESET_BEFORE):
            raise CutError
        if self.strike(fate, Fault.LATENCY):
            assert fate is not None
            await asyncio.sleep(fate.seconds)
        if self.strike(fate, Fault.CONFLICT, Fault.THROTTLED, Fault.BUSY):
            return await self._refuse(link, call, fate)
        if self.strike(fate, Fault.HELD):
            held = asyncio.create_task(self._later(request, content, call))
            self._held.add(held)
            await link.reader.read(1)  # until its sender gives up or is gone
            raise CutError
        if self.strike(fate, Fault.LAST_WORDS):
            assert self.speak is not None
            await self.speak(call.name)
        near, far = await self._behind(link)
        far.write(request.head + content)
        answer = await head(near)
        rest = await body(near, answer)
        if self.strike(fate, Fault.KILL_COMMITTED, Fault.RESET_AFTER):
            raise CutError
        if self.strike(fate, Fault.LOST_ANSWER):
            return await self._refuse(link, call, fate)
        link.writer.write(answer.head + rest)
        await link.writer.drain()
        if self.strike(fate, Fault.KILL_ANSWERED):
            raise CutError
        return answer.status

    async def _later(self, request: Message, content: bytes, call: Call) -> None:
        """The network delivers it after all."""
        await self.let_go.wait()
        host, port = self.target
        near, far = await asyncio.open_connection(host, port, ssl=self.tls, limit=2**20)
        far.write(request.head + content)
        answer = await head(near)
        await body(near, answer)
        far.close()
        self.arrived.append((call, answer.status))

    async def shut(self) -> None:
        """Refuse and drop, what is held included."""
        for one in self._held:
            one.cancel()
        await asyncio.gather(*self._held, return_exceptions=True)
        await super().shut()

    @staticmethod
    async def _refuse(link: Link, call: Call, fate: Fate | None) -> int:
        assert fate is not None
        code = _STATUS[fate.fault]
        exists = code == 409 and call.site.verb == "POST"
        retry_after = max(1, round(fate.seconds)) if code in (429, 503) else 0
        link.writer.write(failure(code, reason="AlreadyExists" if exists else "", retry_after=retry_after))
        await link.writer.drain()
        return code

    async def _watch(self, link: Link, request: Message, fate: Fate | None) -> bool:
        if self.strike(fate, Fault.KILL_BEFORE, Fault.RESET_BEFORE):
            raise CutError
        if self.strike(fate, Fault.THROTTLED):
            link.writer.write(failure(429, retry_after=1))
            return True
        near, far = await self._behind(link)
        far.write(self._shortened(request.head))
        answer = await head(near)
        link.writer.write(answer.head)
        if not answer.chunked:
            link.writer.write(await body(near, answer))
            return True
        if self.strike(fate, Fault.KILL_COMMITTED, Fault.KILL_ANSWERED):
            raise CutError
        client_left = asyncio.create_task(link.reader.read(1))
        try:
            await self._stream(link, near, client_left, fate)
        finally:
            client_left.cancel()
        return False

    async def _stream(
        self, link: Link, near: asyncio.StreamReader, client_left: asyncio.Task[bytes], fate: Fate | None
    ) -> None:
        """Chunks until either side ends, or until its fate is due."""
        loop = asyncio.get_running_loop()
        due = None if fate is None else loop.time() + fate.seconds
        coming: asyncio.Task[bytes] | None = None
        try:
            while True:
                coming = coming or asyncio.create_task(_chunk_or_cut(near))
                timeout = None if due is None else max(0.0, due - loop.time())
                done, _ = await asyncio.wait(
                    {coming, client_left}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
                )
                if client_left in done:
                    return
                if not done:
                    await self._break(link, client_left, fate)
                    return
                received, coming = coming.result(), None
                if not received:
                    raise CutError
                if self.deaf_to and self._deletion(received):
                    self.journal.did(Fate(Fault.UNREPORTED))
                    continue
                link.writer.write(received)
                await link.writer.drain()
                if received.startswith(b"0\r\n"):
                    return
        finally:
            if coming is not None:
                coming.cancel()

    def _deletion(self, received: bytes) -> bool:
        """A whole DELETED event of an object of that namespace. The apiserver sends each event as one chunk."""
        event = received.split(b"\r\n", 1)[1]
        named = b'"namespace":"%s"' % self.deaf_to.encode()
        return event.startswith(b'{"type":"DELETED"') and event.endswith(b"\n\r\n") and named in event

    async def _break(self, link: Link, client_left: asyncio.Task[bytes], fate: Fate | None) -> None:
        """The fate of a watch that runs is due."""
        if self.strike(fate, Fault.SILENT):
            await asyncio.wait({client_left}, timeout=self.silent_seconds)
            return
        if self.strike(fate, Fault.GONE):
            link.writer.write(gone() + b"0\r\n\r\n")
            await link.writer.drain()
            return
        if self.strike(fate, Fault.RESET_AFTER):
            # In the middle of an event.
            link.writer.write(b'40\r\n{"type":"MODIF')
            await link.writer.drain()
        raise CutError

    def _shortened(self, raw: bytes) -> bytes:
        if not self.watch_seconds:
            return raw
        line, rest = raw.split(b"\r\n", 1)
        return re.sub(rb"timeoutSeconds=[0-9.]+", b"timeoutSeconds=%d" % self.watch_seconds, line) + b"\r\n" + rest
