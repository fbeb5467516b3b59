"""The SQL of the queue: its schema and its queries, composed once from constants; every value is bound at run time.

What is asked at every put and after every job is counted as it changes, by triggers, and never by looking through the
queue: `depths` holds the jobs per priority and their bytes, `clients` those per client of a priority, and when each was
served last.
"""

# ruff: noqa: S608 -- the interpolated parts are the constants of this module, never a value

from __future__ import annotations

from kb import visibility

VERSION = 4

# Behind every manual position; a column without NULLs keeps the order in one index.
UNPLACED = 1 << 40

# Jobs with a manual position, by it; and the others by client.
_PLACED = f"CREATE INDEX jobs_placed ON jobs (position, priority, seq, not_before) WHERE position < {UNPLACED}"
_TURN = "CREATE INDEX jobs_turn ON jobs (priority, client, position, seq, not_before, project, grp)"
# Answers how many jobs a viewer may see without looking at one of them, and with it at its request.
_SCOPES = "CREATE INDEX jobs_scope ON jobs (client, project, grp)"
_COUNTED = (
    "CREATE TABLE depths (priority INTEGER PRIMARY KEY, n INTEGER NOT NULL, bytes INTEGER NOT NULL)",
    """CREATE TABLE clients (priority INTEGER NOT NULL, client TEXT NOT NULL, n INTEGER NOT NULL,
        bytes INTEGER NOT NULL, served INTEGER NOT NULL, PRIMARY KEY (priority, client)) WITHOUT ROWID""",
    "CREATE INDEX clients_served ON clients (priority, served)",
)
# A client that begins to wait is behind all that wait already.
_LAST = "(SELECT coalesce(max(served), 0) + 1 FROM clients WHERE priority = new.priority)"
_MORE = f"""
    INSERT INTO depths VALUES (new.priority, 1, new.size)
        ON CONFLICT (priority) DO UPDATE SET n = n + 1, bytes = bytes + new.size;
    INSERT INTO clients VALUES (new.priority, new.client, 1, new.size, {_LAST})
        ON CONFLICT (priority, client) DO UPDATE SET n = n + 1, bytes = bytes + new.size;
"""
_LESS = """
    UPDATE depths SET n = n - 1, bytes = bytes - old.size WHERE priority = old.priority;
    UPDATE clients SET n = n - 1, bytes = bytes - old.size WHERE priority = old.priority AND client = old.client;
    DELETE FROM clients WHERE priority = old.priority AND client = old.client AND n = 0;
"""
_COUNT = (
    f"CREATE TRIGGER jobs_put AFTER INSERT ON jobs BEGIN {_MORE} END",
    # More before less: a client whose only job is put again keeps its turn.
    f"CREATE TRIGGER jobs_changed AFTER UPDATE OF client, priority, size ON jobs BEGIN {_MORE} {_LESS} END",
    f"CREATE TRIGGER jobs_dropped AFTER DELETE ON jobs BEGIN {_LESS} END",
)
SCHEMA = f"""
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, document_id TEXT NOT NULL UNIQUE,
    client TEXT NOT NULL, project TEXT NOT NULL, grp TEXT NOT NULL, source_urn TEXT NOT NULL, kind TEXT NOT NULL,
    action TEXT NOT NULL, priority INTEGER NOT NULL, position INTEGER NOT NULL, attempts INTEGER NOT NULL,
    reason TEXT NOT NULL, created_at TEXT NOT NULL, not_before TEXT NOT NULL, revision TEXT NOT NULL,
    indexed INTEGER NOT NULL, request TEXT NOT NULL, size INTEGER NOT NULL DEFAULT 0);
{_SCOPES};
{_PLACED};
{_TURN};
{";".join((*_COUNTED, *_COUNT))};
"""

