"""Batched transitions: how many steps, the patch, the reports, and the same end as single steps."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings

from controllers import mergepatch
from controllers.pendingtask import decision, observed, phases, transitions
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, ObservedState, Outcome
from crds import pendingtask
from crds.exit_reasons import ExitReason
from crds.pendingtask import Hints
from crds.phases import Phase
from tests import thorough
from tests.controllers.build import GPU, NOW, apply, job, pod, present, routed, task
from tests.controllers.strategies import moments, tasks, worlds

CHAT = {"type": "UserInputProcessing"}
OPEN = ObservedState(slots=GPU)
ASKED = observed.Ingested(Hints(has_actionable_content=True))


def passed(batch: transitions.Batch) -> list[Phase]:
    return [step.made.phase for step in batch.steps if step.made.phase is not None]


def told(batch: transitions.Batch) -> list[str]:
    return [step.made.note.reason for step in batch.steps if step.made.note is not None]


def test_a_new_task_takes_its_place_at_the_qualifier_in_one_write() -> None:
    batch = transitions.batched(task(), OPEN, NOW)
    assert passed(batch) == [Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING]
    assert told(batch) == ["Accepted", "Qualifying"]
    assert batch.decision.effects == (decision.Ingest(),)
    status = apply(task(), batch.decision.status_patch).status
    assert set(status.phase_times) == {"ReadyForQualification", "Qualifying"}
    assert status.phase is Phase.QUALIFYING


def test_without_a_place_it_waits_where_the_place_is_given_out() -> None:
    batch = transitions.batched(task(), ObservedState(qualifying=10), NOW)
    assert passed(batch) == [Phase.READY_FOR_QUALIFICATION]
    assert batch.decision.wait_for is decision.WaitFor.QUALIFIER
    assert not batch.more


@pytest.mark.parametrize(
    ("what", "qualifying", "age", "write_delay"),
    [
        (task(), 10, timedelta(0), 10),
        (task(), 10, timedelta(seconds=59), 1),
        (task(), 10, timedelta(seconds=60), 0),
        (task(), 10, timedelta(seconds=-1), 0),  # a clock set back, by an unknown time
        (task(), 0, timedelta(0), 0),  # its turn: the write holds the intent of the ingestion
        (task(Phase.READY_FOR_QUALIFICATION), 10, timedelta(0), 0),
        (task(spec=CHAT), 10, timedelta(0), 0),  # a question in line for the GPU takes part in its distribution
    ],
)
def test_only_getting_in_line_can_wait(
    what: pendingtask.PendingTask, qualifying: int, age: timedelta, write_delay: float
) -> None:
    created = present(what.metadata.creation_timestamp)
    now = created + age
    batch = transitions.batched(what, ObservedState(qualifying=qualifying), now)
    assert transitions.write_delay(what, batch, now) == write_delay


def test_a_question_goes_from_new_to_its_dispatch() -> None:
    batch = transitions.batched(task(spec=CHAT), ObservedState(slots=GPU, qualifying=10), NOW)
    assert passed(batch) == [
        Phase.READY_FOR_QUALIFICATION,
        Phase.QUALIFYING,
        Phase.READY_FOR_GPU,
        Phase.DISPATCHED_GPU,
    ]
    assert batch.decision.effects == (decision.Launch(1, "mail-1-0f9a1c2e-1"),)
    status = apply(task(spec=CHAT), batch.decision.status_patch).status
    assert status.route is not None
    assert (status.attempt, present(status.dispatch).backend) == (1, "gpu-0")
    assert {one.type for one in status.conditions} == {"Qualified"}


def test_what_the_knowledge_base_said_is_decided_about_once() -> None:
    current = task(Phase.QUALIFYING)
    batch = transitions.batched(current, replace(OPEN, observed=ASKED), NOW)
    assert passed(batch) == [Phase.READY_FOR_GPU, Phase.DISPATCHED_GPU]
    away = observed.Trouble("away", operational=True)
    postponed = transitions.batched(current, replace(OPEN, observed=away), NOW)
    assert passed(postponed) == [Phase.READY_FOR_QUALIFICATION], "it backs off; the place is not taken again"
    assert postponed.decision.requeue_after is not None


def test_what_was_read_before_the_claim_goes_from_new_to_the_dispatch_in_one_write() -> None:
    batch = transitions.batched(task(), replace(OPEN, observed=ASKED, qualifying=10), NOW)
    assert passed(batch) == [
        Phase.READY_FOR_QUALIFICATION,
        Phase.QUALIFYING,
        Phase.READY_FOR_GPU,
        Phase.DISPATCHED_GPU,
    ]
    assert told(batch) == ["Accepted", "Qualifying", "Execute", "Dispatched"]
    assert batch.decision.effects == (decision.Launch(1, "mail-1-0f9a1c2e-1"),), "it is not read again"
    assert not transitions.reads_first(task(), batch)


def test_information_that_was_read_before_the_claim_is_done_in_one_write() -> None:
    found = observed.Ingested(Hints(has_actionable_content=False))
    batch = transitions.batched(task(), replace(OPEN, observed=found), NOW)
    assert passed(batch) == [Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING, Phase.DONE]


def test_a_reading_before_the_claim_that_failed_backs_off_or_is_refused() -> None:
    away = observed.Trouble("away", operational=True)
    batch = transitions.batched(task(), replace(OPEN, observed=away), NOW)
    assert passed(batch)[-2:] == [Phase.QUALIFYING, Phase.READY_FOR_QUALIFICATION]
    assert apply(task(), batch.decision.status_patch).status.retry is not None
    wrong = observed.Trouble("no text", operational=False)
    refused = transitions.batched(task(Phase.READY_FOR_QUALIFICATION), replace(OPEN, observed=wrong), NOW)
    assert passed(refused) == [Phase.QUALIFYING, Phase.ERROR]


def test_only_the_claim_of_a_new_task_can_be_read_for_first() -> None:
    first = transitions.batched(task(), OPEN, NOW)
    assert transitions.reads_first(task(), first)
    waiting = task(Phase.READY_FOR_QUALIFICATION)
    assert transitions.reads_first(waiting, transitions.batched(waiting, OPEN, NOW))
    again = task(Phase.QUALIFYING)
    assert not transitions.reads_first(again, transitions.batched(again, OPEN, NOW)), "its claim is written"
    asked = task(spec=CHAT)
    assert not transitions.reads_first(asked, transitions.batched(asked, OPEN, NOW)), "nothing to read"
    due = task(Phase.SCHEDULED)
    assert not transitions.reads_first(due, transitions.batched(due, OPEN, NOW)), "that it is due is told"


def test_a_task_that_is_being_read_keeps_its_place_when_the_others_are_taken() -> None:
    batch = transitions.batched(task(), ObservedState(qualifying=10, working=True), NOW)
    assert passed(batch) == [Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING]


@pytest.mark.parametrize(
    ("mode", "age", "write_delay"),
    [
        ("Background", 0, 10),
        ("Background", 9.5, 0.5),  # it is looked at again just then: the ten seconds are the most
        ("Background", 10, 0),
        ("Background", -0.9, 10),  # the moment is written in whole seconds, rounded up
        ("Background", -1, 0),
        ("Foreground", 0, 0),
    ],
)
def test_that_a_run_has_begun_can_wait_unless_a_person_does(mode: str, age: float, write_delay: float) -> None:
    current = routed(Phase.DISPATCHED_GPU, spec={"mode": mode})
    at = current.status.phase_times["DispatchedGpu"] + timedelta(seconds=age)
    batch = transitions.batched(current, ObservedState(job=job(), pods=(pod(),)), at)
    assert passed(batch) == [Phase.ORCHESTRATING]
    assert transitions.write_delay(current, batch, at) == write_delay


def test_the_end_of_a_run_is_written_at_once_with_its_beginning() -> None:
    current = routed(Phase.DISPATCHED_GPU, spec={"mode": "Background"})
    over = (pod(live=False, exit_code=0, outcome=Outcome(ExitReason.ANSWERED)),)
    batch = transitions.batched(current, ObservedState(job=job(JobState.COMPLETE), pods=over), NOW)
    assert passed(batch) == [Phase.ORCHESTRATING, Phase.COMPLETED]
    assert transitions.write_delay(current, batch, NOW) == 0


def test_a_retry_that_is_replaced_leaves_nothing_of_the_old_one() -> None:
    """One step removes it, a later one sets it anew: a merge of both patches would keep the old one's fields."""
    old = {"count": 3, "nextAt": "2027-03-01T11:00:00Z", "reason": "away"}

    def judge(current: pendingtask.PendingTask, around: ObservedState, now: datetime) -> decision.Decision:
        view = decision.View(current, around, now)
        if current.status.phase is Phase.READY_FOR_QUALIFICATION:
            return decision.to(view, Phase.QUALIFYING, "A", "a", fields={"retry": None})
        again = pendingtask.Retry(reason="b")
        return decision.to(view, Phase.ERROR, "B", "b", fields={"retry": again})

    current = task(Phase.READY_FOR_QUALIFICATION, status={"retry": old})
    batch = transitions.batched(current, OPEN, NOW, judge=judge)
    assert passed(batch) == [Phase.QUALIFYING, Phase.ERROR]
    assert apply(current, batch.decision.status_patch).status.retry == pendingtask.Retry(reason="b")


