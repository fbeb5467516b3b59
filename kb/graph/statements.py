"""The SQL of the embedded graph store: its schema and its queries, composed once from constants.

Every value is bound at run time; the only text that is put together is what stands in this module. Rows have integer
ids that are made from their keys (`kb.graph.codec.number`), so that they are the same in every order of writing and
nothing is looked up before it is inserted.
"""

# ruff: noqa: S608 -- the interpolated parts are the constants of this module, never a value

from __future__ import annotations

from kb import visibility

VERSION = 5

SCHEMA = """
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, client TEXT NOT NULL, document_id TEXT NOT NULL, project TEXT NOT NULL, grp TEXT NOT NULL,
    source_urn TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL, observed INTEGER,
    since INTEGER, until INTEGER, revision TEXT NOT NULL DEFAULT '', given TEXT NOT NULL DEFAULT '', labels TEXT
);
CREATE INDEX documents_client ON documents (client, kind, source_urn);
CREATE INDEX documents_past ON documents (document_id) WHERE until IS NOT NULL;
CREATE TABLE chunks (id INTEGER PRIMARY KEY, document INTEGER NOT NULL, chunk_id TEXT NOT NULL);
CREATE INDEX chunks_document ON chunks (document);
CREATE TABLE sentences (
    id INTEGER PRIMARY KEY, chunk INTEGER NOT NULL, sentence_id TEXT NOT NULL, sentence TEXT NOT NULL
);
CREATE INDEX sentences_chunk ON sentences (chunk);
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY, client TEXT NOT NULL, node_key TEXT NOT NULL, node_type TEXT NOT NULL, name TEXT NOT NULL,
    stem TEXT NOT NULL DEFAULT ''
);
CREATE INDEX nodes_key ON nodes (client, node_key);
CREATE INDEX nodes_name ON nodes (client, name);
CREATE INDEX nodes_stem ON nodes (client, stem);
-- The most salient chunks of a node stand first, so that a capped look-up reads no more than it returns.
CREATE TABLE mentions (
    node INTEGER NOT NULL, remoteness REAL NOT NULL, chunk INTEGER NOT NULL, sentence INTEGER NOT NULL,
    document INTEGER NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL,
    places TEXT NOT NULL DEFAULT '', properties TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (node, remoteness, chunk, sentence)
) WITHOUT ROWID;
CREATE INDEX mentions_chunk ON mentions (chunk);
CREATE INDEX mentions_given ON mentions (node) WHERE properties <> '';
CREATE TABLE evidence (
    source INTEGER NOT NULL, type TEXT NOT NULL, target INTEGER NOT NULL, sentence INTEGER NOT NULL,
    chunk INTEGER NOT NULL, document INTEGER NOT NULL,
    places TEXT NOT NULL DEFAULT '', properties TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (source, type, target, sentence)
) WITHOUT ROWID;
CREATE INDEX evidence_target ON evidence (target);
CREATE INDEX evidence_chunk ON evidence (chunk);
"""

PUT_DOCUMENT = "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)"
PUT_CHUNK = "INSERT INTO chunks VALUES (?, ?, ?)"
PUT_SENTENCE = "INSERT INTO sentences VALUES (?, ?, ?, ?)"
PUT_NODE = "INSERT OR IGNORE INTO nodes VALUES (?, ?, ?, ?, ?, ?)"
PUT_MENTION = "INSERT INTO mentions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
PUT_EVIDENCE = "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

