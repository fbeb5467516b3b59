"""The SQL of the queue: its schema and its queries, composed once from constants; every value is bound at run time.

What is asked at every put and after every job is counted as it changes, by triggers, and never by looking through the
queue: `depths` holds the jobs per priority, `clients` those per client.
"""

# ruff: noqa: S608 -- the interpolated parts are the constants of this module, never a value

from __future__ import annotations

VERSION = 3

# Behind every manual position; a column without NULLs keeps the order in one index.
UNPLACED = 1 << 40

_ORDER = "CREATE INDEX jobs_order ON jobs (position, priority, seq, not_before)"
# Answers how many jobs a viewer may see without looking at one of them, and with it at its request.
_SCOPES = "CREATE INDEX jobs_scope ON jobs (client, project, grp)"
_COUNTED = (
    "CREATE TABLE depths (priority INTEGER PRIMARY KEY, n INTEGER NOT NULL)",
    "CREATE TABLE clients (client TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID",
)
_MORE = """
    INSERT INTO depths VALUES (new.priority, 1) ON CONFLICT (priority) DO UPDATE SET n = n + 1;
    INSERT INTO clients VALUES (new.client, 1) ON CONFLICT (client) DO UPDATE SET n = n + 1;
"""
_LESS = """
    UPDATE depths SET n = n - 1 WHERE priority = old.priority;
    UPDATE clients SET n = n - 1 WHERE client = old.client;
    DELETE FROM clients WHERE client = old.client AND n = 0;
"""
_COUNT = (
    f"CREATE TRIGGER jobs_put AFTER INSERT ON jobs BEGIN {_MORE} END",
    f"CREATE TRIGGER jobs_changed AFTER UPDATE OF client, priority ON jobs BEGIN {_LESS} {_MORE} END",
    f"CREATE TRIGGER jobs_dropped AFTER DELETE ON jobs BEGIN {_LESS} END",
)
SCHEMA = f"""
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, document_id TEXT NOT NULL UNIQUE,
    client TEXT NOT NULL, project TEXT NOT NULL, grp TEXT NOT NULL, source_urn TEXT NOT NULL, kind TEXT NOT NULL,
    action TEXT NOT NULL, priority INTEGER NOT NULL, position INTEGER NOT NULL, attempts INTEGER NOT NULL,
    reason TEXT NOT NULL, created_at TEXT NOT NULL, not_before TEXT NOT NULL, revision TEXT NOT NULL,
    indexed INTEGER NOT NULL, request TEXT NOT NULL
);
{_SCOPES};
{_ORDER};
{";".join((*_COUNTED, *_COUNT))};
"""
# From version 1, which counted its jobs at every put.
START_COUNTING = (
    "DROP INDEX jobs_order",
    _ORDER,
    *_COUNTED,
    "INSERT INTO depths SELECT priority, count(*) FROM jobs GROUP BY priority",
    "INSERT INTO clients SELECT client, count(*) FROM jobs GROUP BY client",
    *_COUNT,
)
# From version 2, whose index held the client alone.
INDEX_SCOPES = ("DROP INDEX jobs_client", _SCOPES)

PUT = f"""
INSERT INTO jobs (document_id, client, project, grp, source_urn, kind, action, priority, position, attempts, reason,
                  created_at, not_before, revision, indexed, request)
VALUES (:id, :client, :project, :grp, :urn, :kind, :action, :priority, {UNPLACED}, 0, '',
        :now, '', :revision, 0, :request)
ON CONFLICT (document_id) DO UPDATE SET
    client = :client, project = :project, grp = :grp, source_urn = :urn, kind = :kind, action = :action,
    priority = min(priority, :priority), attempts = 0, reason = '', not_before = '', revision = :revision,
    indexed = 0, request = :request
    WHERE NOT (action = 'Extract' AND :action = 'Reweave')
"""
_DUE = """priority <= :most AND not_before <= :now
AND document_id NOT IN (SELECT value FROM json_each(:skip)) ORDER BY position, priority, seq LIMIT 1"""
# Those with a manual position, and then, by a range of the same index, those of the priorities asked for.
NEXT = (
    f"SELECT * FROM jobs WHERE position < {UNPLACED} AND {_DUE}",
    f"SELECT * FROM jobs WHERE position = {UNPLACED} AND {_DUE}",
)
# `kb.visibility.sees` over the job's own columns.
_SEES = """(client = '' OR (client = :client AND ((project = '' AND grp = '')
    OR (project <> '' AND project = :project) OR (grp <> '' AND grp = :grp))))"""
LIST = f"SELECT * FROM jobs WHERE {_SEES} ORDER BY position, priority, seq LIMIT :limit"
COUNT = f"SELECT count(*) FROM jobs WHERE {_SEES}"
VISIBLE = f"SELECT * FROM jobs WHERE document_id = :id AND {_SEES}"
DEPTHS = "SELECT priority, n FROM depths WHERE n > 0"
