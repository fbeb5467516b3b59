"""Intents and kept answers in one SQLite file beside the graph.

Both are bookkeeping of the writing process: losing the file costs model calls, not knowledge.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

from crds import scope
from kb import sqlite
from kb.ingest import intent

_SCHEMA = """
CREATE TABLE intents (
    document_id TEXT PRIMARY KEY, client TEXT NOT NULL, project TEXT NOT NULL, grp TEXT NOT NULL,
    source_urn TEXT NOT NULL, state TEXT NOT NULL, known INTEGER NOT NULL, attempts INTEGER NOT NULL,
    reason TEXT NOT NULL, request TEXT, updated_at TEXT NOT NULL
);
CREATE INDEX intents_open ON intents (updated_at) WHERE state = 'Open';
CREATE TABLE answers (
    key TEXT PRIMARY KEY, prompt TEXT NOT NULL, answer TEXT NOT NULL, at INTEGER NOT NULL
);
CREATE INDEX answers_at ON answers (at);
"""
_OPEN = """
INSERT INTO intents VALUES (:id, :client, :project, :grp, :urn, 'Open', 0, 1, '', :request, :now)
ON CONFLICT (document_id) DO UPDATE SET
    client = :client, project = :project, grp = :grp, state = 'Open', reason = '', updated_at = :now,
    attempts = CASE WHEN state = 'Open' AND request = :request THEN attempts + 1 ELSE 1 END,
    known = known OR state = 'Finished', request = :request
RETURNING *
"""
# `kb.visibility.sees` over the record's own columns.
_FAILED = """
SELECT * FROM intents WHERE state = 'Failed' AND (client = '' OR (client = :client AND (
    (project = '' AND grp = '') OR (project <> '' AND project = :project) OR (grp <> '' AND grp = :grp))))
ORDER BY updated_at DESC LIMIT :limit
"""
_EVICT = "DELETE FROM answers WHERE key IN (SELECT key FROM answers ORDER BY at DESC, key LIMIT -1 OFFSET ?)"
_PENDING = _FAILED.replace("'Failed'", "'Open'")


class Ledger:
    """Implements `kb.ingest.intent.Intents` and `kb.ingest.answers.Shelf` over `path`.

    `clock` gives the current time in UTC; about `max_answers` answers are kept, the oldest go first.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime], *, max_answers: int) -> None:
        self._database = sqlite.Database(path, _SCHEMA, version=1)
        self._clock = clock
        self._max_answers = max_answers
        # Looking for what to evict walks the whole index, so it is done once per percent of the capacity.
        self._evict_every = max(max_answers // 100, 1)
        self._kept = 0

    async def prepare(self) -> None:
        """Create or check the file."""
        await self._database.prepare()

    async def open(
        self, document_id: str, owner: scope.Scope, source_urn: str, request: str, now: datetime
    ) -> intent.Intent:
        values = {
            "id": document_id,
            "client": owner.client_id,
            "project": owner.project_id,
            "grp": owner.group_id,
            "urn": source_urn,
            "request": request,
            "now": now.astimezone(UTC).isoformat(),
        }
        row = await self._database.write(lambda connection: connection.execute(_OPEN, values).fetchone())
        return _intent(row)

    async def finish(self, document_id: str, now: datetime) -> None:
        await self._set(document_id, "state = 'Finished', known = 1, reason = '', request = NULL", "", now)

    async def fail(self, document_id: str, reason: str, now: datetime) -> None:
        await self._set(document_id, "state = 'Failed', reason = :reason, request = NULL", reason, now)

    async def interrupt(self, document_id: str, reason: str, now: datetime) -> None:
        await self._set(document_id, "reason = :reason", reason, now)

    async def forget(self, document_id: str) -> None:
        await self._database.write(
            lambda connection: connection.execute("DELETE FROM intents WHERE document_id = ?", (document_id,))
        )

    async def unfinished(self, *, before: datetime, limit: int = 100) -> list[tuple[intent.Intent, str]]:
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT * FROM intents WHERE state = 'Open' AND updated_at < ? ORDER BY updated_at LIMIT ?",
                (before.astimezone(UTC).isoformat(), limit),
            ).fetchall()
        )
        return [(_intent(row), row["request"]) for row in rows]

    async def mentions(self, text: str) -> bool:
        row = await self._database.read(
            lambda connection: connection.execute(
                "SELECT 1 FROM intents WHERE state = 'Open' AND instr(request, ?) LIMIT 1", (text,)
            ).fetchone()
        )
        return row is not None

    async def failed(self, viewer: scope.Scope, *, limit: int) -> list[intent.Intent]:
        values = {"client": viewer.client_id, "project": viewer.project_id, "grp": viewer.group_id, "limit": limit}
        rows = await self._database.read(lambda connection: connection.execute(_FAILED, values).fetchall())
        return [_intent(row) for row in rows]

    async def pending(self, viewer: scope.Scope, *, limit: int) -> list[intent.Intent]:
        values = {"client": viewer.client_id, "project": viewer.project_id, "grp": viewer.group_id, "limit": limit}
        rows = await self._database.read(lambda connection: connection.execute(_PENDING, values).fetchall())
        return [_intent(row) for row in rows]

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

    async def count(self) -> dict[intent.State, int]:
        rows = await self._database.read(
            lambda connection: connection.execute("SELECT state, count(*) AS n FROM intents GROUP BY state").fetchall()
        )
        return {intent.State(row["state"]): row["n"] for row in rows}

    async def erase(self, where: scope.Scope) -> int:
        """Forget the records of a scope that is erased, and every kept answer: whose text one is of is not known."""
        values = {"client": where.client_id, "project": where.project_id, "grp": where.group_id}

        def work(connection: sqlite3.Connection) -> int:
            connection.execute("DELETE FROM answers")
            return connection.execute(f"DELETE FROM intents WHERE {sqlite.ERASED}", values).rowcount  # noqa: S608

        return await self._database.write(work)

    async def answer(self, key: str) -> str | None:
        row = await self._database.read(
            lambda connection: connection.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        )
        return None if row is None else str(row["answer"])

    async def keep_answer(self, key: str, prompt_name: str, text: str) -> None:
        now = int(self._clock().timestamp())

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", (key, prompt_name, text, now))
            self._kept += 1
            if self._kept % self._evict_every == 0:
                connection.execute(_EVICT, (self._max_answers,))

        await self._database.write(work)

    async def close(self) -> None:
        """Let go of the file."""
        await self._database.close()

    async def _set(self, document_id: str, assignments: str, reason: str, now: datetime) -> None:
        values = {"id": document_id, "reason": reason[:1000], "now": now.astimezone(UTC).isoformat()}
        # The assignments are literals of this class.
        statement = f"UPDATE intents SET {assignments}, updated_at = :now WHERE document_id = :id"  # noqa: S608
        await self._database.write(lambda connection: connection.execute(statement, values))


def _intent(row: sqlite3.Row) -> intent.Intent:
    return intent.Intent(
        document_id=row["document_id"],
        owner=scope.Scope(client_id=row["client"], project_id=row["project"], group_id=row["grp"]),
        source_urn=row["source_urn"],
        state=intent.State(row["state"]),
        known=bool(row["known"]),
        attempts=row["attempts"],
        reason=row["reason"],
        updated_at=datetime.fromisoformat(row["updated_at"]),
    )
