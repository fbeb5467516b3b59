"""Each invariant sees what it is there for: a sound record passes, and one doctored in that respect does not."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.pendingtask import job
from crds.phases import Phase
from tests.faults import invariants, record, stories, transitions
from tests.faults.hostile import FORGED, MARK
from tests.faults.invariants import Ran
from tests.faults.outcome import BOUND, Outcome
from tests.faults.record import Version


def task(
    revision: int,
    phase: str,
    *,
    uid: str = "u",
    deleted: bool = False,
    messages: int = 0,
    namespace: str = "home",
    **status: Any,
) -> Version:
    """A version of the task `chat-0001`; its phases' times are given by `times`."""
    raw = {
        "metadata": {"uid": uid, "name": "chat-0001", "namespace": namespace},
        "spec": {"messages": [{"id": str(n)} for n in range(messages)]},
        "status": {"phase": phase, "phaseTimes": status.pop("times", {phase: f"{revision:02}"}), **status},
    }
    return Version(revision, "pendingtasks", raw, deleted, float(revision))


def workload(
    kind: str,
    revision: int,
    uid: str,
    attempt: int = 1,
    deleted: bool = False,
    phase: str = "",
    namespace: str = "home",
) -> Version:
    labels = {job.UID_LABEL: "u", job.ATTEMPT_LABEL: str(attempt)}
    raw = {
        "metadata": {"uid": uid, "name": uid, "namespace": namespace, "labels": labels},
        "status": {"phase": phase},
    }
    return Version(revision, kind, raw, deleted, 0.0)


PATH = ["ReadyForQualification", "Qualifying", "ReadyForGpu", "DispatchedGpu", "Orchestrating", "Completed"]
ROUTE = {"decision": "Execute"}


def life() -> list[Version]:
    """A task from its first phase to Completed, each step in a write of its own."""
    times: dict[str, str] = {}
    found = []
    for revision, phase in enumerate(PATH, 1):
        times = {**times, phase: f"{revision:02}"}
        more: dict[str, Any] = {"route": ROUTE} if revision > 2 else {}
        more |= {"completedAt": "06"} if phase == "Completed" else {}
        found.append(task(revision, phase, times=times, leaderEpoch=1, **more))
    return found


def test_a_sound_record_passes() -> None:
    tasks, runs = life(), [Ran("u", 1, "Answered", 0)]
    jobs = [workload("jobs", 1, "j1"), workload("jobs", 2, "j1"), workload("jobs", 3, "j2", attempt=2)]
    pods = [workload("pods", 1, "p1"), workload("pods", 2, "p1", phase="Failed"), workload("pods", 3, "p2")]
    assert invariants.lost(tasks, {"chat-0001": frozenset({Phase.COMPLETED})}) == []
    assert invariants.forbidden(tasks) == []
    assert invariants.finished_twice(tasks) == []
    assert invariants.stale_epochs(tasks) == []
    assert invariants.duplicate_jobs(jobs) == []
    assert invariants.crowded(pods) == []
    assert invariants.unheard(tasks, runs) == []
    assert invariants.worked_twice(tasks, runs) == []
    assert invariants.results_twice([{"_id": "u"}]) == []
    assert invariants.unarchived([*tasks, task(9, "Completed", deleted=True)], {"u": "Completed"}) == []
    assert invariants.believed(tasks, FORGED) == []
    assert invariants.astray([*jobs, *pods], "home", MARK) == []
    assert invariants.orphaned([*jobs, *pods], {"v"}) == []


def test_a_lost_task_is_seen() -> None:
    ends = frozenset({Phase.COMPLETED})
    assert invariants.lost(life()[:4], {"chat-0001": ends}) == ["chat-0001 is DispatchedGpu, not Completed"]
    assert invariants.lost([], {"chat-0001": ends}) == ["chat-0001 is not there, not Completed"]


def test_a_second_end_is_seen() -> None:
    assert invariants.finished_twice([*life(), task(7, "ReadyForGpu"), task(8, "Completed")])
    assert invariants.finished_twice([*life(), task(7, "Completed", completedAt="07")])


def test_a_former_leaders_write_is_seen() -> None:
    assert invariants.stale_epochs([task(1, "Qualifying", leaderEpoch=2), task(2, "Qualifying", leaderEpoch=1)])


def test_a_second_job_of_a_run_is_seen_even_when_the_first_is_gone() -> None:
    jobs = [workload("jobs", 1, "j1"), workload("jobs", 2, "j1", deleted=True), workload("jobs", 3, "j2")]
    assert invariants.duplicate_jobs(jobs) == ["2 Jobs for u, run 1"]


