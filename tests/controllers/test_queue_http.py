"""The queue over HTTP: tickets, parameters, and a stream that ends when it should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession, web

from clients import mongo
from contracts.api import queue_api as wire
from controllers import queue_http
from controllers.archive import http, tickets
from controllers.archive.mongo import Archive
from controllers.pendingtask.slots import wait_reasons
from crds import errors
from crds.phases import Phase
from tests.controllers.archive.build import no_contents
from tests.controllers.test_slot_scheduler import Desk

HEADERS = {"X-Jervis-Ticket": "default"}


class Place:
    """A server; any namespace's name is its ticket while it is in `valid`."""

    def __init__(self) -> None:
        self.desk, self.valid, self.time, self.surveys = Desk(), {"default", "team"}, 0.0, 0
        self.started = True
        client = mongo.client("mongodb://127.0.0.1:1", 1, absent=0.2)
        archive = Archive(client["jervis"], fence=lambda: None)
        self.access = tickets.Tickets(self.review, "jervis-history", clock=lambda: self.time)
        application = http.History(archive, self.access, no_contents).application()
        state = queue_http.QueueState(
            self.observe, breaker=lambda: "Closed", leading=lambda: False, monotonic=lambda: self.time
        )
        queue_http.QueueHttp(state, self.access, monotonic=lambda: self.time).serve(application)
        self.runner = web.AppRunner(application)

    async def review(self, token: str, audience: str) -> dict[str, Any]:
        user = {"username": f"system:serviceaccount:{token}:jervis-history"}
        return {"authenticated": token in self.valid, "audiences": [audience], "user": user}

    def observe(self) -> wait_reasons.Observed:
        if not self.started:
            raise errors.Operational("the operator starts")
        self.surveys += 1
        self.time += 0.1
        return self.desk.scheduler.observed()

    async def start(self) -> str:
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self.runner.addresses[0][1]}"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(queue_http, "FRESH_SECONDS", 0.02)
    return Place()


@pytest.fixture
async def session(place: Place) -> AsyncIterator[ClientSession]:
    async with ClientSession(await place.start(), headers=HEADERS) as made:
        yield made
    await place.runner.cleanup()