PUT = f"""
INSERT INTO jobs (document_id, client, project, grp, source_urn, kind, action, priority, position, attempts, reason,
                  created_at, not_before, revision, indexed, request, size)
VALUES (:id, :client, :project, :grp, :urn, :kind, :action, :priority, {UNPLACED}, 0, '',
        :now, '', :revision, 0, :request, :size)
ON CONFLICT (document_id) DO UPDATE SET
    client = :client, project = :project, grp = :grp, source_urn = :urn, kind = :kind, action = :action,
    priority = min(priority, :priority), attempts = 0, reason = '', not_before = '', revision = :revision,
    indexed = 0, request = :request, size = :size
    WHERE NOT (action = 'Extract' AND :action = 'Reweave')
"""
_DUE = "not_before <= :now AND document_id NOT IN (SELECT value FROM json_each(:skip))"
NEXT_PLACED = f"""
SELECT * FROM jobs WHERE position < {UNPLACED} AND priority <= :most AND {_DUE} ORDER BY position, priority, seq LIMIT 1
"""
WAITING = "SELECT client FROM clients WHERE priority = :priority ORDER BY served, client"
NEXT_OF = f"""
SELECT * FROM jobs WHERE priority = :priority AND client = :client AND position = {UNPLACED} AND {_DUE}
ORDER BY seq LIMIT 1
"""
SERVED = """
UPDATE clients SET served = (SELECT max(served) + 1 FROM clients WHERE priority = :priority)
WHERE priority = :priority AND client = :client
"""
# `kb.visibility.sees` over the job's own columns.
_SEES = visibility.sql()
# Everything but the request, which may be long.
COLUMNS = """document_id, seq, client, project, grp, source_urn, kind, action, priority, position, attempts, reason,
    created_at, not_before, revision, indexed"""
AMONG = f"SELECT {COLUMNS} FROM jobs WHERE document_id IN (SELECT value FROM json_each(:ids))"
_RUNNING = "(SELECT seq FROM jobs WHERE document_id IN (SELECT value FROM json_each(:running)))"
LIST_RUNNING = f"""
SELECT {COLUMNS} FROM jobs WHERE seq IN {_RUNNING} AND {_SEES} ORDER BY position, priority, seq LIMIT :limit
"""
# What the viewer sees with its rank among all there is: placed jobs, or those of one client at one priority. The index
# alone tells what is hidden.
_LIST = f"""
SELECT {COLUMNS}, rank FROM (SELECT seq, rank FROM (
    SELECT seq, client, project, grp, row_number() OVER (ORDER BY AGE) - 1 AS rank
    FROM jobs WHERE CHOSEN AND seq NOT IN {_RUNNING} ORDER BY AGE
) WHERE {_SEES} ORDER BY rank LIMIT :limit) JOIN jobs USING (seq) ORDER BY rank
"""
_IS_PLACED = f"position < {UNPLACED}"
LIST_PLACED = _LIST.replace("CHOSEN", _IS_PLACED).replace("AGE", "position, priority, seq")
LIST_OF = _LIST.replace("CHOSEN", f"priority = :priority AND client = :of AND position = {UNPLACED}").replace(
    "AGE", "seq"
)
PLACED = f"SELECT count(*) FROM jobs WHERE {_IS_PLACED} AND seq NOT IN {_RUNNING}"
# Of each client's jobs those that are placed or in work.
APART = f"""
SELECT priority, client, count(*) AS n FROM jobs WHERE {_IS_PLACED} OR seq IN {_RUNNING} GROUP BY priority, client
"""
SHARES = "SELECT priority, client, n, served FROM clients"
COUNT = f"SELECT count(*) FROM jobs WHERE {_SEES}"
VISIBLE = f"SELECT 1 FROM jobs WHERE document_id = :id AND {_SEES}"
ONE = f"SELECT {COLUMNS} FROM jobs WHERE document_id = ?"
HELD = """
SELECT coalesce(sum(n), 0) AS n, coalesce(sum(bytes), 0) AS bytes FROM clients
WHERE client = ? AND priority IN (0, 1, 2, 3)
"""
TOTAL = "SELECT coalesce(sum(n), 0) AS n, coalesce(sum(bytes), 0) AS bytes FROM depths"
REGROUP = """
UPDATE jobs SET grp = :grp WHERE client = :client AND project = :project AND grp <> :grp RETURNING document_id
"""
DEPTHS = "SELECT priority, n FROM depths WHERE n > 0"
