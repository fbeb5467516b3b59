"""The services that the operator talks to, answering at once from prepared bytes: a knowledge base and an Ollama.

A content that starts with INFO is information only; anything else has to be worked on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator


def _plain(document: object) -> bytes:
    body = json.dumps(document).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head + body


def _reply(actionable: bool) -> bytes:
    hints = {
        "hasActionableContent": actionable,
        "isAssignedToMe": False,
        "hasFutureDeadline": False,
        "urgency": "normal",
        "reason": "by rule",
    }
    return _plain(
        {
            "sourceUrn": "bench",
            "replaced": False,
            "chunkIds": ["c1"],
            "nodeKeys": ["n1"],
            "edgeCount": 1,
            "summary": "A summary of one sentence.",
            "hints": hints,
        }
    )


_INFO, _WORK = _reply(False), _reply(True)
_EMPTY = {"waiting": 0, "byPriority": {}, "oldestSeconds": 0.0}
_DOCUMENTS = {
    b"/api/version": _plain({"version": "0.0.0-bench"}),
    b"/api/tags": _plain({"models": []}),
    b"/api/ps": _plain({"models": []}),
    b"/router/status": _plain({"lastUserP0": None, "backends": [], "queue": _EMPTY}),
}


@contextlib.asynccontextmanager
async def services() -> AsyncIterator[str]:
    """Serve both on one port of loopback; the base URL."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=1024)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            at = lower.find(b"content-length:")
            body = b""
            if at >= 0:
                body = await reader.readexactly(int(lower[at + 15 : lower.index(b"\r\n", at)]))
            path = head.split(b" ", 2)[1]
            if path == b"/api/v1/ingest/full":
                writer.write(_INFO if b'"content":"INFO' in body else _WORK)
            else:
                writer.write(_DOCUMENTS.get(path, _DOCUMENTS[b"/api/version"]))
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()
