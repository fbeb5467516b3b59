"""The index of tasks and the rooms they wait in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controllers.gpubackend import slots
from controllers.pendingtask import activity, index, order, rooms, world
from controllers.pendingtask.decision import Room
from crds.phases import Phase
from tests.controllers import build

CREATED = {"creationTimestamp": "2027-03-01T12:00:00Z"}


class Desk:
    """Rooms with two GPU slots, three places at the qualifier, and clocks in hand."""

    def __init__(self) -> None:
        self.now, self.offer = build.NOW, 2
        self.tasks, self.workloads = index.Tasks(lambda: self.now), index.Workloads()
        self.users = activity.Users(
            None,
            needed=lambda: False,
            changed=lambda: None,
            heard=lambda _: None,
            wall=lambda: self.now,
            monotonic=lambda: self.now.timestamp(),
        )
        self.rooms = rooms.Rooms(
            self.tasks,
            world.Limits(qualifying_at_once=3),
            lambda: [slots.Offer("gpu-0", self.offer)],
            workloads=self.workloads,
            users=self.users,
            wall=lambda: self.now,
            monotonic=lambda: self.now.timestamp(),
        )
        self.version = 1

    def have(self, uid: str, phase: Phase, spec: dict[str, Any] | None = None, **status: Any) -> order.Order:
        self.version += 1
        known = build.task(phase, spec=spec, status=status, uid=uid, name=uid, resourceVersion=str(self.version))
        assert self.tasks.observe(known.wire())
        return order.of(known)

    def wait(self, uid: str, room: Room, phase: Phase = Phase.READY_FOR_GPU, **spec: Any) -> None:
        self.rooms.enter(uid, room, self.have(uid, phase, spec))

    def called(self) -> list[str]:
        return [one.uid for one in self.rooms.call()[0]]

    def run(self, uid: str, spec: dict[str, Any] | None = None, **status: Any) -> None:
        self.have(uid, Phase.ORCHESTRATING, spec, **{"dispatch": {"jobName": uid, "backend": "gpu-0"}, **status})

    def claims(self) -> dict[str, str]:
        """Who is to get whose slot."""
        found = {uid: self.rooms.claimant(uid) for uid in self.tasks.bookings.runs}
        return {uid: one.uid for uid, one in found.items() if one is not None}


USER = {"mode": "Foreground"}


def claim(uid: str) -> dict[str, Any]:
    """On that task's first run."""
    return {"by": uid, "name": f"default/{uid}", "run": 1, "at": "2027-03-01T12:00:00Z"}


def test_slots_are_what_is_offered_minus_what_is_booked() -> None:
    offers = [slots.Offer("a", 2), slots.Offer("b", 3), slots.Offer("off", 0)]
    assert slots.count(offers, {}).free == (("b", 3), ("a", 2))
    assert slots.count(offers, {"b": 2, "a": 1}).free == (("a", 1), ("b", 1))
    assert slots.count(offers, {"a": 2, "b": 3}) == world.Slots(total=5, free=())
    assert slots.count(offers, {"gone": 5}) == world.Slots(total=5, free=())
    assert slots.count([], {"a": 1}) == world.Slots()


def test_those_who_wait_for_a_slot_are_called_in_order_and_no_more_than_fit() -> None:
    desk = Desk()
    for uid, position in (("c", None), ("b", 2), ("a", 1)):
        desk.rooms.enter(
            uid, Room.GPU, desk.have(uid, Phase.READY_FOR_GPU, {"queuePosition": position} if position else {})
        )
    assert desk.called() == ["a", "b"]
    assert desk.rooms.waiting(Room.GPU) == 1


def test_a_booked_slot_is_not_offered_again_even_before_it_is_persisted() -> None:
    desk = Desk()
    desk.have("run", Phase.ORCHESTRATING, dispatch={"backend": "gpu-0"})
    desk.rooms.claim("claim", Room.GPU)
    desk.wait("x", Room.GPU)
    assert desk.called() == []
    assert desk.rooms.slots("claim").free == (("gpu-0", 1),), "one's own claim does not count against one"
    desk.rooms.settle("claim")
    assert desk.called() == ["x"]


