"""The SQL of the embedded graph store: its schema and its queries, composed once from constants.

Every value is bound at run time; the only text that is put together is what stands in this module.
"""

# ruff: noqa: S608 -- the interpolated parts are the constants of this module, never a value

from __future__ import annotations

SCHEMA = """
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
"""

# `kb.visibility.sees` in SQL over the owning document `d`; every query below joins `d` and carries this clause.
_SEES = """(d.client = '' OR (d.client = :client AND (
    (d.project = '' AND d.grp = '')
    OR (d.project <> '' AND d.project = :project)
    OR (d.grp <> '' AND d.grp = :grp))))"""
_DOCUMENT = "JOIN documents d ON d.client = x.client AND d.document_id = x.document_id"
_KINDS = "(:kinds IS NULL OR d.kind IN (SELECT value FROM json_each(:kinds)))"
# "" is the global partition; naming both lets every look-up use its index.
_PARTITIONS = "x.client IN ('', :client)"

COMMITTED = f"""
SELECT x.chunk_id FROM chunks x {_DOCUMENT}
WHERE {_PARTITIONS} AND x.chunk_id IN (SELECT value FROM json_each(:chunks)) AND {_SEES} AND {_KINDS}
"""
_COLUMNS = "d.document_id, d.source_urn, d.kind, d.title, x.chunk_id, x.sentence_id, x.sentence"
MENTIONED = f"""
SELECT x.node_key, NULL AS source, NULL AS type, NULL AS target, {_COLUMNS} FROM mentions x {_DOCUMENT}
WHERE {_PARTITIONS} AND x.chunk_id IN (SELECT value FROM json_each(:chunks)) AND {_SEES}
UNION ALL
SELECT x.source, x.source, x.type, x.target, {_COLUMNS} FROM evidence x {_DOCUMENT}
WHERE {_PARTITIONS} AND x.chunk_id IN (SELECT value FROM json_each(:chunks)) AND {_SEES}
ORDER BY 1, x.chunk_id, x.sentence_id, 3, 4
"""
AROUND = f"""
SELECT DISTINCT x.source, x.type, x.target FROM evidence x {_DOCUMENT}
WHERE {_PARTITIONS} AND x.source IN (SELECT value FROM json_each(:nodes)) AND {_SEES}
UNION
SELECT DISTINCT x.source, x.type, x.target FROM evidence x {_DOCUMENT}
WHERE {_PARTITIONS} AND x.target IN (SELECT value FROM json_each(:nodes)) AND {_SEES}
ORDER BY 1, 2, 3 LIMIT :limit
"""
ELSEWHERE = f"""
SELECT * FROM (
    SELECT x.node_key, {_COLUMNS},
           dense_rank() OVER (PARTITION BY x.node_key ORDER BY x.chunk_id) AS place
    FROM mentions x {_DOCUMENT}
    WHERE {_PARTITIONS} AND x.node_key IN (SELECT value FROM json_each(:nodes))
      AND x.chunk_id NOT IN (SELECT value FROM json_each(:chunks)) AND {_SEES} AND {_KINDS}
) WHERE place <= :per_node ORDER BY place, node_key, chunk_id, sentence_id LIMIT :limit
"""
EDGES = f"""
SELECT x.source, x.type, x.target, json_group_array(DISTINCT x.chunk_id) AS chunks FROM evidence x {_DOCUMENT}
WHERE {_PARTITIONS} AND {_SEES} GROUP BY x.source, x.type, x.target ORDER BY 1, 2, 3 LIMIT :limit
"""
COUNTS = f"""
SELECT (SELECT count(*) FROM documents d WHERE d.client IN ('', :client) AND {_SEES}),
       (SELECT count(*) FROM chunks x {_DOCUMENT} WHERE {_PARTITIONS} AND {_SEES}),
       (SELECT count(DISTINCT x.node_key) FROM mentions x {_DOCUMENT} WHERE {_PARTITIONS} AND {_SEES}),
       (SELECT count(*) FROM (SELECT DISTINCT x.source, x.type, x.target FROM evidence x {_DOCUMENT}
                              WHERE {_PARTITIONS} AND {_SEES})),
       (SELECT count(*) FROM mentions x {_DOCUMENT} WHERE {_PARTITIONS} AND {_SEES})
"""
PRESENT = f"""
SELECT DISTINCT x.node_key FROM mentions x {_DOCUMENT}
WHERE {_PARTITIONS} AND x.node_key IN (SELECT value FROM json_each(:nodes)) AND {_SEES} ORDER BY 1
"""
