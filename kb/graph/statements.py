"""The SQL of the embedded graph store: its schema and its queries, composed once from constants.

Every value is bound at run time; the only text that is put together is what stands in this module. Rows have integer
ids that are made from their keys (`kb.graph.codec.number`), so that they are the same in every order of writing and
nothing is looked up before it is inserted.
"""

# ruff: noqa: S608 -- the interpolated parts are the constants of this module, never a value

from __future__ import annotations

VERSION = 3

SCHEMA = """
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, client TEXT NOT NULL, document_id TEXT NOT NULL, project TEXT NOT NULL, grp TEXT NOT NULL,
    source_urn TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL, observed INTEGER
);
CREATE INDEX documents_client ON documents (client, kind, source_urn);
CREATE TABLE chunks (id INTEGER PRIMARY KEY, document INTEGER NOT NULL, chunk_id TEXT NOT NULL);
CREATE INDEX chunks_document ON chunks (document);
CREATE TABLE sentences (
    id INTEGER PRIMARY KEY, chunk INTEGER NOT NULL, sentence_id TEXT NOT NULL, sentence TEXT NOT NULL
);
CREATE INDEX sentences_chunk ON sentences (chunk);
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY, client TEXT NOT NULL, node_key TEXT NOT NULL, node_type TEXT NOT NULL, name TEXT NOT NULL
);
CREATE INDEX nodes_key ON nodes (client, node_key);
CREATE INDEX nodes_name ON nodes (client, name);
-- The most salient chunks of a node stand first, so that a capped look-up reads no more than it returns.
CREATE TABLE mentions (
    node INTEGER NOT NULL, remoteness REAL NOT NULL, chunk INTEGER NOT NULL, sentence INTEGER NOT NULL,
    document INTEGER NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL,
    PRIMARY KEY (node, remoteness, chunk, sentence)
) WITHOUT ROWID;
CREATE INDEX mentions_chunk ON mentions (chunk);
CREATE TABLE evidence (
    source INTEGER NOT NULL, type TEXT NOT NULL, target INTEGER NOT NULL, sentence INTEGER NOT NULL,
    chunk INTEGER NOT NULL, document INTEGER NOT NULL,
    PRIMARY KEY (source, type, target, sentence)
) WITHOUT ROWID;
CREATE INDEX evidence_target ON evidence (target);
CREATE INDEX evidence_chunk ON evidence (chunk);
"""

# From version 2, where the index ended with the kind.
INDEX_SOURCES = (
    "DROP INDEX documents_client",
    "CREATE INDEX documents_client ON documents (client, kind, source_urn)",
)
# From version 1, which held every sentence once per mention and all keys as text.
MOVE_ASIDE = """
ALTER TABLE documents RENAME TO old_documents;
ALTER TABLE chunks RENAME TO old_chunks;
ALTER TABLE mentions RENAME TO old_mentions;
ALTER TABLE evidence RENAME TO old_evidence;
DROP INDEX chunks_document; DROP INDEX mentions_chunk; DROP INDEX mentions_document;
DROP INDEX evidence_target; DROP INDEX evidence_chunk; DROP INDEX evidence_document;
"""
CARRY_OVER = """
INSERT INTO documents SELECT number(client, document_id), client, document_id, project, grp, source_urn, kind, title,
    NULL FROM old_documents;
INSERT INTO chunks SELECT number(chunk_id), number(client, document_id), chunk_id FROM old_chunks;
INSERT OR IGNORE INTO sentences SELECT number(sentence_id), number(chunk_id), sentence_id, sentence FROM old_mentions;
INSERT OR IGNORE INTO sentences SELECT number(sentence_id), number(chunk_id), sentence_id, sentence FROM old_evidence;
INSERT OR IGNORE INTO nodes SELECT number(client, node_key), client, node_key, node_type, name_of(node_key)
    FROM old_mentions;
INSERT INTO mentions SELECT number(m.client, m.node_key), 1 - salience(d.title, m.name), number(m.chunk_id),
    number(m.sentence_id), number(m.client, m.document_id), m.name, m.description
    FROM old_mentions m JOIN old_documents d ON d.client = m.client AND d.document_id = m.document_id;
INSERT INTO evidence SELECT number(client, source), type, number(client, target), number(sentence_id),
    number(chunk_id), number(client, document_id) FROM old_evidence;
DROP TABLE old_documents; DROP TABLE old_chunks; DROP TABLE old_mentions; DROP TABLE old_evidence;
"""

