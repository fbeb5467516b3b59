"""What a read of a mailbox costs in round trips, and that no mail of the hostile ones breaks the reader."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from bench.connectors import mails, speed
from sources.providers.mail import mails as source
from tests.sources import dovecot

COUNT = 120
DATABASE = f"jervis_speed_{os.getpid()}"


@pytest.fixture
def database() -> Iterator[str]:
    """The URI of the server; the database is gone afterwards."""
    uri = os.environ["JERVIS_TEST_MONGODB_URI"]
    yield uri
    with pymongo.MongoClient[dict[str, Any]](uri) as server:
        server.drop_database(DATABASE)


@pytest.mark.services
async def test_every_mail_is_one_task_and_few_round_trips(database: str, tmp_path: Path) -> None:
    with dovecot.running() as place:
        speed.fill(place, COUNT, 2048)
        found = await speed.ours(place, tmp_path, database, database=DATABASE, tasks=True)
    assert (found["items"], found["tasks"], found["twice"]) == (COUNT, COUNT, 0)
    batches = -(-COUNT // source.BATCH)
    assert found["imap"] <= 20 + batches, "a poll, a sweep and the poll before it compares"
    assert found["mongodb"] <= 30 + 10 * batches
    assert found["again_imap"] <= 10
    assert found["again_mongodb"] <= 30


@pytest.mark.parametrize("name", mails.HOSTILE)
def test_a_hostile_mail_is_an_item_or_a_failure(name: str) -> None:
    raw = mails.HOSTILE[name]()
    items, failures = source.read([source.Fetched(source.Head(1, len(raw), "INBOX/1/1"), raw)])
    assert len(items) + len(failures) == 1
    assert not any(one.reason.startswith("This mail cannot be read") for one in failures), "a bug of ours"


def test_ordinary_mails_are_of_the_size_that_was_asked_for_and_differ() -> None:
    some = [mails.ordinary(number, 4096) for number in range(100)]
    assert len({source.item(str(number), raw, None).source_id for number, raw in enumerate(some)}) == 100
    assert 3500 < sum(map(len, some)) / 100 < 5000