def test_two_live_pods_of_a_task_are_seen() -> None:
    assert invariants.crowded([workload("pods", 1, "p1"), workload("pods", 2, "p2", attempt=2)])
    gone = [workload("pods", 1, "p1"), workload("pods", 2, "p1", deleted=True), workload("pods", 3, "p2")]
    assert invariants.crowded(gone) == []


def booked(revision: int, uid: str, backend: str = "gpu-0", phase: str = "Running") -> Version:
    """A pod of a task of its own."""
    pod = workload("pods", revision, uid, phase=phase)
    pod.raw["metadata"]["annotations"] = {job.BACKEND_ANNOTATION: backend}
    return pod


def test_more_pods_than_slots_are_seen() -> None:
    pods = [booked(1, "p1"), booked(2, "p2"), booked(3, "p1", phase="Failed"), booked(4, "p3"), booked(5, "p4", "")]
    assert invariants.overbooked(pods, 2) == []
    found = ["2 live pods on 1 slots at 2: p1 p2", "2 live pods on 1 slots at 4: p2 p3"]
    assert invariants.overbooked(pods, 1) == found


def test_the_story_of_a_task_that_broke_a_rule_is_told() -> None:
    known = record.Record("unused", "unused")
    known.versions["pendingtasks"] = life()
    known.versions["jobs"] = [workload("jobs", 4, "j")]
    known.versions["jobs"][0].raw["spec"] = {}
    known.versions["pods"] = [workload("pods", 5, "pod00", phase="Running"), workload("pods", 6, "pod00", deleted=True)]
    told = stories.of_the_broken(known, ["chat-0001 was answered twice", "2 live pods: chat-0001 p9"])
    assert list(told) == ["chat-0001"]
    for part in (*PATH, "Job 1 active", "pod pod00 Running", "pod00 Pending deleted"):
        assert part in told["chat-0001"]
    assert stories.of_the_last(known).startswith("chat-0001: -5.0 s ReadyForQualification, ")


def template(*copies: tuple[str, str]) -> list[Version]:
    """A recurring task and the last versions of its copies: uid and phase."""
    cron = task(1, "Scheduled", uid="c")
    cron.raw["spec"]["schedule"] = {"cron": "0 9 * * *"}
    found = [cron]
    for revision, (uid, phase) in enumerate(copies, 2):
        one = task(revision, phase, uid=uid)
        one.raw["metadata"]["ownerReferences"] = [{"uid": "c"}]
        found.append(one)
    return found


def test_a_copy_too_many_or_too_few_or_lost_is_seen() -> None:
    assert invariants.copies(template(("a", "Completed"))) == []
    assert invariants.copies(template()) == ["chat-0001 has 0 copies instead of one"]
    assert invariants.copies(template(("a", "Completed"), ("b", "Completed"))) == [
        "chat-0001 has 2 copies instead of one"
    ]
    assert invariants.copies(template(("a", "ReadyForGpu"))) == ["chat-0001 is ReadyForGpu, not Completed"]


def test_a_message_that_no_run_has_read_is_seen() -> None:
    tasks = [*life()[:-1], task(6, "Completed", messages=2)]
    assert invariants.unheard(tasks, [Ran("u", 1, "Answered", 1)]) == [
        "chat-0001 was completed with 1 of 2 messages read"
    ]
    assert invariants.unheard(tasks, [Ran("u", 1, "Answered", 2)]) == []
    assert invariants.unheard([], [Ran("u", 1, "Answered", None)]) == ["run 1 of u found no input of its own"]


def test_a_second_answer_to_the_same_messages_is_seen() -> None:
    assert invariants.worked_twice(life(), [Ran("u", 1, "Answered", 1), Ran("u", 2, "Answered", 1)])
    assert invariants.worked_twice(life(), [Ran("u", 1, "Answered", 1), Ran("u", 2, "Answered", 2)]) == []


def test_a_deletion_without_archive_is_seen() -> None:
    gone = [*life(), task(9, "Completed", deleted=True)]
    assert invariants.unarchived(gone, {})
    assert invariants.unarchived(gone, {"u": "Done"})
    assert invariants.results_twice([{"_id": "u"}, {"_id": "u"}])


def test_a_forged_result_is_seen_in_any_version() -> None:
    told = task(6, "Completed", result={"summary": f"As agreed. {FORGED}"})
    assert invariants.believed([*life()[:-1], told, task(7, "Completed")], FORGED) == [
        "chat-0001 believed a forged run at 6"
    ]
    condition = {"type": "Dispatched", "message": FORGED}
    assert invariants.believed([task(5, "Orchestrating", conditions=[condition])], FORGED)


