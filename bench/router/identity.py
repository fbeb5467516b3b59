"""Is an answer through the router byte for byte the backend's own? Many mixed requests, each sent both ways.

    python -m bench.router.identity --requests 100000

The backend here answers from a random generator seeded by the request's body, so that the same request gets the same
answer twice: Ollama's and OpenAI's shapes, statuses (models that are missing, paths that its version lacks, runners
that failed, a proxy's own errors, "busy"), UTF-8 torn at any byte, chunks of any size, plain lengths and
endings by the connection's end. Compared are the request as it arrives, and the answer's status, type and body.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
MODEL = "mixed:latest"
_TEXT = "Žluťoučký kůň 🐎 úpěl ďábelské ódy. 日本語\\n\u2028\x7f"
_STATUSES = ("200 OK",) * 12 + ("400 Bad Request", "413 Content Too Large", "429 Too Many Requests")
_PATHS = (
    "/api/generate", "/api/chat", "/api/embed", "/api/embeddings", "/api/show", "/v1/chat/completions",
    "/v1/completions", "/v1/embeddings", "/api/experimental?x=%20y",
)  # fmt: skip

# What a server of an older version answers on a path that it does not have: gin's own words.
_UNKNOWN = ("/v1/responses", "/v1/messages")
_UNKNOWN_SHARE, _FAILED_SHARE, _MISSING_EVERY, _BUSY_EVERY = 0.02, 0.04, 97, 1999
_FAILED = (
    "llama runner process has terminated: exit status 2",
    'option "num_ctx" must be of type integer',
    "model requires more system memory (8.1 GiB) than is available (7.3 GiB)",
    "",  # of a proxy before Ollama
)


class Seen(NamedTuple):
    """What came of one request."""

    status: str
    content_type: str
    body: bytes
    clean: bool


class Backend:
    """Answers by seed; remembers nothing but a digest of each request's body. It lists a model more for each request
    that it will answer with "model not found": a router forgets a model after such an answer."""

    def __init__(self, requests: int) -> None:
        names = [MODEL, *(_missing(number) for number in range(0, requests, _MISSING_EVERY))]
        listed = {"models": [{"name": name, "model": name} for name in names]}
        self._probes = {
            "/api/version": b'{"version":"0.0.0-identity"}',
            "/api/tags": json.dumps(listed).encode(),
            "/api/ps": b'{"models":[]}',
        }
        self.bodies: Counter[bytes] = Counter()
        self._links: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, noted before anything is awaited: `close` ends it whether it was served yet or not."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._links[task] = writer
        task.add_done_callback(self._links.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head, body = await _message(reader)
                path = head[0].split(" ")[1]
                if path in self._probes:
                    await _write(writer, _plain("200 OK", "application/json", self._probes[path]), None)
                    continue
                self.bodies[body] += 1
                chance = random.Random(body)
                error = _error(path, json.loads(body), chance)
                keep, pieces = (True, [error]) if error else _answer(path, chance)
                for piece in pieces:
                    await _write(writer, piece, chance)
                if not keep:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def close(self) -> None:
        """End every connection, those that the kernel has accepted and the loop has not yet shown us included."""
        for _ in range(3):
            await asyncio.sleep(0)
        links = dict(self._links)
        for task, writer in links.items():
            task.cancel()
            writer.close()
        await asyncio.gather(*links, return_exceptions=True)
        await asyncio.sleep(0)  # transports end in the next round of the loop


def _plain(status: str, content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _missing(number: int) -> str:
    return f"missing-{number}:latest"


def _error(path: str, document: dict[str, Any], chance: random.Random) -> bytes | None:
    """An error as Ollama, or what stands before it, answers it; None for a request that is served."""
    number = document["number"]
    if path in _UNKNOWN:
        return _plain("404 Not Found", "text/plain", b"404 page not found")
    if document["model"] == _missing(number):
        return _plain("404 Not Found", "application/json", _wrapped(path, f"model '{document['model']}' not found"))
    if number % _BUSY_EVERY == _BUSY_EVERY - 1:
        busy = "server busy, please try again.  maximum pending requests exceeded"
        return _plain("503 Service Unavailable", "application/json", _wrapped(path, busy))
    if chance.random() > _FAILED_SHARE:
        return None
    text = chance.choice(_FAILED)
    if not text:
        return _plain("502 Bad Gateway", "text/html", b"<html><h1>502 Bad Gateway</h1></html>")
    return _plain("500 Internal Server Error", "application/json; charset=utf-8", _wrapped(path, text))


def _wrapped(path: str, text: str) -> bytes:
    if not path.startswith("/v1/"):
        return json.dumps({"error": text}).encode()
    return json.dumps({"error": {"message": text, "type": "api_error", "param": None, "code": None}}).encode()


def _answer(path: str, chance: random.Random) -> tuple[bool, list[bytes]]:
    """Whether the connection stays, and the answer in pieces that respect neither lines nor characters."""
    status = chance.choice(_STATUSES)
    body = _body(path, chance)
    kind = "text/event-stream" if path.startswith("/v1/") else "application/x-ndjson"
    content_type = chance.choice((kind, "application/json", "application/json; charset=utf-8", "text/plain"))
    way = chance.random()
    if way < 0.4 or not status.startswith("200"):
        return True, [_plain(status, content_type, body)]
    if way < 0.5:
        return False, [f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n\r\n".encode() + body]
    flow = [f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()]
    while body:
        size = chance.choice((1, 2, 3, 7, 64, 500, 4000))
        flow.append(b"%x\r\n%s\r\n" % (len(body[:size]), body[:size]))
        body = body[size:]
    whole = b"".join([*flow, b"0\r\n\r\n"])
    cuts = sorted(chance.sample(range(1, len(whole)), min(chance.randint(0, 6), len(whole) - 1)))
    return True, [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def _body(path: str, chance: random.Random) -> bytes:
    if chance.random() < 0.05:
        return chance.randbytes(chance.randint(0, 5000))
    records = [
        json.dumps(
            {"model": MODEL, "response": _TEXT * chance.randint(0, 4), "n": n}, ensure_ascii=chance.random() < 0.3
        )
        for n in range(chance.randint(1, 12))
    ]
    if path.startswith("/v1/"):
        return "".join(f"data: {record}\n\n" for record in records).encode()
    return "\n".join(records).encode()


async def _write(writer: asyncio.StreamWriter, piece: bytes, chance: random.Random | None) -> None:
    writer.write(piece)
    await writer.drain()
    if chance is not None and chance.random() < 0.5:
        await asyncio.sleep(0)


async def _message(reader: asyncio.StreamReader) -> tuple[list[str], bytes]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    length = next((int(line[15:]) for line in lines if line.lower().startswith("content-length:")), 0)
    return lines, await reader.readexactly(length)


def request(number: int) -> bytes:
    """The request of that number."""
    chance = random.Random(number)
    path = chance.choice(_UNKNOWN if chance.random() < _UNKNOWN_SHARE else _PATHS)
    model = chance.choice((MODEL, "Mixed", "library/mixed"))
    if number % _MISSING_EVERY == 0:
        model = _missing(number)
    document: dict[str, Any] = {"model": model, "number": number}
    if chance.random() < 0.5:
        document["prompt"] = _TEXT * chance.randint(0, 20)
    if chance.random() < 0.3:
        document |= {"keep_alive": chance.choice((0, -1, "5m")), "options": {"num_ctx": 2048, "seed": number}}
    text = json.dumps(document, ensure_ascii=chance.random() < 0.5, indent=chance.choice((None, 2)))
    body = text.encode("utf-8") + b" " * chance.randint(0, 3)
    head = f"POST {path} HTTP/1.1\r\nHost: identity\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Client:
    """One connection that is opened again whenever the other side ended it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, raw: bytes) -> Seen:
        """Send and read the whole answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        reader, writer = self._streams
        writer.write(raw)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        body, clean = await self._body(reader, headers)
        if (
            not clean
            or headers.get("connection") == "close"
            or not {"content-length", "transfer-encoding"} & headers.keys()
        ):
            self.close()
        return Seen(lines[0].split(" ", 1)[1], headers.get("content-type", ""), body, clean)

    async def _body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> tuple[bytes, bool]:
        if (length := headers.get("content-length")) is not None:
            return await reader.readexactly(int(length)), True
        if "transfer-encoding" not in headers:
            return await reader.read(), True
        pieces = []
        try:
            while size := int(await reader.readuntil(b"\r\n"), 16):
                pieces.append(await reader.readexactly(size))
                await reader.readexactly(2)
            await reader.readexactly(2)
        except asyncio.IncompleteReadError:
            return b"".join(pieces), False
        return b"".join(pieces), True

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def compare(through: int, direct: int, numbers: range, *, connections: int = 16) -> list[str]:
    """Send every request to both ports; returns what differed, at best nothing."""
    different: list[str] = []
    todo = iter(numbers)

    async def worker() -> None:
        one, two = Client(through), Client(direct)
        try:
            for number in todo:
                raw = request(number)
                a, b = await one.ask(raw), await two.ask(raw)
                if a != b:
                    different.append(f"request {number}: {a} instead of {b}"[:600])
        finally:
            one.close()
            two.close()

    await asyncio.gather(*(worker() for _ in range(connections)))
    return different


async def _main(requests: int) -> dict[str, Any]:
    backend = Backend(requests)
    server = await asyncio.start_server(backend.accept, "127.0.0.1", 0, limit=1 << 24)
    port = server.sockets[0].getsockname()[1]
    specs = json.dumps([{"name": "b", "url": f"http://127.0.0.1:{port}", "numParallel": 4096}])
    environment = os.environ | {"GPU_BACKENDS": specs, "JERVIS_ROUTER_PORT": "0", "JERVIS_ROUTER_HOST": "127.0.0.1"}
    environment["JERVIS_ROUTER_EXTRA_PATHS"] = '["/api/experimental"]'
    router = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "router", cwd=ROOT, env=environment, stderr=subprocess.PIPE
    )
    try:
        assert router.stderr is not None
        while (line := await router.stderr.readline()) and b'"serving"' not in line:
            continue
        front = int(json.loads(line)["port"])
        different = await compare(front, port, range(requests))
        changed = [body for body, times in backend.bodies.items() if times != 2]
        return {
            "requests": requests,
            "different": len(different),
            "changed_on_the_way": len(changed),
            "first": different[:5],
        }
    finally:
        router.terminate()
        await router.communicate()
        server.close()
        await backend.close()


def main() -> int:
    """0 when nothing differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    document = asyncio.run(_main(parser.parse_args().requests))
    print(json.dumps(document, indent=2))
    return 1 if document["different"] or document["changed_on_the_way"] else 0


if __name__ == "__main__":
    sys.exit(main())