@pytest.mark.parametrize(
    ("pods", "reached"),
    [
        ((pod(live=False, exit_code=0, outcome=Outcome(ExitReason.ANSWERED)),), Phase.COMPLETED),
        ((pod(live=False, exit_code=0),), Phase.ORCHESTRATING),
        ((), Phase.ORCHESTRATING),
    ],
)
def test_a_run_that_is_over_already_is_followed_only_as_far_as_it_has_told(pods: Any, reached: Phase) -> None:
    """Without a message the stored result has to be read first, which this look has not done."""
    batch = transitions.batched(routed(Phase.DISPATCHED_GPU), ObservedState(job=job(JobState.COMPLETE), pods=pods), NOW)
    assert passed(batch)[-1] is reached
    assert batch.more


def test_a_later_run_waits_for_the_pods_of_earlier_ones_to_be_listed() -> None:
    asked = {"messages": [{"id": "m", "text": "more"}]}
    batch = transitions.batched(routed(Phase.USER_TASK, spec=asked, attempt=1), OPEN, NOW)
    assert passed(batch) == [Phase.READY_FOR_GPU]
    assert batch.more


@given(tasks(), worlds, moments)
@settings(max_examples=thorough.examples(400), deadline=None)
def test_it_ends_where_single_steps_end(current: pendingtask.PendingTask, around: ObservedState, now: datetime) -> None:
    batch = transitions.batched(current, around, now)
    alone, last = current, decide(current, around, now)
    source = current.status.phase or Phase.NEW
    seen = [last] if last.status_patch else []
    while len(seen) < len(batch.steps) or (last.status_patch and not batch.more):
        alone = apply(alone, last.status_patch)
        around = transitions.seen_after(source, around)
        source = alone.status.phase or Phase.NEW
        last = decide(alone, around, now)
        if not last.status_patch:
            break
        seen.append(last)
    assert [step.made for step in batch.steps] == seen
    if last.status_patch:
        alone = apply(alone, last.status_patch)
    assert apply(current, batch.decision.status_patch).status == alone.status
    assert (batch.decision.effects, batch.decision.wait_for) == (last.effects, last.wait_for)
    for step, following in zip(batch.steps, batch.steps[1:], strict=False):
        assert step.made.effects == ()
        assert step.made.phase in (None, following.source)
    target = batch.decision.phase
    before = current.status.phase or Phase.NEW
    if target is not None and target is not before:
        assert target in phases.reach(before), "the admission policy lets the write through"


def test_every_phase_that_is_passed_stands_in_the_table() -> None:
    for phase, sources in phases.PASSING.items():
        for source in sources:
            assert phase in phases.TRANSITIONS[source]
    for source in Phase:
        assert phases.TRANSITIONS[source] <= phases.reach(source)
    assert phases.reach(Phase.ORCHESTRATING) == phases.TRANSITIONS[Phase.ORCHESTRATING]
    assert phases.reach(Phase.READY_FOR_GPU) == phases.TRANSITIONS[Phase.READY_FOR_GPU], "nothing goes past an effect"
    assert mergepatch.difference({}, {}) == {}
