"""Every event in every phase: what follows was decided on purpose, and stands here.

A cell says what one decision makes of it: the phase it goes to, or the fields that it writes; the effects; where it
then waits. `rest`: only an event wakes it. `look`: it is looked at again in a while.

The table of transitions is complete and closed, and keeps what the seeds promise about it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from controllers.pendingtask import observed, phases
from controllers.pendingtask.decide import CHAINS, decide
from controllers.pendingtask.decision import Decision
from controllers.pendingtask.observed import JobState, ObservedState, Outcome, Slots, Trouble
from crds import pendingtask
from crds.exit_reasons import ExitReason
from crds.pendingtask import Hints
from crds.phases import TERMINAL, Phase
from tests.controllers.build import GPU, NOW, job, pod, routed, task

Situation = tuple[pendingtask.PendingTask, ObservedState, datetime]
LATER = NOW + timedelta(hours=2)
FULL = Slots(total=2)
ASKED = {"kind": "Question", "questions": [{"id": "q", "text": "Which one?"}]}


def before(phase: Phase) -> Situation:
    """A Background mail that rests in `phase`: nothing is to be done about it."""
    at_work = replace(ObservedState(slots=FULL), job=job(), pods=(pod(),))
    match phase:
        case Phase.NEW:
            return task(), ObservedState(), NOW
        case Phase.SCHEDULED:
            moment = LATER.isoformat()
            return task(phase, spec={"schedule": {"at": moment}}, status={"scheduledFor": moment}), ObservedState(), NOW
        case Phase.READY_FOR_QUALIFICATION:
            return task(phase), ObservedState(qualifying=10), NOW
        case Phase.QUALIFYING:
            return task(phase), ObservedState(working=True), NOW
        case Phase.READY_FOR_GPU:
            return routed(phase), ObservedState(slots=FULL), NOW
        case Phase.DISPATCHED_GPU:
            return routed(phase), replace(at_work, pods=(pod(started=False),)), NOW
        case Phase.ORCHESTRATING:
            return routed(phase), at_work, NOW
        case Phase.USER_TASK:
            return routed(phase, attempt=1, userTask=ASKED), ObservedState(), NOW
    return routed(phase, attempt=1), ObservedState(), NOW


def spec(**fields: Any) -> Callable[[Situation], Situation]:
    """Its user edits the spec."""

    def edit(given: Situation) -> Situation:
        raw = given[0].wire()
        raw["spec"] |= fields
        return pendingtask.PendingTask.model_validate(raw), given[1], given[2]

    return edit


def around(**fields: Any) -> Callable[[Situation], Situation]:
    """Something in the state changes."""
    return lambda given: (given[0], replace(given[1], **fields), given[2])


def wait(by: timedelta) -> Callable[[Situation], Situation]:
    """The clock shows another time."""
    return lambda given: (given[0], given[1], given[2] + by)


def let_go(given: Situation) -> Situation:
    """It was held until now."""
    raw = given[0].wire()
    held = {"type": "Suspended", "status": "True", "reason": "SuspendedByUser", "message": ""}
    raw["status"]["conditions"] = [{**held, "lastTransitionTime": "2027-03-01T11:59:00Z"}]
    return pendingtask.PendingTask.model_validate(raw), given[1], given[2]


def deleted(given: Situation) -> Situation:
    """A finalizer still holds it."""
    raw = given[0].wire()
    raw["metadata"]["deletionTimestamp"] = "2027-03-01T12:00:00Z"
    return pendingtask.PendingTask.model_validate(raw), given[1], given[2]


def approval(verdict: str) -> Callable[[Situation], Situation]:
    return spec(approval={"verdict": verdict, "author": "ada"})


def ended(outcome: ExitReason | None) -> Callable[[Situation], Situation]:
    """The Job of the run is over."""
    said = None if outcome is None else Outcome(outcome)
    state = JobState.COMPLETE if outcome is ExitReason.ANSWERED else JobState.FAILED
    return around(job=job(state), pods=(pod(live=False, exit_code=137, outcome=said),))


EVENTS: dict[str, Callable[[Situation], Situation]] = {
    "spec.suspend is set": spec(suspend=True),
    "spec.suspend is taken back": let_go,
    "it is deleted": deleted,
    "spec.queuePosition changes": spec(queuePosition=1),
    "spec.mode becomes Foreground": spec(mode="Foreground"),
    "a message arrives": spec(messages=[{"id": "m", "text": "More."}]),
    "an answer arrives": spec(answers=[{"id": "q", "text": "This one."}]),
    "it is approved": approval("Approved"),
    "it is rejected": approval("Rejected"),
    "a place at the qualifier": around(qualifying=0),
    "the content is read": around(observed=observed.Ingested(Hints(has_actionable_content=True))),
    "the content is refused": around(observed=Trouble("wrong", operational=False, field="kind", remedy="Repair it.")),
    "what it needs is away": around(observed=Trouble("away", operational=True)),
    "the operator restarts": around(working=False),
    "a slot becomes free": around(slots=GPU),
    "a slot, and users are active": around(slots=GPU, user_active=True),
    "a slot, and the circuit is open": around(slots=GPU, dispatch_open=False),
    "its pod starts": around(job=job(), pods=(pod(),)),
    "its run answers": ended(ExitReason.ANSWERED),
    "its run asks": ended(ExitReason.NEEDS_INPUT),
    "its run drains": ended(ExitReason.DRAINED),
    "its run fails": ended(ExitReason.ERROR),
    "its worker dies": ended(None),
    "its Job is deleted by hand": around(job=None, pods=()),
    "its Job is suspended by hand": around(job=job(JobState.SUSPENDED, foreign=True), pods=()),
    "a late Job of another run": around(strays=("mail-1-0f9a1c2e-0",)),
    "its slot is claimed": around(claimant=observed.Claimant("u", 1, "default/chat")),
    "its backend is gone": around(backend_gone_in=0.0),
    "its node is lost": around(pods=(pod(given_up_at=NOW - timedelta(seconds=1)),)),
    "ten minutes pass": wait(timedelta(minutes=10)),
    "two hours pass": wait(timedelta(hours=2)),
    "the clock is set back": wait(-timedelta(days=1)),
}


def told(made: Decision) -> str:
    """A decision in a few words."""
    fields = "+".join(sorted(set(made.status_patch) - {"observedGeneration"}))
    words = [made.phase.value if made.phase is not None else fields]
    words += [type(one).__name__ for one in made.effects]
    if made.phase is None:
        words.append(made.wait_for.value if made.wait_for else "" if made.requeue_after is None else "look")
    return " ".join(word for word in words if word) or "rest"


def row(**cells: str) -> Mapping[Phase, str]:
    """Cells by the phases' names."""
    return {Phase[name]: told for name, told in cells.items()}


