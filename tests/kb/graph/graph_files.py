"""Graph files: of today, and of the version before, from which a migration of these tests leads."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from kb import sqlite as files
from kb.graph import model, sqlite, statements

BEFORE = statements.VERSION - 1


@contextlib.asynccontextmanager
async def opened(path: Path, **more: Any) -> AsyncIterator[sqlite.Store]:
    """The store of the file, brought up to date."""
    store = sqlite.Store(path, **more)
    try:
        await store.prepare()
        yield store
    finally:
        await store.close()


@contextlib.contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """The file itself; what is changed is committed at the end."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def write(path: Path, nodes: int) -> None:
    """A file of version `BEFORE`, whose nodes have no stems."""
    with connected(path) as connection:
        connection.executescript(statements.SCHEMA)
        rows = [(number, f"thing:node {number}", f"node {number}") for number in range(nodes)]
        connection.executemany("INSERT INTO nodes VALUES (?, 'acme', ?, 'thing', ?, '')", rows)
        connection.execute(f"PRAGMA user_version = {BEFORE}")


def rest(path: Path) -> int:
    """How many rows a migration that has begun has still to move."""
    with connected(path) as connection:
        left: int = connection.execute("SELECT count(*) FROM nodes WHERE stem = ''").fetchone()[0]
        return left


def _count(connection: sqlite3.Connection) -> int:
    total: int = connection.execute("SELECT count(*) FROM nodes").fetchone()[0]
    return total


def _fill(connection: sqlite3.Connection, rows: int, place: int) -> tuple[int, int]:
    connection.create_function("stem_of", 1, model.stem_of, deterministic=True)
    filled = connection.execute(
        """UPDATE nodes SET stem = stem_of(node_key)
        WHERE id IN (SELECT id FROM nodes WHERE id > ? ORDER BY id LIMIT ?) RETURNING id""",
        (place, rows),
    ).fetchall()
    return len(filled), max(row["id"] for row in filled)


def _end(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE INDEX nodes_migrated ON nodes (stem)")


MIGRATIONS = {BEFORE: files.Rewrite(_count, _fill, _end)}
"""Gives the nodes their stems, as a migration of many rows does it."""

TABLES = ("documents", "chunks", "sentences", "nodes", "mentions", "evidence")


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of today's tables in their order, and under "" what the file consists of."""
    with connected(path) as connection:
        found = {one: sorted(connection.execute(f"SELECT * FROM {one}"), key=repr) for one in TABLES}
        found[""] = connection.execute("SELECT type, name FROM sqlite_master ORDER BY 1, 2").fetchall()
        found["version"] = connection.execute("PRAGMA user_version").fetchall()
    return found
