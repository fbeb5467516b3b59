"""Intents, kept answers and noted changes in one SQLite file, for one writing process; so no fence is compared.

All are bookkeeping of the writing process: losing the file costs model calls and a full comparison, not knowledge.

What is opened, failed or forgotten is on the disk before anything depends on it: otherwise a power cut would leave an
older request open, and it would be done again after a newer one. What ends a request only saves its repetition.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

from crds import scope
from kb import api, sqlite, visibility
from kb.extract import answers
from kb.ingest import changes, request_record

# ruff: noqa: S608 -- the interpolated parts are constants, never a value

_FAILURES = "CREATE INDEX intents_failed ON intents (updated_at) WHERE state = 'Failed'"
# Of an answer `key` is `answers.place` and `asked` the hash of the question.
_ASKED = "CREATE INDEX answers_asked ON answers (asked, client) WHERE asked <> ''"
# A mark is never given twice, also when its row is gone.
_CHANGES = """CREATE TABLE changes (
    mark INTEGER PRIMARY KEY AUTOINCREMENT, document_id TEXT NOT NULL UNIQUE, client TEXT NOT NULL,
    project TEXT NOT NULL, grp TEXT NOT NULL)"""
_PASSES = """CREATE TABLE passes (
    kind TEXT PRIMARY KEY, begun_at TEXT NOT NULL, ended_at TEXT, client TEXT NOT NULL, place TEXT)"""
_SCHEMA = f"""
CREATE TABLE intents (
    document_id TEXT PRIMARY KEY, client TEXT NOT NULL, project TEXT NOT NULL, grp TEXT NOT NULL,
    source_urn TEXT NOT NULL, state TEXT NOT NULL, known INTEGER NOT NULL, attempts INTEGER NOT NULL,
    reason TEXT NOT NULL, request TEXT, updated_at TEXT NOT NULL, dated INTEGER, stored INTEGER,
    stamp TEXT NOT NULL DEFAULT ''
);
CREATE INDEX intents_open ON intents (updated_at) WHERE state = 'Open';
{_FAILURES};
CREATE TABLE answers (
    key TEXT PRIMARY KEY, prompt TEXT NOT NULL, answer TEXT NOT NULL, at INTEGER NOT NULL,
    asked TEXT NOT NULL DEFAULT '', client TEXT NOT NULL DEFAULT '', project TEXT NOT NULL DEFAULT '',
    grp TEXT NOT NULL DEFAULT ''
);
CREATE INDEX answers_at ON answers (at);
{_ASKED};
{_CHANGES};
{_PASSES};
"""
# Everything but the request, which may be long.
_COLUMNS = """document_id, client, project, grp, source_urn, state, known, attempts, reason, updated_at,
    request IS NOT NULL AS recorded, dated, stored, stamp"""
_OPEN = f"""
INSERT INTO intents VALUES (:id, :client, :project, :grp, :urn, 'Open', 0, 1, '', :request, :now, :dated, NULL, '')
ON CONFLICT (document_id) DO UPDATE SET
    client = :client, project = :project, grp = :grp, state = 'Open', reason = '', updated_at = :now,
    attempts = CASE WHEN state = 'Open' AND request = :request THEN attempts + 1 ELSE 1 END,
    dated = CASE WHEN state = 'Open' AND request = :request THEN coalesce(dated, :dated) ELSE :dated END,
    known = known OR state = 'Finished', request = :request
RETURNING {_COLUMNS}
"""
_REFUSE = """
INSERT INTO intents VALUES (:id, :client, :project, :grp, :urn, 'Failed', 0, 0, :reason, NULL, :now, NULL, NULL, '')
ON CONFLICT (document_id) DO UPDATE SET
    known = known OR state = 'Finished', state = 'Failed', reason = :reason, updated_at = :now
WHERE request IS NULL
"""
_FIND = f"SELECT {_COLUMNS}, request FROM intents WHERE document_id = ?"
_UNFINISHED = f"""
SELECT {_COLUMNS} FROM intents WHERE state = 'Open' AND updated_at < :before
AND (updated_at, document_id) > (:at, :id) ORDER BY updated_at, document_id LIMIT :limit
"""
_MENTIONS = """
SELECT 1 FROM (SELECT request FROM intents WHERE state = 'Open' UNION ALL
    SELECT request FROM intents WHERE state = 'Failed') WHERE instr(request, ?) LIMIT 1
