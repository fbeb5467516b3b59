"""Takes what a process wrote into files of its own, before its records were shared, into the shared ones.

For a `kb-write` pod of a release that kept its queue on its volume: its open requests, its jobs and the changes that
were not compared yet go to MongoDB, where every writer finds them, and then the files go. What another writer has
recorded of a document since is newer and stays; what belongs to a scope that was erased since is not migrated, but for
changes: to compare what is gone costs one look. When the stores were compared is not migrated: MongoDB says so itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import structlog

from crds import errors, scope
from kb import mongo
from kb.erasure import book
from kb.ingest import changes, request_record
from kb.ingest import sqlite as ledger
from kb.queue import job
from kb.queue import sqlite as queue

log = structlog.get_logger(__name__)
_FILES = ("ingest.sqlite", "queue.sqlite")
_ALL = 1 << 30
_PAGE = 100
_AGAIN = 5.0
_LAST = datetime(9999, 1, 1, tzinfo=UTC)


class RecordMigration:
    """Call `migrate` once, before the workers start. `clock` gives the time in UTC."""

    def __init__(
        self,
        folder: Path,
        database: mongo.Database,
        intents: request_record.IngestRequestRecords,
        noted: changes.Changes,
        jobs: job.Queue,
        clock: Callable[[], datetime],
    ) -> None:
        self._folder = folder
        self._erasures = book.Book(database, clock)
        self._intents = intents
        self._changes = noted
        self._jobs = jobs
        self._clock = clock

    async def migrate(self) -> int:
        """Migrate everything; how many requests and jobs there were. Safe to repeat. Raises `kb.errors.Away`."""
        if not any((self._folder / name).exists() for name in _FILES):
            return 0
        await self._noted_changes()
        migrated = await self._open_requests() + await self._waiting_jobs()
        for name in _FILES:
            for suffix in ("", "-wal", "-shm"):
                (self._folder / f"{name}{suffix}").unlink(missing_ok=True)
        log.info("records of this process were migrated into the shared ones", count=migrated)
        return migrated

    async def run(self) -> None:
        """Migrate, however often it takes until MongoDB answers."""
        while True:
            try:
                await self.migrate()
            except errors.Operational as error:
                log.warning("records of this process are not migrated yet", reason=error.message)
                await asyncio.sleep(_AGAIN)
            else:
                return

    async def _open_requests(self) -> int:
        old = ledger.Ledger(self._folder / "ingest.sqlite", self._clock, max_answers=0)
        await old.prepare()
        count, after = 0, None
        try:
            while page := await old.unfinished(before=_LAST, after=after, limit=_PAGE):
                for record in page:
                    mine = (record.document_id, record.owner, record.source_urn)
                    found = await old.find(record.document_id)
                    request = found[1] if found is not None else None
                    if (
                        request is not None
                        and await self._intents.find(record.document_id) is None
                        and not await self._erased(record.owner, record.updated_at)
                    ):
                        await self._intents.open(*mine, request, record.updated_at, dated_ms=record.dated_ms)
                        count += 1
                after = page[-1]
        finally:
            await old.close()
        return count

    async def _noted_changes(self) -> None:
        old = ledger.Ledger(self._folder / "ingest.sqlite", self._clock, max_answers=0)
        await old.prepare()
        after = ""
        try:
            while page := await old.changed(after=after):
                for one in page:
                    await self._changes.note(one.owner, [one.document_id])
                after = page[-1].document_id
        finally:
            await old.close()

    async def _waiting_jobs(self) -> int:
        old = queue.Queue(self._folder / "queue.sqlite", self._clock, limit=_ALL, per_client=_ALL)
        await old.prepare()
        count = 0
        try:
            while found := await old.next(_LAST, skip=()):
                asked, request = found
                what = (asked.source_urn, asked.kind, asked.action, asked.urgency)
                newer = await self._jobs.find(asked.document_id) is not None
                known = await self._intents.find(asked.document_id)
                newer = newer or (known is not None and known[0].updated_at > asked.created_at)
                if not newer and not await self._erased(asked.owner, asked.created_at):
                    put = await self._jobs.put(asked.document_id, asked.owner, *what, request)
                    if asked.indexed:
                        await self._jobs.mark_indexed(asked.document_id, put.revision)
                    count += 1
                await old.drop(asked.document_id)
        finally:
            await old.close()
        return count

    async def _erased(self, owner: scope.Scope, since: datetime) -> bool:
        """Whether an erasure that covers the owner was asked for since."""
        client = scope.Scope(client_id=owner.client_id)
        return any(one.scope.covers(owner) and one.requested_at >= since for one in await self._erasures.listed(client))