REST = row(
    NEW="ReadyForQualification",
    SCHEDULED="look",
    READY_FOR_QUALIFICATION="Qualifier",
    QUALIFYING="rest",
    READY_FOR_GPU="Gpu",
    DISPATCHED_GPU="look",
    ORCHESTRATING="look",
    USER_TASK="rest",
    DONE="rest",
    COMPLETED="rest",
    ERROR="rest",
)
"""When nothing happens."""
SAID = dict.fromkeys(("NEW", "SCHEDULED", "READY_FOR_QUALIFICATION", "READY_FOR_GPU", "USER_TASK"), "conditions")
"""Where a task waits, its conditions say so."""
MATTERS: dict[str, Mapping[Phase, str]] = {
    "spec.suspend is set": row(**SAID, DISPATCHED_GPU="SuspendJob look", ORCHESTRATING="SuspendJob look"),
    "spec.suspend is taken back": row(**SAID),
    "it is deleted": row(
        NEW="rest",
        SCHEDULED="rest",
        READY_FOR_QUALIFICATION="rest",
        READY_FOR_GPU="rest",
        DISPATCHED_GPU="DeleteJob",
        ORCHESTRATING="DeleteJob",
    ),
    "spec.queuePosition changes": row(),
    "spec.mode becomes Foreground": row(READY_FOR_GPU="conditions Gpu"),
    "a message arrives": row(USER_TASK="ReadyForGpu", ORCHESTRATING="Remember look"),
    "an answer arrives": row(USER_TASK="ReadyForGpu"),
    "it is approved": row(),
    "it is rejected": row(),
    "a place at the qualifier": row(READY_FOR_QUALIFICATION="Qualifying Ingest"),
    "the content is read": row(READY_FOR_QUALIFICATION="Qualifying", QUALIFYING="ReadyForGpu"),
    "the content is refused": row(READY_FOR_QUALIFICATION="Qualifying", QUALIFYING="Error", DISPATCHED_GPU="UserTask"),
    "what it needs is away": row(
        READY_FOR_QUALIFICATION="Qualifying", QUALIFYING="ReadyForQualification", DISPATCHED_GPU="ReadyForGpu"
    ),
    "the operator restarts": row(QUALIFYING="Ingest"),
    "a slot becomes free": row(READY_FOR_GPU="DispatchedGpu Launch"),
    "a slot, and users are active": row(),
    "a slot, and the circuit is open": row(),
    "its pod starts": row(DISPATCHED_GPU="Orchestrating"),
    "its run answers": row(DISPATCHED_GPU="Orchestrating", ORCHESTRATING="Completed"),
    "its run asks": row(DISPATCHED_GPU="Orchestrating", ORCHESTRATING="UserTask ExpireJob"),
    "its run drains": row(DISPATCHED_GPU="Orchestrating", ORCHESTRATING="ReadyForGpu ExpireJob"),
    "its run fails": row(DISPATCHED_GPU="Orchestrating", ORCHESTRATING="UserTask ExpireJob"),
    "its worker dies": row(DISPATCHED_GPU="Orchestrating", ORCHESTRATING="ReadyForGpu ExpireJob"),
    "its Job is deleted by hand": row(DISPATCHED_GPU="Launch", ORCHESTRATING="ReadyForGpu"),
    "its Job is suspended by hand": row(
        READY_FOR_GPU="conditions look", DISPATCHED_GPU="ReadyForGpu", ORCHESTRATING="ReadyForGpu"
    ),
    "a late Job of another run": row(
        **dict.fromkeys(("READY_FOR_GPU", "DISPATCHED_GPU", "ORCHESTRATING", "USER_TASK"), "DeleteJob look")
    ),
    "its slot is claimed": row(
        DISPATCHED_GPU="conditions+preemption+preemptions", ORCHESTRATING="conditions+preemption+preemptions"
    ),
    "its backend is gone": row(DISPATCHED_GPU="conditions DeleteJob look", ORCHESTRATING="conditions DeleteJob look"),
    "its node is lost": row(DISPATCHED_GPU="conditions DeleteJob look", ORCHESTRATING="conditions DeleteJob look"),
    "ten minutes pass": row(DISPATCHED_GPU="DeleteJob look"),
    "two hours pass": row(SCHEDULED="ReadyForQualification", DISPATCHED_GPU="DeleteJob look"),
    "the clock is set back": row(DISPATCHED_GPU="phaseTimes"),
}
"""What an event makes of that; where a phase is not named, nothing happens on purpose."""


