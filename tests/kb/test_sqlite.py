"""What a written transaction survives, and that no two processes write the same files."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import threading
from pathlib import Path

import pytest

from kb import errors, sqlite
from tests import waiting

_SCHEMA = "CREATE TABLE kept (name TEXT)"
_NORMAL, _FULL = 1, 2


def _level(connection: sqlite3.Connection) -> int:
    """SQLite's `synchronous`: in WAL mode FULL waits for the disk at each commit and NORMAL at none."""
    level: int = connection.execute("PRAGMA synchronous").fetchone()[0]
    return level


async def test_a_commit_waits_for_the_disk_unless_its_caller_does_without(tmp_path: Path) -> None:
    database = sqlite.Database(tmp_path / "one.sqlite", _SCHEMA, version=1)
    try:
        levels = [await database.write(_level, durable=durable) for durable in (True, False, True)]
        assert levels == [_FULL, _NORMAL, _FULL]
        assert await database.write(_level) == _FULL
    finally:
        await database.close()


def _hold(folder: str, held: multiprocessing.synchronize.Event) -> None:
    with sqlite.alone(Path(folder)):
        held.set()
        multiprocessing.Event().wait()


def test_a_second_writer_of_one_folder_is_refused_until_the_first_has_died(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    first = context.Process(target=_hold, args=(str(tmp_path), held))
    first.start()
    try:
        assert held.wait(waiting.PATIENCE)
        with pytest.raises(errors.Misconfigured, match="another process writes") as caught, sqlite.alone(tmp_path):
            pass
        assert caught.value.field == "dataDir"
    finally:
        first.kill()
        first.join()
    with sqlite.alone(tmp_path):
        pass


_ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"


def _one(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("SELECT 1").fetchone()[0]
    return found


async def test_a_broad_question_keeps_no_other_waiting(tmp_path: Path) -> None:
    database = sqlite.Database(tmp_path / "some.sqlite", "CREATE TABLE t (n INTEGER)", version=1)
    await database.prepare()
    began, go = threading.Event(), threading.Event()

    def held(connection: sqlite3.Connection) -> int:
        began.set()
        assert go.wait(waiting.PATIENCE)
        return _one(connection)

    broad = [asyncio.create_task(database.read(held, broad=True)) for _ in range(3)]
    assert await asyncio.to_thread(began.wait, 300)
    assert await database.read(_one) == 1
    assert not any(one.done() for one in broad)
    go.set()
    assert await asyncio.gather(*broad) == [1, 1, 1]
    await database.close()


async def test_a_question_has_its_time(tmp_path: Path) -> None:
    database = sqlite.Database(tmp_path / "some.sqlite", "CREATE TABLE t (n INTEGER)", version=1, read_seconds=0.3)
    await database.prepare()

    def endless(connection: sqlite3.Connection) -> object:
        return connection.execute(_ENDLESS).fetchone()

    async def answered() -> int:
        try:
            return await database.read(_one, broad=True)
        except errors.TooLong:
            return 0  # a slow machine has so little time, too

    broad = [asyncio.create_task(database.read(endless, broad=True)) for _ in range(3)]
    for one in broad:
        with pytest.raises(errors.TooLong, match=r"some had no answer within 0\.3 seconds"):
            await one
    with pytest.raises(errors.TooLong):
        await database.read(endless)
    # The thread and its connection go on.
    assert await waiting.eventually(answered) == 1
    await database.close()
