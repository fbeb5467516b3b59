"""One thing that can never be handled, and what becomes of the others."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controllers.sources import assignments, mongo
from crds import connection

pytestmark = pytest.mark.services
DATABASE = f"jervis_poison_{os.getpid()}"
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.fixture
async def database() -> AsyncIterator[Any]:
    client = mongo.client(os.environ["JERVIS_TEST_MONGODB_URI"])
    yield client[DATABASE]
    await client.drop_database(DATABASE)
    client.close()


def mailbox(name: str) -> connection.Connection:
    spec = {"type": "Email", "clientId": "acme", "url": "imaps://mail.example", "pollInterval": "5m"}
    meta = {"name": name, "namespace": "here", "uid": f"uid-{name}", "generation": 1}
    return connection.Connection.model_validate({"metadata": meta, "spec": spec})


async def test_a_connection_that_this_version_does_not_understand_stops_no_other(database: Any) -> None:
    assigned = assignments.Assignments(database)
    await assigned.prepare()
    for name in ("newer", "mailbox"):
        await assigned.want(mailbox(name))
    rows = database[assignments.CONNECTIONS]
    await rows.update_one({"_id": "uid-newer"}, {"$set": {"spec.type": "Telegraph"}})
    claimed = await assigned.claim("me", NOW)
    assert claimed is not None
    assert claimed.name == "mailbox"
    assert await assigned.claim("me", NOW) is None
    assert await assigned.claim("me", NOW + timedelta(seconds=50)) is None, "it is not asked for without an end"
    await rows.update_one({"_id": "uid-newer"}, {"$set": {"state.failures": 0}})
    assert [await assigned.watch(NOW, 60) for _ in range(3)] == [None] * 3
    assert await assigned.named("here", "newer") is None
    state = (await assigned.states())["uid-newer"][2]
    assert state.reason == "Misconfigured"
    assert "Telegraph" in state.message
    await rows.update_one({"_id": "uid-newer"}, {"$set": {"spec.type": "Email"}})
    again = await assigned.claim("me", NOW + timedelta(hours=1), ["uid-mailbox"])
    assert again is not None
    assert again.name == "newer", "after an update of this process it is polled"