def test_a_claim_that_is_persisted_counts_once_also_before_it_is_settled() -> None:
    """Its answer was lost: the watch tells of it while the look that made it has not ended."""
    desk = Desk()
    desk.rooms.claim("run", Room.GPU, "gpu-0")
    desk.run("run")
    assert desk.rooms.slots("x").free == (("gpu-0", 1),)


def test_a_user_who_waits_holds_background_back_and_thirty_seconds_after() -> None:
    desk = Desk()
    desk.wait("x", Room.GPU)
    desk.have("user", Phase.ORCHESTRATING, spec={"mode": "Foreground"})
    assert desk.rooms.call() == ([], None)
    desk.have("user", Phase.COMPLETED, spec={"mode": "Foreground"})
    assert desk.rooms.call() == ([], 30.0)
    desk.now += timedelta(seconds=30)
    assert desk.called() == ["x"]


def test_a_clock_that_was_set_back_holds_nobody_up() -> None:
    desk = Desk()
    desk.have("user", Phase.ORCHESTRATING, spec={"mode": "Foreground"})
    desk.have("user", Phase.COMPLETED, spec={"mode": "Foreground"})
    desk.now -= timedelta(hours=1)
    desk.wait("x", Room.GPU)
    assert desk.called() == ["x"]
    given = {"phaseTimes": {"ReadyForGpu": "2027-03-01T12:00:00Z"}, "preemption": claim("user")}
    desk.have("low", Phase.READY_FOR_GPU, **given)
    desk.have("user", Phase.READY_FOR_GPU, USER)
    desk.run("one", USER)
    assert len(desk.rooms.slots("x").free) == 1, "nothing is kept for an hour"


def test_a_foreground_task_that_is_postponed_or_asks_does_not_hold_background_back() -> None:
    desk = Desk()
    user = {"mode": "Foreground"}
    desk.have("asks", Phase.USER_TASK, spec=user)
    desk.have("later", Phase.READY_FOR_QUALIFICATION, spec=user, retry={"count": 1, "nextAt": "2027-03-01T13:00:00Z"})
    desk.have("held", Phase.READY_FOR_GPU, spec={**user, "suspend": True})
    assert not desk.tasks.user_active


def test_the_breaker_holds_everybody_and_then_lets_one_try() -> None:
    desk = Desk()
    desk.wait("x", Room.GPU)
    desk.wait("y", Room.GPU)
    desk.wait("user", Room.GPU, mode="Foreground")
    for _ in range(5):
        desk.rooms.breaker.failed(desk.now.timestamp())
    assert desk.rooms.call() == ([], 30.0)
    desk.now += timedelta(seconds=30)
    assert desk.called() == ["user"]


def test_users_tasks_without_a_slot_are_called_only_when_there_is_one() -> None:
    desk = Desk()
    desk.run("one", USER)
    desk.run("two", USER)
    desk.wait("user", Room.GPU, mode="Foreground")
    assert desk.called() == []
    desk.have("two", Phase.COMPLETED, USER)
    assert desk.called() == ["user"]
    assert desk.called() == [], "it is being looked at"
    assert desk.rooms.slots("user").free == (("gpu-0", 1),)


def test_without_any_gpu_users_tasks_are_called_and_nobody_is_disturbed() -> None:
    desk = Desk()
    desk.run("low")
    desk.wait("user", Room.GPU, mode="Foreground")
    desk.offer = 0
    assert desk.called() == ["user"]
    assert desk.claims() == {}


def test_one_who_is_called_keeps_the_others_from_its_slot_until_it_has_decided() -> None:
    desk = Desk()
    desk.run("one")
    desk.wait("first", Room.GPU, mode="Foreground")
    assert desk.called() == ["first"]
    desk.have("second", Phase.READY_FOR_GPU, USER)
    assert desk.rooms.slots("second").free == ()
    desk.rooms.leave("first")
    assert desk.rooms.slots("second").free == (("gpu-0", 1),)


def test_a_run_is_looked_at_when_its_slot_is_claimed_and_again_when_it_is_not_any_more() -> None:
    desk = Desk()
    desk.offer = 1
    desk.run("low")
    desk.wait("user", Room.GPU, mode="Foreground")
    assert desk.called() == ["low"]
    assert desk.claims() == {"low": "user"}
    desk.now += timedelta(seconds=1)
    assert desk.rooms.waited("low") == 1.0
    desk.run("low", preemption=claim("user"))
    assert desk.called() == [], "it is written"
    desk.have("user", Phase.READY_FOR_GPU, {**USER, "suspend": True})
    desk.rooms.leave("user")
    assert desk.called() == ["low"]
    assert desk.claims() == {}


