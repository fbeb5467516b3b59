"""Whatever is stored and whatever the state looks like: a decision is made, it is a permitted one, and a history of
crashes, lost replies, clocks that jump and users who go on talking ends with every task finished, every word read and
no run twice.

Nothing goes round by itself: whatever the outside answers, a task comes to rest until time passes or a person says
something. And wherever it rests, its status keeps the bounds of the CRD and its conditions are true.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.pendingtask import decision, job, observed, phases, views
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import (
    JobState,
    JobView,
    ObservedState,
    Outcome,
    PodView,
    TokenNotWritten,
    Trouble,
)
from controllers.pendingtask.transitions import batched
from crds import conditions, pendingtask
from crds.exit_reasons import ExitReason
from crds.pendingtask import Hints
from crds.phases import HOLDS_SLOT, TERMINAL, Phase
from tests import thorough
from tests.controllers import hostile
from tests.controllers.build import GPU, NOW, apply, present, routed, task
from tests.controllers.strategies import REFUSED, moments, readings, tasks, tokens, troubles, worlds


@given(tasks(), worlds, moments)
@settings(max_examples=thorough.examples(400), deadline=None)
def test_every_situation_is_decided_and_the_patch_is_a_valid_status(
    current: pendingtask.PendingTask, around: ObservedState, now: datetime
) -> None:
    made = decide(current, around, now)
    before = current.status.phase or Phase.NEW
    result = apply(current, made.status_patch)
    status = result.status
    assert made.requeue_after is None or made.requeue_after >= 0
    assert status.attempt in (current.status.attempt, current.status.attempt + 1)
    assert status.attempt == current.status.attempt or made.phase is Phase.DISPATCHED_GPU
    if made.phase is not None:
        assert phases.permitted(before, made.phase, qualified=status.route is not None)
        assert (status.completed_at is not None) == (made.phase in TERMINAL)
        assert made.phase.value in status.phase_times
    if before in TERMINAL:
        assert made.status_patch == {}
    if any(isinstance(effect, decision.Launch) for effect in made.effects):
        assert (made.phase or before) is Phase.DISPATCHED_GPU
    if any(isinstance(effect, decision.SuspendJob | decision.ResumeJob) for effect in made.effects):
        suspends = isinstance(made.effects[0], decision.SuspendJob)
        if before is Phase.READY_FOR_GPU:
            assert suspends, "what runs there without a slot stops"
        else:
            assert before in HOLDS_SLOT
            assert (status.preemption is not None or current.spec.suspend) == suspends
    assert status.preemptions - current.status.preemptions in (0, 1)
    if status.preemptions > current.status.preemptions:
        assert (status.phase, status.preemption is not None) == (before, True)
    if made.status_patch:
        assert decide(current, around, now) == made, "pure"


class Cluster:
    """The smallest state that can go wrong: one Job controller, one kubelet, a store, and a shell that may crash."""

    def __init__(self, draw: st.DataObject, start: pendingtask.PendingTask) -> None:
        self.draw, self.task, self.now = draw, start, NOW
        self.version = 10
        self.jobs: dict[int, JobState] = {}
        self.pods: dict[int, PodView] = {}
        self.created: list[int] = []
        self.read: dict[int, int] = {}
        self.memory: dict[int, int] = {}
        self.observed: observed.Observation | None = None
        self.chaos = True

    def step(self) -> None:
        self.environment()
        if self.chaos and self.choose("the user says more", 8):
            self.say()
        if self.chaos and self.choose("the clock jumps", 12):
            self.now += self.draw.draw(st.sampled_from([timedelta(hours=-1), timedelta(minutes=11), timedelta(days=1)]))
        made = decide(self.task, self.state(), self.now)
        if self.chaos and self.choose("the user is quicker than the write", 12):
            self.say()  # the version is another one now: the write loses, and the task is looked at again
            return
        if self.chaos and self.choose("crash before the write", 12):
            self.observed = None
            return
        if made.status_patch:
            self.version += 1
            self.task = apply(self.task, made.status_patch, self.version)
        if self.chaos and self.choose("crash between write and effect", 6):
            self.observed = None
            return
        self.observed = None
        for effect in made.effects:
            self.perform(effect)
        self.now += timedelta(seconds=made.requeue_after or 1)

    def say(self) -> None:
        raw = self.task.wire()
        said = raw["spec"].get("messages", [])
        raw["spec"]["messages"] = [*said, {"id": f"m{len(said)}", "text": "And?"}]
        self.task = pendingtask.PendingTask.model_validate(raw)

    def state(self) -> ObservedState:
        attempt = self.task.status.attempt
        state = self.jobs.get(attempt)
        view = None if state is None else JobView("j", "u", state, suspended=state is JobState.SUSPENDED)
        return ObservedState(slots=GPU, observed=self.observed, job=view, pods=tuple(self.pods.values()))

    def perform(self, effect: decision.Effect) -> None:
        if isinstance(effect, decision.Ingest):
            self.observed = observed.Ingested(Hints(has_actionable_content=True))
            if self.chaos and self.choose("knowledge base away", 3):
                self.observed = Trouble("away", operational=True)
        elif isinstance(effect, decision.Launch):
            name = job.name(self.task.metadata.name, self.task.metadata.uid, effect.attempt)
            assert effect.job_name == name
            if self.chaos and self.choose("MongoDB away", 4):
                self.observed = Trouble("away", operational=True)
                return
            if self.chaos and self.choose("the apiserver refuses the Job", 8):
                self.observed = Trouble("wrong", operational=False, field="spec")
                return
            self.memory[effect.attempt] = len(self.task.spec.messages)
            if effect.attempt not in self.jobs:
                assert not [p for p in self.pods.values() if p.live], "two runs at the same time"
                self.created.append(effect.attempt)
                self.read[effect.attempt] = self.memory[effect.attempt]
                self.jobs[effect.attempt] = JobState.ACTIVE
            if self.chaos and self.choose("reply lost", 5):
                self.observed = Trouble("reset", operational=True)
        elif isinstance(effect, decision.Remember):
            if not (self.chaos and self.choose("MongoDB away", 4)):
                self.memory[effect.attempt] = len(self.task.spec.messages)
        elif isinstance(effect, decision.DeleteJob):
            self.jobs.pop(self.task.status.attempt, None)

    def environment(self) -> None:
        for attempt, state in list(self.jobs.items()):
            found = self.pods.get(attempt)
            if state is JobState.ACTIVE and found is None:
                self.pods[attempt] = PodView("p", attempt, live=True, started=True)
            elif state is JobState.ACTIVE and found is not None and found.live and not self.busy():
                self.end(attempt)
        for attempt in [a for a, p in self.pods.items() if a not in self.jobs and p.live]:
            self.pods.pop(attempt)

    def end(self, attempt: int) -> None:
        ways = ["answer", "ask", "kill", "drain", "delete", "hostile"]
        how = self.draw.draw(st.sampled_from(ways)) if self.chaos else "answer"
        if how == "delete" and self.task.status.phase is Phase.ORCHESTRATING:
            # Before that the same attempt is launched again, which is right: it was not seen to run.
            del self.jobs[attempt]
            return
        if how == "hostile":
            text = self.draw.draw(hostile.messages)
            self.pods[attempt] = PodView("p", attempt, live=False, started=True, outcome=views.outcome(text))
            self.jobs[attempt] = self.draw.draw(st.sampled_from([JobState.COMPLETE, JobState.FAILED]))
            return
        if self.choose("it reads its messages again", 2):
            self.read[attempt] = self.memory[attempt]
        read = None if self.chaos and self.choose("it does not say what it has read", 4) else self.read[attempt]
        said = {"answer": ExitReason.ANSWERED, "ask": ExitReason.NEEDS_INPUT, "drain": ExitReason.DRAINED}.get(how)
        self.pods[attempt] = PodView(
            "p",
            attempt,
            live=False,
            started=True,
            exit_code=1,
            outcome=Outcome(said, messages_read=read) if said else None,
        )
        self.jobs[attempt] = JobState.COMPLETE if how in ("answer", "ask") else JobState.FAILED

    def busy(self) -> bool:
        return self.chaos and self.choose("still working", 2)

    def choose(self, _: str, one_in: int) -> bool:
        return self.draw.draw(st.integers(1, one_in)) == 1


@given(tasks(), worlds, moments)
@settings(max_examples=thorough.examples(400), deadline=None)
def test_nothing_is_begun_for_a_task_that_its_namespace_may_not_have(
    current: pendingtask.PendingTask, around: ObservedState, now: datetime
) -> None:
    """Whatever its status says, as anybody may have written it: no reading, no copy, no run but one that is there."""
    around = replace(around, refusal=REFUSED)
    made = batched(current, around, now).decision
    assert not [one for one in made.effects if isinstance(one, decision.Ingest | decision.Copy)]
    assert around.job is not None or not [one for one in made.effects if isinstance(one, decision.Launch)]
    if current.status.phase not in (Phase.DISPATCHED_GPU, Phase.ORCHESTRATING):
        assert made.phase in (None, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU)


@given(st.data())
@settings(max_examples=thorough.examples(100), deadline=None)
def test_any_history_of_crashes_ends_with_the_task_finished_and_no_attempt_created_twice(data: st.DataObject) -> None:
    cluster = Cluster(data, task(Phase.NEW) if data.draw(st.booleans()) else routed(Phase.READY_FOR_GPU))
    for step in range(200):
        cluster.chaos = step < 30
        cluster.step()
        if cluster.task.status.phase in TERMINAL:
            break
        if cluster.task.status.phase is Phase.USER_TASK:
            # It asks, or too many runs were lost: a person says something.
            cluster.say()
    assert cluster.task.status.phase is Phase.COMPLETED
    last = cluster.read[cluster.created[-1]]
    assert last == len(cluster.task.spec.messages), "the run that answered has read them all"
    assert len(cluster.created) == len(set(cluster.created))
    assert cluster.created == sorted(cluster.created)


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
