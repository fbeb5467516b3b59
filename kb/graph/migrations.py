"""How a file of an earlier version of the embedded graph store becomes one of `kb.graph.statements.VERSION`."""

# ruff: noqa: S608 -- the interpolated parts are the constants of this module, never a value

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from kb import sqlite
from kb.graph import codec, model, statements

# From version 3, which found names only as they were written and kept no versions and no properties; columns by table.
ADD_COLUMNS = {
    "nodes": ("stem TEXT NOT NULL DEFAULT ''",),
    "documents": (
        "since INTEGER",
        "until INTEGER",
        "revision TEXT NOT NULL DEFAULT ''",
        "given TEXT NOT NULL DEFAULT ''",
    ),
    "mentions": ("places TEXT NOT NULL DEFAULT ''", "properties TEXT NOT NULL DEFAULT ''"),
    "evidence": ("places TEXT NOT NULL DEFAULT ''", "properties TEXT NOT NULL DEFAULT ''"),
}
_FILL_STEMS = """
UPDATE nodes SET stem = stem_of(node_key)
WHERE id IN (SELECT id FROM nodes WHERE id > :place ORDER BY id LIMIT :rows) RETURNING id
"""
_INDEX_COLUMNS = (
    "CREATE INDEX IF NOT EXISTS nodes_stem ON nodes (client, stem)",
    "CREATE INDEX IF NOT EXISTS documents_past ON documents (document_id) WHERE until IS NOT NULL",
)
# From version 4, which did not know by what a sender's metadata can be narrowed, nor found nodes by their properties.
# What was stored then has no labels until it is ingested again: the vectors know them.
_ADD_LABELS = (
    "ALTER TABLE documents ADD COLUMN labels TEXT",
    "CREATE INDEX IF NOT EXISTS mentions_given ON mentions (node) WHERE properties <> ''",
)
# From version 2, where the index ended with the kind.
_INDEX_SOURCES = (
    "DROP INDEX documents_client",
    "CREATE INDEX documents_client ON documents (client, kind, source_urn)",
)
# From version 1, which held every sentence once per mention and all keys as text.
_MOVE_ASIDE = """
ALTER TABLE documents RENAME TO old_documents;
ALTER TABLE chunks RENAME TO old_chunks;
ALTER TABLE mentions RENAME TO old_mentions;
ALTER TABLE evidence RENAME TO old_evidence;
DROP INDEX chunks_document; DROP INDEX mentions_chunk; DROP INDEX mentions_document;
DROP INDEX evidence_target; DROP INDEX evidence_chunk; DROP INDEX evidence_document;
"""
_OLD_KEYS = {
    "chunks": "client, chunk_id",
    "mentions": "client, node_key, chunk_id, sentence_id",
    "evidence": "client, source, type, target, chunk_id, sentence_id",
    "documents": "client, document_id",
}
_OLD = {name: f"(SELECT * FROM old_{name} ORDER BY {key} LIMIT :rows)" for name, key in _OLD_KEYS.items()}
_CARRY = {
    "chunks": (
        f"""INSERT INTO chunks SELECT number(chunk_id), number(client, document_id), chunk_id
        FROM {_OLD["chunks"]}""",
    ),
    "mentions": (
        f"""INSERT OR IGNORE INTO sentences SELECT number(sentence_id), number(chunk_id), sentence_id, sentence
        FROM {_OLD["mentions"]}""",
        f"""INSERT OR IGNORE INTO nodes SELECT number(client, node_key), client, node_key, node_type,
        name_of(node_key), stem_of(node_key) FROM {_OLD["mentions"]}""",
        f"""INSERT INTO mentions SELECT number(m.client, m.node_key), 1 - salience(d.title, m.name),
        number(m.chunk_id), number(m.sentence_id), number(m.client, m.document_id), m.name, m.description, '', ''
        FROM {_OLD["mentions"]} m
        JOIN old_documents d ON d.client = m.client AND d.document_id = m.document_id""",
    ),
    "evidence": (
        f"""INSERT OR IGNORE INTO sentences SELECT number(sentence_id), number(chunk_id), sentence_id, sentence
        FROM {_OLD["evidence"]}""",
        f"""INSERT INTO evidence SELECT number(client, source), type, number(client, target), number(sentence_id),
        number(chunk_id), number(client, document_id), '', '' FROM {_OLD["evidence"]}""",
    ),
    "documents": (
        f"""INSERT INTO documents SELECT number(client, document_id), client, document_id, project, grp, source_urn,
        kind, title, NULL, NULL, NULL, '', '', NULL FROM {_OLD["documents"]}""",
    ),
}
# Of each table its first rows go over and are taken away, in the order of its key: what is left is the rest, and the
# file does not become twice as large. Documents go last, for mentions need their titles.
_CARRY_OVER = tuple(
    (
        *_CARRY[name],
        f"DELETE FROM old_{name} WHERE ({key}) IN (SELECT {key} FROM old_{name} ORDER BY {key} LIMIT :rows)",
    )
    for name, key in _OLD_KEYS.items()
)
_COUNT_OLD = "SELECT " + " + ".join(f"(SELECT count(*) FROM old_{name})" for name in _OLD_KEYS)
_DROP_OLD = tuple(f"DROP TABLE old_{name}" for name in _OLD_KEYS)


