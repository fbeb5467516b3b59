"""The correction of transcripts: what is taken, refused and listed; and the worker over the wires of its services."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import prometheus_client
import pytest
from aiohttp import web

from contracts.api import meeting
from contracts.api.meeting import Segment, Transcript
from crds import errors
from kb import client as kb
from router import client as router
from router.client import asking
from sources.core import assignments
from sources.providers.meetings import correction, metrics, store, worker
from tests import httpserver
from tests.sources.meetings.test_upload import Rig

HEARD = Transcript(
    engine="scripted",
    simulated=True,
    segments=(
        Segment(start=0, end=4, text="Welcome everybody to the weekly."),
        Segment(start=4, end=9, text="Petra Swoboda took the node GP you three into service.", speaker="Ada"),
        Segment(start=9, end=12, text=""),
        Segment(start=12, end=20, text="x" * (correction.LONGEST + 1)),
    ),
)
RIGHT = "Petra Svobodová took the node gpu-3 into service."


def answers(*said: tuple[int, str]) -> str:
    return json.dumps({"segments": [{"n": number, "text": text} for number, text in said]})


async def run(answer: str | list[str], heard: Transcript = HEARD) -> tuple[meeting.Told, list[str]]:
    """The correction by a model that says this, and what it was asked."""
    asked: list[str] = []
    left = [answer] if isinstance(answer, str) else list(answer)

    async def ask(each: asking.Try, num_predict: int) -> router.Reply:
        # A correction of the question says what was wrong; what was asked stands before it.
        asked.append(next(one["content"] for one in each.messages if one["role"] == "user"))
        return router.Reply(left.pop(0))

    async def between() -> None:
        assert left

    terms = [correction.Term("Petra Svobodová"), correction.Term("gpu-3", ("GPU three",))]
    return await correction.correct(heard, terms, ask, between), asked


async def test_names_are_put_in_and_changes_are_listed() -> None:
    told, [asked] = await run(answers((2, RIGHT)))
    assert told.corrected[1].text == RIGHT
    assert (told.corrected[1].start, told.corrected[1].speaker) == (4, "Ada")
    assert [(one.segment, one.at, one.before, one.after) for one in told.changes] == [
        (1, 4, "Swoboda", "Svobodová"),
        (1, 4, "GP you three", "gpu-3"),
    ]
    assert told.transcript == HEARD
    assert [told.corrected[number] for number in (0, 2, 3)] == [HEARD.segments[number] for number in (0, 2, 3)]
    assert "- gpu-3 (also: GPU three)" in asked
    assert "2: Petra Swoboda" in asked
    assert "xxx" not in asked


async def test_an_answer_that_tells_something_else_is_refused() -> None:
    told, _ = await run(answers((1, "Everybody agreed to pay the invoice at once, says the director."), (2, RIGHT)))
    assert (told.refused, told.corrected[0].text) == (1, HEARD.segments[0].text)
    assert len(told.changes) == 2


@pytest.mark.parametrize(
    "said", [(0, RIGHT), (3, RIGHT), (4, RIGHT), (99, RIGHT), (2, "  "), (2, HEARD.segments[1].text)]
)
async def test_what_is_no_correction_changes_nothing(said: tuple[int, str]) -> None:
    told, _ = await run(answers(said))
    assert (told.corrected, told.changes, told.refused) == ((), (), 0)


async def test_windows_are_bounded_and_one_unreadable_answer_is_left_out() -> None:
    count = 2 * correction.WINDOW_SEGMENTS + 1
    heard = Transcript(engine="e", segments=tuple(Segment(start=n, end=n + 1, text=f"teh {n}") for n in range(count)))
    whole, half = correction.WINDOW_SEGMENTS, correction.WINDOW_SEGMENTS // 2
    told, asked = await run(["no JSON", "nor this", "nor that", answers((31, "the 30")), answers()], heard)
    assert [text.count("teh") for text in asked] == [whole, whole, half, whole, 1]
    assert [(one.segment, one.before, one.after) for one in told.changes] == [(30, "teh", "the")]
    with pytest.raises(correction.Unreadable):
        await run(["no"] * 9, heard)


async def test_what_is_usable_of_an_answer_is_used() -> None:
    said = f'Here: {{"segments": [{{"n": "2", "text": {json.dumps(RIGHT)}}}, {{"n": 77}}, {{"text": "Welc'
    # It is cut, and no other answer is whole.
    told, _ = await run([said, said, "no JSON"])
    assert told.corrected[1].text == RIGHT


class Wires:
    """The router and the knowledge base as HTTP: what the model says, and how often it is asked."""

    def __init__(self) -> None:
        self.says, self.status, self.asked = answers((2, RIGHT)), 200, list[dict[str, Any]]()
        self.nodes = [
            {"key": "user:petra-svobodova", "type": "user", "names": ["Petra Svobodová"]},
            {"key": "document:1", "type": "document", "names": ["A mail"]},
        ]

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/api/chat", self._chat)
        app.router.add_get("/api/v1/graph/nodes", self._nodes)
        app.router.add_get("/api/v1/aliases", self._aliases)
        return app

    async def _chat(self, request: web.Request) -> web.Response:
        self.asked.append({"headers": dict(request.headers), **await request.json()})
        if self.status != 200:
            return web.json_response({"error": "away"}, status=self.status)
        return web.json_response({"message": {"content": self.says}, "done": True})

    async def _nodes(self, _: web.Request) -> web.Response:
        full = [{"descriptions": [], "ragChunks": [], "mentions": 1, **one} for one in self.nodes]
        return web.json_response({"nodes": full})

    async def _aliases(self, _: web.Request) -> web.Response:
        return web.json_response({"aliases": []})


@asynccontextmanager
async def working(rig: Rig, wires: Wires) -> AsyncIterator[worker.Worker]:
    measured = metrics.Metrics(prometheus_client.CollectorRegistry())
    async with httpserver.serving(wires.application()) as base, httpx.AsyncClient(trust_env=False) as http:
        route = router.Client(base, http, mode="Background")
        knowledge = kb.Client(base, http, attempts=1)
        yield worker.Worker(rig.meetings, knowledge, route, "qwen2.5:7b", measured, wall=lambda: rig.now, num_ctx=8192)


async def transcribed(rig: Rig, heard: Transcript = HEARD) -> str:
    """A meeting whose transcript waits for its correction."""
    place = await rig.meetings.place("team", "meetings")
    draft = meeting.Draft(namespace="team", connection="meetings", title="Weekly", participants=("Ada",))
    row = await rig.meetings.create(draft, place, rig.now)
    await rig.database["meetings"].update_one({"_id": row["_id"]}, {"$set": {"state": "UPLOADED"}})
    begun = await rig.meetings.begin(await rig.meetings.get(row["_id"]), "jervis")
    assert begun is not None
    await rig.meetings.transcribed(begun, heard, True)
    return str(row["_id"])


@pytest.mark.services
async def test_the_worker_corrects_once_and_has_the_connection_polled(rig: Rig) -> None:
    wires, one = Wires(), await transcribed(rig)
    assert await rig.meetings.ready(await rig.meetings.place("team", "meetings"), "", 10) == []
    async with working(rig, wires) as work:
        assert await work.correct()
        assert not await work.correct()
    told = await rig.meetings.told(one)
    assert told is not None
    assert (told.corrected[1].text, len(told.changes)) == (RIGHT, 2)
    assert told.transcript == HEARD
    [asked] = wires.asked
    assert (asked["headers"]["X-Ollama-Priority"], asked["headers"]["X-Jervis-Mode"]) == ("3", "Background")
    assert "- Ada\n- Petra Svobodová\n\n" in asked["messages"][1]["content"]
    assert asked["format"]["properties"]["segments"]["items"]["properties"]["n"]["enum"] == [1, 2]
    assert asked["options"]["num_ctx"] == 8192
    assert 1024 < asked["options"]["num_predict"] < 1300
    [row] = await rig.meetings.ready(await rig.meetings.place("team", "meetings"), "", 10)
    assert (row["correction"], row["changes"]) == ("Done", 2)
    [place] = [row async for row in rig.database[assignments.CONNECTIONS].find({"name": "meetings"})]
    assert place["pollAt"] == store._EPOCH


@pytest.mark.services
async def test_a_model_that_is_away_is_asked_again_and_is_no_obstacle(rig: Rig) -> None:
    wires, one = Wires(), await transcribed(rig)
    wires.status = 503
    async with working(rig, wires) as work:
        for _ in range(worker.MOST_TRIES - 1):
            with pytest.raises(errors.Operational):
                await work.correct()
            assert not await work.correct()  # not before its time
            rig.now += store.AGAIN
        assert await work.correct()
    told = await rig.meetings.told(one)
    assert told is not None
    assert told.corrected == ()
    [row] = await rig.meetings.ready(await rig.meetings.place("team", "meetings"), "", 10)
    assert row["correction"] == "Failed"
    assert row["correctionReason"]
    assert len(wires.asked) >= worker.MOST_TRIES


@pytest.mark.services
async def test_a_model_that_is_not_there_or_says_nothing_is_no_obstacle(rig: Rig) -> None:
    wires = Wires()
    for status, says in ((404, ""), (200, "I am sorry, I cannot do that.")):
        wires.status, wires.says = status, says
        await transcribed(rig)
        async with working(rig, wires) as work:
            assert await work.correct()
    rows = await rig.meetings.ready(await rig.meetings.place("team", "meetings"), "", 10)
    assert [row["correction"] for row in rows] == ["Failed", "Failed"]


@pytest.mark.services
async def test_a_correction_that_mongodb_cannot_take_is_no_obstacle(rig: Rig) -> None:
    """A transcript of eight megabytes, and the corrected one beside it, are more than a document may have."""
    long = tuple(Segment(start=at, end=at + 1, text="x" * 20_000) for at in range(430))
    wires, one = Wires(), await transcribed(rig, HEARD.model_copy(update={"segments": (*HEARD.segments, *long)}))
    async with working(rig, wires) as work:
        assert await work.correct()
        rig.now += timedelta(hours=1)
        assert not await work.correct(), "the model is not asked for it without an end"
    told = await rig.meetings.told(one)
    assert told is not None
    assert (told.corrected, len(told.transcript.segments)) == ((), 430 + len(HEARD.segments))
    [row] = await rig.meetings.ready(await rig.meetings.place("team", "meetings"), "", 10)
    assert row["correction"] == "Failed"
    assert "cannot be stored" in row["correctionReason"]


@pytest.mark.services
async def test_a_correction_that_ended_the_process_each_time_is_given_up(rig: Rig) -> None:
    wires, one = Wires(), await transcribed(rig)
    for _ in range(worker.MOST_TRIES):
        assert await rig.meetings.correct(rig.now) is not None
        rig.now += timedelta(hours=1)
    async with working(rig, wires) as work:
        assert await work.correct()
    assert wires.asked == []
    [row] = await rig.meetings.ready(await rig.meetings.place("team", "meetings"), "", 10)
    assert (row["_id"], row["correction"]) == (one, "Failed")
    assert f"{worker.MOST_TRIES} times" in row["correctionReason"]