# Made when it is first needed: one process alone has no use for it. Of a document that is gone its fence stays.
FENCES = "CREATE TABLE IF NOT EXISTS fences (document INTEGER PRIMARY KEY, fence INTEGER NOT NULL)"
LATER = """
INSERT INTO fences VALUES (?, ?) ON CONFLICT (document) DO UPDATE SET fence = excluded.fence
    WHERE fence <= excluded.fence
"""

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
UPDATE documents SET grp = :grp WHERE client IN (:client, :past) AND project = :project AND grp <> :grp
RETURNING document_id
"""
# The version in the present, copied into the history under the ids that `past` makes (kb.identity.past).
KEEP = (
    """INSERT INTO documents SELECT :number, :past, document_id, project, grp, source_urn, kind, title, observed, since,
        :until, revision, given, labels FROM documents WHERE id = :document""",
    """INSERT INTO chunks SELECT number(past(:version, chunk_id)), :number, past(:version, chunk_id)
        FROM chunks WHERE document = :document""",
    """INSERT INTO sentences SELECT number(past(:version, sentence_id)), number(past(:version, c.chunk_id)),
        past(:version, sentence_id), sentence FROM sentences s JOIN chunks c ON c.id = s.chunk
        WHERE c.document = :document""",
    """INSERT OR IGNORE INTO nodes SELECT number(:past, n.node_key), :past, n.node_key, n.node_type, n.name,
        n.stem
        FROM chunks c JOIN mentions x ON x.chunk = c.id JOIN nodes n ON n.id = x.node WHERE c.document = :document""",
    """INSERT INTO mentions SELECT number(:past, n.node_key), x.remoteness, number(past(:version, c.chunk_id)),
        number(past(:version, s.sentence_id)), :number, x.name, x.description, x.places,
        x.properties FROM chunks c JOIN mentions x ON x.chunk = c.id JOIN nodes n ON n.id = x.node
        JOIN sentences s ON s.id = x.sentence WHERE c.document = :document""",
    """INSERT INTO evidence SELECT number(:past, a.node_key), x.type, number(:past, b.node_key),
        number(past(:version, s.sentence_id)), number(past(:version, c.chunk_id)), :number, x.places, x.properties
        FROM chunks c JOIN evidence x ON x.chunk = c.id JOIN nodes a ON a.id = x.source JOIN nodes b ON b.id = x.target
        JOIN sentences s ON s.id = x.sentence WHERE c.document = :document""",
)
# Rows of versions in the history: of a document (which has an index of its own), or of a client.
VERSIONS_OF = "SELECT id FROM documents WHERE client = :past AND document_id = :document AND until IS NOT NULL"
EXPIRED = f"{VERSIONS_OF} AND until < :before"
EXPIRED_OF_CLIENT = "SELECT id FROM documents WHERE client = :past AND until < :before"
VERSIONS = """
SELECT d.id, d.document_id, d.source_urn, d.kind, d.title, d.observed, d.since, d.until, d.revision, d.given,
    d.labels
