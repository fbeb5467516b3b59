"""Nothing goes round by itself: whatever the outside answers, a task comes to rest until time passes or a person says
something. And wherever it rests, its status keeps the bounds of the CRD and its conditions are true."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.pendingtask import decision, observed, views
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, JobView, ObservedState, PodView, TokenNotWritten, Trouble
from crds import conditions, pendingtask
from crds.exits import ExitReason
from crds.phases import HOLDS_SLOT, TERMINAL, Phase
from tests import thorough
from tests.controllers import hostile
from tests.controllers.build import GPU, NOW, apply, present, routed, task
from tests.controllers.strategies import readings, tokens, troubles

MOST_STEPS = 40
verdicts = st.sampled_from(pendingtask.Verdict).map(str)
people = st.one_of(
    st.just({"messages": [{"id": "m", "text": "And?"}]}),
    st.just({"answers": [{"id": "1", "text": "Yes."}]}),
    st.builds(
        lambda verdict, author: {"approval": {"verdict": verdict, "author": author}}, verdicts, st.text(max_size=3)
    ),
)
plans = st.none() | st.sampled_from(
    [
        {"at": "2027-03-01T12:05:00Z"},
        {"at": "1000-01-01T00:00:00Z"},
        {"at": "9000-12-31T23:59:59Z"},
        {"cron": "0 0 31 2 *"},
    ]
)


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    """Also with messages, answers and approvals that stand there from the start."""
    spec: dict[str, Any] = {"type": draw(st.sampled_from(pendingtask.Type)).value}
    spec["mode"] = draw(st.sampled_from(pendingtask.Mode)).value
    for said in draw(st.lists(people, max_size=3)):
        spec |= said
    plan = draw(plans)
    return spec if plan is None else {**spec, "schedule": plan}


class Outside:
    """Answers each effect at once and always alike; time stands still."""

    def __init__(self, data: st.DataObject, now: datetime) -> None:
        self.now = now
        self.reading: observed.Reading = data.draw(troubles | readings)
        self.refusal: Trouble | TokenNotWritten | None = data.draw(st.none() | troubles | tokens)
        self.ends = data.draw(st.sampled_from([JobState.COMPLETE, JobState.FAILED]))
        self.says = views.outcome(data.draw(hostile.messages))
        self.late = data.draw(st.booleans())
        self.behind = data.draw(st.booleans())
        """Each reading is of an older version than the one that is decided about."""
        self.jobs: dict[int, JobView] = {}
        self.pods: list[PodView] = []
        self.observed: observed.Observation | None = None
        self.launches = 0

    def state(self, current: pendingtask.PendingTask) -> ObservedState:
        mine = self.jobs.get(current.status.attempt) if current.status.dispatch is not None else None
        return ObservedState(slots=GPU, observed=self.observed, job=mine, pods=tuple(self.pods))

    def perform(self, effect: decision.Effect, generation: int) -> None:
        match effect:
            case decision.Ingest():
                self.observed = replace(self.reading, generation=generation - self.behind)
            case decision.Launch():
                self.launches += 1
                self.observed = self.refusal
                if isinstance(self.refusal, TokenNotWritten):
                    self.jobs[effect.attempt] = JobView(effect.job_name, "u", JobState.ACTIVE)
                if self.refusal is None:
                    reason = "DeadlineExceeded" if self.late else ""
                    self.jobs[effect.attempt] = JobView(effect.job_name, "u", self.ends, reason=reason)
                    self.pods.append(PodView("p", effect.attempt, live=False, started=True, outcome=self.says))
            case decision.Copy() | decision.Recall():
                self.observed = observed.NoCopy()
            case _:
                pass


def rest(current: pendingtask.PendingTask, outside: Outside) -> pendingtask.PendingTask:
    """The task where it waits for time or people; fails when it gets to no such place."""
    seen: list[str] = []
    for _ in range(MOST_STEPS):
        made = decide(current, outside.state(current), outside.now)
        outside.observed = None
        if made.status_patch:
            current = apply(current, made.status_patch)
            check(current.status)
        seen.append(f"{current.status.phase} {made.note.reason if made.note else ''}")
        for effect in made.effects:
            outside.perform(effect, current.metadata.generation)
        waits = bool(made.requeue_after) or made.wait_for is not None
        waits = waits or any(isinstance(one, decision.Ingest) and one.after > 0 for one in made.effects)
        if waits or not (made.status_patch or made.effects):
            return current
    raise AssertionError(f"it goes round: {seen[-12:]}")


def check(status: pendingtask.Status) -> None:
    """Do the conditions say what the phase says?"""
    true = {one.type for one in status.conditions if one.status is conditions.Status.TRUE}
    named = {one.type: one for one in status.conditions}
    phase = status.phase
    assert phase in HOLDS_SLOT or "Dispatched" not in true
    assert ("WaitingForUser" in true) == (phase is Phase.USER_TASK)
    if phase is Phase.USER_TASK:
        assert named["WaitingForUser"].reason == present(status.user_task).kind.value
        assert present(status.user_task).request_id == status.request_id
    if phase in TERMINAL:
        assert "Finished" in true
        assert named["Succeeded"].status is not conditions.Status.UNKNOWN
        rejected = status.result is not None and status.result.exit_reason is ExitReason.REJECTED
        assert ("Succeeded" in true) == (phase is not Phase.ERROR and not rejected)
        assert not true & {"Suspended", "Preempted"}
    else:
        assert not {"Finished", "Succeeded"} & set(named)
    if status.retry is not None and status.retry.reason:
        kind = status.retry.reason.partition(":")[0]
        assert kind.isalpha(), "the metric's label"
    assert len(status.conditions) <= 16


@given(st.data())
@settings(max_examples=thorough.examples(300), deadline=None)
def test_a_task_rests_until_time_passes_or_a_person_says_something(data: st.DataObject) -> None:
    now = data.draw(st.sampled_from([NOW, NOW.replace(year=1970), NOW.replace(year=2227)]))
    outside = Outside(data, now)
    spec = data.draw(manifests())
    current = data.draw(st.sampled_from([task(spec=spec), routed(Phase.READY_FOR_GPU, spec=spec)]))
    said = len(spec.get("messages", ())) + len(spec.get("answers", ()))
    for number in range(data.draw(st.integers(1, 3))):
        current = rest(current, outside)
        if current.status.phase in TERMINAL:
            break
        current = speak(current, data.draw(people), number)
        said += 1
    assert outside.launches <= said + 1, "each run was asked for"


def speak(current: pendingtask.PendingTask, what: dict[str, Any], number: int) -> pendingtask.PendingTask:
    """A person adds a message or an answer, or decides."""
    raw = current.wire()
    for key, value in what.items():
        if isinstance(value, list):
            raw["spec"][key] = [*raw["spec"].get(key, []), {**value[0], "id": f"{value[0]['id']}-{number}"}]
        else:
            raw["spec"][key] = value
    raw["metadata"]["generation"] += 1
    return pendingtask.PendingTask.model_validate(raw)


@pytest.mark.parametrize("phase", sorted(HOLDS_SLOT))
def test_the_check_finds_a_condition_that_outlived_its_truth(phase: Phase) -> None:
    running = {"type": "Dispatched", "status": "True", "reason": "Running", "lastTransitionTime": NOW.isoformat()}
    check(routed(phase, conditions=[running]).status)
    with pytest.raises(AssertionError):
        check(routed(Phase.READY_FOR_GPU, conditions=[running]).status)
