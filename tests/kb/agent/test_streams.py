"""Streams that are read again: silence, errors, readers that leave, and outages of MongoDB."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import httpx
import pymongo
import pytest

from kb import api, client, errors, mongo
from kb.agent import running, store
from kb.erasure import closed
from kb.service.http import agentic
from router import client as router_client
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes
from tests.kb.agent import rig
from tests.kb.agent.conftest import NewSite
from tests.kb.agent.rig import SAID, SEARCH, STALL, WRITE
from tests.kb.agent.test_http import asked, complete, count

pytestmark = pytest.mark.services


async def test_a_reader_that_came_back_and_left_again_does_not_keep_the_question(
    served: rig.Questions, fake: process.Fake
) -> None:
    fake.set_script({rig.DECIDE: [STALL]})
    async with served.client.agent.ask(asked(resume_seconds=1)) as events:
        stream = (await anext(events)).stream or ""
        await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="running"))

    async def waits() -> None:
        # Nothing comes after the first event.
        async with served.client.agent.resume(scopes.SHOP, stream, after=1) as again:
            await anext(again)

    back = asyncio.create_task(waits())
    await waiting.eventually(lambda: served.questions.readers == 1)
    back.cancel()
    await asyncio.wait({back})
    await waiting.eventually(lambda: served.questions.readers == 0)
    await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="cancelled"))


async def test_only_so_many_readers_come_back(new_site: NewSite) -> None:
    one = new_site(at_once=1)
    await one.streams.open("d" * 32, scopes.SHOP)
    async with one.over() as (kb_client, _):
        waiting_ = [asyncio.create_task(_resumed(kb_client, "d" * 32)) for _ in range(2)]
        await waiting.eventually(lambda: one.questions.readers == 2)
        with pytest.raises(client.Unavailable):
            await _resumed(kb_client, "d" * 32)
        for task in waiting_:
            task.cancel()
        await asyncio.wait(waiting_)
        await waiting.eventually(lambda: one.questions.readers == 0)


async def _resumed(kb_client: client.Client, stream: str, after: int = 0) -> list[api.AgentEvent]:
    async with kb_client.agent.resume(scopes.SHOP, stream, after=after) as events:
        return [one async for one in events]


async def test_a_silent_stream_has_blank_lines_that_readers_skip(
    served: rig.Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agentic, "_LIFE_SIGN", 0.25)
    recorder = await served.streams.open("e" * 32, scopes.SHOP)
    params = {"clientId": "acme", "projectId": "shop"}
    async with served.http.stream("GET", f"/api/v1/agentic_search/{'e' * 32}", params=params) as raw:
        lines = raw.aiter_lines()
        assert [await anext(lines), await anext(lines)] == ["", ""]
        reader = asyncio.create_task(_resumed(served.client, "e" * 32))
        await waiting.eventually(lambda: served.questions.readers == 2)
        await recorder.write([api.AgentEvent(id=1, type="complete", outcome="failed", reason="r")], done=True)
        assert [one.id for one in await reader] == [1]


async def test_an_error_after_the_first_line_is_a_line(served: rig.Questions, database: mongo.Database) -> None:
    recorder = await served.streams.open("f" * 32, scopes.SHOP)
    await recorder.write([api.AgentEvent(id=1, type="status", message="m")], done=False)
    async with served.client.agent.resume(scopes.SHOP, "f" * 32) as events:
        assert (await anext(events)).id == 1
        await database[store.STREAMS].delete_one({"_id": "f" * 32})
        late = [one async for one in events]
    assert [(one.id, one.type) for one in late] == [(2, "error"), (3, "complete")]
    assert (late[1].outcome, late[1].reason) == ("failed", "there is no such stream in this scope")


async def test_half_a_character_of_the_model_is_replaced() -> None:
    def wire(request: httpx.Request) -> httpx.Response:
        first = {"message": {"role": "assistant", "content": "It is \ud83d here."}, "done": False}
        last = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
        return httpx.Response(200, text="".join(json.dumps(one) + "\n" for one in (first, last)))

    async with httpx.AsyncClient(transport=httpx.MockTransport(wire)) as http:
        voice = rig.voiced(router_client.Client("http://model.example.com", http))
        said = await voice.said([{"role": "user", "content": "?"}], rig.asked("?"))
    assert said == "It is \ufffd here."
    store.line(api.AgentEvent(type="token", content=said))


async def test_a_reader_that_takes_nothing_has_hung_up(served: rig.Questions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agentic, "_LONGEST_WRITE", 0.2)
    monkeypatch.setattr(store, "MOST_BYTES", 64 << 20)
    recorder = await served.streams.open("9" * 32, scopes.SHOP)
    for number in range(1, 17):
        one = api.AgentEvent(id=number, type="token", content="x" * (1 << 20))
        assert await recorder.write([one], done=False) is store.Kept.OPEN
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await asyncio.to_thread(reader.connect, ("127.0.0.1", served.http.base_url.port))
        where = f"/api/v1/agentic_search/{'9' * 32}?clientId=acme&projectId=shop"
        reader.sendall(f"GET {where} HTTP/1.1\r\nHost: kb\r\n\r\n".encode())
        await waiting.eventually(lambda: served.questions.readers == 1)
        await waiting.eventually(lambda: served.questions.readers == 0)


class Relay:
    """A way to the MongoDB of the tests that can be shut."""

    PATIENCE = 5.0
    """Seconds of the driver. Between two looks at a server it waits for 0.5 s, which a call may begin with."""

    def __init__(self) -> None:
        self.shut = False
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[mongo.Database]:
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        name = f"test_kb_{uuid.uuid4().hex[:12]}"
        database = mongo.Database(f"mongodb://127.0.0.1:{port}/?directConnection=true", name, patience=self.PATIENCE)
        try:
            yield database
        finally:
            await database.close()
            self.cut()
            server.close()
            with pymongo.MongoClient[dict[str, object]](os.environ["JERVIS_TEST_MONGODB_URI"]) as real:
                real.drop_database(name)

    def cut(self) -> None:
        for one in self._writers:
            one.transport.abort()
        self._writers.clear()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if self.shut:
            writer.transport.abort()
            return
        where = urlsplit(os.environ["JERVIS_TEST_MONGODB_URI"])
        far_reader, far_writer = await asyncio.open_connection(where.hostname, where.port)
        self._writers.append(far_writer)
        await asyncio.gather(_copied(reader, far_writer), _copied(far_reader, writer))


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


async def test_an_outage_of_mongodb_loses_no_event_of_a_stream(new_site: NewSite, fake: process.Fake) -> None:
    gate = f"outage-{uuid.uuid4()}"
    fake.set_script({rig.DECIDE: [SEARCH, {"fault": {"stall": {"gate": gate}}}], rig.ANSWER: [SAID]})
    relay, refused = Relay(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds == running._RETRY and relay.shut:
            refused.set()
        await asyncio.sleep(seconds)

    async with relay.opened() as database, new_site(on=database, sleep=sleep).over() as (kb_client, _):
        async with kb_client.agent.ask(asked(resume_seconds=60)) as events:
            found = [await anext(events) for _ in range(3)]
            stream = found[0].stream or ""
            async with kb_client.agent.resume(scopes.SHOP, stream) as again:
                seen = [await anext(again) for _ in range(3)]
                relay.shut = True
                relay.cut()
                # What comes now cannot be written.
                await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="running"))
                fake.set_script({rig.DECIDE: [WRITE], rig.ANSWER: [SAID]})
                fake.open_gate(gate)
                # One that came back is cut off, and is not said that the question has failed: it goes on.
                with pytest.raises(client.Unavailable):
                    seen += [one async for one in again]
            await waiting.done(refused.wait())
            relay.shut = False
            found += [one async for one in events]
        assert seen == found[: len(seen)]
        await waiting.eventually(lambda: complete(database))
        assert await _resumed(kb_client, stream) == found


async def test_a_write_that_is_repeated_counts_once(site: rig.Questions) -> None:
    recorder = await site.streams.open("8" * 32, scopes.SHOP)
    two = [api.AgentEvent(id=number, type="token", content="x") for number in (1, 2)]
    assert await recorder.write(two[:1], done=False) is store.Kept.OPEN
    assert await recorder.write(two, done=True) is store.Kept.OPEN
    page = await site.streams.read(scopes.SHOP, "8" * 32, 0)
    assert ([one.id for one in page.events], page.done) == ([1, 2], True)


async def test_indexes_are_made_once_mongodb_is_back() -> None:
    relay = Relay()
    relay.shut = True
    async with relay.opened() as database:
        streams = store.Streams(database, clocks.Clock(), closed.Closed(), life=timedelta(minutes=1))
        with pymongo.timeout(1), pytest.raises(errors.Away):
            await streams.open("7" * 32, scopes.SHOP)
        relay.shut = False
        await streams.open("7" * 32, scopes.SHOP)
        keys = [one["key"] async for one in database[store.EVENTS].list_indexes()]
    assert {"of": 1, "number": 1} in [dict(one) for one in keys]


async def test_events_are_bounded_and_what_is_gone_is_said(
    site: rig.Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_BYTES", 300)
    recorder = await site.streams.open("a" * 32, scopes.SHOP)
    for number in range(1, 11):
        event = api.AgentEvent(id=number, type="token", content="x" * 60)
        assert await recorder.write([event], done=number == 10) is store.Kept.OPEN
    with pytest.raises(errors.Conflict, match="before 8 are not kept"):
        await site.streams.read(scopes.SHOP, "a" * 32, 0)
    page = await site.streams.read(scopes.SHOP, "a" * 32, 7)
    assert ([one.id for one in page.events], page.done) == ([8, 9, 10], True)


async def test_a_process_that_was_kept_from_writing_has_not_ended(
    served: rig.Questions, database: mongo.Database
) -> None:
    recorder = await served.streams.open("9" * 32, scopes.SHOP)
    await recorder.write([api.AgentEvent(id=1, type="status", message="m")], done=False)
    old = datetime.now(UTC) - 2 * store.SILENT
    await database[store.STREAMS].update_one({"_id": "9" * 32}, {"$set": {"aliveAt": old}})
    async with served.client.agent.resume(scopes.SHOP, "9" * 32) as events:
        assert (await anext(events)).id == 1
        end = api.AgentEvent(id=2, type="complete", outcome="answered")
        await recorder.write([end], done=True)
        assert [(one.id, one.outcome) async for one in events] == [(2, "answered")]


async def test_a_process_that_ended_is_said_to_who_comes_back(
    served: rig.Questions, database: mongo.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_PATIENCE", 1.0)
    recorder = await served.streams.open("b" * 32, scopes.SHOP)
    await recorder.write([api.AgentEvent(id=1, type="status", message="m")], done=False)
    old = datetime.now(UTC) - 2 * store.SILENT
    await database[store.STREAMS].update_one({"_id": "b" * 32}, {"$set": {"aliveAt": old}})
    async with served.client.agent.resume(scopes.SHOP, "b" * 32) as events:
        found = [one async for one in events]
    assert [(one.id, one.type) for one in found] == [(1, "status"), (2, "error"), (3, "complete")]
    assert found[-1].outcome == "failed"


async def _left(database: mongo.Database) -> list[int]:
    return [await database[name].count_documents({}) for name in (store.STREAMS, store.EVENTS)]


async def _written(streams: store.Streams, stream: str, clock: clocks.Clock, last: int) -> None:
    """Writes one event each half minute, as the loop deletes what is over."""
    recorder = await streams.open(stream, scopes.SHOP)
    for number in range(1, last + 1):
        clock.advance(seconds=30)
        event = api.AgentEvent(id=number, type="token", content="x")
        assert await recorder.write([event], done=number == last) is store.Kept.OPEN
        await streams.purge()


async def test_events_last_as_long_as_their_stream_and_go_with_it(
    database: mongo.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_AT_ONCE", 1)
    clock = clocks.Clock()
    for life, last in ((600, 18), (60, 10)):
        streams = store.Streams(database, clock, closed.Closed(), life=timedelta(seconds=life))
        for stream in ("1" * 32, "2" * 32):
            await _written(streams, stream, clock, last)
        clock.advance(seconds=life / 2)
        await streams.purge()
        page = await streams.read(scopes.SHOP, "2" * 32, 0)
        assert ([one.id for one in page.events], page.done) == (list(range(1, last + 1)), True)
        clock.advance(seconds=life / 2)
        with pytest.raises(errors.NotFound):
            await streams.read(scopes.SHOP, "2" * 32, 0)
        await streams.purge()
        assert await _left(database) == [0, 0]


async def test_events_that_a_process_has_left_behind_go(database: mongo.Database) -> None:
    clock = clocks.Clock()
    streams = store.Streams(database, clock, closed.Closed(), life=timedelta(minutes=10))
    await _written(streams, "3" * 32, clock, 30)
    # The process that deleted the stream has died before it deleted the events.
    await database[store.STREAMS].delete_one({"_id": "3" * 32})
    await streams.purge()
    assert await _left(database) == [0, 30]
    clock.advance(minutes=20)
    await streams.purge()
    assert await _left(database) == [0, 0]


@pytest.mark.parametrize(("lost", "first"), [([1], 2), ([1, 2, 3], 4), ([1, 2, 3, 4], 5), ([3], None)])
async def test_a_reader_never_gets_a_later_part_in_silence(
    site: rig.Questions, database: mongo.Database, lost: list[int], first: int | None
) -> None:
    recorder = await site.streams.open("4" * 32, scopes.SHOP)
    for number in range(1, 5):
        await recorder.write([api.AgentEvent(id=number, type="token", content="x")], done=number == 4)
    await database[store.EVENTS].delete_many({"number": {"$in": lost}})
    after = 0
    if first is None:
        page = await site.streams.read(scopes.SHOP, "4" * 32, 0)
        assert ([one.id for one in page.events], page.done) == ([1, 2], False)
        after, first = 2, 4
    with pytest.raises(errors.Conflict, match=f"before {first} are not kept any more"):
        await site.streams.read(scopes.SHOP, "4" * 32, after)


async def test_a_stream_that_goes_on_after_a_long_outage_is_whole(database: mongo.Database) -> None:
    clock = clocks.Clock()
    streams = store.Streams(database, clock, closed.Closed(), life=timedelta(minutes=1))
    recorder = await streams.open("6" * 32, scopes.SHOP)
    for number, seconds in ((1, 0), (2, 70), (3, 200)):
        clock.advance(seconds=seconds)
        await recorder.write([api.AgentEvent(id=number, type="token", content="x")], done=False)
        await streams.purge()
        page = await streams.read(scopes.SHOP, "6" * 32, 0)
        assert [one.id for one in page.events] == list(range(1, number + 1))
    clock.advance(seconds=61)
    await streams.purge()
    late = [api.AgentEvent(id=4, type="token", content="x")]
    assert await recorder.write(late, done=False) is store.Kept.GONE
    assert await _left(database) == [0, 0]


async def test_a_stream_of_an_earlier_release_goes_on(database: mongo.Database) -> None:
    clock = clocks.Clock()
    streams = store.Streams(database, clock, closed.Closed(), life=timedelta(minutes=1))
    recorder = await streams.open("5" * 32, scopes.SHOP)
    assert await recorder.write([api.AgentEvent(id=1, type="token", content="x")], done=False) is store.Kept.OPEN
    ends = {"expiresAt": clock() + timedelta(minutes=1)}
    await database[store.STREAMS].update_many({}, {"$set": ends, "$unset": {"eventsExpireAt": ""}})
    await database[store.EVENTS].update_many({}, {"$set": ends})
    clock.advance(seconds=50)
    assert await recorder.write([api.AgentEvent(id=2, type="token", content="x")], done=True) is store.Kept.OPEN
    clock.advance(seconds=50)
    await streams.purge()
    assert [one.id for one in (await streams.read(scopes.SHOP, "5" * 32, 0)).events] == [1, 2]