PUT_DOCUMENT = "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
PUT_CHUNK = "INSERT INTO chunks VALUES (?, ?, ?)"
PUT_SENTENCE = "INSERT INTO sentences VALUES (?, ?, ?, ?)"
PUT_NODE = "INSERT OR IGNORE INTO nodes VALUES (?, ?, ?, ?, ?)"
PUT_MENTION = "INSERT INTO mentions VALUES (?, ?, ?, ?, ?, ?, ?)"
PUT_EVIDENCE = "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?)"

_OF_DOCUMENT = "chunk IN (SELECT id FROM chunks WHERE document = ?)"
NAMED_BY = f"SELECT DISTINCT node FROM mentions WHERE {_OF_DOCUMENT}"
# Chunks go last: the others are found through them.
ERASE = (
    f"DELETE FROM mentions WHERE {_OF_DOCUMENT}",
    f"DELETE FROM evidence WHERE {_OF_DOCUMENT}",
    f"DELETE FROM sentences WHERE {_OF_DOCUMENT}",
    "DELETE FROM chunks WHERE document = ?",
    "DELETE FROM documents WHERE id = ?",
)
DROP_LONELY = "DELETE FROM nodes WHERE id = ? AND NOT EXISTS (SELECT 1 FROM mentions WHERE node = ?)"
REGROUP = """
UPDATE documents SET grp = :grp WHERE client = :client AND project = :project AND grp <> :grp RETURNING document_id
"""

# `kb.visibility.sees` in SQL over the owning document `d`; every query below joins `d` and carries this clause.
_SEES = """(d.client = '' OR (d.client = :client AND (
    (d.project = '' AND d.grp = '')
    OR (d.project <> '' AND d.project = :project)
    OR (d.grp <> '' AND d.grp = :grp))))"""
# `kb.selection.Selection.admits` in SQL.
_SELECTED = """(:kinds IS NULL OR d.kind IN (SELECT value FROM json_each(:kinds)))
    AND (:sources IS NULL OR d.source_urn IN (SELECT value FROM json_each(:sources)) OR EXISTS (
        SELECT 1 FROM json_each(:beginnings) WHERE substr(d.source_urn, 1, length(value)) = value))
    AND ((d.observed IS NULL AND NOT :dated)
        OR (d.observed >= coalesce(:earliest, d.observed) AND d.observed <= coalesce(:latest, d.observed)))"""
_D = "JOIN documents d ON d.id = x.document"
# "" is the global partition.
_NODES = "n.client IN ('', :client) AND n.node_key IN (SELECT value FROM json_each(:nodes))"
_COLUMNS = "d.document_id, d.source_urn, d.kind, d.title, d.observed, c.chunk_id, s.sentence_id, s.sentence"
_TEXTS = "JOIN chunks c ON c.id = x.chunk JOIN sentences s ON s.id = x.sentence"
_ENDS = "JOIN nodes a ON a.id = x.source JOIN nodes b ON b.id = x.target"
_CHUNKS = "x.chunk IN (SELECT value FROM json_each(:chunks))"