def test_a_claim_survives_a_restart_before_anybody_has_been_looked_at() -> None:
    desk = Desk()
    desk.offer = 1
    desk.run("low", preemption=claim("user"))
    desk.have("user", Phase.READY_FOR_GPU, USER)
    assert desk.called() == []
    assert desk.claims() == {"low": "user"}


def test_a_slot_that_was_given_up_is_kept_for_its_owner_and_for_a_minute() -> None:
    desk = Desk()
    desk.offer = 1
    given = {"phaseTimes": {"ReadyForGpu": desk.now.isoformat()}, "preemption": claim("user")}
    desk.have("low", Phase.READY_FOR_GPU, dispatch={"jobName": "low", "backend": "gpu-0"}, **given)
    desk.have("user", Phase.READY_FOR_GPU, USER)
    desk.wait("earlier", Room.GPU, mode="Foreground", queuePosition=1)
    assert desk.called() == []
    assert desk.rooms.slots("earlier").free == ()
    assert desk.rooms.slots("user").free == (("gpu-0", 1),)
    desk.now += timedelta(seconds=61)
    assert desk.called() == ["earlier"]


def test_whoever_is_called_finds_a_slot_also_when_fewer_are_free_than_kept() -> None:
    """Or it would be called again at once, for as long as slots are kept: a minute of nothing else."""
    desk = Desk()
    for number in (1, 2):
        given = {"phaseTimes": {"ReadyForGpu": desk.now.isoformat()}, "preemption": claim(f"user-{number}")}
        desk.have(f"low-{number}", Phase.READY_FOR_GPU, dispatch={"jobName": "j", "backend": "gpu-0"}, **given)
        desk.wait(f"user-{number}", Room.GPU, mode="Foreground", queuePosition=number)
    desk.run("uninvited", USER)
    assert desk.called() == ["user-1"]
    assert desk.rooms.slots("user-1").free == (("gpu-0", 1),)
    assert desk.rooms.slots("user-2").free == ()
    assert desk.called() == [], "the first is being looked at"
    desk.rooms.settle("user-1")
    desk.wait("user-1", Room.GPU, mode="Foreground", queuePosition=1)
    assert desk.called() == ["user-1"]


def test_a_slot_is_not_kept_for_who_has_run_is_postponed_or_is_gone() -> None:
    desk = Desk()
    desk.offer = 1
    desk.have("other", Phase.READY_FOR_GPU, USER)
    given = {"phaseTimes": {"ReadyForGpu": desk.now.isoformat()}, "preemption": claim("user")}
    desk.have("low", Phase.READY_FOR_GPU, **given)
    assert len(desk.rooms.slots("other").free) == 1, "never heard of"
    desk.have("user", Phase.READY_FOR_GPU, USER)
    assert desk.rooms.slots("other").free == ()
    desk.have("user", Phase.READY_FOR_GPU, USER, retry={"count": 1, "nextAt": "2027-03-01T12:05:00Z"})
    assert len(desk.rooms.slots("other").free) == 1, "postponed"
    desk.have("user", Phase.READY_FOR_GPU, USER, attempt=1)
    assert len(desk.rooms.slots("other").free) == 1, "its run was another one"


def test_the_pods_of_a_task_that_is_gone_hold_its_slot_until_they_are_gone_or_given_up() -> None:
    desk = Desk()
    desk.offer = 1
    desk.have("next", Phase.READY_FOR_GPU, USER)
    labels = {"jervis.dev/task-uid": "gone", "jervis.dev/attempt": "1"}
    booked = {"annotations": {"jervis.dev/backend": "gpu-0"}}
    meta = {"name": "p", "namespace": "n", "uid": "p", "labels": labels} | booked | CREATED
    desk.workloads.observe_pod({"metadata": {**meta, "resourceVersion": "5"}, "status": {"phase": "Running"}})
    assert desk.rooms.slots("next").free == ()
    ending = {**meta, "resourceVersion": "6", "deletionTimestamp": "2027-03-01T12:00:30Z"}
    desk.workloads.observe_pod({"metadata": ending, "status": {"phase": "Running"}})
    desk.now += timedelta(seconds=39)
    assert desk.rooms.slots("next").free == ()
    desk.now += timedelta(seconds=1)
    assert desk.rooms.slots("next").free == (("gpu-0", 1),), "its node does not answer"


