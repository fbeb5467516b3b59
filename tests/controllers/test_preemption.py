"""Who gives a slot to whom: the plan, and what a run does about it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.pendingtask import decision, observed
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, ObservedState, Outcome
from controllers.pendingtask.slots import bookings
from controllers.pendingtask.slots.bookings import Claim, Run, UserWaiter
from crds import pendingtask
from crds.exit_reasons import ExitReason
from crds.order import Order
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, UID, apply, changed, condition, decided, job, pod, present, routed

USER = observed.Claimant("user-uid", 1, "default/user")


def waiter(uid: str, run: int = 1) -> UserWaiter:
    return UserWaiter(uid, Order(0, 99, 1, ord(uid[0]), uid), run, 0.0)


def run(uid: str, *, position: int = 99, started: int = 0, times: int = 0, by: str = "", lane: int = 1) -> Run:
    claim = Claim(by, 1) if by else None
    return Run(uid, Order(lane, position, 1, 0, uid), "gpu-0", started, times, claim)


def plan(waiting: str, runs: list[Run], free: int = 0, reserved: Collection[str] = (), most: int = 3) -> bookings.Plan:
    """`waiting`: one letter for each user's task."""
    known = {uid: waiter(uid) for uid in "abcdef"}
    there = {*waiting, *reserved}
    return bookings.plan(
        [known[uid] for uid in waiting],
        reserved,
        free,
        runs,
        lambda claim: known[claim.by] if claim.by in there else None,
        lambda one: one.preemptions < most,
    )


def claims(made: bookings.Plan) -> dict[str, str]:
    return {uid: owner.uid for uid, owner in made.claims.items()}


def test_the_last_in_the_queues_order_gives_its_slot_up_and_of_those_the_youngest() -> None:
    runs = [run("first", position=1, started=9), run("old", started=1), run("young", started=5)]
    assert claims(plan("a", runs)) == {"young": "a"}
    assert claims(plan("ab", runs)) == {"young": "a", "old": "b"}
    assert claims(plan("abcd", runs)) == {"young": "a", "old": "b", "first": "c"}


def test_no_run_is_disturbed_while_a_slot_is_free() -> None:
    made = plan("ab", [run("x"), run("y")], free=1)
    assert made.go == ("a",)
    assert len(made.claims) == 1


def test_users_and_the_immune_are_left_alone() -> None:
    assert claims(plan("a", [run("user", lane=0), run("often", times=3)])) == {}


def test_one_run_for_each_who_waits_and_never_more() -> None:
    runs = [run("x", by="a"), run("y"), run("z")]
    assert claims(plan("a", runs)) == {"x": "a"}
    assert claims(plan("ab", runs)) in ({"x": "a", "y": "b"}, {"x": "a", "z": "b"})


def test_a_claim_whose_owner_is_served_passes_on_before_another_run_is_disturbed() -> None:
    runs = [run("x", by="a"), run("y")]
    assert claims(plan("ab", runs, free=1)) == {"x": "b"}


def test_an_unused_claim_lapses() -> None:
    assert claims(plan("a", [run("x", by="a")], free=1)) == {}


def test_a_kept_slot_goes_to_its_owner_and_to_no_other_before() -> None:
    made = plan("ab", [run("x")], free=1, reserved={"b"})
    assert made.go == ("b",)
    assert claims(made) == {"x": "a"}
    looking = plan("a", [run("x")], free=1, reserved={"b"})
    assert looking.go == (), "its owner is being looked at"
    assert plan("b", [run("x")], free=1, reserved={"a", "b"}).go == (), "the other owner is, and there is one slot"
    assert plan("ab", [run("x")], free=1, reserved={"a", "b"}).go == ("a",)


def test_who_has_a_kept_slot_asks_for_no_other_also_while_being_looked_at() -> None:
    assert claims(plan("", [run("x", by="a")], free=1, reserved={"a"})) == {}
    assert claims(plan("b", [run("x", by="a")], free=1, reserved={"a"})) == {"x": "b"}


letters = st.text("abcdef", max_size=6).map(lambda text: "".join(sorted(set(text))))
runs_drawn = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 5), st.integers(0, 4), st.sampled_from(["", *"abcdef"]), st.booleans()),
    max_size=6,
).map(
    lambda drawn: [
        run(f"r{number}", position=position, started=started, times=times, by=by, lane=int(background))
        for number, (position, started, times, by, background) in enumerate(drawn)
    ]
)