"""
# `kb.visibility.sees` over the record's own columns.
_SEES = visibility.sql()
_FAILED = f"""
SELECT {_COLUMNS} FROM intents WHERE state = 'Failed' AND {_SEES}
ORDER BY updated_at DESC LIMIT :limit
"""
_LISTED = f"""
SELECT * FROM (
    SELECT {_COLUMNS} FROM intents WHERE state = 'Open' UNION ALL SELECT {_COLUMNS} FROM intents WHERE state = 'Failed')
WHERE {_SEES} AND substr(source_urn, 1, length(:beginning)) = :beginning AND document_id > :after
ORDER BY document_id LIMIT :limit
"""
_AMONG = f"""
SELECT {_COLUMNS} FROM intents
WHERE state <> 'Finished' AND document_id IN (SELECT value FROM json_each(:ids))
"""
_MOVES = "client = :client AND project = :project AND grp <> :grp"
_REGROUP = f"""
UPDATE intents SET grp = :grp WHERE document_id IN (
    SELECT document_id FROM intents WHERE state = 'Open' AND {_MOVES}
    UNION ALL SELECT document_id FROM intents WHERE state = 'Failed' AND {_MOVES})
RETURNING document_id
"""
_ANSWER = """
SELECT * FROM (
    SELECT key, prompt, answer, at FROM answers WHERE key = :mine
    UNION ALL SELECT key, prompt, answer, at FROM answers WHERE asked <> '' AND asked = :asked AND client = :client)