def test_a_task_that_is_being_deleted_holds_a_slot_by_its_pods_alone() -> None:
    desk = Desk()
    desk.offer = 1
    desk.run("leaving")
    entry = build.task(
        Phase.ORCHESTRATING,
        status={"dispatch": {"jobName": "j", "backend": "gpu-0"}},
        uid="leaving",
        resourceVersion="99",
        deletionTimestamp="2027-03-01T11:59:00Z",
    )
    desk.tasks.observe(entry.wire())
    desk.have("next", Phase.READY_FOR_GPU, USER)
    assert desk.rooms.slots("next").free == (("gpu-0", 1),)


def test_two_claims_at_the_same_time_go_to_different_backends() -> None:
    desk = Desk()
    desk.have("x", Phase.READY_FOR_GPU)
    desk.rooms.claim("y", Room.GPU, "gpu-0")
    assert desk.rooms.slots("x").free == (("gpu-0", 1),)


def test_the_breaker_starts_no_preemption() -> None:
    desk = Desk()
    desk.offer = 1
    desk.run("low")
    for _ in range(5):
        desk.rooms.breaker.failed(desk.now.timestamp())
    desk.wait("user", Room.GPU, mode="Foreground")
    assert desk.called() == []
    assert desk.claims() == {}


def test_qualifier_places_count_the_claimed_and_the_running() -> None:
    desk = Desk()
    desk.have("q1", Phase.QUALIFYING)
    desk.rooms.claim("q2", Room.QUALIFIER)
    for uid in ("a", "b"):
        desk.wait(uid, Room.QUALIFIER, Phase.READY_FOR_QUALIFICATION)
    assert desk.rooms.qualifying("q1") == 1
    assert desk.called() == ["a"]


def test_an_older_version_never_replaces_a_newer_one() -> None:
    tasks = index.Tasks(lambda: build.NOW)
    new = build.task(Phase.QUALIFYING, resourceVersion="20").wire()
    old = build.task(Phase.NEW, resourceVersion="9").wire()
    assert tasks.observe(new)
    assert not tasks.observe(old)
    assert not tasks.observe(new)
    entry = tasks.entry(build.UID)
    assert entry is not None
    assert entry.phase is Phase.QUALIFYING
    tasks.forget(build.UID, 25)
    assert not tasks.observe(build.task(Phase.NEW, resourceVersion="24").wire()), "the deletion was later"
    assert tasks.observe(build.task(Phase.NEW, resourceVersion="30").wire())


def test_the_index_keeps_no_content() -> None:
    tasks = index.Tasks(lambda: build.NOW)
    spec = {"content": "secret " * 4000, "messages": [{"id": "m", "text": "secret"}]}
    raw = build.task(Phase.NEW, spec=spec).wire()
    raw["metadata"]["managedFields"] = [{"manager": "kubectl" * 200}]
    tasks.observe(raw)
    entry, kept = tasks.entry(build.UID), tasks.get(build.UID)
    assert entry is not None
    assert kept is not None
    assert "secret" not in kept.model_dump_json()
    assert len(entry.packed) < 300
    assert len(kept.spec.messages) == 1


def test_pods_that_are_not_listed_do_not_live_and_the_ended_keep_their_word() -> None:
    loads = index.Workloads()

    def raw(name: str, phase: str) -> dict[str, Any]:
        labels = {"jervis.dev/task-uid": "t", "jervis.dev/attempt": "1"}
        meta = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "5", "labels": labels} | CREATED
        return {"metadata": meta, "status": {"phase": phase}}

    loads.observe_pod(raw("ended", "Failed"))
    loads.observe_pod(raw("ghost", "Running"))
    loads.replace_pods("t", [raw("fresh", "Running")])
    assert sorted((pod.name, pod.live) for pod in loads.pods("t")) == [("ended", False), ("fresh", True)]
    loads.forget_task("t")
    assert [pod.name for pod in loads.pods("t")] == ["fresh"], "it still takes a slot"
    loads.forget_pod("t", "fresh")
    assert loads.pods("t") == ()