@given(letters, runs_drawn, st.integers(-2, 5), st.sets(st.sampled_from("abcdef"), max_size=3))
def test_every_plan_is_fair(waiting: str, runs: list[Run], free: int, reserved: set[str]) -> None:
    made = plan(waiting, runs, free, reserved)
    owners = list(claims(made).values())
    known = {one.uid: one for one in runs}
    assert len(made.go) <= max(0, free)
    assert len(owners) == len(set(owners)), "one run each"
    assert not set(made.go) & set(owners), "who has a slot takes none from anybody"
    for uid in made.claims:
        assert known[uid].background
        assert known[uid].claim is not None or known[uid].preemptions < 3
    strangers = [uid for uid in made.go if uid not in reserved]
    assert len(strangers) <= max(0, free - len(reserved)), "reserved slots are reserved"
    # No second run is disturbed while the first, which was asked to stop, has not stopped.
    anew = [uid for uid in made.claims if known[uid].claim is None]
    idle = [one.uid for one in runs if one.claim is not None and one.background and one.uid not in made.claims]
    assert not (anew and idle)


# -- what a run does about it ------------------------------------------------------------------------------------------


def after(current: pendingtask.PendingTask, made: decision.Decision) -> pendingtask.PendingTask:
    return apply(current, made.status_patch)


def claimed(phase: Phase = Phase.ORCHESTRATING, **status: Any) -> pendingtask.PendingTask:
    claim = {"by": "user-uid", "name": "default/user", "run": 1, "at": "2027-03-01T11:59:30Z"}
    return routed(phase, **{"preemption": claim, "preemptions": 1, **status})


RUNNING = ObservedState(job=job(), pods=(pod(),), claimant=USER)


@pytest.mark.parametrize("phase", [Phase.DISPATCHED_GPU, Phase.ORCHESTRATING])
def test_the_intent_comes_first_then_the_job_is_suspended(phase: Phase) -> None:
    current = routed(phase)
    around = RUNNING if phase is Phase.ORCHESTRATING else ObservedState(job=job(), claimant=USER)
    made = decide(current, around, NOW)
    assert made.effects == ()
    assert present(made.note).reason == "Preempted"
    current = after(current, made)
    assert (present(current.status.preemption).by, present(current.status.preemption).run) == ("user-uid", 1)
    assert current.status.preemptions == 1
    assert decide(current, around, NOW).effects == (decision.SuspendJob("mail-1-0f9a1c2e-1"),)


def test_the_slot_is_given_up_when_the_pods_are_gone_and_the_same_attempt_resumes() -> None:
    current, suspended = claimed(), job(JobState.SUSPENDED)
    assert decide(current, ObservedState(job=suspended, pods=(pod(),), claimant=USER), NOW).requeue_after == 5
    made = decide(current, ObservedState(job=suspended, claimant=USER), NOW)
    current = after(current, made)
    assert current.status.phase is Phase.READY_FOR_GPU
    assert current.status.dispatch is not None
    assert current.status.retry is None
    assert {c.type: c.reason for c in current.status.conditions} == {"Dispatched": "Preempted"}
    assert current.status.preemption is not None, "it says for whom the slot is reserved"
    made = decide(current, ObservedState(slots=GPU), NOW)
    assert made.effects == (decision.Launch(1, "mail-1-0f9a1c2e-1"),)
    current = after(current, made)
    assert (current.status.attempt, current.status.preemption, current.status.preemptions) == (1, None, 1)


def test_a_run_without_a_job_yet_gives_its_slot_up_at_once() -> None:
    assert decide(claimed(Phase.DISPATCHED_GPU), ObservedState(claimant=USER), NOW).phase is Phase.READY_FOR_GPU


def test_a_claim_that_is_withdrawn_lets_the_run_go_on() -> None:
    current = claimed()
    made = decide(current, ObservedState(job=job(JobState.SUSPENDED), pods=(pod(),)), NOW)
    assert made.effects == ()
    assert present(made.note).reason == "PreemptionWithdrawn"
    current = after(current, made)
    assert current.status.preemption is None
    suspended = ObservedState(job=job(JobState.SUSPENDED), pods=(pod(),))
    assert decide(current, suspended, NOW).effects == (decision.ResumeJob("mail-1-0f9a1c2e-1"),)


def test_a_claim_that_passes_on_counts_once_and_tells_once() -> None:
    made = decide(
        claimed(), ObservedState(job=job(), pods=(pod(),), claimant=observed.Claimant("other", 2, "default/o")), NOW
    )
    current = after(claimed(), made)
    assert (present(current.status.preemption).by, current.status.preemptions, made.note) == ("other", 1, None)


@pytest.mark.parametrize(
    ("reason", "phase"),
    [
        (ExitReason.ANSWERED, Phase.COMPLETED),
        (ExitReason.NEEDS_INPUT, Phase.USER_TASK),
        (ExitReason.ERROR, Phase.USER_TASK),
    ],
)
def test_a_run_that_ends_by_itself_while_it_is_claimed_has_ended(reason: ExitReason, phase: Phase) -> None:
    over = pod(live=False, exit_code=0, outcome=Outcome(reason, "done"))
    current = claimed(conditions=[condition("Preempted", "True", "R")])
    status = decided(current, ObservedState(job=job(JobState.COMPLETE), pods=(over,), claimant=USER)).status
    assert (status.phase, status.preemption) == (phase, None)
    assert {c.type: c.status.value for c in status.conditions}["Preempted"] == "False"


