"""The queue in one SQLite file of the writing process. A job that was put is there after kill -9 and after a power cut.

Which jobs are being worked on is not written down: one process owns the file, and after a crash no job is in work.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crds import priority, scope
from kb import sqlite
from kb.queue import job, statements


class Queue:
    """Implements `kb.queue.job.Queue` over `path`.

    At most `limit` jobs and `per_client` of one client; `max_bytes` and `client_bytes` the same for their requests.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], datetime],
        *,
        limit: int,
        per_client: int,
        max_bytes: int | None = None,
        client_bytes: int | None = None,
    ) -> None:
        self._database = sqlite.Database(path, statements.SCHEMA, version=statements.VERSION)
        self._clock = clock
        self._bounds = job.Bounds(limit, per_client, max_bytes, client_bytes)

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
        *,
        fence: int = 0,
        bounded: bool = True,
    ) -> job.Job:
        values: dict[str, Any] = {
            **_names(owner),
            "id": document_id,
            "urn": source_urn,
            "kind": kind,
            "action": action.value,
            "priority": int(urgency),
            "now": _text(self._clock()),
            "request": request,
            "size": len(request.encode()),
        }

        def work(connection: sqlite3.Connection) -> sqlite3.Row:
            before = connection.execute(
                "SELECT client, revision, size FROM jobs WHERE document_id = :id", values
            ).fetchone()
            if action is job.Action.EXTRACT and bounded:
                self._check_space(connection, owner.client_id, values["size"], before)
            now = job.revision(before["revision"] if before else "", action, request)
            connection.execute(statements.PUT, {**values, "revision": now})
            return _row(connection, document_id)

        return _job(await self._database.write(work))

    async def find(self, document_id: str) -> tuple[job.Job, str] | None:
        row = await self._database.read(
            lambda connection: connection.execute("SELECT * FROM jobs WHERE document_id = ?", (document_id,)).fetchone()
        )
        return None if row is None else (_job(row), row["request"])

    async def among(self, document_ids: Collection[str]) -> dict[str, job.Job]:
        bound = {"ids": json.dumps(sorted(document_ids))}
        rows = await self._database.read(lambda connection: connection.execute(statements.AMONG, bound).fetchall())
        return {row["document_id"]: _job(row) for row in rows}

    async def mark_indexed(self, document_id: str, revision: str) -> None:
        statement = "UPDATE jobs SET indexed = 1 WHERE document_id = ? AND revision = ?"
        await self._database.write(
            lambda connection: connection.execute(statement, (document_id, revision)), durable=False
        )

    async def drop(self, document_id: str, *, revision: str | None = None, fence: int = 0) -> None:
        await self._database.write(
            lambda connection: connection.execute(
                "DELETE FROM jobs WHERE document_id = :id AND (:revision IS NULL OR revision = :revision)",
                {"id": document_id, "revision": revision},
            ),
            # A job that was done may be done again; one that something newer replaces must not come after that.
            durable=revision is None,
        )

    async def next(
        self, now: datetime, *, skip: Collection[str], most: priority.Priority | None = None
    ) -> tuple[job.Job, str] | None:
        most = priority.Priority.P3 if most is None else most
        values = {"now": _text(now), "skip": json.dumps(sorted(skip)), "most": int(most)}

        def work(connection: sqlite3.Connection) -> sqlite3.Row | None:
            row: sqlite3.Row | None = connection.execute(statements.NEXT_PLACED, values).fetchone()
            if row is not None:
                return row
            for urgency in range(most + 1):
                at = {**values, "priority": urgency}
                for (client,) in connection.execute(statements.WAITING, at).fetchall():
                    row = connection.execute(statements.NEXT_OF, {**at, "client": client}).fetchone()
                    if row is not None:
                        connection.execute(statements.SERVED, {"priority": urgency, "client": client})
                        return row
            return None

        # Whose turn it was need not outlive a power cut.
        row = await self._database.write(work, durable=False)
        return None if row is None else (_job(row), row["request"])

    async def hold(self, document_ids: Collection[str], now: datetime) -> None:
        """Nothing: no other process takes jobs."""

    async def release(self, document_id: str) -> None:
        """Nothing: no other process takes jobs."""

    async def postpone(self, document_id: str, revision: str, reason: str, until: datetime) -> None:
        values = {"id": document_id, "revision": revision, "reason": reason[:1000], "until": _text(until)}
        await self._database.write(
            lambda connection: connection.execute(
                "UPDATE jobs SET attempts = attempts + 1, reason = :reason, not_before = :until "
                "WHERE document_id = :id AND revision = :revision",
                values,
            ),
            durable=False,
        )

    async def listed(
        self, viewer: scope.Scope, *, limit: int, running: Collection[str] = ()
    ) -> tuple[list[job.Job], int]:
        values = {**_names(viewer), "limit": limit, "running": json.dumps(sorted(running))}

        def work(connection: sqlite3.Connection) -> tuple[list[job.Job], int]:
            total = connection.execute(statements.COUNT, values).fetchone()[0]
            begun = [replace(_job(row), ahead=0) for row in connection.execute(statements.LIST_RUNNING, values)]
            placed = [
                replace(_job(row), ahead=row["rank"]) for row in connection.execute(statements.LIST_PLACED, values)
            ]
            before = connection.execute(statements.PLACED, values).fetchone()[0]
            waiting: list[job.Job] = []
            for urgency, shares in sorted(_shares(connection, values).items()):
                for client in {"", viewer.client_id}:
                    asked = {**values, "priority": urgency, "of": client}
                    for row in connection.execute(statements.LIST_OF, asked):
                        waiting.append(replace(_job(row), ahead=before + job.ahead(shares, client, row["rank"])))
                before += sum(one.waiting for one in shares)
            waiting.sort(key=lambda one: one.ahead or 0)
            return [*begun, *placed, *waiting][:limit], total

        return await self._database.read(work)

    async def move(self, viewer: scope.Scope, document_id: str, position: int) -> job.Job | None:
        values = {**_names(viewer), "id": document_id, "position": position}

        def work(connection: sqlite3.Connection) -> sqlite3.Row | None:
            if connection.execute(statements.VISIBLE, values).fetchone() is None:
                return None
            connection.execute(
                f"UPDATE jobs SET position = {statements.UNPLACED} WHERE document_id = :id",  # noqa: S608 -- a constant
                values,
            )
            _make_gap(connection, position)
            connection.execute("UPDATE jobs SET position = :position WHERE document_id = :id", values)
            return _row(connection, document_id)

        row = await self._database.write(work)
        return None if row is None else _job(row)

    async def regroup(self, owner: scope.Scope) -> list[str]:
        values = _names(owner)
        rows = await self._database.write(lambda connection: connection.execute(statements.REGROUP, values).fetchall())
        return [row["document_id"] for row in rows]

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

    def _check_space(self, connection: sqlite3.Connection, client: str, size: int, before: sqlite3.Row | None) -> None:
        """Raises `kb.errors.Crowded` when there is no space for a request of `size` in place of what was there."""
        counted = connection.execute(statements.HELD, (client,)).fetchone()
        total = connection.execute(statements.TOTAL).fetchone()
        if before is None:
            self._bounds.check_jobs(client, counted["n"], total["n"])
        former = 0 if before is None else before["size"]
        if size > former:
            mine = former if before is not None and before["client"] == client else 0
            self._bounds.check_bytes(client, size, counted["bytes"] - mine, total["bytes"] - former)


def _row(connection: sqlite3.Connection, document_id: str) -> sqlite3.Row:
    """A job that is there, without its request."""
    row: sqlite3.Row = connection.execute(statements.ONE, (document_id,)).fetchone()
    return row


def _shares(connection: sqlite3.Connection, values: dict[str, Any]) -> dict[int, list[job.Share]]:
    """Per priority what each client has waiting, without placed jobs and those in work."""
    apart = {(row["priority"], row["client"]): row["n"] for row in connection.execute(statements.APART, values)}
    shares: dict[int, list[job.Share]] = defaultdict(list)
    for row in connection.execute(statements.SHARES):
        waiting = row["n"] - apart.get((row["priority"], row["client"]), 0)
        shares[row["priority"]].append(job.Share(row["client"], waiting, row["served"]))
    return shares


def _make_gap(connection: sqlite3.Connection, position: int) -> None:
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
