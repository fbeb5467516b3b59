"""A process whose graph file an older version wrote: it lives while it migrates, and ends when it is asked to."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests import ports
from tests.kb import waiting
from tests.kb.graph import old_files
from tests.kb.http import program
from tests.nursery import children

# A migration of some seconds, between which and the first answer there is much time on any machine.
_MENTIONS = 12_000
_AWAY = "127.0.0.1:1"


@asynccontextmanager
async def _started(folder: Path) -> AsyncIterator[tuple[children.Child, httpx.AsyncClient]]:
    """A process that has begun to answer, over the files of `folder`."""
    port = ports.free()
    settings = {
        "JERVIS_KB_HOST": "127.0.0.1",
        "JERVIS_KB_PORT": str(port),
        "JERVIS_KB_DATA_DIR": str(folder),
        "JERVIS_KB_ROUTER_URL": f"http://{_AWAY}",
        "JERVIS_KB_WEAVIATE_URL": f"http://{_AWAY}",
        "JERVIS_KB_MONGODB_URI": f"mongodb://{_AWAY}",
    }
    process = program.launch(folder / "kb.log", settings)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, verify=False) as http:

            async def answers() -> bool:
                try:
                    return (await http.get("/healthz")).is_success
                except httpx.TransportError:
                    return False

            await waiting.until(answers)
            yield process, http
    finally:
        process.kill()
        process.wait()


def _version(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(found)


async def test_it_lives_and_says_why_it_does_not_serve_yet(tmp_path: Path) -> None:
    old_files.write(tmp_path / "graph.sqlite", _MENTIONS)
    async with _started(tmp_path) as (_, http):
        for method, path in (("GET", "/readyz"), ("GET", "/servez"), ("GET", "/startedz"), ("POST", "/api/v1/ingest")):
            answer = await http.request(method, path)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5"), path
            assert answer.json()["error"]["code"] == "unavailable"
            assert "migrated" in answer.json()["error"]["message"]
        assert _version(tmp_path / "graph.sqlite") == 1, "the answers came before the end"

        async def serves() -> bool:
            assert (await http.get("/healthz")).status_code == 200, "the port is open all the time"
            return (await http.get("/startedz")).is_success

        await waiting.until(serves)
    with sqlite3.connect(tmp_path / "graph.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM mentions").fetchone() == (_MENTIONS,)
    connection.close()


async def test_a_signal_ends_a_migration_and_the_next_start_repeats_it(tmp_path: Path) -> None:
    path = tmp_path / "graph.sqlite"
    old_files.write(path, _MENTIONS)
    async with _started(tmp_path) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert _version(path) == 1
    async with _started(tmp_path) as (_, http):

        async def serves() -> bool:
            return (await http.get("/startedz")).is_success

        await waiting.until(serves)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM mentions").fetchone() == (_MENTIONS,)
    connection.close()
