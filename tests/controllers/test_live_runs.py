"""Which runs there are, as the operator tells it, and what a token of one has of a person's words."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from aiohttp import web

from controllers import liveruns
from controllers.archive import http
from controllers.pendingtask import job, task_index
from controllers.pendingtask.effects import run_token
from controllers.pendingtask.slots import bookings
from crds import errors, labels, runtoken
from crds import liveruns as wire
from crds.phases import Phase
from tests.controllers import build
from tests.controllers.build import NOW, UID, routed
from tests.controllers.clusterstate.wire import Apiserver, apiserver

KEYS = runtoken.ring([b"k" * 48])
TEMPLATE = job.Template("jervis", "i", "Never", "a", "http://kb", "http://r", "mongodb://m", "model")
DISPATCH = {"jobName": "mail-1-0f9a1c2e-1", "backend": "gpu-0", "threadId": UID}


def booked(*tasks: Any) -> bookings.Bookings:
    index = task_index.Tasks(lambda: NOW)
    for one in tasks:
        index.observe(one.wire())
    return index.bookings


@pytest.mark.parametrize("phase", [Phase.DISPATCHED_GPU, Phase.ORCHESTRATING])
def test_a_task_with_a_slot_has_a_run(phase: Phase) -> None:
    made = booked(routed(phase, attempt=3))
    assert ({uid: run.attempt for uid, run in made.runs.items()}, made.stopped) == ({UID: 3}, set())


def test_a_run_that_was_suspended_is_stopped_and_one_that_is_over_is_neither() -> None:
    waits = routed(Phase.READY_FOR_GPU, attempt=1, dispatch=DISPATCH)
    again = build.routed(Phase.READY_FOR_GPU, attempt=1)
    assert (booked(waits).runs, booked(waits).stopped) == ({}, {UID})
    for over in (again, routed(Phase.COMPLETED, attempt=1), routed(Phase.USER_TASK, attempt=1)):
        assert (booked(over).runs, booked(over).stopped) == ({}, set())


def test_a_task_that_is_being_deleted_has_no_run_any_more() -> None:
    raw = routed(Phase.ORCHESTRATING, attempt=1).wire()
    raw["metadata"] |= {"deletionTimestamp": "2027-03-01T12:00:00Z", "resourceVersion": "8"}
    index = task_index.Tasks(lambda: NOW)
    index.observe(routed(Phase.ORCHESTRATING, attempt=1).wire())
    index.observe(raw)
    assert (index.bookings.runs, index.bookings.stopped) == ({}, set())


class Place:
    """What one replica knows: `seconds` of monotonic time, `silent` seconds since the apiserver answered."""

    def __init__(self) -> None:
        self.seconds, self.silent, self.reads = 0.0, 0.0, 0
        self.bookings = booked(routed(Phase.ORCHESTRATING, attempt=2))
        self.known = True

    def booked(self) -> bookings.Bookings:
        if not self.known:
            raise errors.Operational("starting")
        return self.bookings

    async def analyses(self) -> frozenset[str]:
        self.reads += 1
        return frozenset({"analysis"})


@pytest.fixture(name="place")
def _place() -> Place:
    return Place()


@pytest.fixture(name="live")
def _live(place: Place) -> liveruns.LiveRuns:
    return liveruns.LiveRuns(
        place.booked,
        place.analyses,
        lambda: KEYS,
        silent_for=lambda: place.silent,
        wall=lambda: NOW,
        monotonic=lambda: place.seconds,
    )


@contextlib.asynccontextmanager
async def served(live: liveruns.LiveRuns) -> AsyncIterator[httpx.AsyncClient]:
    application = web.Application()
    live.serve(application)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with httpx.AsyncClient(base_url=url, verify=False, trust_env=False) as made:
            yield made
    finally:
        await runner.cleanup()


async def test_the_list_is_signed_and_made_at_most_once_a_second(live: liveruns.LiveRuns, place: Place) -> None:
    place.silent = 2.5
    async with served(live) as raw:
        answers = [await raw.get(wire.PATH) for _ in range(5)]
        said = wire.parse(answers[0].text, KEYS)
        assert said == wire.Live(as_of=NOW - timedelta(seconds=2.5), runs={UID: 2}, analyses=frozenset({"analysis"}))
        assert {one.text for one in answers} == {answers[0].text}
        assert place.reads == 1
        place.bookings = bookings.Bookings()
        place.seconds += liveruns.FRESH_SECONDS
        assert wire.parse((await raw.get(wire.PATH)).text, KEYS).runs == {}


async def test_a_replica_that_does_not_know_says_so(live: liveruns.LiveRuns, place: Place) -> None:
    async with served(live) as raw:
        place.silent = liveruns.SILENT_SECONDS + 1
        answer = await raw.get(wire.PATH)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, str(http.RETRY_SECONDS))
        place.silent, place.known = 0.0, False
        assert (await raw.get(wire.PATH)).status_code == 503
        place.known = True
        assert (await raw.get(wire.PATH)).status_code == 200


def test_the_operator_itself_asks_the_same_list(live: liveruns.LiveRuns, place: Place) -> None:
    def verify(attempt: int, age: timedelta = timedelta(hours=1)) -> runtoken.Claims:
        run = runtoken.Run(
            task_uid=UID, namespace="default", attempt=attempt, scope={"clientId": "acme"}, mode="Background", ceiling=3
        )  # fmt: skip
        token = runtoken.Signer(lambda: KEYS, lambda: NOW - age).sign(run, timedelta(hours=5))
        return runtoken.Verifier(lambda: KEYS, lambda: NOW, runtoken.OPERATOR, live.check).verify(token)

    assert verify(2).attempt == 2
    with pytest.raises(runtoken.Ended):
        verify(1)
    assert verify(3, timedelta(0)).attempt == 3, "signed a moment ago"
    place.known = False
    with pytest.raises(errors.Operational):
        verify(2)


async def test_an_analysis_is_one_until_its_job_has_ended() -> None:
    def raw(name: str, **status: Any) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": {labels.CODE_ANALYSIS: name}}, "status": status}

    def ended(kind: str, said: str = "True") -> list[dict[str, str]]:
        return [{"type": kind, "status": said}]

    path = "/apis/batch/v1/namespaces/jervis/jobs"
    going, seconds = raw("going", active=1, conditions=ended("Complete", "False")), [0.0]
    deleted = raw("deleted")
    deleted["metadata"]["deletionTimestamp"] = "2027-03-01T12:00:00Z"
    made = Apiserver()
    made.lists[path] = [
        going,
        raw("done", conditions=ended("Complete")),
        raw("bad", conditions=ended("Failed")),
        deleted,
    ]
    async with apiserver(made) as api:
        find = liveruns.analyses(api, "jervis", lambda: seconds[0])
        assert await find() == {"going"} == await find()
        assert [asked["labelSelector"] for _, asked in made.asked] == [labels.CODE_ANALYSIS]
        made.lists[path] = []
        seconds[0] += wire.EVERY_SECONDS
        assert await find() == frozenset()


@pytest.mark.parametrize(
    ("more", "rights"),
    [
        ({}, ()),
        ({"approvals": [("propose_rule", "Approved")]}, (runtoken.Right.RULES,)),
        ({"approvals": [("propose_rule", "Rejected"), ("send_mail", "Approved"), ("", "Approved")]}, ()),
        ({"answers": [{"id": "q1", "text": "so"}]}, (runtoken.Right.TEACHING,)),
        (
            {"approvals": [("propose_rule", "Approved")], "answers": [{"id": "q1", "text": "so"}]},
            (runtoken.Right.RULES, runtoken.Right.TEACHING),
        ),
        ({"approvals": [("propose_rule", "Approved")], "onBehalfOf": ["user:eve"]}, ()),
    ],
)
def test_a_token_has_the_rights_that_persons_gave_in_its_task(more: dict[str, Any], rights: tuple[Any, ...]) -> None:
    approvals = [
        {"requestId": "r", "attempt": 1, "tool": tool, "verdict": verdict}
        for tool, verdict in more.pop("approvals", ())
    ]
    task = routed(Phase.DISPATCHED_GPU, spec=more, approvals=approvals)
    signer = runtoken.Signer(lambda: KEYS, lambda: datetime.now(UTC))
    token = run_token.sign(signer, TEMPLATE, task, 1)
    claims = runtoken.Verifier(lambda: KEYS, lambda: datetime.now(UTC), runtoken.KNOWLEDGE_BASE).verify(token)
    assert claims.rights == rights
