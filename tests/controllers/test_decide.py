"""Every phase: what is decided, and what is left alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controllers.pendingtask import attachments, decision, world
from controllers.pendingtask.decide import decide
from controllers.pendingtask.world import JobState, Limits, Outcome, Trouble, World
from crds import pendingtask
from crds.exits import ExitReason
from crds.pendingtask import Hints, Question, UserTaskKind
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, UID, apply, job, pod, routed, task

OPEN = World(slots=GPU)
AWAY = Trouble("away", operational=True)
WRONG = Trouble("kind is wrong", operational=False, field="kind", remedy="Choose another.")


def after(current: pendingtask.PendingTask, made: decision.Decision) -> pendingtask.Status:
    return apply(current, made.status_patch).status


# -- New, Scheduled ----------------------------------------------------------------------------------------------------


def test_new_goes_to_qualification() -> None:
    assert decide(task(), World(), NOW).phase is Phase.READY_FOR_QUALIFICATION


def test_a_task_that_is_being_deleted_is_left_alone() -> None:
    assert decide(task(deletionTimestamp="2027-03-01T11:59:00Z"), OPEN, NOW) == decision.Decision()


@pytest.mark.parametrize(("minutes", "phase"), [(9, Phase.READY_FOR_QUALIFICATION), (11, Phase.SCHEDULED)])
def test_scheduled_tasks_start_ten_minutes_ahead(minutes: int, phase: Phase) -> None:
    at = (NOW + timedelta(minutes=minutes)).isoformat()
    assert decide(task(spec={"schedule": {"at": at}}), World(), NOW).phase is phase


def test_a_scheduled_task_sleeps_until_ten_minutes_ahead_and_follows_an_edit_of_at() -> None:
    planned = {"scheduledFor": "2027-03-01T14:00:00Z"}
    waiting = task(Phase.SCHEDULED, spec={"schedule": {"at": "2027-03-01T14:00:00Z"}}, status=planned)
    assert decide(waiting, World(), NOW).requeue_after == timedelta(minutes=110).total_seconds()
    moved = task(Phase.SCHEDULED, spec={"schedule": {"at": "2027-03-01T12:00:00Z"}})
    assert decide(moved, World(), NOW).phase is Phase.READY_FOR_QUALIFICATION


def test_a_deferred_task_goes_to_the_gpu_when_due_never_to_qualification_again() -> None:
    due = routed(Phase.SCHEDULED, scheduledFor="2027-03-01T12:05:00Z")
    made = decide(due, OPEN, NOW)
    assert made.phase is Phase.READY_FOR_GPU
    assert after(due, made).scheduled_for is None


@pytest.mark.parametrize("plan", [{"cron": "0 0 31 2 *"}, {"cron": "0 0 * * *", "timeZone": "Middle/Earth"}])
def test_an_impossible_cron_runs_once_and_says_why(plan: dict[str, str]) -> None:
    odd = task(spec={"schedule": plan})
    made = decide(odd, World(), NOW)
    assert made.phase is Phase.READY_FOR_QUALIFICATION
    condition = after(odd, made).conditions[0]
    assert (condition.reason, condition.status.value) == ("InvalidCron", "False")
    assert "spec.schedule" in condition.message


# -- qualification -----------------------------------------------------------------------------------------------------


def test_ten_at_once() -> None:
    ready = task(Phase.READY_FOR_QUALIFICATION)
    assert decide(ready, World(qualifying=9), NOW).effects == (decision.Ingest(),)
    assert decide(ready, World(qualifying=10), NOW) == decision.Decision(room=decision.Room.QUALIFIER)


def test_a_chat_message_is_routed_without_ingestion() -> None:
    chat = task(Phase.READY_FOR_QUALIFICATION, spec={"type": "UserInputProcessing"})
    made = decide(chat, World(), NOW)
    assert (made.phase, made.effects) == (Phase.QUALIFYING, ())
    chat = apply(chat, made.status_patch)
    made = decide(chat, World(), NOW)
    assert made.phase is Phase.READY_FOR_GPU
    assert made.status_patch["route"]["reason"] == "user input"


FILES = [
    {
        "name": name,
        "mediaType": "text/plain",
        "contentRef": {"store": "gridfs", "key": "k", "sha256": "0" * 64, "bytes": 5},
    }
    for name in ("a.txt", "a.txt")
]


def test_the_files_of_a_question_are_read_first_and_need_no_place() -> None:
    chat = task(Phase.READY_FOR_QUALIFICATION, spec={"type": "UserInputProcessing", "attachments": FILES})
    made = decide(chat, World(qualifying=10), NOW)
    assert (made.phase, made.effects) == (Phase.QUALIFYING, (decision.Ingest(),))
    chat = apply(chat, made.status_patch)
    assert decide(chat, World(working=True), NOW) == decision.Decision()
    found = world.Ingested(Hints(has_actionable_content=True), attached=world.Attached(("c1", "c2")))
    status = after(chat, decide(chat, World(observed=found), NOW))
    assert status.phase is Phase.READY_FOR_GPU
    [told] = [one for one in status.conditions if one.type == "AttachmentsIngested"]
    assert (told.status.value, told.message) == ("True", "2 of 2 files are in the knowledge base.")


@pytest.mark.parametrize(("away", "reason"), [(False, "Rejected"), (True, "Unavailable")])
def test_a_bad_file_is_named_and_holds_nothing_up(away: bool, reason: str) -> None:
    mail = task(Phase.QUALIFYING, spec={"attachments": FILES})
    refused = (("a.txt", "the document has macros. Save it without macros."),)
    found = world.Ingested(Hints(has_actionable_content=True), attached=world.Attached((), refused, away))
    status = after(mail, decide(mail, World(observed=found), NOW))
    assert status.phase is Phase.READY_FOR_GPU
    [told] = [one for one in status.conditions if one.type == "AttachmentsIngested"]
    assert (told.status.value, told.reason) == ("False", reason)
    assert told.message == (
        "1 of 2 files are in the knowledge base. a.txt: the document has macros. Save it without macros."
    )


def test_files_of_one_name_do_not_replace_each_other() -> None:
    drafts = attachments.drafts(task(spec={"attachments": FILES}))
    assert [one.name for one in drafts] == ["a.txt", "a.txt (2)"]
    assert {one.attached_to for one in drafts} == {f"task::{UID}"}


def test_operational_errors_back_off_for_ever_and_stay_ready_for_qualification() -> None:
    current, waits, notes = task(Phase.QUALIFYING), [], 0
    for _ in range(9):
        made = decide(current, World(observed=AWAY), NOW)
        assert made.phase is Phase.READY_FOR_QUALIFICATION
        waits.append(made.requeue_after)
        notes += made.note is not None
        current = apply(current, made.status_patch)
        assert current.status.retry is not None
        assert current.status.retry.next_at is not None
        assert decide(current, World(), NOW).requeue_after == waits[-1]
        current = apply(current, {"phase": "Qualifying"})
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert notes == 1, "one Event per row of failures"


def test_a_wait_that_was_written_under_another_clock_is_over() -> None:
    retry = {"count": 1, "nextAt": (NOW + timedelta(hours=1)).isoformat(), "reason": "away"}
    assert decide(task(Phase.READY_FOR_QUALIFICATION, status={"retry": retry}), OPEN, NOW).phase is Phase.QUALIFYING


def test_retry_after_is_obeyed_when_it_is_longer() -> None:
    made = decide(task(Phase.QUALIFYING), World(observed=replace(AWAY, retry_after=42.0)), NOW)
    assert made.requeue_after == 42


def test_a_wrong_content_is_an_error_that_names_field_and_remedy() -> None:
    current = task(Phase.QUALIFYING)
    made = decide(current, World(observed=WRONG), NOW)
    status = after(current, made)
    assert status.phase is Phase.ERROR
    assert status.completed_at == NOW
    assert "kind" in status.conditions[0].message
    assert "Choose another." in status.conditions[0].message


def test_information_only_is_done() -> None:
    current = task(Phase.QUALIFYING)
    status = after(current, decide(current, World(observed=world.Ingested(Hints(), summary="News.")), NOW))
    assert (status.phase, status.result.summary if status.result else "") == (Phase.DONE, "News.")


def test_after_a_restart_ingestion_is_repeated_once_nobody_works_on_it() -> None:
    assert decide(task(Phase.QUALIFYING), World(working=True), NOW) == decision.Decision()
    assert decide(task(Phase.QUALIFYING), World(), NOW).effects == (decision.Ingest(),)


# -- ReadyForGpu -------------------------------------------------------------------------------------------------------


def test_foreground_is_dispatched_at_once() -> None:
    waiting = routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"})
    for around in (OPEN, World(slots=GPU, user_active=True, last_user=NOW)):
        assert decide(waiting, around, NOW).phase is Phase.DISPATCHED_GPU


def test_without_any_gpu_foreground_goes_all_the_same_and_books_no_backend() -> None:
    current = routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"})
    status = after(current, decide(current, World(), NOW))
    assert status.dispatch is not None
    assert (status.phase, status.dispatch.backend) == (Phase.DISPATCHED_GPU, "")


def test_foreground_without_a_free_slot_waits_and_says_so_once() -> None:
    current, taken = routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"}), World(slots=world.Slots(total=1))
    made = decide(current, taken, NOW)
    assert (made.phase, made.room) == (None, decision.Room.GPU)
    assert made.note is not None
    assert (made.note.reason, made.note.warning) == ("NoFreeSlot", False)
    assert decide(apply(current, made.status_patch), taken, NOW) == decision.Decision(room=decision.Room.GPU)


@pytest.mark.parametrize(
    "around",
    [
        World(slots=GPU, user_active=True),
        World(slots=GPU, last_user=NOW - timedelta(seconds=29)),
        World(slots=GPU, in_doubt_since=NOW - timedelta(seconds=29)),
        World(slots=world.Slots(total=2)),
        World(slots=GPU, dispatch_open=False),
    ],
)
def test_background_waits_for_quiet_a_slot_and_the_breaker(around: World) -> None:
    assert decide(routed(Phase.READY_FOR_GPU), around, NOW) == decision.Decision(room=decision.Room.GPU)


def test_background_goes_after_thirty_seconds_of_quiet_or_of_doubt() -> None:
    long_ago = NOW - timedelta(seconds=30)
    around = World(slots=GPU, last_user=long_ago, in_doubt_since=long_ago)
    assert decide(routed(Phase.READY_FOR_GPU), around, NOW).phase is Phase.DISPATCHED_GPU


def test_without_any_backend_the_task_says_so_once() -> None:
    current = routed(Phase.READY_FOR_GPU)
    made = decide(current, World(), NOW)
    assert made.room is decision.Room.GPU
    current = apply(current, made.status_patch)
    assert current.status.conditions[0].reason == "NoGpuBackend"
    assert decide(current, World(), NOW) == decision.Decision(room=decision.Room.GPU)


def test_a_claim_books_slot_attempt_and_name() -> None:
    current = routed(Phase.READY_FOR_GPU, spec={"messages": [{"id": "m1", "text": "hi"}]})
    made = decide(current, OPEN, NOW)
    status = after(current, made)
    assert made.effects == (decision.Launch(1, "mail-1-0f9a1c2e-1"),)
    assert status.dispatch is not None
    assert (status.attempt, status.dispatch.job_name, status.dispatch.backend) == (1, "mail-1-0f9a1c2e-1", "gpu-0")
    assert (status.dispatch.thread_id, status.messages_seen) == (current.metadata.uid, 1)


def test_an_attempt_that_was_not_seen_to_end_is_taken_up_again_under_the_same_name() -> None:
    """And its messagesSeen stays: the Job that may exist has read no more than that."""
    current = routed(
        Phase.READY_FOR_GPU,
        spec={"messages": [{"id": "m1", "text": "hi"}, {"id": "m2", "text": "ho"}]},
        attempt=3,
        messagesSeen=1,
        dispatch={"jobName": "mail-1-0f9a1c2e-3"},
    )
    made = decide(current, OPEN, NOW)
    assert made.effects == (decision.Launch(3, "mail-1-0f9a1c2e-3"),)
    assert after(current, made).messages_seen == 1


def test_no_new_run_while_a_pod_of_an_old_one_lives() -> None:
    current = routed(Phase.READY_FOR_GPU, attempt=1)
    assert decide(current, World(slots=GPU, pods=(pod(1),)), NOW).requeue_after == 5
    assert decide(current, World(slots=GPU, pods=(pod(1, live=False),)), NOW).phase is Phase.DISPATCHED_GPU


# -- DispatchedGpu -----------------------------------------------------------------------------------------------------


def test_every_crash_point_replays_to_the_same_job() -> None:
    current = routed(Phase.DISPATCHED_GPU)
    assert decide(current, World(), NOW).effects == (decision.Launch(1, "mail-1-0f9a1c2e-1"),)
    assert decide(current, World(job=job()), NOW).effects == ()
    assert decide(current, World(working=True), NOW).effects == ()


@pytest.mark.parametrize("around", [World(job=job(), pods=(pod(),)), World(job=job(JobState.COMPLETE))])
def test_orchestrating_once_the_pod_runs_or_the_job_is_over(around: World) -> None:
    assert decide(routed(Phase.DISPATCHED_GPU), around, NOW).phase is Phase.ORCHESTRATING


def test_failed_dispatches_step_back_and_keep_the_attempt() -> None:
    current, waits, told = routed(Phase.DISPATCHED_GPU), [], list[str]()
    for count in range(6):
        made = decide(current, World(observed=AWAY, dispatch_open=count < 4), NOW)
        told += [made.note.reason] if made.note else []
        current = apply(current, made.status_patch)
        assert current.status.phase is Phase.READY_FOR_GPU
        assert current.status.retry is not None
        assert current.status.retry.next_at is not None
        waits.append((current.status.retry.next_at - NOW).total_seconds())
        later = current.status.retry.next_at
        assert decide(current, OPEN, NOW).requeue_after == waits[-1]
        assert current.status.conditions[0].reason == ("DispatchFailed" if count < 4 else "CircuitOpen")
        made = decide(current, OPEN, later)
        told += [made.note.reason] if made.note else []
        current = apply(current, made.status_patch)
        assert current.status.attempt == 1
    assert waits == [5, 15, 30, 60, 300, 300]
    assert told == ["DispatchFailed"], "one Event for a row of failures, none for a retry"
    made = decide(current, World(job=job(), pods=(pod(),)), NOW)
    assert after(current, made).retry is None, "a successful dispatch forgets the failed ones (seed 000)"


def test_a_job_that_can_never_be_created_asks_a_person() -> None:
    current = routed(Phase.DISPATCHED_GPU)
    status = after(current, decide(current, World(observed=WRONG), NOW))
    assert status.phase is Phase.USER_TASK
    assert status.user_task is not None
    assert status.user_task.kind is UserTaskKind.FAILURE


def test_a_pod_that_cannot_start_says_why() -> None:
    stuck = pod(started=False, waiting_reason="ImagePullBackOff", waiting_message="no such image")
    current = routed(Phase.DISPATCHED_GPU)
    made = decide(current, World(job=job(), pods=(stuck,)), NOW)
    condition = after(current, made).conditions[0]
    assert (condition.reason, condition.message) == ("ImagePullBackOff", "ImagePullBackOff: no such image")


def test_background_gives_its_slot_back_after_ten_minutes_and_counts_the_attempt_once() -> None:
    current, later = routed(Phase.DISPATCHED_GPU), NOW + timedelta(minutes=10)
    assert decide(current, World(job=job()), later).effects == (decision.DeleteJob("mail-1-0f9a1c2e-1"),)
    assert decide(current, World(job=job(JobState.DELETING)), later).requeue_after == 5
    assert decide(current, World(pods=(pod(),)), later).requeue_after == 5
    status = after(current, decide(current, World(), later))
    assert (status.phase, status.attempt, status.dispatch) == (Phase.READY_FOR_GPU, 1, None)
    user = routed(Phase.DISPATCHED_GPU, spec={"mode": "Foreground"})
    assert decide(user, World(job=job()), later).effects == ()


# -- Orchestrating -----------------------------------------------------------------------------------------------------


def ended(reason: ExitReason, **more: object) -> World:
    outcome = Outcome(reason, "summary", key="uid", **more)  # type: ignore[arg-type]  # questions, in two tests
    state = JobState.FAILED if reason is ExitReason.DRAINED else JobState.COMPLETE
    return World(job=job(state), pods=(pod(live=False, exit_code=0, outcome=outcome),))


def test_answered_is_completed_with_its_result() -> None:
    current = routed(Phase.ORCHESTRATING)
    made = decide(current, ended(ExitReason.ANSWERED), NOW)
    status = after(current, made)
    assert status.phase is Phase.COMPLETED
    assert status.result is not None
    assert status.result.ref is not None
    assert (status.result.summary, status.result.ref.key) == ("summary", "uid")
    assert made.effects == (), "its Job goes with the sweep over finished tasks"


@pytest.mark.parametrize("reason", [ExitReason.ANSWERED, ExitReason.NEEDS_INPUT])
def test_messages_that_came_in_meanwhile_requeue_the_task(reason: ExitReason) -> None:
    current = routed(Phase.ORCHESTRATING, spec={"messages": [{"id": "m", "text": "wait"}]}, messagesSeen=0)
    status = after(current, decide(current, ended(reason), NOW))
    assert (status.phase, status.dispatch, status.attempt) == (Phase.READY_FOR_GPU, None, 1)


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
    status = after(current, decide(current, ended(reason, questions=questions), NOW))
    assert status.phase is Phase.USER_TASK
    assert status.user_task is not None
    assert status.user_task.kind is kind
    assert status.user_task.questions == questions
    assert status.user_task.details_ref == "mongodb:task_results/uid"


def test_every_exit_reason_leads_somewhere() -> None:
    reached = {decide(routed(Phase.ORCHESTRATING), ended(reason), NOW).phase for reason in ExitReason}
    assert reached == {Phase.COMPLETED, Phase.READY_FOR_GPU, Phase.USER_TASK}


def test_a_drained_run_resumes_and_an_unavailable_one_backs_off() -> None:
    current = routed(Phase.ORCHESTRATING)
    status = after(current, decide(current, ended(ExitReason.DRAINED), NOW))
    assert status.retry is not None
    assert (status.phase, status.retry.count, status.dispatch) == (Phase.READY_FOR_GPU, 0, None)
    waits = []
    for _ in range(6):
        current = apply(current, decide(current, ended(ExitReason.UNAVAILABLE), NOW).status_patch)
        assert current.status.retry is not None
        assert current.status.retry.next_at is not None
        waits.append((current.status.retry.next_at - NOW).total_seconds())
        current = apply(current, {"phase": "Orchestrating", "dispatch": {"jobName": "x"}})
    assert waits == [5, 15, 30, 60, 300, 300]


LOST = [
    World(job=job(JobState.FAILED), pods=(pod(live=False, exit_code=137, ended_reason="Error"),)),
    World(job=job(JobState.FAILED)),
    World(),
]


@pytest.mark.parametrize("around", LOST)
def test_a_lost_worker_is_replaced_but_not_for_ever(around: World) -> None:
    current = routed(Phase.ORCHESTRATING)
    for count in range(1, 6):
        current = apply(current, decide(current, around, NOW).status_patch)
        assert current.status.phase is Phase.READY_FOR_GPU
        assert current.status.retry is not None
        assert current.status.retry.count == count
        current = apply(current, {"phase": "Orchestrating", "dispatch": {"jobName": "x"}})
    current = apply(current, decide(current, around, NOW).status_patch)
    assert current.status.phase is Phase.USER_TASK
    assert current.status.user_task is not None
    assert current.status.user_task.kind is UserTaskKind.FAILURE


def test_a_result_that_was_stored_counts_even_when_the_pod_could_not_say_so() -> None:
    around = replace(LOST[0], recorded=Outcome(ExitReason.ANSWERED, "done"))
    assert decide(routed(Phase.ORCHESTRATING), around, NOW).phase is Phase.COMPLETED


def test_a_job_deleted_by_hand_waits_for_its_pod_to_go() -> None:
    assert decide(routed(Phase.ORCHESTRATING), World(pods=(pod(),)), NOW).requeue_after == 5


@pytest.mark.parametrize("said", [None, Outcome(ExitReason.DRAINED)])
def test_a_deadline_of_the_job_is_a_failure_though_the_run_took_it_for_a_wish_to_drain(said: Outcome | None) -> None:
    pods = (pod(live=False, exit_code=42, outcome=said),)
    around = World(job=job(JobState.FAILED, reason="DeadlineExceeded"), pods=pods)
    current = routed(Phase.ORCHESTRATING)
    status = after(current, decide(current, around, NOW))
    assert status.result is not None
    assert status.result.exit_reason is ExitReason.DEADLINE_EXCEEDED


def test_an_answer_in_the_last_moment_before_the_deadline_counts() -> None:
    pods = (pod(live=False, exit_code=0, outcome=Outcome(ExitReason.ANSWERED, "done")),)
    around = World(job=job(JobState.FAILED, reason="DeadlineExceeded"), pods=pods)
    assert decide(routed(Phase.ORCHESTRATING), around, NOW).phase is Phase.COMPLETED


def test_a_running_task_is_looked_at_now_and_then() -> None:
    made = decide(routed(Phase.ORCHESTRATING), World(job=job(), pods=(pod(),)), NOW)
    assert made == decision.Decision(requeue_after=60)


# -- UserTask ----------------------------------------------------------------------------------------------------------


def asked(kind: str, *ids: str, spec: dict[str, Any] | None = None, **more: Any) -> pendingtask.PendingTask:
    questions = [{"id": one, "text": "?"} for one in ids]
    waiting = {
        "type": "WaitingForUser",
        "status": "True",
        "reason": kind,
        "lastTransitionTime": "2027-03-01T11:00:00Z",
        "observedGeneration": 4,
    }
    status = {"attempt": 2, "userTask": {"kind": kind, "questions": questions}, "conditions": [waiting], **more}
    current = routed(Phase.USER_TASK, spec=spec, **status)
    return current.model_copy(update={"metadata": current.metadata.model_copy(update={"generation": 5})})


def test_a_question_needs_all_its_answers() -> None:
    one = {"answers": [{"id": "q1", "text": "a"}]}
    both = {"answers": [{"id": "q1", "text": "a"}, {"id": "q2", "text": "b"}]}
    assert decide(asked("Question", "q1", "q2"), OPEN, NOW).phase is None
    assert decide(asked("Question", "q1", "q2", spec=one), OPEN, NOW).phase is None
    assert decide(asked("Question", "q1", "q2", spec=both), OPEN, NOW).phase is Phase.READY_FOR_GPU


@pytest.mark.parametrize("kind", ["Question", "Approval", "Failure"])
def test_a_new_message_brings_any_user_task_back(kind: str) -> None:
    current = asked(kind, "q1", spec={"messages": [{"id": "m", "text": "go on"}]})
    status = after(current, decide(current, OPEN, NOW))
    assert (status.phase, status.user_task) == (Phase.READY_FOR_GPU, None)


@pytest.mark.parametrize(
    ("kind", "approval", "phase"),
    [
        ("Approval", {"verdict": "Approved"}, Phase.READY_FOR_GPU),
        ("Approval", {"verdict": "Rejected"}, Phase.READY_FOR_GPU),
        ("Approval", {"verdict": "Approved", "requestId": "run-2"}, Phase.READY_FOR_GPU),
        ("Approval", {"verdict": "Approved", "requestId": "run-1"}, None),
        ("Failure", {"verdict": "Approved"}, Phase.READY_FOR_GPU),
        ("Failure", {"verdict": "Rejected"}, Phase.ERROR),
        ("Question", {"verdict": "Approved"}, None),
    ],
)
def test_approvals(kind: str, approval: dict[str, str], phase: Phase | None) -> None:
    assert decide(asked(kind, "q1", spec={"approval": approval}), OPEN, NOW).phase is phase


def test_an_approval_of_an_earlier_request_of_the_same_run_does_not_count() -> None:
    first = asked("Failure")
    stale = {"approval": {"verdict": "Approved", "requestId": first.status.request_id}}
    again = asked("Failure", spec=stale)
    later = {Phase.USER_TASK: NOW}
    reopened = again.model_copy(update={"status": again.status.model_copy(update={"phase_times": later})})
    assert reopened.status.request_id != first.status.request_id
    assert decide(again, OPEN, NOW).phase is Phase.READY_FOR_GPU
    assert decide(reopened, OPEN, NOW).phase is None


def test_an_approval_that_is_older_than_the_request_does_not_count() -> None:
    current = asked("Approval", spec={"approval": {"verdict": "Approved"}})
    same = current.model_copy(update={"metadata": current.metadata.model_copy(update={"generation": 4})})
    assert decide(same, OPEN, NOW).phase is None


# -- suspend, finish ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "phase", [Phase.NEW, Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU, Phase.USER_TASK]
)
def test_suspend_holds_and_says_so_and_resume_goes_on(phase: Phase) -> None:
    held = task(phase, spec={"suspend": True})
    made = decide(held, OPEN, NOW)
    assert made.phase is None
    held = apply(held, made.status_patch)
    assert decide(held, OPEN, NOW).status_patch == {}
    free = held.model_copy(update={"spec": held.spec.model_copy(update={"suspend": False})})
    resumed = apply(free, decide(free, OPEN, NOW).status_patch)
    assert resumed.status.conditions[0].status.value == "False"


@pytest.mark.parametrize("phase", [Phase.DISPATCHED_GPU, Phase.ORCHESTRATING])
def test_suspend_drains_a_run_and_the_same_job_is_resumed_later(phase: Phase) -> None:
    held = routed(phase, spec={"suspend": True})
    quiet = () if phase is Phase.DISPATCHED_GPU else (pod(),)
    assert decide(held, World(job=job(), pods=quiet), NOW).effects == (decision.SuspendJob("mail-1-0f9a1c2e-1"),)
    assert decide(held, World(job=job(JobState.SUSPENDED), pods=(pod(),)), NOW).requeue_after == 5 or quiet == ()
    back = apply(held, decide(held, World(job=job(JobState.SUSPENDED)), NOW).status_patch)
    assert back.status.phase is Phase.READY_FOR_GPU
    assert back.status.dispatch is not None
    free = back.model_copy(update={"spec": back.spec.model_copy(update={"suspend": False})})
    made = decide(free, OPEN, NOW)
    assert made.effects == (decision.Launch(1, "mail-1-0f9a1c2e-1"),)
    again = apply(free, made.status_patch)
    assert decide(again, World(job=job(JobState.SUSPENDED)), NOW).effects == made.effects


def test_a_job_that_is_suspended_without_a_reason_goes_on() -> None:
    around = World(job=job(JobState.SUSPENDED))
    assert decide(routed(Phase.ORCHESTRATING), around, NOW).effects == (decision.ResumeJob("mail-1-0f9a1c2e-1"),)
    launch = decision.Launch(1, "mail-1-0f9a1c2e-1")
    assert decide(routed(Phase.DISPATCHED_GPU), around, NOW).effects == (launch,)


@pytest.mark.parametrize("phase", [Phase.DONE, Phase.COMPLETED, Phase.ERROR])
def test_finished_tasks_are_left_alone(phase: Phase) -> None:
    assert decide(task(phase), OPEN, NOW) == decision.Decision()
    assert decide(task(phase), World(job=job(JobState.COMPLETE)), NOW) == decision.Decision()


def test_limits_are_settings() -> None:
    around = World(limits=Limits(qualifying_at_once=1), qualifying=1)
    assert decide(task(Phase.READY_FOR_QUALIFICATION), around, NOW).room is decision.Room.QUALIFIER
