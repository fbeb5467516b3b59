"""From the archive to the knowledge base: what is told, once, and what happens while somebody is away."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import prometheus_client
import pytest

from controllers import admission, backpressure, metrics, periodic
from controllers.archive import finished, record
from controllers.archive.query import Place
from controllers.outcomes import reconcile, report
from crds import pendingtask, scope
from kb import api, client
from kb.outcome import significance
from orchestrator_job.answer import evidence_pack
from orchestrator_job.context import significance as of_run
from orchestrator_job.store import task_memory
from tests.controllers.archive import build
from tests.controllers.build import present

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
RESULT = {
    "exitReason": "Answered",
    "answer": "It is done [2].",
    "question": "Do it.",
    "taskCategory": "single_task",
    "taskAction": "respond",
    "stepResults": [{"action": "found wiki::1", "result": "How it is done."}],
}


def document(
    result: Mapping[str, Any] | None = RESULT, phase: str = "Completed", *, attempt: int = 2, **metadata: Any
) -> dict[str, Any]:
    raw = build.raw(phase, **metadata)
    raw["status"]["attempt"] = attempt
    task = present(finished.of(raw))
    return record.of(task, raw, result, NOW)


# -- what is told ------------------------------------------------------------------------------------------------------


def test_a_completed_run_tells_its_result_and_its_steps() -> None:
    told = present(report.of(document(annotations={"jervis.dev/title": "The poller"})))
    assert (told.task_id, told.title, told.question) == (build.UID, "The poller", "Do it.")
    assert (told.task_category, told.task_action, told.error) == ("single_task", "respond", None)
    assert told.final_result == "It is done [2]."
    assert [(one.action, one.result) for one in told.step_results] == [("found wiki::1", "How it is done.")]
    assert told.scope.client_id == "acme"
    assert told.finished_at == NOW - timedelta(hours=1)


def test_an_error_says_so_and_a_result_that_is_gone_leaves_the_summary() -> None:
    failed = present(report.of(document(None, "Error")))
    assert (failed.error, failed.final_result, failed.step_results) == ("It is done.", "It is done.", [])
    assert failed.title == "mail-1"


def test_what_has_never_run_is_not_told() -> None:
    assert report.of(document(None, "Error", attempt=0)) is None
    assert report.of(document(None, "Done")) is None


async def test_of_a_run_on_behalf_of_a_user_nothing_is_told() -> None:
    """An outcome is the whole scope's; the result may hold what others may not see."""
    private = document()
    private["object"]["spec"]["onBehalfOf"] = ["user:alice"]
    assert report.of(private) is None
    archive, knowledge = Archive(private, {**document(), "_id": "open"}), Knowledge()
    assert await reporter(archive, knowledge, []).report_due() == 2
    assert knowledge.asked == ["open"]
    noted = archive.documents[build.UID]["outcome"]
    assert (noted["told"], "on behalf of a user" in noted["reason"]) == ("insignificant", True)


@pytest.mark.parametrize(
    ("result", "field"),
    [({**RESULT, "taskCategory": "poem"}, "taskCategory"), ({**RESULT, "taskAction": "dance"}, "taskAction")],
)
def test_what_the_door_would_not_take_names_its_field(result: dict[str, Any], field: str) -> None:
    with pytest.raises(report.UnfitError) as caught:
        report.of(document(result))
    assert caught.value.field == field


def test_long_results_are_cut_to_what_the_door_takes() -> None:
    steps = [{"action": "a" * 999, "result": "r" * 99_999}] * 300
    told = present(report.of(document({**RESULT, "answer": "x" * 200_000, "stepResults": steps})))
    assert (len(told.final_result), len(told.step_results), len(told.step_results[0].action)) == (100_000, 200, 500)


# -- the loop ----------------------------------------------------------------------------------------------------------


