"""A pod that kept its records in files finds its work in the shared ones after the update."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crds import scope
from crds.priority import Priority
from kb import migrate_records, mongo
from kb.erasure import book
from kb.ingest import changes
from kb.ingest import mongo as shared_ledger
from kb.ingest import sqlite as ledger
from kb.queue import job
from kb.queue import mongo as shared_queue
from kb.queue import sqlite as queue
from tests.kb import clock as clocks
from tests.kb import scopes
from tests.kb.queue import contract

pytestmark = pytest.mark.services


async def test_open_requests_and_jobs_are_carried_once(
    tmp_path: Path, database: mongo.Database, clock: clocks.Clock
) -> None:
    old_book = ledger.Ledger(tmp_path / "ingest.sqlite", clock, max_answers=3)
    old_jobs = queue.Queue(tmp_path / "queue.sqlite", clock, limit=50, per_client=50)
    await old_book.prepare()
    await old_jobs.prepare()

    async def told(name: str, owner: scope.Scope = scopes.SHOP) -> None:
        await old_book.open(f"open {name}", owner, f"u:{name}", f'"open {name}"', clock(), dated_ms=7)
        put = await old_jobs.put(name, owner, f"u:{name}", "note", job.Action.EXTRACT, Priority.P2, f'"{name}"')
        await old_jobs.mark_indexed(name, put.revision)

    await told("kept")
    await told("newer")
    await told("erased", scopes.BLOG)
    await old_book.open("done", scopes.SHOP, "u:done", "{}", clock())
    await old_book.finish("done", clock())
    clock.advance(seconds=1)
    erased = await book.Book(database, clock).open(scopes.BLOG, "jana")
    await book.Book(database, clock).finish(erased.id)
    clock.advance(seconds=1)
    await told("told after the erasure", scopes.BLOG)
    await old_book.note(scopes.SHOP, ["done", "kept"])
    await old_book.record(changes.Pass("Full", clock(), clock()))
    await old_book.close()
    await old_jobs.close()

    intents = shared_ledger.Ledger(database, clock, max_answers=3)
    jobs = shared_queue.Queue(database, "a", clock, limit=50, per_client=50)
    await intents.open("open newer", scopes.SHOP, "u:newer", '"of another writer"', clock(), fence=7)
    await jobs.put(
        "newer", scopes.SHOP, "u:newer", "note", job.Action.EXTRACT, Priority.P3, '"of another writer"', fence=7
    )
    migration = migrate_records.RecordMigration(tmp_path, database, intents, intents, jobs, clock)
    assert await migration.migrate() == 4
    assert await migration.migrate() == 0
    assert [name for name in os.listdir(tmp_path) if ".sqlite" in name] == []
    found = {name: await intents.find(f"open {name}") for name in ("kept", "newer", "erased", "told after the erasure")}
    assert {name: one and (one[1], one[0].dated_ms) for name, one in found.items()} == {
        "kept": ('"open kept"', 7),
        "newer": ('"of another writer"', None),
        "erased": None,
        "told after the erasure": ('"open told after the erasure"', 7),
    }
    assert await intents.find("done") is None
    assert [(one.document_id, one.owner) for one in await intents.changed()] == [
        ("done", scopes.SHOP),
        ("kept", scopes.SHOP),
    ]
    assert await intents.passes() == {}
    kept, _ = await contract.kept(jobs, "kept")
    assert (kept.indexed, kept.urgency) == (True, Priority.P2)
    requests = {name: job and job[1] for name in found for job in [await jobs.find(name)]}
    assert requests.pop("told after the erasure") is not None
    assert requests == {"kept": '"kept"', "newer": '"of another writer"', "erased": None}
