"""Stored content without a reference goes, and nothing else does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pymongo
import pytest

from crds.priority import Priority
from kb import errors, metrics, mongo
from kb.content import mongo as content_mongo
from kb.content import sweep
from kb.ingest import sqlite as ledger_sqlite
from kb.queue import job
from kb.queue import sqlite as queue_sqlite
from tests.kb import clock as clocks
from tests.kb import conftest, scopes

pytestmark = pytest.mark.services
KEEP = timedelta(days=30)


@pytest.fixture
def store(database: mongo.Database, clock: clocks.Clock) -> content_mongo.Store:
    return content_mongo.Store(database, clock=clock)


@pytest.fixture
async def ledger(tmp_path: Path, clock: clocks.Clock) -> AsyncIterator[ledger_sqlite.Ledger]:
    opened = ledger_sqlite.Ledger(tmp_path / "ingest.sqlite", clock, max_answers=10)
    await opened.prepare()
    yield opened
    await opened.close()


@pytest.fixture
async def queue(tmp_path: Path, clock: clocks.Clock) -> AsyncIterator[queue_sqlite.Queue]:
    opened = queue_sqlite.Queue(tmp_path / "queue.sqlite", clock, limit=10, per_client=10)
    await opened.prepare()
    yield opened
    await opened.close()


async def test_only_what_nobody_needs_is_swept(
    store: content_mongo.Store,
    database: mongo.Database,
    ledger: ledger_sqlite.Ledger,
    queue: queue_sqlite.Queue,
    clock: clocks.Clock,
    meters: metrics.Metrics,
) -> None:
    names = ("memory", "attached", "archived", "open", "queued", "loaded", "stored", "unused")
    keys = {name: (await store.save(scopes.SHOP, name.encode() * 100_000, "text/plain")).key for name in names}
    await database["task_memory"].insert_one({"_id": "t1", "contentRef": {"key": keys["memory"]}})
    await database["task_memory"].insert_one({"_id": "t2", "attachments": [{"contentRef": {"key": keys["attached"]}}]})
    await database["task_archive"].insert_one(
        {"_id": "t3", "object": {"spec": {"contentRef": {"key": keys["archived"]}}}}
    )
    await ledger.open("d1", scopes.SHOP, "u:1", f'{{"contentRef": {{"key": "{keys["open"]}"}}}}', clock())
    request = f'{{"contentRef": {{"key": "{keys["queued"]}"}}}}'
    await queue.put("d2", scopes.SHOP, "u:2", "email", job.Action.EXTRACT, Priority.P3, request)
    sweeper = sweep.Sweeper(store, database, [ledger, queue], meters, clock, keep=KEEP)
    assert await sweeper.sweep() == 0
    clock.advance(days=29)
    await store.load(scopes.SHOP, keys["loaded"])
    await store.save(scopes.SHOP, b"stored" * 100_000, "text/plain")
    clock.advance(days=2)
    assert await sweeper.sweep() == 1
    with pytest.raises(errors.NotFound):
        await store.load(scopes.SHOP, keys["unused"])
    for name in names[:-1]:
        assert await store.load(scopes.SHOP, keys[name]) == name.encode() * 100_000
    with pymongo.MongoClient[dict[str, object]](conftest.required("JERVIS_TEST_MONGODB_URI")) as client:
        kept = client[database.name]
        ids = {row["_id"] for row in kept["content.files"].find({}, {"_id": 1})}
        assert {row["files_id"] for row in kept["content.chunks"].find({}, {"files_id": 1})} == ids
    assert meters.registry.get_sample_value("jervis_kb_swept_contents_total") == 1


async def test_what_is_used_again_in_the_same_moment_stays(store: content_mongo.Store, clock: clocks.Clock) -> None:
    key = (await store.save(scopes.SHOP, b"body", "text/plain")).key
    clock.advance(days=31)
    before = clock() - KEEP
    assert await store.idle(before=before) == [key]
    await store.save(scopes.SHOP, b"body", "text/plain")
    assert await store.discard(key, before=before) is False
    assert await store.load(scopes.SHOP, key) == b"body"
