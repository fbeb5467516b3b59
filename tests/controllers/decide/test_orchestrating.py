"""Orchestrating: how a run ended and what comes of it. No step leaves a condition behind that is not true any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.pendingtask import decision
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, ObservedState, Outcome
from controllers.pendingtask.policy import interruption
from crds import conditions, pendingtask
from crds.exit_reasons import ExitReason
from crds.pendingtask import Question, UserTaskKind
from crds.phases import Phase
from tests.controllers import build
from tests.controllers.build import GPU, NOW, after, apply, asked, decided, job, pod, present, routed


def ended(reason: ExitReason, **more: object) -> ObservedState:
    outcome = Outcome(reason, "summary", key="uid", **more)  # type: ignore[arg-type]  # in three tests
    state = JobState.FAILED if reason is ExitReason.DRAINED else JobState.COMPLETE
    return ObservedState(job=job(state), pods=(pod(live=False, exit_code=0, outcome=outcome),))


def test_answered_is_completed_with_its_result() -> None:
    current = routed(Phase.ORCHESTRATING)
    made = decide(current, ended(ExitReason.ANSWERED), NOW)
    status = after(current, made)
    assert status.phase is Phase.COMPLETED
    result = present(status.result)
    assert (result.summary, present(result.ref).key) == ("summary", "uid")
    assert made.effects == (), "its Job goes with the sweep over finished tasks"


@pytest.mark.parametrize("reason", [ExitReason.ANSWERED, ExitReason.NEEDS_INPUT])
def test_messages_that_came_in_meanwhile_requeue_the_task(reason: ExitReason) -> None:
    current = routed(Phase.ORCHESTRATING, spec={"messages": [{"id": "m", "text": "wait"}]}, messagesSeen=0)
    status = decided(current, ended(reason)).status
    assert (status.phase, status.dispatch, status.attempt) == (Phase.READY_FOR_GPU, None, 1)


def test_messages_reach_a_run_that_works() -> None:
    current = routed(Phase.ORCHESTRATING, spec={"messages": [{"id": "m", "text": "wait"}]}, messagesSeen=0)
    works = ObservedState(job=job(), pods=(pod(),))
    made = decide(current, works, NOW)
    assert (made.effects, made.status_patch) == ((decision.Remember(1),), {})
    assert made.requeue_after == decide(routed(Phase.ORCHESTRATING), works, NOW).requeue_after
    seen = routed(Phase.ORCHESTRATING, spec={"messages": [{"id": "m", "text": "wait"}]}, messagesSeen=1)
    assert decide(seen, works, NOW).effects == ()


@pytest.mark.parametrize(
    ("reason", "phase"), [(ExitReason.ANSWERED, Phase.COMPLETED), (ExitReason.NEEDS_INPUT, Phase.USER_TASK)]
)
@pytest.mark.parametrize(("read", "seen"), [(0, None), (1, None), (2, 2), (9, 2)])
def test_messages_that_the_run_has_read_do_not_requeue_the_task(
    reason: ExitReason, phase: Phase, read: int, seen: int | None
) -> None:
    said = [{"id": "m1", "text": "wait"}, {"id": "m2", "text": "now"}]
    current = routed(Phase.ORCHESTRATING, spec={"messages": said}, messagesSeen=0)
    status = decided(current, ended(reason, messages_read=read)).status
    if seen is None:
        assert (status.phase, status.messages_seen) == (Phase.READY_FOR_GPU, 0)
    else:
        assert (status.phase, status.messages_seen) == (phase, seen)


@pytest.mark.parametrize("reason", [ExitReason.ANSWERED, ExitReason.NEEDS_INPUT])
def test_tools_that_a_run_did_not_have_are_named_until_a_run_has_all(reason: ExitReason) -> None:
    current = routed(Phase.ORCHESTRATING)
    assert conditions.find(decided(current, ended(reason)).status.conditions, "ToolsComplete") is None
    status = decided(current, ended(reason, absent_tools="1 is left out: x.t (too many)")).status
    found = conditions.find(status.conditions, "ToolsComplete")
    assert found is not None
    assert (found.status, found.reason) == ("False", "SomeLeftOut")
    assert found.message == "Tools of servers: 1 is left out: x.t (too many)"
    again = current.model_copy(
        update={"status": current.status.model_copy(update={"conditions": (*current.status.conditions, found)})}
    )
    found = conditions.find(decided(again, ended(reason)).status.conditions, "ToolsComplete")
    assert found is not None
    assert (found.status, found.reason) == ("True", "AllOffered")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (ExitReason.NEEDS_INPUT, UserTaskKind.QUESTION),
        (ExitReason.NEEDS_APPROVAL, UserTaskKind.APPROVAL),
        *(
            (reason, UserTaskKind.FAILURE)
            for reason in ExitReason
            if reason.value.startswith(("Bud", "St", "W", "Inv"))
        ),
        (ExitReason.DEADLINE_EXCEEDED, UserTaskKind.FAILURE),
        (ExitReason.ERROR, UserTaskKind.FAILURE),
    ],
)
def test_what_a_person_has_to_look_at(reason: ExitReason, kind: UserTaskKind) -> None:
    current = routed(Phase.ORCHESTRATING)
    questions = (Question(id="r1-q1", text="Which?"),)
    status = decided(current, ended(reason, questions=questions, about="r1.d3/2")).status
    assert status.phase is Phase.USER_TASK
    assert status.user_task is not None
    assert status.user_task.kind is kind
    assert status.user_task.questions == questions
    assert status.user_task.details_ref == "mongodb:task_results/uid"
    assert status.user_task.about == ("r1.d3/2" if kind is UserTaskKind.APPROVAL else "")


def test_every_exit_reason_leads_somewhere() -> None:
    reached = {decide(routed(Phase.ORCHESTRATING), ended(reason), NOW).phase for reason in ExitReason}
    assert reached == {Phase.COMPLETED, Phase.READY_FOR_GPU, Phase.USER_TASK}


def test_a_drained_run_resumes_and_an_unavailable_one_backs_off() -> None:
    current = routed(Phase.ORCHESTRATING)
    status = decided(current, ended(ExitReason.DRAINED)).status
    assert (status.phase, present(status.retry).count, status.dispatch) == (Phase.READY_FOR_GPU, 0, None)
    waits = []
    for _ in range(6):
        current = decided(current, ended(ExitReason.UNAVAILABLE))
        waits.append((present(present(current.status.retry).next_at) - NOW).total_seconds())
        current = apply(current, {"phase": "Orchestrating", "dispatch": {"jobName": "x"}})
    assert waits == [5, 15, 30, 60, 300, 300]


LOST = [
    ObservedState(job=job(JobState.FAILED), pods=(pod(live=False, exit_code=137, ended_reason="Error"),)),
    ObservedState(job=job(JobState.FAILED)),
    ObservedState(),
]


@pytest.mark.parametrize("around", LOST)
def test_a_lost_worker_is_replaced_but_not_for_ever(around: ObservedState) -> None:
    current = routed(Phase.ORCHESTRATING)
    for count in range(1, 6):
        current = decided(current, around)
        assert current.status.phase is Phase.READY_FOR_GPU
        assert present(current.status.retry).count == count
        current = apply(current, {"phase": "Orchestrating", "dispatch": {"jobName": "x"}})
    current = decided(current, around)
    assert current.status.phase is Phase.USER_TASK
    assert present(current.status.user_task).kind is UserTaskKind.FAILURE


def test_a_result_that_was_stored_counts_even_when_the_pod_could_not_say_so() -> None:
    around = replace(LOST[0], recorded=Outcome(ExitReason.ANSWERED, "done"))
    assert decide(routed(Phase.ORCHESTRATING), around, NOW).phase is Phase.COMPLETED


def test_a_job_deleted_by_hand_waits_for_its_pod_to_go() -> None:
    assert decide(routed(Phase.ORCHESTRATING), ObservedState(pods=(pod(),)), NOW).requeue_after == 5


@pytest.mark.parametrize("said", [None, Outcome(ExitReason.DRAINED)])
def test_a_deadline_of_the_job_is_a_failure_though_the_run_took_it_for_a_wish_to_drain(said: Outcome | None) -> None:
    pods = (pod(live=False, exit_code=42, outcome=said),)
    around = ObservedState(job=job(JobState.FAILED, reason="DeadlineExceeded"), pods=pods)
    status = decided(routed(Phase.ORCHESTRATING), around).status
    assert present(status.result).exit_reason is ExitReason.DEADLINE_EXCEEDED


def test_an_answer_in_the_last_moment_before_the_deadline_counts() -> None:
    pods = (pod(live=False, exit_code=0, outcome=Outcome(ExitReason.ANSWERED, "done")),)
    around = ObservedState(job=job(JobState.FAILED, reason="DeadlineExceeded"), pods=pods)
    assert decide(routed(Phase.ORCHESTRATING), around, NOW).phase is Phase.COMPLETED


def test_a_running_task_is_looked_at_now_and_then() -> None:
    made = decide(routed(Phase.ORCHESTRATING), ObservedState(job=job(), pods=(pod(),)), NOW)
    assert made == decision.Decision(requeue_after=60)


def test_a_service_that_was_away_is_given_the_time_that_it_asked_for() -> None:
    def waited(seconds: float | None) -> float:
        said = Outcome(ExitReason.UNAVAILABLE, "router away", retry_after=seconds, remedy="Start the router.")
        around = ObservedState(job=job(JobState.COMPLETE), pods=(pod(live=False, exit_code=0, outcome=said),))
        status = decided(routed(Phase.ORCHESTRATING), around).status
        (dispatched,) = status.conditions
        assert (dispatched.type, dispatched.reason) == ("Dispatched", "Unavailable")
        assert dispatched.message == "router away Start the router."
        return (present(present(status.retry).next_at) - NOW).total_seconds()

    assert [waited(one) for one in (None, 2, 42, 3600)] == [5, 5, 42, 300]


def test_a_rejected_answer_ends_the_task_without_success() -> None:
    said = Outcome(ExitReason.REJECTED, "The answer is withheld. Rejected by ada.", key="k")
    around = ObservedState(job=job(JobState.COMPLETE), pods=(pod(live=False, exit_code=0, outcome=said),))
    made = decide(routed(Phase.ORCHESTRATING), around, NOW)
    status = after(routed(Phase.ORCHESTRATING), made)
    assert status.phase is Phase.COMPLETED
    assert {one.type: one.status.value for one in status.conditions if one.type in ("Finished", "Succeeded")} == {
        "Finished": "True",
        "Succeeded": "False",
    }
    assert (present(made.note).reason, present(made.note).message) == ("Rejected", said.summary)


RUNNING = build.condition("Dispatched", "True", "Running", message="Job x runs.")


def said(status: pendingtask.Status, type_: str) -> tuple[str, str] | None:
    found = conditions.find(status.conditions, type_)
    return None if found is None else (found.status.value, found.reason)


def status_after(outcome: Outcome | None, **spec: object) -> pendingtask.Status:
    current = routed(Phase.ORCHESTRATING, spec=spec, conditions=[RUNNING])
    state = ObservedState(job=job(JobState.COMPLETE), pods=(pod(live=False, exit_code=0, outcome=outcome),))
    return decided(current, state).status


@pytest.mark.parametrize(
    ("outcome", "phase", "reason"),
    [
        (Outcome(ExitReason.ANSWERED), Phase.COMPLETED, "Completed"),
        (Outcome(ExitReason.UNAVAILABLE, "router away"), Phase.READY_FOR_GPU, "Unavailable"),
        (Outcome(ExitReason.FENCED), Phase.READY_FOR_GPU, "Fenced"),
        (Outcome(ExitReason.NEEDS_INPUT), Phase.USER_TASK, "NeedsInput"),
        (Outcome(ExitReason.STUCK), Phase.USER_TASK, "Stuck"),
        (None, Phase.READY_FOR_GPU, "WorkerLost"),
    ],
)
def test_what_has_ended_is_not_dispatched(outcome: Outcome | None, phase: Phase, reason: str) -> None:
    status = status_after(outcome)
    assert status.phase is phase
    assert said(status, "Dispatched") == ("False", reason)


def test_what_runs_again_for_new_messages_is_not_dispatched() -> None:
    status = status_after(Outcome(ExitReason.ANSWERED), messages=[{"id": "m", "text": "And?"}])
    assert said(status, "Dispatched") == ("False", "NewMessages")


def test_what_was_given_up_waits_for_no_one() -> None:
    status = decided(asked("Failure", spec={"approval": {"verdict": "Rejected"}}), ObservedState(slots=GPU)).status
    assert said(status, "WaitingForUser") == ("False", "GivenUp")
    assert said(status, "Succeeded") == ("False", "GivenUp")
    assert said(status, "Finished") == ("True", "GivenUp")


def test_success_has_a_condition_of_its_own() -> None:
    assert said(status_after(Outcome(ExitReason.ANSWERED)), "Succeeded") == ("True", "Completed")
    assert said(status_after(Outcome(ExitReason.STUCK)), "Succeeded") is None


def test_what_was_stopped_for_a_user_is_not_running() -> None:
    current = routed(Phase.ORCHESTRATING, spec={"suspend": True}, conditions=[RUNNING])
    made = decide(current, ObservedState(job=job(JobState.SUSPENDED)), NOW)
    status = apply(current, made.status_patch).status
    assert status.phase is Phase.READY_FOR_GPU
    assert said(status, "Dispatched") == ("False", "Suspended")
    assert interruption.PREEMPTED not in {one.type for one in status.conditions}


@pytest.mark.parametrize(
    ("left", "reason"),
    [*((left, "GivenUp") for left in ("NoFreeSlot", "UsersActive", "Preempted", "JobSuspended")), ("Stuck", "Stuck")],
)
def test_what_has_ended_waits_for_no_slot_and_how_the_last_run_ended_is_kept(left: str, reason: str) -> None:
    """The reason of the condition is the column DISPATCH of `kubectl get`."""
    current = asked("Failure", spec={"approval": {"verdict": "Rejected"}})
    last = conditions.Condition.model_validate(build.condition("Dispatched", "False", left))
    current = build.changed(current, status={"conditions": (*current.status.conditions, last)})
    status = decided(current, ObservedState(slots=GPU)).status
    assert status.phase is Phase.ERROR
    assert said(status, "Dispatched") == ("False", reason)