FROM documents d WHERE d.id = :present OR (d.client = :past AND d.document_id = :document AND d.until IS NOT NULL)
ORDER BY d.until IS NOT NULL, d.until DESC
"""
CHUNKS_OF = "SELECT chunk_id FROM chunks WHERE document = ? ORDER BY chunk_id"

# `kb.visibility.sees` over the owning document `d`; every query below joins `d` and carries this clause.
# `:world` is the global partition: "", or that of its history.
_SEES = f"({visibility.sql('d.', ':world')} AND {visibility.sql_access('d.')})"
# What is part of the knowledge of `:moment`: begun by then, and not replaced by then.
_KNOWN = """(:moment IS NULL OR ((coalesce(d.since, d.observed) IS NULL OR coalesce(d.since, d.observed) <= :moment)
    AND (d.until IS NULL OR d.until > :moment)))"""
# `kb.selection.Selection.admits` in SQL.
_SELECTED = f"""{_KNOWN} AND (:kinds IS NULL OR d.kind IN (SELECT value FROM json_each(:kinds)))
    AND (:sources IS NULL OR d.source_urn IN (SELECT value FROM json_each(:sources)) OR EXISTS (
        SELECT 1 FROM json_each(:beginnings) WHERE substr(d.source_urn, 1, length(value)) = value))
    AND ((d.observed IS NULL AND NOT :dated)
        OR (d.observed >= coalesce(:earliest, d.observed) AND d.observed <= coalesce(:latest, d.observed)))
    AND (:labels IS NULL OR d.labels IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(:labels) asked WHERE NOT EXISTS (
        SELECT 1 FROM json_each(asked.value) one WHERE one.value IN (SELECT value FROM json_each(d.labels)))))"""
_D = "JOIN documents d ON d.id = x.document"
_NODES = "n.client IN (:world, :client) AND n.node_key IN (SELECT value FROM json_each(:nodes))"
_DOCUMENT = "d.document_id, d.source_urn, d.kind, d.title, d.observed, d.since, d.until"
_COLUMNS = f"{_DOCUMENT}, c.chunk_id, s.sentence_id, s.sentence, x.properties"
_TEXTS = "JOIN chunks c ON c.id = x.chunk JOIN sentences s ON s.id = x.sentence"
_ENDS = "JOIN nodes a ON a.id = x.source JOIN nodes b ON b.id = x.target"
_CHUNKS = "x.chunk IN (SELECT value FROM json_each(:chunks))"

COMMITTED = f"""
SELECT c.id, c.chunk_id FROM json_each(:chunks) j CROSS JOIN chunks c ON c.id = j.value
CROSS JOIN documents d ON d.id = c.document WHERE {_SEES} AND {_SELECTED}
"""
MENTIONED = f"""
SELECT n.node_key, NULL AS source, NULL AS type, NULL AS target, {_COLUMNS}, x.places
FROM mentions x {_D} JOIN nodes n ON n.id = x.node {_TEXTS} WHERE {_CHUNKS} AND {_SEES}
UNION ALL
SELECT a.node_key, a.node_key, x.type, b.node_key, {_COLUMNS}, x.places
FROM evidence x {_D} {_ENDS} {_TEXTS} WHERE {_CHUNKS} AND {_SEES}
ORDER BY 1, c.chunk_id, s.sentence_id, 3, 4
"""
# What a question reads thousands of is put together from plain rows: of many mentions few documents, nodes and
# sentences are looked up, each once.
_LISTED = "IN (SELECT value FROM json_each(?))"
MENTIONS_IN = f"SELECT chunk, node, sentence FROM mentions WHERE chunk {_LISTED}"
MENTIONS_OF = f"SELECT node, chunk, 1 - remoteness FROM mentions WHERE node {_LISTED}"
NODE_KEYS = f"SELECT id, node_key FROM nodes WHERE id {_LISTED}"
SENTENCE_IDS = f"SELECT id, sentence_id FROM sentences WHERE id {_LISTED}"
NODE_IDS = f"SELECT n.id, n.node_key FROM nodes n WHERE {_NODES}"
# Whether more than `:most` sentences mention the node: of the others nothing is cut off.
CROWDS = f"""
SELECT n.id, n.node_key, EXISTS (SELECT 1 FROM mentions y WHERE y.node = n.id LIMIT 1 OFFSET :most)
FROM nodes n WHERE {_NODES}
"""
# One node at a time: the primary key gives the most salient first, and the limits stop the reading: the inner one also
# of what the viewer does not see. CROSS JOIN keeps the order of the mentions.
_SALIENT = "(SELECT * FROM mentions WHERE node = :node ORDER BY remoteness, chunk, sentence LIMIT :hub) x"
LEADS = f"""
SELECT c.chunk_id, 1 - x.remoteness AS salience FROM {_SALIENT}
CROSS JOIN documents d ON d.id = x.document CROSS JOIN chunks c ON c.id = x.chunk
WHERE {_SEES} AND {_SELECTED} LIMIT :rows
"""
_AROUND = f"""
SELECT DISTINCT a.node_key AS source, x.type, b.node_key AS target
FROM (SELECT * FROM evidence WHERE END = :node LIMIT :hub) x {_D} {_ENDS}
WHERE (:types IS NULL OR x.type IN (SELECT value FROM json_each(:types)))
    AND {_KNOWN} AND {_SEES}
"""
AROUND = f"{_AROUND.replace('END', 'source')} UNION {_AROUND.replace('END', 'target')} ORDER BY 1, 2, 3 LIMIT :limit"
AMONG = f"""
SELECT DISTINCT a.node_key AS source, x.type, b.node_key AS target FROM evidence x {_D} {_ENDS}
WHERE a.client IN (:world, :client) AND a.node_key IN (SELECT value FROM json_each(:nodes))
    AND b.node_key IN (SELECT value FROM json_each(:nodes))
    AND (:types IS NULL OR x.type IN (SELECT value FROM json_each(:types)))
    AND {_KNOWN} AND {_SEES}
