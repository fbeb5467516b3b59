"""Why a task waits, what comes before it, and how much of that another namespace sees."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.api.queue_api import MESSAGES, Queue, Reason
from controllers import queue_http
from controllers.pendingtask.decide import decide
from controllers.pendingtask.decision import View, WaitFor
from controllers.pendingtask.observed import ObservedState, Slots
from controllers.pendingtask.policy import ready_for_gpu
from controllers.pendingtask.slots import wait_conditions, wait_reasons
from crds.phases import Phase
from tests.controllers import build
from tests.controllers.build import present
from tests.controllers.test_slot_scheduler import USER, Desk, desk

__all__ = ["desk"]

SINCE = {"phaseTimes": {"ReadyForGpu": "2027-03-01T11:50:00Z", "ReadyForQualification": "2027-03-01T11:50:00Z"}}


def why(desk: Desk, uid: str) -> wait_reasons.Wait:
    return present(wait_reasons.survey(desk.scheduler.observed()).why(uid))


def shown(desk: Desk, namespace: str = "default", client: str = "", limit: int = 500) -> Queue:
    asked = queue_http.Asked(namespace, client, limit)
    return queue_http.document(queue_http.surveyed(desk.scheduler.observed()), asked, breaker="Closed", leading=True)


@pytest.fixture
def slow() -> Slow:
    return Slow()


def test_each_reason(desk: Desk) -> None:
    desk.run("one")
    desk.have("x", Phase.READY_FOR_GPU, **SINCE)
    assert why(desk, "x") == wait_reasons.Wait(Reason.TURN, datetime(2027, 3, 1, 11, 50, tzinfo=UTC), 0)
    desk.run("two")
    assert why(desk, "x").reason is Reason.NO_FREE_SLOT
    desk.have("two", Phase.ORCHESTRATING, USER, dispatch={"jobName": "two", "backend": "gpu-0"})
    assert why(desk, "x").reason is Reason.USERS_ACTIVE
    for _ in range(5):
        desk.scheduler.breaker.failed(desk.now.timestamp(), "See the quota.")
    assert (why(desk, "x").reason, why(desk, "x").place) == (Reason.CIRCUIT_OPEN, 0), "it keeps its place"
    assert why(desk, "x").message.endswith(" See the quota.")
    desk.offer = 0
    assert why(desk, "x").reason is Reason.NO_GPU_BACKEND
    held = {
        "type": "Dispatched",
        "status": "False",
        "reason": "JobSuspended",
        "lastTransitionTime": "2027-03-01T11:00:00Z",
    }
    for spec, status, reason in (
        ({"suspend": True}, {}, Reason.SUSPENDED),
        ({}, {"retry": {"count": 1, "nextAt": "2027-03-01T12:05:00Z"}}, Reason.POSTPONED),
        ({}, {"conditions": [held]}, Reason.JOB_SUSPENDED),
    ):
        desk.have("x", Phase.READY_FOR_GPU, spec, **status)
        assert (why(desk, "x").reason, why(desk, "x").place) == (reason, None)
    desk.have("x", Phase.ORCHESTRATING)
    assert wait_reasons.survey(desk.scheduler.observed()).why("x") is None


def test_at_the_qualifier_places_are_what_is_lacking(desk: Desk) -> None:
    for number in range(2):
        desk.have(f"q{number}", Phase.QUALIFYING)
    for number in range(2):
        desk.have(f"n{number}", Phase.READY_FOR_QUALIFICATION)
    assert [why(desk, f"n{number}").reason for number in range(2)] == [Reason.TURN, Reason.QUALIFIER_BUSY]
    assert why(desk, "n1").place == 1


def test_with_two_gpus_background_waits_for_users_only_where_no_other_slot_is_free() -> None:
    desk = Desk({"gpu-0": 2, "gpu-1": 1})
    desk.run("user", USER)
    for number in range(2):
        desk.have(f"x{number}", Phase.READY_FOR_GPU)
    assert [why(desk, f"x{number}").reason for number in range(2)] == [Reason.TURN, Reason.NO_FREE_SLOT]
    desk.have("run", Phase.ORCHESTRATING, dispatch={"jobName": "run", "backend": "gpu-1"})
    assert why(desk, "x0").reason is Reason.USERS_ACTIVE, "the free slot is on the user's GPU"


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from([None, 1]), st.booleans()), max_size=12))
def test_places_are_the_order_in_which_they_are_called(some: list[tuple[str, int | None, bool]]) -> None:
    desk = Desk()
    desk.offer = 0
    for number, (client, position, user) in enumerate(some):
        spec: dict[str, Any] = {"clientId": client, **({"queuePosition": position} if position else {})}
        desk.wait(f"t{number:02}", WaitFor.GPU, **spec, mode="Foreground" if user else "Background")
    survey = wait_reasons.survey(desk.scheduler.observed())
    desk.offer = 1
    order: list[str] = []
    for uid in survey:
        assert survey.places[uid] == len(order)
        order.append(uid)
    users = sum(user for *_, user in some)
    assert desk.scheduler.users_in_turn() == order[:users]
    desk.offer = len(some) or 1
    for uid in order[:users]:
        desk.scheduler.leave(uid)
        desk.tasks.forget(uid, 99)
    desk.now += timedelta(seconds=31)
    assert desk.admitted() == order[users:]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Foreground", "Background"]),
            st.sampled_from(["gpu", "read"]),
            st.sampled_from(["", "held", "later"]),
        ),
        max_size=12,
    ),
    st.integers(0, 3),
)
def test_the_metric_counts_what_the_survey_says(some: list[tuple[str, str, str]], offer: int) -> None:
    desk = Desk(idle=timedelta(0))
    desk.offer = offer
    for number, (mode, where, state) in enumerate(some):
        phase = Phase.READY_FOR_GPU if where == "gpu" else Phase.READY_FOR_QUALIFICATION
        retry = {"retry": {"count": 1, "nextAt": "2027-03-01T12:05:00Z"}} if state == "later" else {}
        desk.have(f"t{number:02}", phase, {"mode": mode, "suspend": state == "held"}, **retry)
    found = desk.scheduler.observed()
    survey, told = wait_reasons.survey(found), wait_reasons.counts(found)
    for lane in (0, 1):
        for reason in Reason:
            wanted = [
                uid for uid, one in found.entries.items() if one.order.lane == lane and why(desk, uid).reason is reason
            ]
            assert told[lane, reason] == len(wanted), (lane, reason)
    assert told.total() == len(list(survey)) == len(some)


def test_another_namespace_sees_a_number_and_nothing_else(desk: Desk) -> None:
    for number in range(7):
        desk.have(f"secret-{number}", Phase.READY_FOR_GPU, USER)
    for number in range(7):
        desk.version += 1
        there = build.task(
            Phase.READY_FOR_GPU,
            uid=f"mine-{number}",
            name=f"mine-{number}",
            namespace="team",
            resourceVersion=str(desk.version),
            spec={"clientId": "acme" if number < 6 else "other"},
        )
        desk.tasks.observe(there.wire())
    seen = shown(desk, "team")
    assert "secret" not in seen.model_dump_json()
    assert (seen.foreground.pending, seen.background.pending, seen.more) == (0, 7, 0)
    last = {one.name: one for one in seen.items}["mine-5"]
    assert (last.position, last.before) == (14, 13)
    assert last.before_own == tuple(f"mine-{number}" for number in range(5)), "of the same client, five at the most"
    other = {one.name: one for one in seen.items}["mine-6"]
    assert (other.before, other.before_own) == (8, ()), "clients take turns; of another client no names"
    assert [one.name for one in shown(desk, "team", client="other").items] == ["mine-6"]
    few = shown(desk, "team", limit=2)
    assert (len(few.items), few.more) == (2, 5)


def test_the_oldest_that_waits_is_not_one_that_its_user_holds(desk: Desk) -> None:
    desk.have("held", Phase.READY_FOR_GPU, {"suspend": True}, **SINCE)
    desk.have("x", Phase.READY_FOR_GPU, phaseTimes={"ReadyForGpu": "2027-03-01T11:55:00Z"})
    seen = shown(desk)
    assert seen.background.oldest == datetime(2027, 3, 1, 11, 55, tzinfo=UTC)
    assert [(one.name, one.position) for one in seen.items] == [("x", 1), ("held", None)]


# -- the condition -----------------------------------------------------------------------------------------------------


class Slow:
    """Notes over a desk."""

    def __init__(self) -> None:
        self.desk, self.looked, self.busy = Desk(), list[str](), False
        self.notes = wait_conditions.WaitConditions(
            self.desk.tasks,
            self.desk.scheduler,
            enqueue=self.looked.append,
            busy=lambda: self.busy,
            lasting=60.0,
            wall=lambda: self.desk.now,
            monotonic=lambda: self.desk.now.timestamp(),
        )

    def after(self, seconds: float) -> list[str]:
        self.desk.now += timedelta(seconds=seconds)
        self.looked.clear()
        self.notes.check()
        return sorted(self.looked)


def test_what_lasts_is_written_into_tasks_that_do_not_say_it(slow: Slow) -> None:
    desk = slow.desk
    desk.run("one")
    desk.run("two")
    desk.have("silent", Phase.READY_FOR_GPU, **SINCE)
    for uid, reason in (("says", "NoFreeSlot"), ("old", "UsersActive"), ("preempted", "Preempted")):
        desk.have(uid, Phase.READY_FOR_GPU, **SINCE, conditions=[build.condition("Dispatched", "False", reason)])
    desk.have("held", Phase.READY_FOR_GPU, {"suspend": True}, **SINCE)
    desk.have("user", Phase.READY_FOR_GPU, {**USER, "suspend": True}, **SINCE)
    desk.have("young", Phase.READY_FOR_GPU, phaseTimes={"ReadyForGpu": "2027-03-01T12:00:30Z"})
    assert slow.after(0) == []
    assert slow.after(59) == []
    slow.busy = True
    assert slow.after(1) == []
    slow.busy = False
    assert slow.after(0) == ["old", "silent"]
    assert desk.scheduler.reasons_to_write == dict.fromkeys(("silent", "old"), Reason.NO_FREE_SLOT)
    desk.scheduler.leave("old")
    assert "old" not in desk.scheduler.reasons_to_write, "once"
    assert slow.after(30) == ["old", "silent", "young"]


def test_what_comes_and_goes_is_never_written(slow: Slow) -> None:
    desk = slow.desk
    desk.run("one")
    desk.run("two")
    desk.have("x", Phase.READY_FOR_GPU, **SINCE)
    for number in range(6):
        desk.have("user", Phase.ORCHESTRATING if number % 2 else Phase.USER_TASK, USER)
        assert slow.after(50) == []


def test_a_few_at_a_time_the_oldest_first(slow: Slow) -> None:
    slow.desk.run("one")
    slow.desk.run("two")
    for number in range(60):
        at = f"2027-03-01T11:{number:02}:00Z"
        slow.desk.have(f"t{number:02}", Phase.READY_FOR_GPU, phaseTimes={"ReadyForGpu": at})
    slow.after(0)
    assert slow.after(61) == [f"t{number:02}" for number in range(wait_conditions.AT_ONCE)]


@pytest.mark.parametrize(
    ("around", "reason"),
    [
        (ObservedState(slots=Slots(2, ())), Reason.NO_FREE_SLOT),
        (ObservedState(slots=build.GPU, user_active=True), Reason.USERS_ACTIVE),
        (ObservedState(slots=build.GPU, dispatch_open=False), Reason.CIRCUIT_OPEN),
    ],
)
def test_the_condition_has_the_reason_without_an_event(around: ObservedState, reason: Reason) -> None:

    task = build.routed(Phase.READY_FOR_GPU)
    assert decide(task, around, build.NOW).status_patch == {}
    made = decide(task, dataclasses.replace(around, waits=reason), build.NOW)
    assert (made.wait_for, made.note, made.requeue_after) == (WaitFor.GPU, None, None)
    said = build.after(task, made).conditions[0]
    assert (said.type, said.status.value, said.reason, said.message) == (
        "Dispatched",
        "False",
        reason,
        MESSAGES[reason],
    )
    again = build.apply(task, made.status_patch)
    assert decide(again, dataclasses.replace(around, waits=reason), build.NOW).status_patch == {}
    assert ready_for_gpu.idle(View(task, ObservedState(slots=build.GPU), build.NOW)) is None