@pytest.mark.parametrize("ended", [{"exit_code": 42, "outcome": Outcome(ExitReason.DRAINED)}, {"exit_code": 137}])
def test_a_run_whose_job_failed_while_it_stopped_is_not_at_fault(ended: dict[str, Any]) -> None:
    around = ObservedState(job=job(JobState.FAILED), pods=(pod(live=False, **ended),), claimant=USER)
    status = decided(claimed(), around).status
    assert (status.phase, status.dispatch) == (Phase.READY_FOR_GPU, None), "a Job that failed cannot go on"
    assert status.preemption is not None, "the slot is reserved all the same"
    assert present(status.retry).count == 0


def test_a_user_may_hold_a_run_that_is_claimed_as_well() -> None:
    held = changed(claimed(), spec={"suspend": True})
    assert decide(held, ObservedState(job=job(JobState.SUSPENDED), claimant=USER), NOW).phase is Phase.READY_FOR_GPU
    freed = changed(held, status={"preemption": None})
    assert decide(freed, ObservedState(job=job(JobState.SUSPENDED)), NOW).phase is Phase.READY_FOR_GPU


# -- runs that cannot go on where they are -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["Background", "Foreground"])
@pytest.mark.parametrize("phase", [Phase.DISPATCHED_GPU, Phase.ORCHESTRATING])
def test_a_node_that_does_not_answer_is_given_up_once_its_pod_should_be_gone(phase: Phase, mode: str) -> None:
    current = routed(phase, spec={"mode": mode})
    stuck = pod(started=phase is Phase.ORCHESTRATING, given_up_at=NOW + timedelta(seconds=20))
    assert decide(current, ObservedState(job=job(), pods=(stuck,)), NOW).requeue_after == 20
    lost = ObservedState(job=job(), pods=(stuck,))
    made = decide(current, lost, NOW + timedelta(seconds=20))
    assert made.effects == (decision.DeleteJob("mail-1-0f9a1c2e-1"),)
    assert after(current, made).status.conditions[0].reason == "NodeLost"


def test_after_that_the_next_attempt_is_counted_once() -> None:
    stuck = pod(given_up_at=NOW)
    status = decided(routed(Phase.ORCHESTRATING), ObservedState(pods=(stuck,))).status
    assert (status.phase, status.attempt, status.next_attempt) == (Phase.READY_FOR_GPU, 1, 2)
    waiting = routed(Phase.READY_FOR_GPU, attempt=1)
    assert decide(waiting, ObservedState(slots=GPU, pods=(stuck,)), NOW).phase is Phase.DISPATCHED_GPU


def test_a_run_whose_backend_is_gone_stops_and_starts_over_elsewhere() -> None:
    current = routed(Phase.ORCHESTRATING)
    made = decide(current, ObservedState(job=job(), pods=(pod(),), backend_gone_in=0), NOW)
    assert made.effects == (decision.DeleteJob("mail-1-0f9a1c2e-1"),)
    current = after(current, made)
    assert current.status.conditions[0].reason == "BackendGone"
    deleting = ObservedState(job=job(JobState.DELETING), pods=(pod(),), backend_gone_in=0)
    assert decide(current, deleting, NOW).requeue_after == 5
    assert decide(current, ObservedState(pods=(pod(),), backend_gone_in=0), NOW).requeue_after == 5
    status = decided(current, ObservedState(backend_gone_in=0)).status
    assert (status.phase, status.next_attempt) == (Phase.READY_FOR_GPU, 2)
    assert present(status.retry).count == 0, "it was not the run's fault"


def test_a_dispatch_whose_backend_is_gone_is_booked_anew() -> None:
    status = decided(routed(Phase.DISPATCHED_GPU), ObservedState(backend_gone_in=0)).status
    assert (status.phase, status.dispatch, status.next_attempt) == (Phase.READY_FOR_GPU, None, 2)


@pytest.mark.parametrize("phase", [Phase.DISPATCHED_GPU, Phase.ORCHESTRATING])
def test_a_task_that_is_being_deleted_ends_its_run(phase: Phase) -> None:
    current = routed(phase)
    leaving = changed(current, metadata={"deletion_timestamp": NOW, "uid": UID})
    assert decide(leaving, ObservedState(job=job()), NOW) == decision.Decision(
        effects=(decision.DeleteJob("mail-1-0f9a1c2e-1"),)
    )
    assert decide(leaving, ObservedState(), NOW) == decision.Decision()
