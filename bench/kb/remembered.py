"""`python -m bench.kb.remembered FILE`: an Ollama that only embeds, and computes no text twice.

Vectors of the real all-MiniLM-L6-v2 are kept in FILE (SQLite), so that a run needs no model for what another has
embedded: what is measured then is everything but the model. The vector of a copy (`bench.kb.copies`) is that of its
original turned by a fixed random direction of the copy's own, to a cosine of about 0.7.
Prints its URL when it listens, and ends when its standard input does: with whoever started it.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sqlite3
import sys
from pathlib import Path

import numpy as np
import orjson
from aiohttp import web
from numpy.typing import NDArray

from bench.kb import copies
from tests.fakes.ollama.embedding import session

_TOKENS = 256
_BODY = 64 << 20
Vector = NDArray[np.float32]


class Memory:
    """Vectors by text; one caller at a time."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("CREATE TABLE IF NOT EXISTS e (k BLOB PRIMARY KEY, v BLOB)")
        self._session: session.Session | None = None

    def vectors(self, texts: list[str]) -> NDArray[np.float32]:
        """One row of length 1 per text."""
        rows = np.stack([self._vector(text) for text in texts])
        return np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)

    def _vector(self, text: str) -> Vector:
        source = copies.original(text)
        vector = self._known(source)
        if source == text:
            return vector
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
        noise = np.random.default_rng(seed).standard_normal(len(vector)).astype(np.float32)
        return vector / np.linalg.norm(vector) + noise / np.linalg.norm(noise)

    def _known(self, text: str) -> Vector:
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
        row = self._database.execute("SELECT v FROM e WHERE k = ?", (key,)).fetchone()
        if row is not None:
            return np.frombuffer(row[0], np.float16).astype(np.float32)
        if self._session is None:
            self._session = session.Session(1, _TOKENS)
        made = self._session.embed([text])[0][0]
        self._database.execute("INSERT OR REPLACE INTO e VALUES (?, ?)", (key, made.astype(np.float16).tobytes()))
        return np.asarray(made, np.float32)


def application(memory: Memory) -> web.Application:
    """`POST /api/embed` as Ollama answers it."""

    async def embed(request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        document = {"model": body["model"], "embeddings": memory.vectors(list(body["input"]))}
        return web.Response(
            body=orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY), content_type="application/json"
        )

    made = web.Application(client_max_size=_BODY)
    made.router.add_post("/api/embed", embed)
    return made


async def _serve(path: Path, port: int) -> None:
    runner = web.AppRunner(application(Memory(path)))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    host, taken = runner.addresses[0][:2]
    sys.stdout.write(f"http://{host}:{taken}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m bench.kb.remembered")
    parser.add_argument("file", type=Path)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    asyncio.run(_serve(options.file, options.port))


if __name__ == "__main__":
    main()