def test_every_event_and_every_phase_are_in_the_table() -> None:
    assert list(REST) == list(Phase)
    assert list(MATTERS) == list(EVENTS)
    idle = {(event, phase) for event, cells in MATTERS.items() for phase in cells if cells[phase] == REST[phase]}
    assert idle == set(), "a cell is for what is another decision"


@pytest.mark.parametrize("phase", Phase)
def test_nothing_happens(phase: Phase) -> None:
    assert told(decide(*before(phase))) == REST[phase]


@pytest.mark.parametrize(("event", "phase"), list(itertools.product(EVENTS, Phase)))
def test_what_is_decided(event: str, phase: Phase) -> None:
    assert told(decide(*EVENTS[event](before(phase)))) == MATTERS[event].get(phase, REST[phase])


FOLLOWING = {
    Phase.NEW: {Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION},
    Phase.SCHEDULED: {Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU},
    Phase.READY_FOR_QUALIFICATION: {Phase.QUALIFYING},
    Phase.QUALIFYING: {
        *(Phase.DONE, Phase.READY_FOR_GPU, Phase.SCHEDULED, Phase.USER_TASK, Phase.ERROR, Phase.READY_FOR_QUALIFICATION)
    },
    Phase.READY_FOR_GPU: {Phase.DISPATCHED_GPU},
    Phase.DISPATCHED_GPU: {Phase.ORCHESTRATING, Phase.READY_FOR_GPU, Phase.USER_TASK},
    Phase.ORCHESTRATING: {Phase.COMPLETED, Phase.READY_FOR_GPU, Phase.USER_TASK},
    # A person has it tried again also where the operator could not decide about it.
    Phase.USER_TASK: {Phase.READY_FOR_GPU, Phase.ERROR, Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION},
}
WAITING = (Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU)
LISTED = {
    *((source, target) for source, targets in FOLLOWING.items() for target in targets),
    # Answered in its thread before it ran.
    *((source, Phase.DONE) for source in (*WAITING, Phase.USER_TASK)),
    # The operator cannot decide about it.
    *((source, Phase.USER_TASK) for source in (Phase.NEW, *WAITING)),
}


