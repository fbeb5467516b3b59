"""A writer is frozen or killed before a call of a store, and another one takes the document over."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from crds.priority import Priority
from kb.ingest import mongo as ledger
from kb.upkeep import check
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import conftest, scopes, world
from tests.kb.writers import victim
from tests.nursery import children

pytestmark = pytest.mark.services
OLD, NEW = "Petr Svoboda wrote Oldthing.java for Globex.", "Jana Novak wrote Newthing.java for Initech."
EVERY = os.environ.get("JERVIS_TEST_EVERY_CALL", "") == "1"
"""Whether all calls are tried and not a few of them: minutes instead of seconds."""


@pytest.fixture
async def asked(fake: process.Fake, tmp_path: Path) -> AsyncIterator[dict[str, Any]]:
    """Where the writers find each other; nothing of it is left."""
    made: dict[str, Any] = {
        **dict(zip(("weaviate", "grpc", "mongodb"), conftest.stores(), strict=True)),
        "ollama": fake.url,
        "folder": str(tmp_path),
        "name": f"signals{uuid.uuid4().hex[:10]}",
        "text": NEW,
    }
    yield made
    async with victim.writer(made, "last", victim.Seconds()) as one:
        await one.vectors.destroy()
    with pymongo.MongoClient[dict[str, object]](made["mongodb"]) as mongo:
        mongo.drop_database(made["name"])


def start(asked: dict[str, Any], log: Path, at: int | str, number: signal.Signals) -> children.Child:
    """A writer that gets the signal before that call."""
    arguments = [json.dumps(asked | {"at": at, "signal": number.name})]
    return children.of(str(victim.FILE)).start(dict(os.environ), log, arguments)


def state(pid: int) -> str:
    """What Linux says of the process: T while it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def said(log: Path) -> str:
    return log.read_text()[-3000:]


def forget_answers(asked: dict[str, Any]) -> None:
    with pymongo.MongoClient[dict[str, object]](asked["mongodb"]) as mongo:
        mongo[asked["name"]][ledger.ANSWERS].delete_many({})


async def there(one: victim.Writer) -> object:
    """All that the stores hold."""
    graph, _ = await one.graph.audit("acme")
    chunks, _ = await one.vectors.audit("acme")
    lines, _ = await one.vectors.audit_sentences("acme")
    found = await check.Checker(one.graph, one.vectors, world.idle).look("acme")
    ids = (sorted(row.chunk_id for row in graph), sorted(row.chunk_id for row in chunks))
    return ids, sorted(row.sentence_id for row in lines), await one.graph.edges(scopes.SHOP), found.findings


async def test_the_deletion_of_a_frozen_writer_takes_nothing_of_its_successor(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    log = tmp_path / "frozen.log"
    async with victim.writer(asked, "successor", victim.Successor()) as one:
        before = await one.pipe.ingest(world.request(OLD), Priority.P3)
        child = start(asked, log, "drop", signal.SIGSTOP)
        try:

            def stopped() -> bool:
                assert child.returncode is None, said(log)
                return state(child.pid) == "T"

            await waiting.eventually(stopped)
            # The version that was to be deleted comes back: the same chunk, under the same id.
            reply = await one.pipe.ingest(world.request(OLD), Priority.P3)
            assert reply.chunk_ids == before.chunk_ids
            child.send_signal(signal.SIGCONT)
            child.wait(waiting.PATIENCE)
        finally:
            child.kill()
        assert set(await one.vectors.chunks(scopes.SHOP, reply.chunk_ids)) == set(reply.chunk_ids)


async def test_killed_before_a_call_the_other_writer_ends_where_one_would(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    log = tmp_path / "killed.log"
    async with victim.writer(asked, "successor", victim.Successor()) as one:
        await one.pipe.ingest(world.request(OLD), Priority.P3)
        whole = start(asked, log, 0, signal.SIGKILL)
        assert whole.wait(waiting.PATIENCE) == 0, said(log)
        right, calls = await there(one), int(log.read_text().rpartition("calls: ")[2])
        assert calls > 10
        for at in range(1, calls + 1) if EVERY else (calls // 2, calls - 1):
            # What came before is deleted, the answers of the models too, so that each of them begins alike.
            forget_answers(asked)
            assert await one.pipe.forget(scopes.SHOP, world.request(OLD).source_urn)
            await one.pipe.ingest(world.request(OLD), Priority.P3)
            assert start(asked, log, at, signal.SIGKILL).wait(waiting.PATIENCE) == -signal.SIGKILL, said(log)
            await one.pipe.ingest(world.request(NEW), Priority.P3)
            assert await there(one) == right, f"killed before call {at} of {calls}"
