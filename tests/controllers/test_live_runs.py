"""Which runs there are, as the operator tells it, and what a token of one has of a person's words."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from aiohttp import web

from contracts.tokens import live_runs as wire
from contracts.tokens import runtoken
from controllers import liveruns
from controllers.archive import http
from controllers.pendingtask import job, task_index, workloads
from controllers.pendingtask.effects import run_token
from controllers.pendingtask.observed import ObservedState
from controllers.pendingtask.slots import bookings
from crds import errors, labels
from crds.phases import Phase
from tests import httpserver
from tests.controllers import build
from tests.controllers.build import NOW, UID, routed
from tests.controllers.clusterstate.wire import Apiserver
from tests.crds.runs import run

KEYS = runtoken.ring([b"k" * 48])
TEMPLATE = job.Template("jervis", "i", "Never", "a", "http://kb", "http://r", "mongodb://m", "model")
ANSWERS = [{"id": "q1", "text": "so"}]
DISPATCH = {"jobName": "mail-1-0f9a1c2e-1", "backend": "gpu-0", "threadId": UID}


def booked(*tasks: Any) -> bookings.Bookings:
    index = task_index.Tasks(lambda: NOW)
    for one in tasks:
        index.observe(one.wire())
    return index.bookings


@pytest.mark.parametrize("phase", [Phase.DISPATCHED_GPU, Phase.ORCHESTRATING])
def test_a_task_with_a_slot_has_a_run(phase: Phase) -> None:
    made = booked(routed(phase, attempt=3))
    assert ({uid: run.attempt for uid, run in made.runs.items()}, made.stopped) == ({UID: 3}, {})


def test_a_task_that_waits_after_a_run_is_stopped_and_one_that_has_ended_is_neither() -> None:
    suspended = routed(Phase.READY_FOR_GPU, attempt=1, dispatch=DISPATCH)
    # Its node was drained, or a service was away: the next run takes over what its command leaves.
    again = routed(Phase.READY_FOR_GPU, attempt=2)
    assert [booked(one).stopped for one in (suspended, again)] == [{UID: 1}, {UID: 2}]
    for over in (routed(Phase.READY_FOR_GPU), routed(Phase.COMPLETED, attempt=1), routed(Phase.USER_TASK, attempt=1)):
        assert (booked(over).runs, booked(over).stopped) == ({}, {})


def jobs(*raws: dict[str, Any]) -> workloads.Workloads:
    known = workloads.Workloads(build.RELEASE)
    for raw in raws:
        assert known.observe_job(raw)
    return known


def test_a_job_that_others_let_go_is_a_run_before_its_task_says_so() -> None:
    """Kueue starts it minutes after its token was signed, and the operator books it a moment later."""
    waits = booked(routed(Phase.READY_FOR_GPU, attempt=1, dispatch=DISPATCH))
    for raw, runs in (
        (build.raw_job(spec={"suspend": False}), {UID: 1}),
        (build.raw_job(spec={"suspend": True}), {}),
        (build.raw_job(attempt=2), {}),
        (build.raw_job(status={"conditions": [{"type": "Complete", "status": "True"}]}), {}),
    ):
        found = liveruns.attempts(waits, jobs(raw), {"team-a"})
        assert dict(found.runs) == runs
        assert found.stopped == {UID}


def test_a_run_goes_on_where_the_tasks_of_its_namespace_are_not_seen_at_the_moment() -> None:
    nothing = booked()
    assert liveruns.attempts(nothing, jobs(build.raw_job()), {"team-b"}).runs == {UID: 1}
    assert liveruns.attempts(nothing, jobs(build.raw_job()), {"team-a"}).runs == {}, "its task is gone"
    gone = jobs(build.raw_job())
    gone.abandon(UID)
    assert liveruns.attempts(nothing, gone, {"team-b"}).runs == {}, "its namespace is gone"


def test_a_task_that_is_being_deleted_has_no_run_any_more() -> None:
    raw = routed(Phase.ORCHESTRATING, attempt=1).wire()
    raw["metadata"] |= {"deletionTimestamp": "2027-03-01T12:00:00Z", "resourceVersion": "8"}
    index = task_index.Tasks(lambda: NOW)
    index.observe(routed(Phase.ORCHESTRATING, attempt=1).wire())
    index.observe(raw)
    assert (index.bookings.runs, index.bookings.stopped) == ({}, {})


class Place:
    """What one replica knows: `seconds` of monotonic time, `silent` seconds since the apiserver answered."""

    def __init__(self) -> None:
        self.seconds, self.silent, self.reads = 0.0, 0.0, 0
        self.found = liveruns.Attempts({UID: 2}, frozenset({"waits"}))
        self.known = self.leading = True

    def attempts(self) -> liveruns.Attempts:
        if not self.known:
            raise errors.Operational("starting")
        return self.found

    async def analyses(self) -> frozenset[str]:
        self.reads += 1
        await asyncio.sleep(0)
        return frozenset({"analysis"})


@pytest.fixture(name="place")
def _place() -> Place:
    return Place()


@pytest.fixture(name="live")
def _live(place: Place) -> liveruns.LiveRuns:
    return liveruns.LiveRuns(
        place.attempts,
        place.analyses,
        lambda: KEYS,
        leading=lambda: place.leading,
        silent_for=lambda: place.silent,
        wall=lambda: NOW,
        monotonic=lambda: place.seconds,
    )


@contextlib.asynccontextmanager
async def served(live: liveruns.LiveRuns) -> AsyncIterator[httpx.AsyncClient]:
    application = web.Application()
    live.serve(application)
    async with (
        httpserver.serving(application) as url,
        httpx.AsyncClient(base_url=url, verify=False, trust_env=False) as made,
    ):
        yield made


async def test_the_list_is_signed_and_made_at_most_once_a_second(live: liveruns.LiveRuns, place: Place) -> None:
    place.silent = 2.5
    async with served(live) as raw:
        answers = await asyncio.gather(*(raw.get(wire.PATH) for _ in range(5)))
        said = wire.parse(answers[0].text, KEYS)
        assert said == wire.Live(
            as_of=NOW - timedelta(seconds=2.5),
            runs={UID: 2},
            stopped=frozenset({"waits"}),
            analyses=frozenset({"analysis"}),
            young=liveruns.LAG_SECONDS,
        )
        assert {one.text for one in answers} == {answers[0].text}
        assert place.reads == 1
        place.found = liveruns.Attempts({}, frozenset())
        place.seconds += liveruns.FRESH_SECONDS
        assert wire.parse((await raw.get(wire.PATH)).text, KEYS).runs == {}


async def test_a_replica_that_does_not_know_says_so(live: liveruns.LiveRuns, place: Place) -> None:
    async with served(live) as raw:

        async def status(**more: Any) -> int:
            place.seconds += liveruns.FRESH_SECONDS
            for name, value in {"silent": 0.0, "known": True, "leading": True, **more}.items():
                setattr(place, name, value)
            answer = await raw.get(wire.PATH)
            if answer.status_code == 503:
                assert answer.headers["Retry-After"] == str(http.RETRY_SECONDS)
            return answer.status_code

        assert await status(silent=15.0) == 200
        assert [await status(silent=15.1), await status(known=False), await status(leading=False)] == [503] * 3
        read = place.reads
        assert (await raw.get(wire.PATH)).status_code == 503, "a moment later as well"
        assert place.reads == read
        assert await status() == 200


def test_the_operator_itself_asks_the_same_list(live: liveruns.LiveRuns, place: Place) -> None:
    def verify(attempt: int, age: timedelta = timedelta(hours=1)) -> runtoken.Claims:
        token = runtoken.Signer(lambda: KEYS, lambda: NOW - age).sign(run(UID, attempt), timedelta(hours=5))
        return runtoken.Verifier(lambda: KEYS, lambda: NOW, runtoken.OPERATOR, live.check).verify(token)

    assert verify(2).attempt == 2
    assert verify(3, timedelta(seconds=90)).attempt == 3, "it has just begun to lead: its cache may be behind"
    place.seconds += liveruns.LAG_SECONDS
    with pytest.raises(runtoken.Ended):
        verify(1)
    assert verify(3, timedelta(seconds=10)).attempt == 3, "signed a moment ago"
    with pytest.raises(runtoken.Ended):
        verify(3, timedelta(seconds=11))
    place.leading = False
    assert verify(3, timedelta(seconds=90)).attempt == 3, "it does not lead any more"
    with pytest.raises(runtoken.Ended):
        verify(3, timedelta(seconds=91))
    place.known = False
    with pytest.raises(errors.Operational):
        verify(2)


async def test_a_list_of_one_that_has_just_begun_to_lead_ends_no_young_run(
    live: liveruns.LiveRuns, place: Place
) -> None:
    async with served(live) as raw:

        async def young() -> float:
            place.seconds += liveruns.FRESH_SECONDS
            return wire.parse((await raw.get(wire.PATH)).text, KEYS).young

        assert await young() == liveruns.LAG_SECONDS
        place.seconds += liveruns.LAG_SECONDS
        assert await young() == wire.YOUNG.total_seconds()
        place.leading = False
        place.seconds += liveruns.FRESH_SECONDS
        assert (await raw.get(wire.PATH)).status_code == 503
        place.leading = True
        assert await young() == liveruns.LAG_SECONDS


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
    async with made.client() as api:
        find = liveruns.analyses(api, "jervis", lambda: seconds[0])
        assert await find() == {"going"} == await find()
        assert [asked["labelSelector"] for _, asked in made.asked] == [labels.CODE_ANALYSIS]
        made.lists[path] = []
        made.refuses[path] = 500
        seconds[0] += wire.EVERY_SECONDS
        assert await find() == {"going"}, "as they were, while the apiserver is away"
        made.refuses.clear()
        assert await find() == frozenset()


@pytest.mark.parametrize(
    ("more", "rules", "teaches"),
    [
        ({}, (), False),
        (
            {"approvals": [("mail", "Approved"), ("", "Approved"), ("page", "Rejected"), ("mail", "Approved")]},
            ("mail",),
            False,
        ),
        ({"approvals": [("mail", "Approved"), ("page", "Approved"), ("mail", "Rejected")]}, ("page",), False),
        ({"answers": ANSWERS}, (), True),
        ({"approvals": [("mail", "Approved")], "answers": ANSWERS}, ("mail",), True),
        (
            {"approvals": [("mail", "Approved")], "answers": [{"id": "q", "text": "so"}], "onBehalfOf": ["user:eve"]},
            (),
            False,
        ),
    ],
)
def test_a_token_says_what_persons_said_in_its_task(
    more: dict[str, Any], rules: tuple[str, ...], teaches: bool
) -> None:
    approvals = [
        {"requestId": "r", "attempt": 1, "ruleKey": key, "verdict": verdict}
        for key, verdict in more.pop("approvals", ())
    ]
    task = routed(Phase.DISPATCHED_GPU, spec=more, approvals=approvals)
    signer = runtoken.Signer(lambda: KEYS, lambda: datetime.now(UTC))
    token = run_token.sign(signer, TEMPLATE, task, 1)
    claims = runtoken.Verifier(lambda: KEYS, lambda: datetime.now(UTC), runtoken.KNOWLEDGE_BASE).verify(token)
    assert (claims.rules, claims.teaches) == (rules, teaches)


@pytest.mark.parametrize(
    ("tool", "arguments", "edited", "key"),
    [
        ("proposeRule", '{"key": "mail", "content": "x"}', None, "mail"),
        ("proposeRule", '{"key": "mail", "content": "x"}', '{"key": "post", "content": "y"}', "post"),
        ("proposeRule", '{"key": "' + "m" * 90 + '… [cut]"}', None, ""),
        ("proposeRule", "", None, ""),
        ("proposeRule", "[1]", None, ""),
        ("proposeRule", '{"key": "mail", "content": ' + "[" * 4000, None, ""),
        ("sendMail", '{"key": "mail"}', None, ""),
    ],
)
def test_a_decision_says_which_rule_it_was_about(tool: str, arguments: str, edited: str | None, key: str) -> None:
    effect = {"id": "r1/0", "tool": tool, "arguments": arguments}
    more = {} if edited is None else {"effects": [{"id": "r1/0", "verdict": "Approved", "arguments": edited}]}
    task = build.asked(
        "Approval",
        spec={"approval": {"verdict": "Approved", "author": "ada", **more}},
        userTask={"kind": "Approval", "effects": [effect], "requestId": "r"},
    )
    made = build.decided(task, ObservedState())
    [decided] = made.status.approvals
    assert (decided.verdict, decided.rule_key) == ("Approved", key)