@pytest.mark.parametrize(("source", "target"), list(itertools.product(Phase, Phase)))
def test_exactly_the_listed_steps_are_permitted(source: Phase, target: Phase) -> None:
    assert phases.permitted(source, target, qualified=False) == ((source, target) in LISTED)
    after_route = (source, target) in LISTED and target not in phases.BEFORE_ROUTE
    assert phases.permitted(source, target, qualified=True) == after_route


def test_the_table_and_the_chains_know_every_phase() -> None:
    assert set(phases.TRANSITIONS) == set(Phase) == set(CHAINS)


def test_terminal_phases_have_no_successor_and_only_they() -> None:
    assert {phase for phase, targets in phases.TRANSITIONS.items() if not targets} == TERMINAL


def test_every_phase_is_reachable_from_new() -> None:
    assert reach(Phase.NEW, qualified=False) == set(Phase)


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_reaches_a_terminal_one(phase: Phase) -> None:
    assert reach(phase, qualified=False) & TERMINAL


@pytest.mark.parametrize("target", sorted(phases.TRANSITIONS[Phase.QUALIFYING] - phases.BEFORE_ROUTE))
def test_no_directive_leads_back_to_qualifying(target: Phase) -> None:
    """Seed 002 "State Flow Guarantees": never returns to QUALIFYING."""
    assert not reach(target, qualified=True) & {Phase.QUALIFYING, Phase.READY_FOR_QUALIFICATION}


def test_a_forbidden_step_is_refused_loudly() -> None:
    with pytest.raises(phases.ForbiddenTransitionError, match="Done to New"):
        phases.check(Phase.DONE, Phase.NEW, qualified=True)


def reach(start: Phase, *, qualified: bool) -> set[Phase]:
    """All phases that can be entered from `start`, itself included."""
    found, edge = {start}, [start]
    while edge:
        source = edge.pop()
        for target in phases.TRANSITIONS[source]:
            if target not in found and phases.permitted(source, target, qualified=qualified):
                found.add(target)
                edge.append(target)
    return found