COMMITTED = f"""
SELECT c.chunk_id FROM chunks c JOIN documents d ON d.id = c.document
WHERE c.id IN (SELECT value FROM json_each(:chunks)) AND {_SEES} AND {_SELECTED}
"""
MENTIONED = f"""
SELECT n.node_key, NULL AS source, NULL AS type, NULL AS target, {_COLUMNS}
FROM mentions x {_D} JOIN nodes n ON n.id = x.node {_TEXTS} WHERE {_CHUNKS} AND {_SEES}
UNION ALL
SELECT a.node_key, a.node_key, x.type, b.node_key, {_COLUMNS}
FROM evidence x {_D} {_ENDS} {_TEXTS} WHERE {_CHUNKS} AND {_SEES}
ORDER BY 1, c.chunk_id, s.sentence_id, 3, 4
"""
BRIDGES = f"""
SELECT n.node_key, c.chunk_id, s.sentence_id FROM mentions x {_D} JOIN nodes n ON n.id = x.node {_TEXTS}
WHERE {_CHUNKS} AND {_SEES}
"""
NODE_IDS = f"SELECT n.id, n.node_key FROM nodes n WHERE {_NODES}"
# One node at a time: the primary key gives the most salient first, and the limit stops the reading.
LEADS = f"""
SELECT c.chunk_id, 1 - x.remoteness AS salience FROM mentions x {_D} JOIN chunks c ON c.id = x.chunk
WHERE x.node = :node AND {_SEES} AND {_SELECTED} ORDER BY x.remoteness, x.chunk LIMIT :rows
"""
_AROUND = f"""
SELECT DISTINCT a.node_key AS source, x.type, b.node_key AS target FROM evidence x {_D} {_ENDS}
WHERE x.END = :node AND (:types IS NULL OR x.type IN (SELECT value FROM json_each(:types)))
    AND (:latest IS NULL OR d.observed IS NULL OR d.observed <= :latest) AND {_SEES}
"""
AROUND = f"{_AROUND.replace('END', 'source')} UNION {_AROUND.replace('END', 'target')} ORDER BY 1, 2, 3 LIMIT :limit"
AMONG = f"""
SELECT DISTINCT a.node_key AS source, x.type, b.node_key AS target FROM evidence x {_D} {_ENDS}
WHERE a.client IN ('', :client) AND a.node_key IN (SELECT value FROM json_each(:nodes))
    AND b.node_key IN (SELECT value FROM json_each(:nodes))
    AND (:types IS NULL OR x.type IN (SELECT value FROM json_each(:types)))
    AND (:latest IS NULL OR d.observed IS NULL OR d.observed <= :latest) AND {_SEES}
ORDER BY 1, 2, 3 LIMIT :limit
"""
EDGES = f"""
SELECT a.node_key AS source, x.type, b.node_key AS target, json_group_array(DISTINCT c.chunk_id) AS chunks
FROM evidence x {_D} {_ENDS} JOIN chunks c ON c.id = x.chunk
WHERE d.client IN ('', :client) AND {_SEES} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT :limit
"""
PROOFS = f"""
SELECT a.node_key, a.node_key AS source, x.type, b.node_key AS target, {_COLUMNS}
FROM evidence x {_D} {_ENDS} {_TEXTS}
WHERE a.client IN ('', :client) AND (:source IS NULL OR a.node_key = :source)
    AND (:target IS NULL OR b.node_key = :target) AND (:type IS NULL OR x.type = :type) AND {_SEES}
ORDER BY 2, 3, 4, d.observed IS NULL, d.observed DESC, c.chunk_id, s.sentence_id LIMIT :limit
"""
COUNTS = f"""
SELECT (SELECT count(*) FROM documents d WHERE d.client IN ('', :client) AND {_SEES}),
       (SELECT count(*) FROM chunks x {_D} WHERE d.client IN ('', :client) AND {_SEES}),
       (SELECT count(DISTINCT n.node_key) FROM mentions x {_D} JOIN nodes n ON n.id = x.node
        WHERE d.client IN ('', :client) AND {_SEES}),
       (SELECT count(*) FROM (SELECT DISTINCT a.node_key, x.type, b.node_key FROM evidence x {_D} {_ENDS}
                              WHERE d.client IN ('', :client) AND {_SEES})),
       (SELECT count(*) FROM mentions x {_D} WHERE d.client IN ('', :client) AND {_SEES})
"""
PRESENT = f"""
SELECT DISTINCT n.node_key FROM nodes n WHERE {_NODES}
    AND EXISTS (SELECT 1 FROM mentions x {_D} WHERE x.node = n.id AND {_SEES}) ORDER BY 1
"""
NAMED = f"""
SELECT DISTINCT n.name, n.node_key FROM nodes n
WHERE n.client IN ('', :client) AND n.name IN (SELECT value FROM json_each(:names))
    AND EXISTS (SELECT 1 FROM mentions x {_D} WHERE x.node = n.id AND {_SEES}) ORDER BY 1, 2
"""
SEARCH_NODES = f"""
SELECT node_key, node_type, sum(said) AS mentions FROM (
    SELECT n.node_key, n.node_type, (SELECT count(*) FROM mentions x {_D} WHERE x.node = n.id AND {_SEES}) AS said
    FROM nodes n WHERE n.client IN ('', :client) AND (:type IS NULL OR n.node_type = :type)
        AND (:text IS NULL OR instr(n.name, :text) OR instr(lower(n.node_key), :text))
        AND (:nodes IS NULL OR n.node_key IN (SELECT value FROM json_each(:nodes)))
) WHERE said > 0 GROUP BY node_key ORDER BY 3 DESC, 1 LIMIT :limit
"""
DESCRIBE = f"""
SELECT n.node_key, x.name, x.description, c.chunk_id FROM mentions x {_D} JOIN nodes n ON n.id = x.node
JOIN chunks c ON c.id = x.chunk WHERE {_NODES} AND {_SEES} ORDER BY x.remoteness, c.chunk_id
"""
# The other way round than `_SEES`: documents of which the owner sees what is written in the given scope.
NAMING = """
SELECT DISTINCT d.document_id, d.source_urn, d.kind, d.title, d.observed, d.project, d.grp
FROM nodes n JOIN mentions x ON x.node = n.id JOIN documents d ON d.id = x.document
WHERE n.client = :client AND n.node_key = :node AND d.document_id > :after
  AND ((:project = '' AND :grp = '') OR (:project <> '' AND d.project = :project) OR (:grp <> '' AND d.grp = :grp))
ORDER BY d.document_id LIMIT :limit
"""
# The beginning is a range of the index: `last` is no less than any source URN that begins so.
DOCUMENTS = """
SELECT d.document_id, d.source_urn, d.kind, d.title, d.observed FROM documents d
WHERE d.client = :client AND d.kind = :kind AND d.source_urn >= :beginning
  AND d.source_urn <= :last AND d.source_urn > :after
  AND d.project = :project AND (:project <> '' OR d.grp = :grp)
ORDER BY d.source_urn LIMIT :limit
"""
# For whoever compares the stores: everything of one client's partition, a page at a time, after the given chunk id.
AUDIT = """
SELECT c.id, c.chunk_id, d.project, d.grp, d.document_id, d.source_urn, d.kind, d.title, d.observed
FROM chunks c JOIN documents d ON d.id = c.document
WHERE d.client = :client AND c.id > :after
    AND (:chunks IS NULL OR c.id IN (SELECT value FROM json_each(:chunks)))
ORDER BY c.id LIMIT :limit
"""
AUDIT_NODES = """
SELECT x.chunk, n.node_key FROM mentions x JOIN nodes n ON n.id = x.node
WHERE x.chunk IN (SELECT value FROM json_each(:chunks))
"""
AUDIT_SENTENCES = "SELECT chunk, sentence_id FROM sentences WHERE chunk IN (SELECT value FROM json_each(:chunks))"
