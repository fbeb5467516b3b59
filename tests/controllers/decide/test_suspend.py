"""suspend in every phase; finished tasks; limits."""

from __future__ import annotations

import pytest

from controllers.pendingtask import decision
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, Limits, ObservedState
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, apply, job, pod, routed, task

OPEN = ObservedState(slots=GPU)


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
    assert decide(held, ObservedState(job=job(), pods=quiet), NOW).effects == (
        decision.SuspendJob("mail-1-0f9a1c2e-1"),
    )
    assert (
        decide(held, ObservedState(job=job(JobState.SUSPENDED), pods=(pod(),)), NOW).requeue_after == 5 or quiet == ()
    )
    back = apply(held, decide(held, ObservedState(job=job(JobState.SUSPENDED)), NOW).status_patch)
    assert back.status.phase is Phase.READY_FOR_GPU
    assert back.status.dispatch is not None
    free = back.model_copy(update={"spec": back.spec.model_copy(update={"suspend": False})})
    made = decide(free, OPEN, NOW)
    assert made.effects == (decision.Launch(1, "mail-1-0f9a1c2e-1"),)
    again = apply(free, made.status_patch)
    assert decide(again, ObservedState(job=job(JobState.SUSPENDED)), NOW).effects == made.effects


def test_a_job_that_is_suspended_without_a_reason_goes_on() -> None:
    around = ObservedState(job=job(JobState.SUSPENDED))
    assert decide(routed(Phase.ORCHESTRATING), around, NOW).effects == (decision.ResumeJob("mail-1-0f9a1c2e-1"),)
    launch = decision.Launch(1, "mail-1-0f9a1c2e-1")
    assert decide(routed(Phase.DISPATCHED_GPU), around, NOW).effects == (launch,)


@pytest.mark.parametrize("phase", [Phase.DONE, Phase.COMPLETED, Phase.ERROR])
def test_finished_tasks_are_left_alone(phase: Phase) -> None:
    assert decide(task(phase), OPEN, NOW) == decision.Decision()
    assert decide(task(phase), ObservedState(job=job(JobState.COMPLETE)), NOW) == decision.Decision()


def test_limits_are_settings() -> None:
    around = ObservedState(limits=Limits(qualifying_at_once=1), qualifying=1)
    assert decide(task(Phase.READY_FOR_QUALIFICATION), around, NOW).wait_for is decision.WaitFor.QUALIFIER
