"""A backend that costs next to nothing: answers from prepared bytes. A process of its own; argument: its port.

`/api/embed` gets 4 KB at once; `/api/generate` gets 100 tokens, 20 ms apart; `/v1/chat/completions` gets ten events at
once.
"""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop

TOKENS = 100
GAP = 0.02
_MODELS = {"models": [{"name": name, "model": name} for name in ("embed:latest", "chat:latest", "code:latest")]}
_DOCUMENTS = {b"/api/version": {"version": "0.0.0-bench"}, b"/api/tags": _MODELS, b"/api/ps": {"models": []}}


def _plain(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


_EMBED = _plain(json.dumps({"embeddings": [[round(n / 9700, 7) for n in range(384)]]}).encode())
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
_LINE = b'{"model":"chat:latest","response":" token","done":false}\n'
_TOKEN = b"%x\r\n%s\r\n" % (len(_LINE), _LINE)
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":" token"}}]}\n\n'
_EVENTS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + (b"%x\r\n%s\r\n" % (len(_EVENT), _EVENT)) * 10
    + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
)
_END = b'10\r\n{"done": true}  \r\n0\r\n\r\n'


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            at = lower.find(b"content-length:")
            if at >= 0:
                await reader.readexactly(int(lower[at + 15 : lower.index(b"\r\n", at)]))
            path = head.split(b" ", 2)[1]
            if path in _DOCUMENTS:
                writer.write(_plain(json.dumps(_DOCUMENTS[path]).encode()))
            elif path == b"/api/embed":
                writer.write(_EMBED)
            elif path == b"/v1/chat/completions":
                writer.write(_EVENTS)
            else:
                await _stream(writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def _stream(writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    writer.write(_HEAD)
    for number in range(1, TOKENS + 1):
        await asyncio.sleep(begun + number * GAP - loop.time())
        if writer.is_closing():
            raise ConnectionResetError("hung up")
        writer.write(_TOKEN)
    writer.write(_END)


async def _main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    server = await asyncio.start_server(_serve, "127.0.0.1", port, backlog=1024)
    print(json.dumps({"event": "listening", "port": server.sockets[0].getsockname()[1]}), file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main())
