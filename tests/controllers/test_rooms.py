"""The index of tasks and the rooms they wait in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controllers.gpubackend import slots
from controllers.pendingtask import index, order, rooms, world
from controllers.pendingtask.decision import Room
from crds.phases import Phase
from tests.controllers import build


class Desk:
    """Rooms with two GPU slots, three places at the qualifier, and clocks in hand."""

    def __init__(self) -> None:
        self.now, self.offer = build.NOW, 2
        self.tasks = index.Tasks(lambda: self.now)
        self.rooms = rooms.Rooms(
            self.tasks,
            world.Limits(qualifying_at_once=3),
            lambda: [slots.Offer("gpu-0", self.offer)],
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


def test_slots_are_what_is_offered_minus_what_is_booked() -> None:
    offers = [slots.Offer("a", 2), slots.Offer("b", 3), slots.Offer("off", 0)]
    assert slots.count(offers, []).free == (("b", 3), ("a", 2))
    assert slots.count(offers, ["b", "b", "a"]).free == (("a", 1), ("b", 1))
    assert slots.count(offers, ["a", "a", "b", "b", "b"]) == world.Slots(total=5, free=())
    assert slots.count(offers, ["gone"] * 5) == world.Slots(total=5, free=())
    assert slots.count([], ["a"]) == world.Slots()


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


def test_a_user_who_waits_holds_background_back_and_thirty_seconds_after() -> None:
    desk = Desk()
    desk.wait("x", Room.GPU)
    desk.have("user", Phase.ORCHESTRATING, spec={"mode": "Foreground"})
    assert desk.rooms.call() == ([], None)
    desk.have("user", Phase.COMPLETED, spec={"mode": "Foreground"})
    assert desk.rooms.call() == ([], 30.0)
    desk.now += timedelta(seconds=30)
    assert desk.called() == ["x"]


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
    assert b"secret" not in entry.stripped
    assert len(entry.stripped) < 700
    assert len(kept.spec.messages) == 1


def test_pods_that_are_not_listed_do_not_live_and_the_ended_keep_their_word() -> None:
    loads = index.Workloads()

    def raw(name: str, phase: str) -> dict[str, Any]:
        labels = {"jervis.dev/task-uid": "t", "jervis.dev/attempt": "1"}
        meta = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "5", "labels": labels}
        return {"metadata": meta, "status": {"phase": phase}}

    loads.observe_pod(raw("ended", "Failed"))
    loads.observe_pod(raw("ghost", "Running"))
    loads.replace_pods("t", [raw("fresh", "Running")])
    assert sorted((pod.name, pod.live) for pod in loads.pods("t")) == [("ended", False), ("fresh", True)]
    loads.forget_task("t")
    assert loads.pods("t") == ()
