"""The queue in one SQLite file of the writing process. A job that was put is there after kill -9.

Which jobs are being worked on is not written down: one process owns the file, and after a crash nobody works on any.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

from crds import priority, scope
from kb import errors, identity, sqlite
from kb.queue import job, statements

_COME_BACK = 30.0


class Queue:
    """Implements `kb.queue.job.Queue` over `path`; at most `limit` jobs, and `per_client` of one client."""

    def __init__(self, path: Path, clock: Callable[[], datetime], *, limit: int, per_client: int) -> None:
        self._database = sqlite.Database(
            path, statements.SCHEMA, version=statements.VERSION, migrations={1: _from_version_1, 2: _from_version_2}
        )
        self._clock = clock
        self._limit = limit
        self._per_client = per_client

    async def prepare(self) -> None:
        """Create or check the file."""
        await self._database.prepare()

    async def put(
        self,
        document_id: str,
        owner: scope.Scope,
        source_urn: str,
        kind: str,
        action: job.Action,
        urgency: priority.Priority,
        request: str,
    ) -> job.Job:
        values = {
            **_names(owner),
            "id": document_id,
            "urn": source_urn,
            "kind": kind,
            "action": action.value,
            "priority": int(urgency),
            "now": _text(self._clock()),
            "revision": identity.digest(f"{action}\n{request}")[:32],
            "request": request,
        }

        def work(connection: sqlite3.Connection) -> sqlite3.Row:
            if action is job.Action.EXTRACT:
                # Mending is bounded by the documents that are there, and must not be lost.
                self._check_room(connection, owner.client_id, document_id)
            connection.execute(statements.PUT, values)
            row: sqlite3.Row = connection.execute("SELECT * FROM jobs WHERE document_id = :id", values).fetchone()
            return row

        return _job(await self._database.write(work))

    async def find(self, document_id: str) -> tuple[job.Job, str] | None:
        row = await self._database.read(
            lambda connection: connection.execute("SELECT * FROM jobs WHERE document_id = ?", (document_id,)).fetchone()
        )
        return None if row is None else (_job(row), row["request"])

    async def mark_indexed(self, document_id: str, revision: str) -> None:
        statement = "UPDATE jobs SET indexed = 1 WHERE document_id = ? AND revision = ?"
        await self._database.write(lambda connection: connection.execute(statement, (document_id, revision)))

    async def drop(self, document_id: str, *, revision: str | None = None) -> None:
        await self._database.write(
            lambda connection: connection.execute(
                "DELETE FROM jobs WHERE document_id = :id AND (:revision IS NULL OR revision = :revision)",
                {"id": document_id, "revision": revision},
            )
        )

    async def next(
        self, now: datetime, *, skip: Collection[str], most: priority.Priority | None = None
    ) -> tuple[job.Job, str] | None:
        values = {
            "now": _text(now),
            "skip": json.dumps(sorted(skip)),
            "most": int(priority.Priority.P3 if most is None else most),
        }

        def work(connection: sqlite3.Connection) -> sqlite3.Row | None:
            for statement in statements.NEXT:
                row: sqlite3.Row | None = connection.execute(statement, values).fetchone()
                if row is not None:
                    return row
            return None

        row = await self._database.read(work)
        return None if row is None else (_job(row), row["request"])

    async def postpone(self, document_id: str, revision: str, reason: str, until: datetime) -> None:
        values = {"id": document_id, "revision": revision, "reason": reason[:1000], "until": _text(until)}
        await self._database.write(
            lambda connection: connection.execute(
                "UPDATE jobs SET attempts = attempts + 1, reason = :reason, not_before = :until "
                "WHERE document_id = :id AND revision = :revision",
                values,
            )
        )

    async def listed(self, viewer: scope.Scope, *, limit: int) -> tuple[list[job.Job], int]:
        values = {**_names(viewer), "limit": limit}

        def work(connection: sqlite3.Connection) -> tuple[list[sqlite3.Row], int]:
            total = connection.execute(statements.COUNT, values).fetchone()[0]
            return connection.execute(statements.LIST, values).fetchall(), total

        rows, total = await self._database.read(work)
        return [_job(row) for row in rows], total

    async def move(self, viewer: scope.Scope, document_id: str, position: int) -> job.Job | None:
        values = {**_names(viewer), "id": document_id, "position": position}

        def work(connection: sqlite3.Connection) -> sqlite3.Row | None:
            if connection.execute(statements.VISIBLE, values).fetchone() is None:
                return None
            connection.execute(
                f"UPDATE jobs SET position = {statements.UNPLACED} WHERE document_id = :id",  # noqa: S608 -- a constant
                values,
            )
            _make_room(connection, position)
            connection.execute("UPDATE jobs SET position = :position WHERE document_id = :id", values)
            row: sqlite3.Row = connection.execute("SELECT * FROM jobs WHERE document_id = :id", values).fetchone()
            return row

        row = await self._database.write(work)
        return None if row is None else _job(row)

    async def erase(self, where: scope.Scope) -> int:
        """Forget the jobs of a scope that is erased."""
        statement = f"DELETE FROM jobs WHERE {sqlite.ERASED}"  # noqa: S608 -- a constant
        return await self._database.write(lambda connection: connection.execute(statement, _names(where)).rowcount)

    async def mentions(self, text: str) -> bool:
        row = await self._database.read(
            lambda connection: connection.execute(
                "SELECT 1 FROM jobs WHERE instr(request, ?) LIMIT 1", (text,)
            ).fetchone()
        )
        return row is not None

    async def depth(self) -> dict[priority.Priority, int]:
        rows = await self._database.read(lambda connection: connection.execute(statements.DEPTHS).fetchall())
        return {priority.Priority(row["priority"]): row["n"] for row in rows}

    async def close(self) -> None:
        """Let go of the file."""
        await self._database.close()

    def _check_room(self, connection: sqlite3.Connection, client: str, document_id: str) -> None:
        if connection.execute("SELECT 1 FROM jobs WHERE document_id = ?", (document_id,)).fetchone() is not None:
            return
        counted = connection.execute("SELECT n FROM clients WHERE client = ?", (client,)).fetchone()
        mine = counted["n"] if counted else 0
        if mine >= self._per_client:
            raise errors.Crowded(
                f"{mine} documents of client {client!r} wait for extraction already", retry_after=_COME_BACK
            )
        total = connection.execute("SELECT coalesce(sum(n), 0) FROM depths").fetchone()[0]
        if total >= self._limit:
            raise errors.Crowded(f"{total} documents wait for extraction already", retry_after=_COME_BACK)


def _from_version_1(connection: sqlite3.Connection) -> None:
    for statement in statements.START_COUNTING:
        connection.execute(statement)


def _from_version_2(connection: sqlite3.Connection) -> None:
    for statement in statements.INDEX_SCOPES:
        connection.execute(statement)


def _make_room(connection: sqlite3.Connection, position: int) -> None:
    """Push back the unbroken row of placed jobs that begins at `position`."""
    placed = connection.execute(
        "SELECT seq, position FROM jobs WHERE position >= ? AND position < ? ORDER BY position",
        (position, statements.UNPLACED),
    ).fetchall()
    following = position
    for row in placed:
        if row["position"] > following:
            break
        following += 1
        connection.execute("UPDATE jobs SET position = ? WHERE seq = ?", (following, row["seq"]))


def _names(where: scope.Scope) -> dict[str, str]:
    return {"client": where.client_id, "project": where.project_id, "grp": where.group_id}


def _text(moment: datetime) -> str:
    # Microseconds always, so that texts order as times do.
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _job(row: sqlite3.Row) -> job.Job:
    return job.Job(
        document_id=row["document_id"],
        seq=row["seq"],
        owner=scope.Scope(client_id=row["client"], project_id=row["project"], group_id=row["grp"]),
        source_urn=row["source_urn"],
        kind=row["kind"],
        action=job.Action(row["action"]),
        urgency=priority.Priority(row["priority"]),
        position=None if row["position"] == statements.UNPLACED else row["position"],
        attempts=row["attempts"],
        reason=row["reason"],
        created_at=datetime.fromisoformat(row["created_at"]),
        not_before=datetime.fromisoformat(row["not_before"]) if row["not_before"] else None,
        revision=row["revision"],
        indexed=bool(row["indexed"]),
    )