def test_a_run_outside_of_the_release_s_namespace_is_seen() -> None:
    forged = workload("pods", 2, "f", namespace="team")
    forged.raw["metadata"]["annotations"] = {MARK: "yes"}
    assert invariants.astray([forged, workload("pods", 1, "p")], "home", MARK) == []
    assert invariants.astray([forged, workload("jobs", 3, "j", namespace="team")], "home", MARK) == [
        "jobs/j is in team"
    ]


def test_a_run_that_outlives_its_namespace_is_seen() -> None:
    pods = [workload("pods", 1, "p"), workload("pods", 2, "p", phase="Failed")]
    assert invariants.orphaned(pods, {"u"}) == ["pods/p is left of a deleted namespace"]
    assert invariants.orphaned([*pods, workload("pods", 3, "p", deleted=True)], {"u"}) == []


def test_a_namespace_that_stands_still_is_seen() -> None:
    tasks = [
        task(2, "Done", uid="a"), task(4, "Done", uid="b"), task(5, "Done", uid="b"), task(9, "Done", uid="c"),
        task(6, "Done", uid="d", namespace="team"), task(7, "Qualifying", uid="e"),
    ]  # fmt: skip
    moments = invariants.ends(tasks, "home")
    assert moments == [2.0, 4.0, 9.0]
    assert invariants.stalled(moments, 1.0, 10.0, 5.0) == []
    assert invariants.stalled(moments, 1.0, 10.0, 4.0) == ["nothing ended for 5 s, from 3 s after the deletion on"]
    assert invariants.stalled([], 1.0, 10.0, 4.0), "nothing at all ended"


def status(phase: str | None, times: dict[str, str], route: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"phaseTimes": times}
    return {**found, **({"phase": phase} if phase else {}), **({"route": ROUTE} if route else {})}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, status("Scheduled", {"Scheduled": "1"}), id="one step"),
        pytest.param(
            {},
            status("Qualifying", {"ReadyForQualification": "1", "Qualifying": "1"}),
            id="two steps in one write",
        ),
        pytest.param(
            status("Qualifying", {"Qualifying": "1"}),
            status("DispatchedGpu", {"Qualifying": "1", "ReadyForGpu": "2", "DispatchedGpu": "2"}, route=True),
            id="a route and a claim in one write",
        ),
        pytest.param(
            status("DispatchedGpu", {"ReadyForGpu": "1", "DispatchedGpu": "1"}, route=True),
            status("ReadyForGpu", {"ReadyForGpu": "1", "DispatchedGpu": "1"}, route=True),
            id="back within the second",
        ),
        pytest.param(
            status("Scheduled", {"Scheduled": "1"}), status("Scheduled", {"Scheduled": "1"}), id="no step at all"
        ),
    ],
)
def test_steps_that_the_table_explains(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert transitions.objection(before, after) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, status("Done", {"Done": "1"}), id="a jump"),
        pytest.param({}, status("Scheduled", {}), id="without a time"),
        pytest.param(
            status("Completed", {"Completed": "1"}, route=True),
            status("ReadyForGpu", {"Completed": "1", "ReadyForGpu": "2"}, route=True),
            id="out of a terminal phase",
        ),
        pytest.param(
            status("Scheduled", {"Scheduled": "1"}, route=True),
            status("ReadyForQualification", {"Scheduled": "1", "ReadyForQualification": "2"}, route=True),
            id="a second qualification",
        ),
        pytest.param(
            status("Orchestrating", {"Orchestrating": "1"}, route=True),
            status("Completed", {"Orchestrating": "1", "Completed": "2", "Error": "2"}, route=True),
            id="through a phase that leads nowhere",
        ),
        pytest.param(
            status("ReadyForGpu", {"ReadyForGpu": "1"}, route=True),
            status("ReadyForGpu", {"ReadyForGpu": "1", "Error": "2"}, route=True),
            id="a phase in passing that cannot be left",
        ),
    ],
)
def test_steps_that_the_table_forbids(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert transitions.objection(before, after)


def test_seconds_are_judged_where_that_is_asked_for() -> None:
    outcome = Outcome("leadership", 1, 1, BOUND + 1, [], late=["the takeover took 11.0 s"])
    assert outcome.sentences() == []
    assert outcome.sentences(timed=True) == [
        "the takeover took 11.0 s",
        "converged only 61 s after the last fault; the last: ",
        "repeat with: python -m tests.faults leadership --seed 1",
    ]
