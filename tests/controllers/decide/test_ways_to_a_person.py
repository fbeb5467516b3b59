"""Every way to a person is the same step: the request has an identity, what was written before it decides nothing, and
the run that asked is over, so that nothing goes round without an outside event."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import ObservedState, Outcome, Trouble
from crds import conditions, pendingtask
from crds.exits import ExitReason
from crds.pendingtask import UserTaskKind
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, apply, job, pod, routed

OPEN = ObservedState(slots=GPU)
REFUSED = ObservedState(observed=Trouble("resources are wrong", operational=False, field="job.resources"))
FAILED = ObservedState(job=job(), pods=(pod(live=False, exit_code=1, outcome=Outcome(ExitReason.STUCK, "stuck")),))
MESSAGE = {"messages": [{"id": "m1", "text": "again"}]}
ANSWER = {"answers": [{"id": "a1", "text": "again"}]}


def refused(spec: dict[str, Any] | None = None) -> pendingtask.PendingTask:
    current = routed(Phase.DISPATCHED_GPU, spec=spec)
    return apply(current, decide(current, REFUSED, NOW).status_patch)


def test_a_refused_dispatch_asks_as_a_failed_run_does() -> None:
    ran = routed(Phase.ORCHESTRATING)
    over = ObservedState(job=job(state=FAILED.job.state.COMPLETE), pods=FAILED.pods) if FAILED.job else FAILED
    statuses = [refused().status, apply(ran, decide(ran, over, NOW).status_patch).status]
    for status in statuses:
        assert status.phase is Phase.USER_TASK
        assert status.dispatch is None
        assert status.user_task is not None
        assert status.user_task.kind is UserTaskKind.FAILURE
        assert status.user_task.request_id == status.request_id
        waiting = conditions.find(status.conditions, "WaitingForUser")
        assert waiting is not None
        assert (waiting.status, waiting.reason) == (conditions.Status.TRUE, "Failure")


@pytest.mark.parametrize("said", [MESSAGE, ANSWER])
def test_a_refused_dispatch_is_tried_once_for_each_thing_that_a_person_says(said: dict[str, Any]) -> None:
    current, moved = refused(), []
    raw = current.wire()
    raw["spec"] |= said
    current = pendingtask.PendingTask.model_validate(raw)
    for _ in range(20):
        holds = current.status.phase is Phase.DISPATCHED_GPU
        made = decide(current, REFUSED if holds else OPEN, NOW)
        if made.phase is None:
            break
        moved.append(made.phase)
        current = apply(current, made.status_patch)
    assert moved == [Phase.READY_FOR_GPU, Phase.DISPATCHED_GPU, Phase.USER_TASK]
    assert current.status.attempt == 2


@pytest.mark.parametrize("verdict", ["Approved", "Rejected"])
def test_an_approval_that_stands_in_the_manifest_decides_nothing(verdict: str) -> None:
    current = refused({"approval": {"verdict": verdict}})
    assert decide(current, OPEN, NOW).phase is None


def test_the_request_names_the_field() -> None:
    status = refused().status
    waiting = conditions.find(status.conditions, "WaitingForUser")
    assert waiting is not None
    assert "job.resources" in waiting.message