ORDER BY 1, 2, 3 LIMIT :limit
"""
EDGES = f"""
SELECT a.node_key AS source, x.type, b.node_key AS target, json_group_array(DISTINCT c.chunk_id) AS chunks
FROM evidence x {_D} {_ENDS} JOIN chunks c ON c.id = x.chunk
WHERE d.client IN (:world, :client) AND {_SEES} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT :limit
"""
PROOFS = f"""
SELECT a.node_key, a.node_key AS source, x.type, b.node_key AS target, {_COLUMNS}, x.places
FROM evidence x {_D} {_ENDS} {_TEXTS}
WHERE a.client IN (:world, :client) AND (:source IS NULL OR a.node_key = :source)
    AND (:target IS NULL OR b.node_key = :target) AND (:type IS NULL OR x.type = :type) AND {_KNOWN} AND {_SEES}
ORDER BY 2, 3, 4, d.observed IS NULL, d.observed DESC, c.chunk_id, s.sentence_id LIMIT :limit
"""
# Of one relationship, by the ids of its ends.
PROVEN = f"""
SELECT a.node_key, a.node_key AS source, x.type, b.node_key AS target, {_COLUMNS}, x.places
FROM evidence x {_D} {_ENDS} {_TEXTS}
WHERE x.source = :source AND x.type = :type AND x.target = :target AND {_KNOWN} AND {_SEES}
ORDER BY d.observed IS NULL, d.observed DESC, c.chunk_id, s.sentence_id LIMIT :limit
"""
OBSERVED = f"""
SELECT DISTINCT a.node_key AS source, x.type, b.node_key AS target, d.observed FROM evidence x {_D} {_ENDS}
WHERE a.client IN (:world, :client) AND a.node_key IN (SELECT value FROM json_each(:nodes))
    AND x.type IN (SELECT value FROM json_each(:types)) AND {_KNOWN} AND {_SEES}
"""
COUNTS = f"""
SELECT (SELECT count(*) FROM documents d WHERE d.client IN (:world, :client) AND {_SEES}),
       (SELECT count(*) FROM chunks x {_D} WHERE d.client IN (:world, :client) AND {_SEES}),
       (SELECT count(DISTINCT n.node_key) FROM mentions x {_D} JOIN nodes n ON n.id = x.node
        WHERE d.client IN (:world, :client) AND {_SEES}),
       (SELECT count(*) FROM (SELECT DISTINCT a.node_key, x.type, b.node_key FROM evidence x {_D} {_ENDS}
                              WHERE d.client IN (:world, :client) AND {_SEES})),
       (SELECT count(*) FROM mentions x {_D} WHERE d.client IN (:world, :client) AND {_SEES})
"""
PRESENT = f"""
SELECT DISTINCT n.node_key FROM nodes n WHERE {_NODES}
    AND EXISTS (SELECT 1 FROM mentions x {_D} WHERE x.node = n.id AND {_KNOWN} AND {_SEES}) ORDER BY 1
"""
NAMED = f"""
SELECT DISTINCT n.name, n.node_key FROM nodes n
WHERE n.client IN (:world, :client) AND n.name IN (SELECT value FROM json_each(:names))
    AND EXISTS (SELECT 1 FROM mentions x {_D} WHERE x.node = n.id AND {_KNOWN} AND {_SEES}) ORDER BY 1, 2
"""
ALIKE = NAMED.replace("n.name", "n.stem")
SEARCH_NODES = f"""
SELECT node_key, node_type, sum(said) AS mentions FROM (
    SELECT n.node_key, n.node_type,
        (SELECT count(*) FROM (SELECT document FROM mentions WHERE node = n.id LIMIT :hub) x {_D}
            WHERE {_KNOWN} AND {_SEES}) AS said
    FROM nodes n WHERE n.client IN (:world, :client) AND (:type IS NULL OR n.node_type = :type)
        AND (:text IS NULL OR instr(n.name, :text) OR instr(lower(n.node_key), :text))
        AND (:nodes IS NULL OR n.node_key IN (SELECT value FROM json_each(:nodes)))
) WHERE said > 0 GROUP BY node_key ORDER BY 3 DESC, 1 LIMIT :limit
"""
# The nodes to which a document gives a property whose name is among the fragments: more than are meant.
GIVEN_NODES = f"""
SELECT DISTINCT n.node_key FROM nodes n JOIN mentions x ON x.node = n.id AND x.properties <> '' {_D}
WHERE n.client IN (:world, :client) AND {_KNOWN} AND {_SEES}
    AND EXISTS (SELECT 1 FROM json_each(:fragments) WHERE instr(x.properties, value))
