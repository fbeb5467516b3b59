"""Whatever is stored and whatever the state looks like: a decision is made, it is a permitted one, and a history of
crashes, lost replies, clocks that jump and users who go on talking ends with every task finished, every word read and
no run twice."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.pendingtask import decision, job, observed, phases, views
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, JobView, ObservedState, Outcome, PodView, Trouble
from crds import pendingtask
from crds.exits import ExitReason
from crds.pendingtask import Hints
from crds.phases import HOLDS_SLOT, TERMINAL, Phase
from tests import thorough
from tests.controllers import hostile
from tests.controllers.build import GPU, NOW, apply, routed, task

moments = st.integers(-(10**6), 10**6).map(lambda seconds: NOW + timedelta(seconds=seconds))
texts = moments.map(lambda at: at.isoformat())
hints = st.builds(
    Hints,
    has_actionable_content=st.booleans(),
    is_assigned_to_me=st.booleans(),
    has_future_deadline=st.booleans(),
    suggested_deadline=st.none() | moments,
)
outcomes = st.builds(Outcome, st.sampled_from(ExitReason), st.text(max_size=50))
troubles = st.builds(
    Trouble, st.text(max_size=30), operational=st.booleans(), retry_after=st.none() | st.floats(0, 999)
)
copied = st.builds(observed.CopyMade, moments) | st.just(observed.NoCopy())
tokens = st.builds(observed.TokenNotWritten, troubles)
observations = st.none() | st.builds(observed.Ingested, hints) | troubles | tokens | copied
jobs = st.none() | st.sampled_from(JobState).map(
    lambda state: JobView("j", "u", state, suspended=state is JobState.SUSPENDED)
)
foreign = JobView("j", "u", JobState.SUSPENDED, suspended=True, foreign=True)
pods = st.builds(
    PodView,
    st.just("p"),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
    st.just("Waiting"),
    st.sampled_from(["", "no image"]),
    st.none() | st.integers(0, 255),
    st.just(""),
    st.none() | outcomes,
    given_up_at=st.none() | moments,
)
worlds = st.builds(
    ObservedState,
    qualifying=st.integers(0, 12),
    working=st.booleans(),
    observed=observations,
    job=jobs | st.just(foreign),
    pods=st.lists(pods, max_size=3).map(tuple),
    recorded=st.none() | outcomes,
    slots=st.sampled_from([GPU, observed.Slots(), observed.Slots(total=3)]),
    user_active=st.booleans(),
    last_user=st.none() | moments,
    dispatch_open=st.booleans(),
    claimant=st.none()
    | st.builds(observed.Claimant, st.sampled_from(["u", "v"]), st.integers(1, 2), st.just("n/user")),
    backend_gone_in=st.none() | st.sampled_from([0.0, 5.0]),
    in_doubt_since=st.none() | moments,
)
entries = st.lists(
    st.sampled_from([{"id": one, "text": "t"} for one in "abc"]), max_size=3, unique_by=lambda entry: entry["id"]
)


@st.composite
def tasks(draw: st.DrawFn) -> pendingtask.PendingTask:
    """Also what no operator of ours would have written: the API lets people edit."""
    phase = draw(st.sampled_from(Phase))
    spec: dict[str, Any] = {
        "type": draw(st.sampled_from(pendingtask.Type)).value,
        "mode": draw(st.sampled_from(pendingtask.Mode)).value,
        "suspend": draw(st.booleans()),
        "messages": draw(entries),
        "answers": draw(entries),
    }
    plan = draw(st.none() | texts.map(lambda at: {"at": at}) | st.sampled_from([{"cron": "*/7 * * * *"}, {}]))
    if plan is not None:
        spec["schedule"] = plan
    if draw(st.booleans()):
        spec["approval"] = {"verdict": draw(st.sampled_from(pendingtask.Verdict)).value}
    status: dict[str, Any] = {
        "attempt": draw(st.integers(0, 4)),
        "messagesSeen": draw(st.integers(0, 3)),
        "answersSeen": draw(st.integers(0, 3)),
        "phaseTimes": draw(st.dictionaries(st.just(phase.value), texts)),
    }
    if phase not in (Phase.NEW, Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING) and (
        phase is not Phase.SCHEDULED or draw(st.booleans())
    ):
        status["route"] = {"decision": "Execute"}
    if draw(st.booleans()):
        status["dispatch"] = {"jobName": "j", "backend": "gpu-0"}
    if draw(st.booleans()):
        status["retry"] = {"count": draw(st.integers(0, 9)), "nextAt": draw(texts), "reason": "WorkerLost: x"}
    if draw(st.booleans()):
        status["preemption"] = {"by": "u", "run": draw(st.integers(1, 2)), "at": draw(texts)}
    if draw(st.booleans()):
        status["scheduledFor"] = draw(texts)
    if draw(st.booleans()):
        status["userTask"] = {"kind": draw(st.sampled_from(pendingtask.UserTaskKind)).value, "questions": draw(entries)}
    leaving = {"deletionTimestamp": draw(texts)} if draw(st.integers(0, 9)) == 0 else {}
    return task(phase, spec=spec, status=status, **leaving)


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
            if effect.attempt not in self.jobs:
                assert not [p for p in self.pods.values() if p.live], "two runs at the same time"
                self.created.append(effect.attempt)
                self.read[effect.attempt] = self.task.status.messages_seen
                self.jobs[effect.attempt] = JobState.ACTIVE
            if self.chaos and self.choose("reply lost", 5):
                self.observed = Trouble("reset", operational=True)
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
            # Before that the same attempt is launched again, which is right: nobody has seen it run.
            del self.jobs[attempt]
            return
        if how == "hostile":
            text = self.draw.draw(hostile.messages)
            self.pods[attempt] = PodView("p", attempt, live=False, started=True, outcome=views.outcome(text))
            self.jobs[attempt] = self.draw.draw(st.sampled_from([JobState.COMPLETE, JobState.FAILED]))
            return
        said = {"answer": ExitReason.ANSWERED, "ask": ExitReason.NEEDS_INPUT, "drain": ExitReason.DRAINED}.get(how)
        self.pods[attempt] = PodView(
            "p", attempt, live=False, started=True, exit_code=1, outcome=Outcome(said) if said else None
        )
        self.jobs[attempt] = JobState.COMPLETE if how in ("answer", "ask") else JobState.FAILED

    def busy(self) -> bool:
        return self.chaos and self.choose("still working", 2)

    def choose(self, _: str, one_in: int) -> bool:
        return self.draw.draw(st.integers(1, one_in)) == 1


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
