"""A task whose request was answered before it ran is Done, in each phase in which it waits and in no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import Answered, ObservedState
from controllers.pendingtask.policy import answered
from crds import pendingtask
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, after, asked, present, routed, task

SEEN = ObservedState(slots=GPU, observed=Answered("reply-1", "email::<m2@acme.com>"))
QUESTION = {"kind": "Question", "questions": [{"id": "q1", "text": "?"}]}


def waiting(phase: Phase, spec: dict[str, Any] | None = None, **status: Any) -> pendingtask.PendingTask:
    """A task in that phase which never ran."""
    if phase is Phase.READY_FOR_QUALIFICATION:
        return task(phase, spec=spec, status=status)
    more: dict[Phase, dict[str, Any]] = {
        Phase.USER_TASK: {"userTask": QUESTION},
        Phase.SCHEDULED: {"scheduledFor": "2027-04-01T00:00:00Z"},
    }
    return routed(phase, spec=spec, **{**more.get(phase, {}), **status})


@pytest.mark.parametrize("phase", sorted(answered.OPEN))
def test_it_is_done_in_one_write_that_names_the_answer(phase: Phase) -> None:
    current = waiting(phase, retry={"count": 1, "nextAt": "2027-03-01T13:00:00Z", "reason": "x"})
    made = decide(current, SEEN, NOW)
    assert (made.phase, made.effects) == (Phase.DONE, ())
    status = after(current, made)
    said = {one.type: (one.status.value, one.reason, one.message) for one in status.conditions}
    why = "Answered in its thread by email::<m2@acme.com> (task reply-1); nothing is left to do."
    assert said["Superseded"] == ("True", "AnsweredInThread", why)
    assert said["Succeeded"][0] == "True"
    assert (status.user_task, status.retry, status.scheduled_for) == (None, None, None)
    assert present(status.result).summary == why


@pytest.mark.parametrize("phase", sorted(answered.OPEN))
@pytest.mark.parametrize(
    "spec",
    [
        {"type": "UserTask"},
        {"type": "ScheduledTask"},
        {"type": "UserInputProcessing"},
        {"mode": "Foreground"},
        {"answers": [{"id": "q1", "text": "Yes."}]},
        {"messages": [{"id": "m1", "text": "Wait."}]},
    ],
)
def test_what_a_user_wants_stays(phase: Phase, spec: dict[str, Any]) -> None:
    assert decide(waiting(phase, spec), SEEN, NOW).phase is not Phase.DONE


def test_what_ran_or_runs_stays() -> None:
    running = [routed(Phase.DISPATCHED_GPU), routed(Phase.ORCHESTRATING)]
    ran = [routed(Phase.READY_FOR_GPU, attempt=1), asked("Question", "q1"), asked("Approval")]
    for current in (*running, *ran, task(Phase.QUALIFYING)):
        assert decide(current, SEEN, NOW).phase is not Phase.DONE
        assert not answered.open_to_answers(current)


def test_a_recurring_task_stays() -> None:
    template = task(Phase.SCHEDULED, spec={"schedule": {"cron": "0 6 * * *"}})
    assert not answered.open_to_answers(template)


@pytest.mark.parametrize(
    ("metadata", "spec", "may"),
    [
        ({}, {}, True),
        ({"namespace": "other"}, {}, False),
        ({}, {"clientId": "other"}, False),
        ({"uid": "0f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00"}, {}, False),
    ],
)
def test_no_other_namespace_and_no_other_client_answers(
    metadata: dict[str, Any], spec: dict[str, Any], may: bool
) -> None:
    by = task(Phase.QUALIFYING, spec=spec, **{"uid": "another", **metadata})
    assert answered.answers(by, waiting(Phase.READY_FOR_GPU)) is may


def test_without_an_answer_nothing_changes() -> None:
    current = waiting(Phase.USER_TASK)
    assert decide(current, replace(SEEN, observed=None), NOW).phase is None
