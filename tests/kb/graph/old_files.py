"""Graph files: of today, and as earlier versions wrote them."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from kb.graph import sqlite

VERSION_1 = """
CREATE TABLE documents (
    client TEXT NOT NULL, document_id TEXT NOT NULL, project TEXT NOT NULL, grp TEXT NOT NULL,
    source_urn TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL,
    PRIMARY KEY (client, document_id)
) WITHOUT ROWID;
CREATE TABLE chunks (
    client TEXT NOT NULL, chunk_id TEXT NOT NULL, document_id TEXT NOT NULL,
    PRIMARY KEY (client, chunk_id)
) WITHOUT ROWID;
CREATE INDEX chunks_document ON chunks (client, document_id);
CREATE TABLE mentions (
    client TEXT NOT NULL, node_key TEXT NOT NULL, chunk_id TEXT NOT NULL, sentence_id TEXT NOT NULL,
    document_id TEXT NOT NULL, sentence TEXT NOT NULL, node_type TEXT NOT NULL, name TEXT NOT NULL,
    description TEXT NOT NULL,
    PRIMARY KEY (client, node_key, chunk_id, sentence_id)
) WITHOUT ROWID;
CREATE INDEX mentions_chunk ON mentions (client, chunk_id);
CREATE INDEX mentions_document ON mentions (client, document_id);
CREATE TABLE evidence (
    client TEXT NOT NULL, source TEXT NOT NULL, type TEXT NOT NULL, target TEXT NOT NULL,
    chunk_id TEXT NOT NULL, sentence_id TEXT NOT NULL, document_id TEXT NOT NULL, sentence TEXT NOT NULL,
    PRIMARY KEY (client, source, type, target, chunk_id, sentence_id)
) WITHOUT ROWID;
CREATE INDEX evidence_target ON evidence (client, target);
CREATE INDEX evidence_chunk ON evidence (client, chunk_id);
CREATE INDEX evidence_document ON evidence (client, document_id);
PRAGMA user_version = 1;
"""


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


def write(path: Path, mentions: int) -> int:
    """A file of version 1: two clients' documents of one chunk, whose sentences name and relate two nodes each.

    How many rows it has.
    """
    with connected(path) as connection:
        connection.executescript(VERSION_1)
        before = ""
        for number in range(mentions):
            # Every sentence has two mentions, every chunk five sentences, every node about three mentions.
            client, sentence, chunk = f"client{number % 20 // 10}", f"s{number // 2}", f"c{number // 10}"
            document, node = f"d{number // 10}", f"thing:n{number * 5 % (mentions // 3 + 1)}"
            said = f"Sentence {sentence} with its words, as they stood in the document."
            if number % 10 == 0:
                row = (client, document, f"u:{document}", f"Title with n{number}")
                connection.execute("INSERT INTO documents VALUES (?, ?, 'shop', '', ?, 'DOCUMENT', ?)", row)
                connection.execute("INSERT INTO chunks VALUES (?, ?, ?)", (client, chunk, document))
            place = (chunk, sentence, document, said)
            name = node.partition(":")[2]
            connection.execute(
                "INSERT INTO mentions VALUES (?, ?, ?, ?, ?, ?, 'thing', ?, '')", (client, node, *place, name)
            )
            if number % 2:
                connection.execute(
                    "INSERT INTO evidence VALUES (?, ?, 'precedes', ?, ?, ?, ?, ?)", (client, before, node, *place)
                )
            before = node
        return connection.total_changes


def without_stems(path: Path) -> None:
    """Make a file of today one of version 3."""
    with connected(path) as connection:
        connection.execute("DROP INDEX nodes_stem")
        connection.execute("ALTER TABLE nodes DROP COLUMN stem")
        connection.execute("PRAGMA user_version = 3")


def rest(path: Path) -> int:
    """How many rows a migration that has begun has still to move."""
    with connected(path) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'old!_%' ESCAPE '!'"
        )
        return sum(connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for (name,) in tables.fetchall())


TABLES = ("documents", "chunks", "sentences", "nodes", "mentions", "evidence")


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of today's tables in their order, and under "" what the file consists of."""
    with connected(path) as connection:
        found = {one: sorted(connection.execute(f"SELECT * FROM {one}"), key=repr) for one in TABLES}
        found[""] = connection.execute("SELECT type, name FROM sqlite_master ORDER BY 1, 2").fetchall()
        found["version"] = connection.execute("PRAGMA user_version").fetchall()
    return found