def _move_aside(connection: sqlite3.Connection) -> int:
    for script in (_MOVE_ASIDE, statements.SCHEMA):
        for statement in script.split(";"):
            connection.execute(statement)
    rows: int = connection.execute(_COUNT_OLD).fetchone()[0]
    return rows


def _carry_over(connection: sqlite3.Connection, rows: int, place: int) -> tuple[int, int]:
    connection.create_function("number", -1, codec.number, deterministic=True)
    connection.create_function("salience", 2, model.salience, deterministic=True)
    connection.create_function("name_of", 1, model.name_of, deterministic=True)
    connection.create_function("stem_of", 1, model.stem_of, deterministic=True)
    for table in _CARRY_OVER:
        for statement in table:
            taken = connection.execute(statement, {"rows": rows}).rowcount
        if taken:
            break
    return taken, place


def _drop_old(connection: sqlite3.Connection) -> None:
    for statement in _DROP_OLD:
        connection.execute(statement)


def _from_version_2(connection: sqlite3.Connection) -> None:
    for statement in _INDEX_SOURCES:
        connection.execute(statement)


def _add_columns(connection: sqlite3.Connection) -> int:
    # A file that comes from version 1 has today's tables already, and the stems in them.
    added = set()
    for table, columns in ADD_COLUMNS.items():
        known = {row["name"] for row in connection.execute(f"PRAGMA table_info({table})")}
        for column in columns:
            name = column.split()[0]
            if name not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
                added.add(name)
    nodes: int = connection.execute("SELECT count(*) FROM nodes").fetchone()[0]
    return nodes if "stem" in added else 0


def _fill_stems(connection: sqlite3.Connection, rows: int, place: int) -> tuple[int, int]:
    connection.create_function("stem_of", 1, model.stem_of, deterministic=True)
    filled = connection.execute(_FILL_STEMS, {"rows": rows, "place": place}).fetchall()
    return len(filled), max(row["id"] for row in filled)


def _index_columns(connection: sqlite3.Connection) -> None:
    for statement in _INDEX_COLUMNS:
        connection.execute(statement)


def _from_version_4(connection: sqlite3.Connection) -> None:
    add, index = _ADD_LABELS
    # A file that comes from version 1 has today's tables already.
    if "labels" not in {row["name"] for row in connection.execute("PRAGMA table_info(documents)")}:
        connection.execute(add)
    connection.execute(index)


MIGRATIONS: Mapping[int, sqlite.Migration] = {
    1: sqlite.Rewrite(_move_aside, _carry_over, _drop_old),
    2: _from_version_2,
    3: sqlite.Rewrite(_add_columns, _fill_stems, _index_columns),
    4: _from_version_4,
}
"""By the version that each leads from, to the next one."""
