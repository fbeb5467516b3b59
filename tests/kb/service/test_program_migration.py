"""A process whose graph file an older version wrote: it lives while it migrates, and ends when it is asked to."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from kb.graph import sqlite as graph_sqlite
from tests import ports, waiting
from tests.kb.graph import graph_files
from tests.kb.service import migrating, program
from tests.nursery import children

# A migration of ten batches.
_NODES = 50_000
_AWAY = "127.0.0.1:1"


@asynccontextmanager
async def _started(folder: Path) -> AsyncIterator[tuple[children.Child, httpx.AsyncClient]]:
    """A process that has begun to answer, over the files of `folder`; `_go_on` is for its migration."""
    port = ports.free()
    _steps(folder).mkdir(exist_ok=True)
    settings = {
        "JERVIS_KB_HOST": "127.0.0.1",
        "JERVIS_KB_PORT": str(port),
        "JERVIS_KB_DATA_DIR": str(folder),
        "JERVIS_KB_ROUTER_URL": f"http://{_AWAY}",
        "JERVIS_KB_WEAVIATE_URL": f"http://{_AWAY}",
        "JERVIS_KB_MONGODB_URI": f"mongodb://{_AWAY}",
        migrating.STEPS: str(_steps(folder)),
    }
    process = program.launch(folder / "kb.log", settings, str(migrating.FILE))
    base = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=60, verify=False) as http:

            async def answers() -> bool:
                try:
                    return (await http.get("/healthz")).is_success
                except httpx.TransportError:
                    return False

            await waiting.eventually(answers)
            yield process, http
    finally:
        process.kill()
        process.wait()


def _steps(folder: Path) -> Path:
    return folder / "steps"


def _go_on(folder: Path, after: int | str = migrating.ALL) -> None:
    """Let the migration of `folder` begin the batch after so many rows, or all of them."""
    (_steps(folder) / str(after)).touch()


def _row(path: Path, question: str) -> tuple[int, ...]:
    """The one row of integers that answers the question."""
    with sqlite3.connect(path) as connection:
        found: tuple[int, ...] = connection.execute(question).fetchone()
    connection.close()
    return found


async def _progress(http: httpx.AsyncClient) -> tuple[int, int] | None:
    """(rows done, rows in all) as /readyz has them, or None without."""
    answer = await http.get("/readyz")
    assert answer.status_code == 503
    found = re.search(r"migrating (\d+) of (\d+) rows", answer.text)
    return None if found is None else (int(found[1]), int(found[2]))


async def _serves(http: httpx.AsyncClient) -> bool:
    assert (await http.get("/healthz")).status_code == 200, "the port is open all the time"
    return (await http.get("/startedz")).is_success


def _rewritings(log: Path) -> list[tuple[int, int]]:
    """Of each start, (rows done, rows in all) with which its migration began."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [(one["done"], one["total"]) for one in lines if one["event"] == "rewriting"]


async def test_it_lives_and_says_why_it_does_not_serve_yet(tmp_path: Path) -> None:
    path = tmp_path / "graph.sqlite"
    rows = _NODES
    graph_files.write(path, rows)
    async with _started(tmp_path) as (_, http):
        for method, asked in (("GET", "/readyz"), ("GET", "/servez"), ("GET", "/startedz"), ("POST", "/api/v1/ingest")):
            answer = await http.request(method, asked)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5"), asked
            assert answer.json()["error"]["code"] == "unavailable"
            assert "migrated" in answer.json()["error"]["message"]
        seen = set[int]()

        async def grows() -> bool:
            assert (await http.get("/healthz")).status_code == 200
            if (progress := await _progress(http)) is not None:
                assert progress[1] == rows
                assert not seen or progress[0] >= max(seen)
                seen.add(progress[0])
                if len(seen) < 4:
                    _go_on(tmp_path, progress[0])
            return len(seen) >= 4

        await waiting.eventually(grows)
        assert _row(path, "PRAGMA user_version") == (-graph_files.BEFORE,), "the answers came before the end"
        _go_on(tmp_path)
        await waiting.eventually(lambda: _serves(http))
    assert _row(path, "SELECT count(*) FROM nodes") == (_NODES,)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_signal_ends_a_migration_and_the_next_start_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    folder, whole = tmp_path / "data", tmp_path / "whole.sqlite"
    folder.mkdir()
    path = folder / "graph.sqlite"
    rows = _NODES
    graph_files.write(path, rows)
    shutil.copy(path, whole)
    async with _started(folder) as (process, http):

        async def some_are_done() -> int:
            progress = await _progress(http)
            return 0 if progress is None else progress[0]

        _go_on(folder, after=0)
        # The signal comes while the next batch is written; on a slow machine it may be written by then.
        _go_on(folder, after=await waiting.eventually(some_are_done))
        process.send_signal(number)
        assert await asyncio.to_thread(process.wait) == (0 if number == signal.SIGTERM else -number)
    done, total = _row(path, "SELECT done, total FROM migrating")
    assert 0 < done < total == rows
    assert graph_files.rest(path) == rows - done
    _go_on(folder)
    async with _started(folder) as (_, http):
        await waiting.eventually(lambda: _serves(http))
    assert _rewritings(folder / "kb.log") == [(0, rows), (done, rows)]
    store = graph_sqlite.Store(whole, batch=rows, migrations=graph_files.MIGRATIONS)
    await store.prepare()
    await store.close()
    assert graph_files.content(path) == graph_files.content(whole)