class Archive:
    """MongoDB's part, in memory: the outside."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents = {one["_id"]: dict(one) for one in documents}

    async def unreported(
        self, namespaces: Collection[str], phases: Collection[str], since: datetime, after: Place | None, limit: int
    ) -> list[Mapping[str, Any]]:
        def wanted(one: Mapping[str, Any]) -> bool:
            new = after is None or (one["archivedAt"], one["_id"]) > (after.at, after.uid)
            return new and "outcome" not in one and one["archivedAt"] >= since and one["phase"] in phases

        found = sorted(filter(wanted, self.documents.values()), key=lambda one: (one["archivedAt"], one["_id"]))
        return list(found[:limit])

    async def record_outcome(self, uid: str, outcome: Mapping[str, Any]) -> None:
        self.documents[uid]["outcome"] = dict(outcome)

    async def one(self, uid: str) -> Mapping[str, Any] | None:
        return self.documents.get(uid)


class Knowledge:
    """The door of the knowledge base: `away` while it does not answer, `lost` answers after it has taken one, and
    `heavy` tasks about which it never answers in time."""

    def __init__(self, away: int = 0, lost: int = 0, heavy: Collection[str] = ()) -> None:
        self.away, self.lost, self.heavy = away, lost, set(heavy)
        self.kept: dict[str, int] = {}
        self.asked: list[str] = []

    async def __call__(self, told: api.Outcome) -> api.OutcomeReply:
        self.asked.append(told.task_id)
        if told.task_id in self.heavy:
            raise client.Unavailable("timed out")
        if self.away:
            self.away -= 1
            raise client.Unavailable("busy")
        self.kept[told.task_id] = self.kept.get(told.task_id, 0) + 1
        if self.lost:
            self.lost -= 1
            raise client.Unavailable("the answer was lost")
        if told.title == "refused":
            raise client.Rejected("no", field="title")
        return api.OutcomeReply(remembered=bool(told.step_results), reason="by rule")


class Slept(Exception):  # noqa: N818 - no error: the end of a test
    """Enough rounds."""


def reporter(
    archive: Archive,
    knowledge: Knowledge,
    slept: list[float],
    throttle: backpressure.Backpressure | None = None,
    admitted: admission.Admission | None = None,
) -> reconcile.Reporter:
    """Its clock moves by what its loop sleeps."""
    return reconcile.Reporter(
        archive,  # type: ignore[arg-type]  # the outside, as a structure
        knowledge,
        namespaces=["ns"],
        admitted=admitted,
        pace=reconcile.Pace(every=30.0),
        measured=metrics.Metrics(prometheus_client.CollectorRegistry()),
        wall=lambda: NOW + timedelta(seconds=sum(slept)),
        throttle=throttle or backpressure.Backpressure(monotonic=lambda: 0.0),
    )


async def run(one: reconcile.Reporter, slept: list[float], rounds: int) -> None:
    """Its loop, as `controllers.runtime.loops` has it, for so many rounds."""

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) >= rounds:
            raise Slept

    leading = asyncio.Event()
    leading.set()
    loop = periodic.Periodic(
        "outcomes",
        one.reconcile_once,
        30.0,
        metrics.Metrics(prometheus_client.CollectorRegistry()),
        retry=periodic.growing(30.0),
        sleep=sleep,
    )
    with pytest.raises(Slept):
        await loop.run(leading)


async def worked(archive: Archive, knowledge: Knowledge, rounds: int = 1) -> list[float]:
    """What a reporter slept in so many rounds."""
    slept = list[float]()
    await run(reporter(archive, knowledge, slept), slept, rounds)
    return slept


def several(number: int) -> list[dict[str, Any]]:
    return [
        {**document(name=f"t{n}"), "_id": f"u{n:03}", "archivedAt": NOW - timedelta(minutes=n)} for n in range(number)
    ]


async def test_each_is_told_once_oldest_first_and_noted() -> None:
    archive, knowledge = Archive(*several(120)), Knowledge()
    slept = await worked(archive, knowledge, 3)
    assert list(knowledge.kept) == [f"u{n:03}" for n in reversed(range(120))]
    assert set(knowledge.kept.values()) == {1}
    assert {each["outcome"]["told"] for each in archive.documents.values()} == {"remembered"}
    assert slept == [30.0, 30.0, 30.0]


async def test_while_the_knowledge_base_is_away_it_is_asked_less_and_less_and_nothing_is_left_out() -> None:
    archive, knowledge = Archive(*several(3)), Knowledge(away=6)
    assert await worked(archive, knowledge, 6) == [30.0, 60.0, 120.0, 240.0, 300.0, 30.0]
    assert knowledge.asked[:6] == ["u002", *["u001"] * 5], "after the second no other is tried"
    assert knowledge.kept == {"u002": 1, "u001": 1, "u000": 1}


async def test_one_that_always_times_out_holds_up_no_other() -> None:
    archive, knowledge, slept = Archive(*several(4)), Knowledge(heavy={"u003", "u001"}), list[float]()
    one = reporter(archive, knowledge, slept)
    await run(one, slept, 40)
    assert knowledge.kept == {"u002": 1, "u000": 1}
    assert knowledge.asked[:4] == ["u003", "u002", "u001", "u000"]
    assert set(slept) == {30.0}, "the line goes on at its own pace"
    tried = knowledge.asked.count("u003")
    assert tried == knowledge.asked.count("u001") == 7, "first 30 s, doubling to 300 s, within 20 minutes"
    knowledge.heavy.clear()
    slept[:] = [3600.0]
    assert [await one.report_due(), await one.report_due(), await one.report_due()] == [1, 1, 0]
    assert all("outcome" in each for each in archive.documents.values())


async def test_one_that_is_alone_backs_off_by_itself_and_the_next_one_is_told_at_once() -> None:
    archive, knowledge, slept = Archive(*several(1)), Knowledge(heavy={"u000"}), list[float]()
    one = reporter(archive, knowledge, slept)
    for _ in range(5):
        assert await one.report_due() == 0
    assert knowledge.asked == ["u000"]
    archive.documents["new"] = {**document(name="new"), "_id": "new", "archivedAt": NOW + timedelta(seconds=1)}
    assert await one.report_due() == 1
    assert knowledge.kept == {"new": 1}


async def test_what_was_put_aside_and_is_gone_is_forgotten() -> None:
    archive, knowledge, slept = Archive(*several(1)), Knowledge(heavy={"u000"}), list[float]()
    one = reporter(archive, knowledge, slept)
    await one.report_due()
    archive.documents.clear()
    slept.append(3600.0)
    assert await one.report_due() == 0
    assert one._deferred == {}


async def test_a_lost_answer_is_asked_for_again_and_another_leader_goes_on() -> None:
    archive, knowledge = Archive(*several(2)), Knowledge(lost=1)
    await worked(archive, knowledge)
    assert [uid for uid, each in archive.documents.items() if "outcome" in each] == ["u000"]
    await reporter(archive, knowledge, []).report_due()
    assert knowledge.kept == {"u001": 2, "u000": 1}, "told again; it keeps one document per task"


async def test_what_is_refused_is_noted_with_its_reason_and_holds_up_no_other() -> None:
    refused = {**document(annotations={"jervis.dev/title": "refused"}), "_id": "a", "archivedAt": NOW - timedelta(1)}
    unfit = {**document({**RESULT, "taskAction": "dance"}), "_id": "b", "archivedAt": NOW - timedelta(1)}
    archive, knowledge = Archive(refused, unfit, *several(1)), Knowledge()
    assert await reporter(archive, knowledge, []).report_due() == 3
    noted = {uid: each["outcome"]["told"] for uid, each in archive.documents.items()}
    assert noted == {"a": "refused", "b": "refused", "u000": "remembered"}
    assert archive.documents["a"]["outcome"]["reason"] == "no"
    assert archive.documents["b"]["outcome"]["reason"].startswith("taskAction: ")


async def test_of_a_client_that_the_namespace_may_not_have_nothing_is_told() -> None:
    """Anybody could write a task's status while its namespace was not served; no other client's runs learn from it."""
    archive, knowledge = Archive(*several(2)), Knowledge()
    here = archive.documents["u001"]["namespace"]
    limits = admission.Admission(lambda name: {admission.CLIENTS: "beta"} if name == here else None)
    assert await reporter(archive, knowledge, [], admitted=limits).report_due() == 2
    assert knowledge.asked == []
    noted = [each["outcome"] for each in archive.documents.values()]
    assert {one["told"] for one in noted} == {"refused"}
    assert all(one["reason"].startswith("spec.clientId: acme is not a client of namespace") for one in noted)


async def test_what_ended_long_ago_is_not_told() -> None:
    old = {**document(), "archivedAt": NOW - timedelta(days=8)}
    archive, knowledge = Archive(old), Knowledge()
    assert await reporter(archive, knowledge, []).report_due() == 0


def test_the_run_speaks_the_words_that_the_report_reads() -> None:
    kind = pendingtask.Type.EMAIL
    task = task_memory.TaskMemory(task_uid="u", type=kind, scope=scope.Scope(client_id="acme"), content="x")
    items = [evidence_pack.Item(id=1, source="wiki::1", content="How it is done.", origin="RAG")]
    told = present(report.of(document({**RESULT, "stepResults": [], **of_run.of(task, items, [1])})))
    assert [(one.action, one.result) for one in told.step_results] == [("found wiki::1", "How it is done.")]


async def test_each_report_is_followed_by_a_pause_while_somebody_works() -> None:
    moments, paused = itertools.count(), list[float]()
    left = iter([True, True, False, True])

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    throttle = backpressure.Backpressure(lambda: next(left), monotonic=lambda: next(moments) / 10, sleep=pause)
    archive, knowledge = Archive(*several(4)), Knowledge()
    assert await reporter(archive, knowledge, [], throttle=throttle).report_due() == 4
    assert paused == [pytest.approx(0.3)] * 3


# -- what is remembered of runs with delegations -----------------------------------------------------------------------

FILES: dict[str, Any] = {"files": ("retry.py",)}
ISSUE: dict[str, Any] = {"tool": "createIssue"}


def delegated(
    kind: str, *, handed_back: str = "Found it.", files: tuple[str, ...] = (), tool: str = ""
) -> dict[str, Any]:
    """The fields of a result about one delegation of a user's task."""
    output = {
        "delegationId": "r1.d1",
        "agentName": "Coding",
        "success": True,
        "result": handed_back,
        "changedFiles": files,
    }
    effects = [{"intent": {"tool": tool}, "result": {"text": "Done."}}] if tool else []
    states = {"r1.d1": {"status": "COMPLETED"}}
    what = of_run.Delegated(api.TaskCategory(kind), {"r1.d1": "Do it."}, [output], effects, states)
    task = task_memory.TaskMemory(
        task_uid="u", type="UserInputProcessing", scope=scope.Scope(client_id="acme"), content="x"
    )
    return dict(of_run.of(task, [], [], what))