ORDER BY key = :mine DESC LIMIT 1
"""
_KEEP = """
INSERT OR REPLACE INTO answers (key, prompt, answer, at, asked, client, project, grp)
VALUES (:mine, :prompt, :answer, :now, :asked, :client, :project, :grp)
"""
_NOTE = """
INSERT OR REPLACE INTO changes (document_id, client, project, grp)
SELECT value, :client, :project, :grp FROM json_each(:ids)
"""
_EVICT = "DELETE FROM answers WHERE key IN (SELECT key FROM answers ORDER BY at DESC, key LIMIT -1 OFFSET ?)"
# Seconds: a kept answer that is used is written again at most that often; eviction needs no better order.
_USED = 3600
_FINISHED = "state = 'Finished', known = 1, reason = '', request = NULL, stored = dated, stamp = :stamp"
_PENDING = _FAILED.replace("'Failed'", "'Open'")


class Ledger:
    """Records, kept answers and changes over the file `path`.

    It implements `IngestRequestRecords`, `kb.extract.answers.Shelf` and `kb.ingest.changes.Changes`.

    `clock` gives the current time in UTC; about `max_answers` answers are kept, the ones not used for longest go first.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime], *, max_answers: int) -> None:
        self._database = sqlite.Database(path, _SCHEMA, version=6)
        self._clock = clock
        self._max_answers = max_answers
        # Looking for what to evict walks the whole index, so it is done once per percent of the capacity.
        self._evict_every = max(max_answers // 100, 1)
        self._kept = 0

    async def prepare(self) -> None:
        """Create or check the file."""
        await self._database.prepare()

    async def open(
        self,
        document_id: str,
        owner: scope.Scope,
        source_urn: str,
        request: str,
        now: datetime,
        *,
        dated_ms: int | None = None,
        fence: int = 0,
    ) -> request_record.IngestRequestRecord:
        values = {**_values(document_id, owner, source_urn, now), "request": request, "dated": dated_ms}
        row = await self._database.write(lambda connection: connection.execute(_OPEN, values).fetchone())
        return _intent(row)

    async def finish(self, document_id: str, now: datetime, *, fence: int = 0, stamp: str = "") -> None:
        await self._set(document_id, _FINISHED, "", now, stamp=stamp)

    async def fail(self, document_id: str, reason: str, now: datetime, *, fence: int = 0) -> None:
        await self._set(document_id, "state = 'Failed', reason = :reason", reason, now, durable=True)

    async def refuse(
        self, document_id: str, owner: scope.Scope, source_urn: str, reason: str, now: datetime, *, fence: int = 0
    ) -> None:
        values = {**_values(document_id, owner, source_urn, now), "reason": reason[:1000]}
        await self._database.write(lambda connection: connection.execute(_REFUSE, values), durable=False)

    async def find(self, document_id: str) -> tuple[request_record.IngestRequestRecord, str | None] | None:
        row = await self._database.read(lambda connection: connection.execute(_FIND, (document_id,)).fetchone())
        return None if row is None else (_intent(row), row["request"])

    async def interrupt(self, document_id: str, reason: str, now: datetime, *, fence: int = 0) -> None:
        await self._set(document_id, "reason = :reason", reason, now)

    async def forget(self, document_id: str, *, fence: int = 0) -> None:
        await self._database.write(
            lambda connection: connection.execute("DELETE FROM intents WHERE document_id = ?", (document_id,))
        )

    async def unfinished(
        self, *, before: datetime, after: request_record.IngestRequestRecord | None = None, limit: int = 100
    ) -> list[request_record.IngestRequestRecord]:
        values = {
            "before": _text(before),
            "at": "" if after is None else _text(after.updated_at),
            "id": "" if after is None else after.document_id,
            "limit": limit,
        }
        rows = await self._database.read(lambda connection: connection.execute(_UNFINISHED, values).fetchall())
        return [_intent(row) for row in rows]

    async def mentions(self, text: str) -> bool:
        row = await self._database.read(lambda connection: connection.execute(_MENTIONS, (text,)).fetchone())
        return row is not None

    async def failed(self, viewer: scope.Scope, *, limit: int) -> list[request_record.IngestRequestRecord]:
        values = {"client": viewer.client_id, "project": viewer.project_id, "grp": viewer.group_id, "limit": limit}
        rows = await self._database.read(lambda connection: connection.execute(_FAILED, values).fetchall())
        return [_intent(row) for row in rows]

    async def pending(self, viewer: scope.Scope, *, limit: int) -> list[request_record.IngestRequestRecord]:
        values = {"client": viewer.client_id, "project": viewer.project_id, "grp": viewer.group_id, "limit": limit}
        rows = await self._database.read(lambda connection: connection.execute(_PENDING, values).fetchall())
        return [_intent(row) for row in rows]

    async def listed(
        self, viewer: scope.Scope, *, beginning: str = "", after: str = "", limit: int = 100
    ) -> list[request_record.IngestRequestRecord]:
        values = {"client": viewer.client_id, "project": viewer.project_id, "grp": viewer.group_id, "limit": limit}
        bound = values | {"beginning": beginning, "after": after}
        rows = await self._database.read(lambda connection: connection.execute(_LISTED, bound).fetchall())
        return [_intent(row) for row in rows]

    async def among(self, document_ids: Collection[str]) -> dict[str, request_record.IngestRequestRecord]:
        bound = {"ids": json.dumps(sorted(document_ids))}
        rows = await self._database.read(lambda connection: connection.execute(_AMONG, bound).fetchall())
        return {row["document_id"]: _intent(row) for row in rows}

    async def working(self, document_ids: Collection[str]) -> set[str]:
        wanted = json.dumps(sorted(document_ids))
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT document_id FROM intents WHERE state = 'Open' "
                "AND document_id IN (SELECT value FROM json_each(?))",
                (wanted,),
            ).fetchall()
        )
        return {row["document_id"] for row in rows}

    async def count(self) -> dict[request_record.State, int]:
        rows = await self._database.read(
            lambda connection: connection.execute("SELECT state, count(*) AS n FROM intents GROUP BY state").fetchall()
        )
        return {request_record.State(row["state"]): row["n"] for row in rows}

    async def regroup(self, owner: scope.Scope) -> list[str]:
        values = {"client": owner.client_id, "project": owner.project_id, "grp": owner.group_id}
        rows = await self._database.write(lambda connection: connection.execute(_REGROUP, values).fetchall())
        return [row["document_id"] for row in rows]

    async def erase(self, where: scope.Scope) -> int:
        """Forget what is kept of a scope that is erased, and the answers of which no owner is known.

        Its changes too: an erasure ends when it has seen that nothing of the scope is left.
        """
        values = {"client": where.client_id, "project": where.project_id, "grp": where.group_id}

        def work(connection: sqlite3.Connection) -> int:
            connection.execute(f"DELETE FROM answers WHERE asked = '' OR ({sqlite.ERASED})", values)
            connection.execute(f"DELETE FROM changes WHERE {sqlite.ERASED}", values)
            return connection.execute(f"DELETE FROM intents WHERE {sqlite.ERASED}", values).rowcount

        return await self._database.write(work)

    async def answer(self, key: str, owner: scope.Scope) -> str | None:
        values = _place(key, owner)
        row = await self._database.read(lambda connection: connection.execute(_ANSWER, values).fetchone())
        if row is None:
            return None
        if row["key"] != values["mine"] or self._seconds() - row["at"] >= _USED:
            await self.keep_answer(key, row["prompt"], row["answer"], owner)
        return str(row["answer"])

    async def keep_answer(self, key: str, prompt_name: str, text: str, owner: scope.Scope) -> None:
        values = {**_place(key, owner), "prompt": prompt_name, "answer": text, "now": self._seconds()}

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_KEEP, values)
            self._kept += 1
            if self._kept % self._evict_every == 0:
                connection.execute(_EVICT, (self._max_answers,))

        await self._database.write(work, durable=False)

    async def note(self, owner: scope.Scope, document_ids: Collection[str]) -> None:
        values = {
            "client": owner.client_id,
            "project": owner.project_id,
            "grp": owner.group_id,
            "ids": json.dumps(sorted(document_ids)),
        }
        await self._database.write(lambda connection: connection.execute(_NOTE, values))

    async def changed(self, *, after: str = "", limit: int = 100) -> list[changes.Change]:
        statement = "SELECT * FROM changes WHERE document_id > ? ORDER BY document_id LIMIT ?"
        rows = await self._database.read(lambda connection: connection.execute(statement, (after, limit)).fetchall())
        return [changes.Change(row["document_id"], _owner(row), str(row["mark"])) for row in rows]

    async def settle(self, document_id: str, mark: str) -> None:
        statement, values = "DELETE FROM changes WHERE document_id = ? AND mark = ?", (document_id, int(mark))
        await self._database.write(lambda connection: connection.execute(statement, values), durable=False)

    async def record(self, one: changes.Pass) -> None:
        ended = None if one.ended_at is None else _text(one.ended_at)
        values = (one.kind, _text(one.begun_at), ended, one.client_id, one.after)
        statement = "INSERT OR REPLACE INTO passes (kind, begun_at, ended_at, client, place) VALUES (?, ?, ?, ?, ?)"
        await self._database.write(lambda connection: connection.execute(statement, values), durable=False)

    async def passes(self) -> dict[api.PassKind, changes.Pass]:
        rows = await self._database.read(lambda connection: connection.execute("SELECT * FROM passes").fetchall())
        return {row["kind"]: _pass(row) for row in rows}

    def _seconds(self) -> int:
        return int(self._clock().timestamp())

    async def close(self) -> None:
        """Let go of the file."""
        await self._database.close()

    async def _set(
        self, document_id: str, assignments: str, reason: str, now: datetime, *, durable: bool = False, stamp: str = ""
    ) -> None:
        values = {"id": document_id, "reason": reason[:1000], "now": _text(now), "stamp": stamp}
        # The assignments are literals of this module.
        statement = f"UPDATE intents SET {assignments}, updated_at = :now WHERE document_id = :id"
        await self._database.write(lambda connection: connection.execute(statement, values), durable=durable)


