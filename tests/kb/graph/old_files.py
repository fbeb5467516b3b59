"""Graph files as earlier versions wrote them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

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


def write(path: Path, mentions: int) -> None:
    """A file of version 1: one document of client acme whose one chunk names so many nodes."""
    with sqlite3.connect(path) as connection:
        connection.executescript(VERSION_1)
        connection.execute("INSERT INTO documents VALUES ('acme', 'd', 'shop', '', 'u:1', 'DOCUMENT', 'Title')")
        connection.execute("INSERT INTO chunks VALUES ('acme', 'c', 'd')")
        connection.executemany(
            "INSERT INTO mentions VALUES ('acme', ?, 'c', 's', 'd', 'Sentence.', 'thing', ?, '')",
            ((f"thing:n{number}", f"n{number}") for number in range(mentions)),
        )
    connection.close()