async def event(answer: ClientResponse) -> wire.Queue:
    """The next one."""
    while not (line := await answer.content.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return wire.Queue.model_validate(json.loads(line.removeprefix(b"data: ")))


async def test_one_survey_serves_all_for_as_long_as_it_cost(place: Place, session: ClientSession) -> None:
    place.desk.have("x", Phase.READY_FOR_GPU)
    for namespace, items in (("default", ["x"]), ("team", []), ("default", ["x"])):
        async with session.get("/api/v1/queue", headers={"X-Jervis-Ticket": namespace}) as answer:
            found = wire.Queue.model_validate(await answer.json())
            assert [one.name for one in found.items] == items
            assert not found.leading
    assert place.surveys == 1
    place.time += 20 * 0.1 + 0.01
    async with session.get("/api/v1/queue") as answer:
        assert answer.status == 200
    assert place.surveys == 2


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("limit=0", 400, "limit"),
        ("limit=1&limit=2", 400, "limit"),
        ("phase=Done", 400, "phase"),
        ("client=%20", 400, "client"),
        ("namespace=team", 403, "namespace"),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/queue", "/api/v1/queue/events"])
async def test_a_wrong_parameter_is_named(
    session: ClientSession, path: str, query: str, status: int, field: str
) -> None:
    async with session.get(f"{path}?{query}") as answer:
        assert (answer.status, (await answer.json())["error"]["field"]) == (status, field)


async def test_without_a_ticket_and_before_the_start(place: Place, session: ClientSession) -> None:
    async with session.get("/api/v1/queue", headers={"X-Jervis-Ticket": "other"}) as answer:
        assert answer.status == 401
    place.started = False
    for path in ("/api/v1/queue", "/api/v1/queue/events"):
        async with session.get(path) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")


async def test_a_stream_says_what_changes_and_ends_with_its_ticket(place: Place, session: ClientSession) -> None:
    async with session.get("/api/v1/queue/events") as answer:
        assert answer.content_type == "text/event-stream"
        assert (await event(answer)).items == ()
        place.desk.have("x", Phase.READY_FOR_GPU)
        place.time += 10
        assert [one.name for one in (await event(answer)).items] == ["x"]
        place.time += 16
        assert await answer.content.readline() == b"\n"
        assert await answer.content.readline() == b": nothing has changed\n"
        place.valid.clear()
        place.time += 31
        assert b"data" not in await answer.content.read()


async def test_streams_are_bounded_and_end_with_the_process(place: Place, session: ClientSession) -> None:
    streams = [await session.get("/api/v1/queue/events") for _ in range(queue_http.MOST_STREAMS_EACH)]
    for one in streams:
        await event(one)
    async with session.get("/api/v1/queue/events") as refused:
        assert refused.status == 503
        assert "streams" in (await refused.json())["error"]["message"]
    async with session.get("/api/v1/queue/events", headers={"X-Jervis-Ticket": "team"}) as other:
        await event(other)
    streams.pop().close()
    while True:  # until the server has noticed
        async with session.get("/api/v1/queue/events") as answer:
            if answer.status == 200:
                break
        place.time += 0.1
        place.desk.have("x", Phase.READY_FOR_GPU)
    async with asyncio.timeout(20):
        await place.runner.cleanup()
    assert [await one.content.read() for one in streams]


class Ticking:
    """A clock that passes 5 ms whenever it is read: each document takes so long to make."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 0.005
        return self.time


async def test_distinct_questions_neither_freeze_the_survey_nor_fill_the_memory() -> None:
    """One ticket asks for another client each time, for two minutes; what others see is never older than the bound."""
    desk, clock, surveyed = Desk(), Ticking(), [0.0]
    for number in range(20):
        desk.have(f"t{number}", Phase.READY_FOR_GPU)

    def observe() -> wait_reasons.Observed:
        surveyed.append(clock.time)
        return desk.scheduler.observed()

    state = queue_http.QueueState(observe, breaker=lambda: "Closed", leading=lambda: True, monotonic=clock)
    asked = 0
    while clock.time < 120:
        asked += 1
        await state.document(queue_http.Asked("default", f"client-{asked}", 500))
        assert len(state) <= queue_http.MOST_SHOWN
    assert asked > 5000
    assert max(late - early for early, late in pairwise(surveyed)) <= queue_http.OLDEST_SECONDS + 1
    desk.have("new", Phase.READY_FOR_GPU)
    clock.time += queue_http.OLDEST_SECONDS
    shown = json.loads(await state.document(queue_http.Asked("default", "", 500)))
    assert "new" in [one["name"] for one in shown["items"]]


async def test_a_namespace_asks_so_often_and_takes_no_other_ones_turn(place: Place, session: ClientSession) -> None:
    place.desk.have("x", Phase.READY_FOR_GPU)

    async def ask(namespace: str, client: str) -> ClientResponse:
        async with session.get(f"/api/v1/queue?client={client}", headers={"X-Jervis-Ticket": namespace}) as answer:
            await answer.read()
            return answer

    answers = [await ask("default", f"client-{number}") for number in range(3 * queue_http.REQUESTS_AT_ONCE)]
    let_in = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status == 429]
    assert len(let_in) + len(refused) == len(answers)
    assert len(let_in) <= queue_http.REQUESTS_AT_ONCE + 1
    assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
    assert (await ask("team", "")).status == 200, "another namespace has its own"
    async with session.get("/api/v1/queue/events") as stream:
        assert (stream.status, (await stream.json())["error"]["code"]) == (429, "too_many_requests")
    place.time += 1
    again = [(await ask("default", "")).status for _ in range(2 * queue_http.REQUESTS_A_SECOND)]
    assert again.count(200) == queue_http.REQUESTS_A_SECOND


async def test_the_description_has_both_paths(session: ClientSession) -> None:
    async with session.get("/openapi.json") as answer:
        paths = (await answer.json())["paths"]
    assert {"/api/v1/queue", "/api/v1/queue/events"} <= set(paths)
    assert "text/event-stream" in paths["/api/v1/queue/events"]["get"]["responses"]["200"]["content"]