@pytest.mark.parametrize(
    ("fields", "phase", "answer", "action", "remembered"),
    [
        (delegated("single_task", **FILES), "Completed", "Fixed.", "code", True),
        (delegated("single_task", **ISSUE), "Completed", "Created.", "tracker_ops", True),
        (delegated("single_task", **FILES, **ISSUE), "Completed", "Both.", "mixed", True),
        (delegated("single_task"), "Completed", "It is 7.", "respond", True),
        (delegated("single_task", handed_back=" "), "Completed", "I do not know.", "respond", False),
        (delegated("epic", handed_back=""), "Completed", "Planned.", "respond", True),
        (delegated("generative", handed_back=""), "Completed", "Designed.", "respond", True),
        (delegated("advice"), "Completed", "It is 7.", "respond", False),
        (delegated("advice", **FILES), "Completed", "It is 7.", "code", False),
        (delegated("epic", **FILES), "Error", "It broke.", "code", False),
        (delegated("epic", **FILES), "Completed", " ", "code", False),
    ],
)
def test_each_row_of_the_table_for_a_run_with_delegations(
    fields: dict[str, Any], phase: str, answer: str, action: str, remembered: bool
) -> None:
    found = document({**RESULT, "answer": answer, **fields}, phase)
    if not answer.strip():
        found["object"]["status"]["result"] = {}
    outcome = present(report.of(found))
    assert outcome.task_action == action
    assert significance.judge(outcome)[0] is remembered