def _intent(row: sqlite3.Row) -> request_record.IngestRequestRecord:
    return request_record.IngestRequestRecord(
        document_id=row["document_id"],
        owner=_owner(row),
        source_urn=row["source_urn"],
        state=request_record.State(row["state"]),
        known=bool(row["known"]),
        attempts=row["attempts"],
        reason=row["reason"],
        updated_at=datetime.fromisoformat(row["updated_at"]),
        recorded=bool(row["recorded"]),
        dated_ms=row["dated"],
        stored_ms=row["stored"],
        stamp=row["stamp"],
    )


def _owner(row: sqlite3.Row) -> scope.Scope:
    return scope.Scope(client_id=row["client"], project_id=row["project"], group_id=row["grp"])


def _pass(row: sqlite3.Row) -> changes.Pass:
    ended = None if row["ended_at"] is None else datetime.fromisoformat(row["ended_at"])
    return changes.Pass(row["kind"], datetime.fromisoformat(row["begun_at"]), ended, row["client"], row["place"])


def _values(document_id: str, owner: scope.Scope, source_urn: str, now: datetime) -> dict[str, str | int | None]:
    return {
        "id": document_id,
        "client": owner.client_id,
        "project": owner.project_id,
        "grp": owner.group_id,
        "urn": source_urn,
        "now": _text(now),
    }


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _place(key: str, owner: scope.Scope) -> dict[str, str | int]:
    return {
        "mine": answers.place(key, owner),
        "asked": key,
        "client": owner.client_id,
        "project": owner.project_id,
        "grp": owner.group_id,
    }