"""
DESCRIBE = f"""
SELECT n.node_key, x.name, x.description, c.chunk_id, x.properties, d.observed, d.source_urn
FROM {_SALIENT} CROSS JOIN documents d ON d.id = x.document CROSS JOIN nodes n ON n.id = x.node
CROSS JOIN chunks c ON c.id = x.chunk WHERE {_KNOWN} AND {_SEES} LIMIT :described
"""
# The other way round than `_SEES`: documents of which the owner sees what is written in the given scope.
NAMING = """
SELECT DISTINCT d.document_id, d.source_urn, d.kind, d.title, d.observed, d.since, d.until, d.project, d.grp
FROM nodes n JOIN mentions x ON x.node = n.id JOIN documents d ON d.id = x.document
WHERE n.client = :client AND n.node_key = :node AND d.document_id > :after
  AND ((:project = '' AND :grp = '') OR (:project <> '' AND d.project = :project) OR (:grp <> '' AND d.grp = :grp))
ORDER BY d.document_id LIMIT :limit
"""
# The beginning is a range of the index: `last` is no less than any source URN that begins so.
DOCUMENTS = """
SELECT d.document_id, d.source_urn, d.kind, d.title, d.observed, d.since, d.until FROM documents d
WHERE d.client = :client AND d.kind = :kind AND d.source_urn >= :beginning
  AND d.source_urn <= :last AND d.source_urn > :after
  AND d.project = :project AND (:project <> '' OR d.grp = :grp)
ORDER BY d.source_urn LIMIT :limit
"""
LISTED = f"""
SELECT {_DOCUMENT}, d.client, d.project, d.grp,
    (SELECT count(*) FROM chunks c WHERE c.document = d.id) AS chunks
FROM documents d
WHERE d.client IN (:world, :client) AND {_SEES} AND (:kind IS NULL OR d.kind = :kind)
  AND d.source_urn >= :beginning AND d.source_urn <= :last AND d.document_id > :after
ORDER BY d.document_id LIMIT :limit
"""
REPLACED = f"""
SELECT {_DOCUMENT} FROM documents d
WHERE d.document_id IN (SELECT value FROM json_each(:documents)) AND d.until IS NOT NULL
    AND d.client IN (:world, :client) AND {_SEES}
ORDER BY d.document_id, d.until DESC
"""
# For the comparison of the stores: all that a client owns, its history included, a page at a time, after the given row.
_AUDITED = (
    "c.id, c.chunk_id, d.project, d.grp, d.document_id, d.source_urn, d.kind, d.title, d.observed, d.since, d.until"
)
AUDIT = f"""
SELECT {_AUDITED} FROM chunks c JOIN documents d ON d.id = c.document
WHERE d.client IN (:client, :past) AND c.id > :after ORDER BY c.id LIMIT :limit
"""
# Of these documents alone, and of these chunks. The index of clients would lead over all that the client owns.
AUDIT_OF = f"""
SELECT {_AUDITED} FROM documents d CROSS JOIN chunks c ON c.document = d.id
WHERE d.id IN (SELECT value FROM json_each(:numbers) UNION ALL SELECT id FROM documents
        WHERE until IS NOT NULL AND document_id IN (SELECT value FROM json_each(:documents)))
    AND +d.client IN (:client, :past) AND c.id > :after ORDER BY c.id LIMIT :limit
"""
HELD = f"""
SELECT {_AUDITED} FROM chunks c CROSS JOIN documents d ON d.id = c.document
WHERE c.id IN (SELECT value FROM json_each(:chunks)) AND +d.client IN (:client, :past) ORDER BY c.id
"""
AUDIT_NODES = """
SELECT x.chunk, n.node_key FROM mentions x JOIN nodes n ON n.id = x.node
WHERE x.chunk IN (SELECT value FROM json_each(:chunks))
"""
AUDIT_SENTENCES = "SELECT chunk, sentence_id FROM sentences WHERE chunk IN (SELECT value FROM json_each(:chunks))"
