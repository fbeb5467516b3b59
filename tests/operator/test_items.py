"""Items of sources on MongoDB's wire and a real apiserver: refused tasks, deleted Connections, unforeseen answers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import time
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import prometheus_client
import pytest

import kube
from clients import mongo
from controllers.connection import decide
from controllers.connection.credentials import Finding
from crds import connection, pendingtask, scope
from kb import client as kb
from sources import metrics
from sources.core import assignments, indexer, items, missing_items, poller, port, sweep
from tests import waiting
from tests.operator.conftest import Space, database_name
from tests.operator.test_polling import connect
from text import mail

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
OWNER = scope.Scope(client_id="acme")
LONG = timedelta(hours=7)


@dataclasses.dataclass
class Stage:
    """One Connection and the parts of a sources process."""

    api: kube.Kube
    assigned: assignments.Assignments
    items: items.Items
    conn: connection.Connection
    now: datetime
    database: Any

    @property
    def uid(self) -> str:
        return self.conn.metadata.uid

    def indexer(self) -> indexer.Indexer:
        measured = metrics.Metrics(prometheus_client.CollectorRegistry())
        return indexer.Indexer(self.api, self.items, measured, wall=lambda: self.now)

    @contextlib.asynccontextmanager
    async def polling(self, source: port.Source) -> AsyncIterator[None]:
        """A poller for which the mailbox is `source`."""
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            measured = metrics.Metrics(prometheus_client.CollectorRegistry())
            knowledge = kb.Client("http://127.0.0.1:9", http)
            wall = functools.partial(datetime.now, UTC)
            polls = poller.Poller(
                self.api,
                knowledge,
                self.assigned,
                self.items,
                self.indexer(),
                sweep.Sweeper(
                    knowledge,
                    self.assigned,
                    missing_items.MissingItems(self.database),
                    measured,
                    every=3600,
                    wall=wall,
                    monotonic=time.monotonic,
                ),
                {connection.Type.EMAIL: lambda spec, values, bucket: source},
                measured,
                owner="test",
                width=1,
                renew=20,
                wall=wall,
                monotonic=time.monotonic,
            )
            work = asyncio.create_task(polls.run())
            try:
                yield
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    async def state(self) -> Any:
        """What is known of its polls."""
        return (await self.assigned.states())[self.uid][2]

    async def poll(self, source: port.Source, ends: str = "succeeded_at") -> Any:
        """Until a poll of that source has ended, by that moment; the state then."""

        async def ended() -> bool:
            return getattr(await self.state(), ends) is not None

        async with self.polling(source):
            await waiting.eventually(ended, "a poll has ended")
        return await self.state()


class Unlisted:
    """A source that does not list what it has."""

    async def ids(self) -> AsyncGenerator[port.Page]:
        for page in (port.Page(()),):
            yield page
        raise port.Unreachable("The list broke off.")


class Brings(Unlisted):
    """One batch of these items."""

    def __init__(self, *brought: port.Item) -> None:
        self.brought, self.cursors = brought, list[port.Cursor]()

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        self.cursors.append(cursor)
        yield port.Batch({"at": 1}, "1", self.brought)


@pytest.fixture
async def stage(kubeconfig: Path, space: Space, mongodb_uri: str) -> AsyncIterator[Stage]:
    connect(space, "imap://127.0.0.1:9", "ada", maxInFlightTasks=2)
    loaded = kube.configuration(str(kubeconfig))
    session = kube.session(loaded, fence=lambda: None)
    server = mongo.client(mongodb_uri)
    database = server[database_name(space)]
    made = Stage(
        kube.Kube(loaded, session, fence=lambda: None, timeout=waiting.PATIENCE),
        assignments.Assignments(database),
        items.Items(database),
        connection.Connection.model_validate(space.get("mailbox", "connections")),
        datetime.now(UTC).replace(microsecond=0),
        database,
    )
    await made.assigned.prepare()
    await made.items.prepare()
    await made.assigned.want(made.conn)

    async def served() -> bool:
        with contextlib.suppress(kube.Unavailable):  # it has just got the CRD
            async for _ in made.api.pages(kube.TASKS, space.name, "", metadata=True):
                return True
        return False

    await waiting.eventually(served, "the apiserver serves tasks")
    yield made
    await server.drop_database(database_name(space))
    server.close()
    await session.close()


def item(number: int) -> port.Item:
    return port.Item(f"{number}@x", "v", pendingtask.Type.EMAIL, f"email::{number}@x", f"Mail {number}", "Text")


async def test_a_refused_task_is_tried_until_it_is_accepted(stage: Stage, space: Space) -> None:
    claim = await stage.assigned.claim("test", stage.now)
    assert claim is not None
    elsewhere = f"{space.name}-later"
    claim = dataclasses.replace(claim, namespace=elsewhere)
    for number in range(2):
        await stage.items.keep(stage.uid, OWNER, [(item(number), {"content": "Text"})], stage.now)
    for _ in range(9):
        assert await stage.indexer().run(claim)
        count, why = await stage.items.counted.refused(stage.uid)
        assert (count, "not found" in why) == (2, True)
        assert await stage.items.waiting(stage.uid, 9, stage.now) == []
        stage.now += LONG
    made = Space(space.api, elsewhere)
    assert await stage.indexer().run(claim)
    assert len(made.every()) == 2
    assert await stage.items.counted.refused(stage.uid) == (0, "")
    assert (await stage.items.counted.counts(stage.uid))["Indexed"] == 2


async def test_a_mail_with_the_message_id_of_another_connections_mail_has_a_urn_of_its_own(stage: Stage) -> None:
    real, forged = item(1), dataclasses.replace(item(1), version="w", text="Other words")
    same = dataclasses.replace(real, version="with other Received headers")
    await stage.items.keep("another Connection", OWNER, [(real, {"content": real.text})], stage.now)

    brought = [dataclasses.replace(one, editable=False) for one in (same, forged)]
    await stage.poll(Brings(*brought))
    rows = stage.database[assignments.ITEMS].find({"connection": stage.uid})
    assert sorted([row["urn"] async for row in rows]) == ["email::1@x", "email::1@x#w"]
    assert not (await stage.items.names(scope.Scope(client_id="other"), [forged])).another(forged)


async def test_two_mails_of_one_batch_with_one_message_id_have_two_urns(stage: Stage) -> None:
    real = dataclasses.replace(item(1), editable=False)
    same = dataclasses.replace(real, version="with other Received headers")
    forged = dataclasses.replace(real, version="w", text="Other words")

    await stage.poll(Brings(real, forged, same))
    rows = stage.database[assignments.ITEMS].find({"connection": stage.uid})
    found = [(row["said"], row["urn"]) async for row in rows]
    assert len({said for said, _ in found}) == 2
    urns = sorted(urn for _, urn in found)
    assert urns[0] == "email::1@x"
    assert "email::1@x#w" in urns[1:]
    assert sum((await stage.items.counted.counts(stage.uid)).values()) == 3


async def test_what_came_before_a_file_that_cannot_be_stored_now_is_kept(stage: Stage) -> None:
    filed = dataclasses.replace(item(2), files=(mail.File("a.pdf", "application/pdf", b"x"),))

    some = Brings(item(1), filed, item(3))
    state = await stage.poll(some, "polled_at")
    assert state.reason == "KnowledgeBaseAway"
    assert all(cursor == {} for cursor in some.cursors)
    rows = stage.database[assignments.ITEMS].find({"connection": stage.uid})
    assert [row["sourceId"] async for row in rows] == ["1@x"]


async def test_nothing_is_fetched_while_no_task_is_accepted_and_the_status_says_why(stage: Stage) -> None:
    full = Brings(item(7))
    later = datetime.now(UTC) + LONG
    for number in range(2):
        await stage.items.add(stage.uid, OWNER, item(number), {"content": "Text"}, stage.now)
    for one in await stage.items.waiting(stage.uid, 2, stage.now):
        await stage.items.failed(one, "no quota", later)

    state = await stage.poll(full, "polled_at")
    assert full.cursors == []
    assert state.items == {"New": 0, "Indexing": 0, "Indexed": 0, "Failed": 2}
    found = Finding(True, "Present", "There.")
    said = decide.patch(stage.conn, found, datetime.now(UTC), state=state)["conditions"]
    ready = next(one for one in said if one["type"] == "Ready")
    assert "2 items are no tasks yet, because these are refused: no quota" in ready["message"]


async def test_what_is_stored_while_its_connection_is_deleted_goes_too(stage: Stage) -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    class Slow(Unlisted):
        async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
            begun.set()
            await gone.wait()
            yield port.Batch({"at": 1}, "1", (item(1), item(2)))

    async def none() -> bool:
        return stored.is_set() and sum((await stage.items.counted.counts(stage.uid)).values()) == 0

    stored = asyncio.Event()

    class Noted(items.Items):
        async def add(self, *given: Any) -> None:
            await super().add(*given)
            stored.set()

    stage.items = Noted(stage.database)
    async with stage.polling(Slow()):
        await waiting.done(begun.wait())
        await stage.assigned.drop(stage.uid)
        gone.set()
        await waiting.eventually(none, "the items are gone")


async def test_items_that_cannot_be_counted_in_time_keep_no_poll_from_ending(stage: Stage) -> None:
    class Many(items.Items):
        async def counts(self, uid: str) -> dict[str, int]:
            raise mongo.Unavailable("MongoDB did not count the items: timed out")

    stage.items = Many(stage.database)
    await stage.poll(Brings())


async def test_an_unforeseen_answer_is_said_in_the_status(stage: Stage) -> None:
    class Odd(Unlisted):
        async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
            yield port.Batch({"at": 1}, "1", ())
            raise KeyError(b"UIDVALIDITY")

    async def failed() -> bool:
        return bool((await stage.state()).failures == 1)

    async with stage.polling(Odd()):
        await waiting.eventually(failed, "the failure is written")
    state = await stage.state()
    assert (state.reason, "UIDVALIDITY" in state.message) == ("PollFailed", True)
