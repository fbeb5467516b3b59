"""The slot scheduler and the index of tasks under it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from controllers.pendingtask import observed, task_index, workloads
from controllers.pendingtask.decision import WaitFor
from controllers.pendingtask.slots import bookings, scheduler
from crds import order
from crds.phases import Phase
from tests.controllers import build
from tests.controllers.build import present


class Desk:
    """SlotScheduler with two GPU slots, three places at the qualifier, and clocks in hand."""

    def __init__(
        self,
        backends: dict[str, int] | None = None,
        age: timedelta = timedelta(0),
        idle: timedelta = timedelta(seconds=30),
        offer: int = 2,
    ) -> None:
        self.now, self.offer, self.absent = build.NOW, offer, 0
        self.backends = backends
        self.tasks, self.workloads = task_index.Tasks(lambda: self.now), workloads.Workloads(build.RELEASE)
        self.users = build.users(lambda: self.now)
        self.scheduler = scheduler.SlotScheduler(
            self.tasks,
            observed.Limits(idle_threshold=idle, qualifying_at_once=3, background_age=age),
            lambda: [
                bookings.Offer(*one, absent=self.absent) for one in (self.backends or {"gpu-0": self.offer}).items()
            ],
            workloads=self.workloads,
            readings=(),
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

    def wait(self, uid: str, wait_for: WaitFor, phase: Phase = Phase.READY_FOR_GPU, **spec: Any) -> None:
        self.scheduler.enter(uid, wait_for, self.have(uid, phase, spec))

    def admitted(self) -> list[str]:
        return [one.uid for one in self.scheduler.admit()[0]]

    def run(self, uid: str, spec: dict[str, Any] | None = None, **status: Any) -> None:
        self.have(uid, Phase.ORCHESTRATING, spec, **{"dispatch": {"jobName": uid, "backend": "gpu-0"}, **status})

    def trip(self) -> None:
        """Dispatching fails often enough for the breaker to open."""
        for _ in range(5):
            self.scheduler.breaker.failed(self.now.timestamp())

    def give_up(self, uid: str, owner: str, **status: Any) -> None:
        """A Background run that has just given its slot up for that owner."""
        times = {"ReadyForGpu": self.now.isoformat()}
        self.have(uid, Phase.READY_FOR_GPU, phaseTimes=times, preemption=claim(owner), **status)

    def claims(self) -> dict[str, str]:
        """Who is to get whose slot."""
        found = {uid: self.scheduler.claimant(uid) for uid in self.tasks.bookings.runs}
        return {uid: one.uid for uid, one in found.items() if one is not None}


USER = {"mode": "Foreground"}


def claim(uid: str) -> dict[str, Any]:
    """On that task's first run."""
    return {"by": uid, "name": f"default/{uid}", "run": 1, "at": "2027-03-01T12:00:00Z"}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_slots_are_what_is_offered_minus_what_is_booked() -> None:
    offers = [bookings.Offer("a", 2), bookings.Offer("b", 3), bookings.Offer("off", 0)]
    assert bookings.count(offers, {}).free == (("b", 3), ("a", 2))
    assert bookings.count(offers, {"b": 2, "a": 1}).free == (("a", 1), ("b", 1))
    assert bookings.count(offers, {"a": 2, "b": 3}) == observed.Slots(total=5, free=())
    assert bookings.count(offers, {"gone": 5}) == observed.Slots(total=5, free=())
    assert bookings.count([], {"a": 1}) == observed.Slots()


def test_those_who_wait_for_a_slot_are_called_in_order_and_no_more_than_fit(desk: Desk) -> None:
    for uid, position in (("c", None), ("b", 2), ("a", 1)):
        desk.scheduler.enter(
            uid, WaitFor.GPU, desk.have(uid, Phase.READY_FOR_GPU, {"queuePosition": position} if position else {})
        )
    assert desk.admitted() == ["a", "b"]
    assert desk.scheduler.waiting(WaitFor.GPU) == 1


def test_a_booked_slot_is_not_offered_again_even_before_it_is_persisted(desk: Desk) -> None:
    desk.have("run", Phase.ORCHESTRATING, dispatch={"backend": "gpu-0"})
    desk.scheduler.claim("claim", WaitFor.GPU)
    desk.wait("x", WaitFor.GPU)
    assert desk.admitted() == []
    assert desk.scheduler.slots("claim").free == (("gpu-0", 1),), "one's own claim does not count against one"
    desk.scheduler.settle("claim")
    assert desk.admitted() == ["x"]


def test_a_claim_that_is_persisted_counts_once_also_before_it_is_settled(desk: Desk) -> None:
    """Its answer was lost: the watch tells of it while the look that made it has not ended."""
    desk.scheduler.claim("run", WaitFor.GPU, "gpu-0")
    desk.run("run")
    assert desk.scheduler.slots("x").free == (("gpu-0", 1),)


def test_a_user_who_waits_holds_background_back_and_thirty_seconds_after(desk: Desk) -> None:
    desk.wait("x", WaitFor.GPU)
    desk.have("user", Phase.ORCHESTRATING, spec={"mode": "Foreground"})
    assert desk.scheduler.admit() == ([], None)
    desk.have("user", Phase.COMPLETED, spec={"mode": "Foreground"})
    assert desk.scheduler.admit() == ([], 30.0)
    desk.now += timedelta(seconds=30)
    assert desk.admitted() == ["x"]


def test_a_clock_that_was_set_back_holds_up_no_other(desk: Desk) -> None:
    desk.have("user", Phase.ORCHESTRATING, spec={"mode": "Foreground"})
    desk.have("user", Phase.COMPLETED, spec={"mode": "Foreground"})
    desk.now -= timedelta(hours=1)
    desk.wait("x", WaitFor.GPU)
    assert desk.admitted() == ["x"]
    given = {"phaseTimes": {"ReadyForGpu": "2027-03-01T12:00:00Z"}, "preemption": claim("user")}
    desk.have("low", Phase.READY_FOR_GPU, **given)
    desk.have("user", Phase.READY_FOR_GPU, USER)
    desk.run("one", USER)
    desk.have("other", Phase.READY_FOR_GPU, USER)
    assert len(desk.scheduler.slots("other").free) == 1, "nothing is reserved for an hour"


def test_a_foreground_task_that_is_postponed_or_asks_does_not_hold_background_back(desk: Desk) -> None:
    desk.have("asks", Phase.USER_TASK, USER)
    desk.have("later", Phase.READY_FOR_QUALIFICATION, USER, retry={"count": 1, "nextAt": "2027-03-01T13:00:00Z"})
    desk.have("held", Phase.READY_FOR_GPU, {**USER, "suspend": True})
    assert not desk.tasks.user_active


def test_the_breaker_holds_everybody_and_then_lets_one_try(desk: Desk) -> None:
    desk.wait("x", WaitFor.GPU)
    desk.wait("y", WaitFor.GPU)
    desk.wait("user", WaitFor.GPU, mode="Foreground")
    desk.trip()
    assert desk.scheduler.admit() == ([], 30.0)
    desk.now += timedelta(seconds=30)
    assert desk.admitted() == ["user"]


def test_with_the_breaker_half_open_no_other_is_admitted_before_the_probe_is_decided_about(desk: Desk) -> None:
    for uid in ("x", "y", "z"):
        desk.wait(uid, WaitFor.GPU)
    desk.trip()
    desk.now += timedelta(seconds=30)
    assert desk.admitted() == ["x"]
    desk.wait("user", WaitFor.GPU, mode="Foreground")
    assert desk.admitted() == [], "it is being looked at"
    desk.scheduler.leave("x")
    desk.scheduler.claim("x", WaitFor.GPU, "gpu-0")
    assert desk.admitted() == [], "its claim is being written"
    desk.scheduler.settle("x")
    desk.scheduler.breaker.started(desk.now.timestamp())
    assert desk.scheduler.admit() == ([], 30.0), "it is under way"
    desk.scheduler.breaker.succeeded()
    assert "user" in desk.admitted()


def test_users_tasks_without_a_slot_are_called_only_when_there_is_one(desk: Desk) -> None:
    desk.run("one", USER)
    desk.run("two", USER)
    desk.wait("user", WaitFor.GPU, mode="Foreground")
    assert desk.admitted() == []
    desk.have("two", Phase.COMPLETED, USER)
    assert desk.admitted() == ["user"]
    assert desk.admitted() == [], "it is being looked at"
    assert desk.scheduler.slots("user").free == (("gpu-0", 1),)


def test_without_any_gpu_users_tasks_are_called_and_no_run_is_disturbed(desk: Desk) -> None:
    desk.run("low")
    desk.wait("user", WaitFor.GPU, mode="Foreground")
    desk.offer = 0
    assert desk.admitted() == ["user"]
    assert desk.claims() == {}


def test_without_any_gpu_no_more_users_tasks_are_called_than_may_run_without_one(desk: Desk) -> None:
    for number in range(50):
        desk.wait(f"user-{number:02}", WaitFor.GPU, mode="Foreground")
    desk.offer = 0
    assert desk.admitted() == ["user-00", "user-01"]
    assert desk.admitted() == [], "both are being looked at"
    assert desk.scheduler.slots("user-02") == observed.Slots()
    for uid, left in (("user-00", 2), ("user-01", 1)):
        assert desk.scheduler.slots(uid) == observed.Slots(without_gpu=left)
        desk.scheduler.claim(uid, WaitFor.GPU)
        assert desk.admitted() == []
        desk.have(uid, Phase.DISPATCHED_GPU, USER, dispatch={"jobName": uid})
        desk.scheduler.settle(uid)
    assert desk.admitted() == []
    desk.have("user-00", Phase.COMPLETED, USER)
    assert desk.admitted() == ["user-02"]
    desk.offer = 2
    assert desk.admitted() == [], "the run without a slot and the task that is admitted count"
    desk.have("user-01", Phase.COMPLETED, USER)
    assert desk.admitted() == ["user-03"]


def test_a_gpu_that_is_expected_back_holds_users_tasks_and_offers_nothing(desk: Desk) -> None:
    desk.run("one", USER)
    desk.wait("user", WaitFor.GPU, mode="Foreground")
    desk.wait("low", WaitFor.GPU)
    desk.offer, desk.absent = 0, 2
    assert desk.admitted() == []
    assert desk.scheduler.slots("user") == observed.Slots(total=2)
    desk.absent = 0
    assert desk.admitted() == ["user"]


def test_the_slots_of_an_absent_backend_count_in_the_total_and_its_runs_against_the_others() -> None:
    offers = [bookings.Offer("a", 2), bookings.Offer("b", 0, absent=2)]
    assert bookings.count(offers, {"b": 1}) == observed.Slots(total=4, free=(("a", 1),))
    assert bookings.count(offers, {"b": 2}) == observed.Slots(total=4)


def test_one_who_is_called_keeps_the_others_from_its_slot_until_it_has_decided(desk: Desk) -> None:
    desk.run("one")
    desk.wait("first", WaitFor.GPU, mode="Foreground")
    assert desk.admitted() == ["first"]
    desk.have("second", Phase.READY_FOR_GPU, USER)
    assert desk.scheduler.slots("second").free == ()
    desk.scheduler.leave("first")
    assert desk.scheduler.slots("second").free == (("gpu-0", 1),)


def test_a_run_is_looked_at_when_its_slot_is_claimed_and_again_when_it_is_not_any_more() -> None:
    desk = Desk(offer=1)
    desk.run("low")
    desk.wait("user", WaitFor.GPU, mode="Foreground")
    assert desk.admitted() == ["low"]
    assert desk.claims() == {"low": "user"}
    desk.now += timedelta(seconds=1)
    assert desk.scheduler.waited("low") == 1.0
    desk.run("low", preemption=claim("user"))
    assert desk.admitted() == [], "it is written"
    desk.have("user", Phase.READY_FOR_GPU, {**USER, "suspend": True})
    desk.scheduler.leave("user")
    assert desk.admitted() == ["low"]
    assert desk.claims() == {}


def test_a_claim_survives_a_restart_before_anybody_has_been_looked_at() -> None:
    desk = Desk(offer=1)
    desk.run("low", preemption=claim("user"))
    desk.have("user", Phase.READY_FOR_GPU, USER)
    assert desk.admitted() == []
    assert desk.claims() == {"low": "user"}


def test_a_slot_that_was_given_up_is_kept_for_its_owner_and_for_a_minute() -> None:
    desk = Desk(offer=1)
    desk.give_up("low", "user", dispatch={"jobName": "low", "backend": "gpu-0"})
    desk.have("user", Phase.READY_FOR_GPU, USER)
    desk.wait("earlier", WaitFor.GPU, mode="Foreground", queuePosition=1)
    assert desk.admitted() == []
    assert desk.scheduler.slots("earlier").free == ()
    assert desk.scheduler.slots("user").free == (("gpu-0", 1),)
    desk.now += timedelta(seconds=61)
    assert desk.admitted() == ["earlier"]


def test_an_admitted_task_finds_a_slot_also_when_fewer_are_free_than_kept(desk: Desk) -> None:
    """Or it would be admitted again at once, for as long as slots are reserved: a minute of nothing else."""
    for number in (1, 2):
        desk.give_up(f"low-{number}", f"user-{number}", dispatch={"jobName": "j", "backend": "gpu-0"})
        desk.wait(f"user-{number}", WaitFor.GPU, mode="Foreground", queuePosition=number)
    desk.run("uninvited", USER)
    assert desk.admitted() == ["user-1"]
    assert desk.scheduler.slots("user-1").free == (("gpu-0", 1),)
    assert desk.scheduler.slots("user-2").free == ()
    assert desk.admitted() == [], "the first is being looked at"
    desk.scheduler.settle("user-1")
    desk.wait("user-1", WaitFor.GPU, mode="Foreground", queuePosition=1)
    assert desk.admitted() == ["user-1"]


def test_a_slot_is_not_kept_for_who_has_run_is_postponed_or_is_gone() -> None:
    desk = Desk(offer=1)
    desk.have("other", Phase.READY_FOR_GPU, USER)
    desk.give_up("low", "user")
    assert len(desk.scheduler.slots("other").free) == 1, "never heard of"
    desk.have("user", Phase.READY_FOR_GPU, USER)
    assert desk.scheduler.slots("other").free == ()
    desk.have("user", Phase.READY_FOR_GPU, USER, retry={"count": 1, "nextAt": "2027-03-01T12:05:00Z"})
    assert len(desk.scheduler.slots("other").free) == 1, "postponed"
    desk.have("user", Phase.READY_FOR_GPU, USER, attempt=1)
    assert len(desk.scheduler.slots("other").free) == 1, "its run was another one"


def test_the_pods_of_a_task_that_is_gone_hold_its_slot_until_they_are_gone_or_given_up() -> None:
    desk = Desk(offer=1)
    desk.have("next", Phase.READY_FOR_GPU, USER)
    assert desk.workloads.observe_pod(build.raw_pod("p", "gone"))
    assert desk.scheduler.slots("next").free == ()
    leaving = build.raw_pod("p", "gone", resourceVersion="6", deletionTimestamp="2027-03-01T12:00:30Z")
    assert desk.workloads.observe_pod(leaving)
    desk.now += timedelta(seconds=39)
    assert desk.scheduler.slots("next").free == ()
    desk.now += timedelta(seconds=1)
    assert desk.scheduler.slots("next").free == (("gpu-0", 1),), "its node does not answer"


def test_a_task_that_is_being_deleted_holds_a_slot_by_its_pods_alone() -> None:
    desk = Desk(offer=1)
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
    assert desk.scheduler.slots("next").free == (("gpu-0", 1),)


def test_two_claims_at_the_same_time_go_to_different_backends(desk: Desk) -> None:
    desk.have("x", Phase.READY_FOR_GPU)
    desk.scheduler.claim("y", WaitFor.GPU, "gpu-0")
    assert desk.scheduler.slots("x").free == (("gpu-0", 1),)


def test_the_breaker_starts_no_preemption() -> None:
    desk = Desk(offer=1)
    desk.run("low")
    desk.trip()
    desk.wait("user", WaitFor.GPU, mode="Foreground")
    assert desk.admitted() == []
    assert desk.claims() == {}


def test_qualifier_places_count_the_claimed_and_the_running(desk: Desk) -> None:
    desk.have("q1", Phase.QUALIFYING)
    desk.scheduler.claim("q2", WaitFor.QUALIFIER)
    for uid in ("a", "b"):
        desk.wait(uid, WaitFor.QUALIFIER, Phase.READY_FOR_QUALIFICATION)
    assert desk.scheduler.qualifying() == 2
    assert desk.admitted() == ["a"]
    assert desk.scheduler.qualifying("a") == 2, "its turn: q1 and q2 have theirs"
    assert desk.scheduler.qualifying("b") == 3, "a comes first"
    desk.have("c", Phase.READY_FOR_QUALIFICATION)
    assert desk.scheduler.qualifying("c") == 4, "a and b come first"


def test_an_older_version_never_replaces_a_newer_one() -> None:
    tasks = task_index.Tasks(lambda: build.NOW)
    new = build.task(Phase.QUALIFYING, resourceVersion="20").wire()
    old = build.task(Phase.NEW, resourceVersion="9").wire()
    assert tasks.observe(new)
    assert not tasks.observe(old)
    assert not tasks.observe(new)
    entry = present(tasks.entry(build.UID))
    assert entry.phase is Phase.QUALIFYING
    tasks.forget(build.UID, 25)
    assert not tasks.observe(build.task(Phase.NEW, resourceVersion="24").wire()), "the deletion was later"
    assert tasks.observe(build.task(Phase.NEW, resourceVersion="30").wire())


def test_the_index_keeps_no_content() -> None:
    tasks = task_index.Tasks(lambda: build.NOW)
    spec = {"content": "secret " * 4000, "messages": [{"id": "m", "text": "secret"}]}
    raw = build.task(Phase.NEW, spec=spec).wire()
    raw["metadata"]["managedFields"] = [{"manager": "kubectl" * 200}]
    tasks.observe(raw)
    entry, found = tasks.entry(build.UID), tasks.get(build.UID)
    assert "secret" not in present(found).model_dump_json()
    assert len(present(entry).document) < 1_000
    assert len(present(found).spec.messages) == 1


# -- turns, ageing, several GPUs ---------------------------------------------------------------------------------------

HOUR = timedelta(hours=1)


def entered(at: datetime) -> dict[str, Any]:
    return {"phaseTimes": {"ReadyForGpu": at.isoformat(), "ReadyForQualification": at.isoformat()}}


def test_one_clients_flood_does_not_hold_up_another_clients_mail(desk: Desk) -> None:
    """At the qualifier as at the GPU: places go to the client that holds the fewest."""
    for number in range(30):
        desk.wait(f"flood-{number:02}", WaitFor.QUALIFIER, Phase.READY_FOR_QUALIFICATION, clientId="flood")
        desk.wait(f"batch-{number:02}", WaitFor.GPU, clientId="flood")
    desk.wait("mail", WaitFor.QUALIFIER, Phase.READY_FOR_QUALIFICATION, clientId="small")
    desk.wait("work", WaitFor.GPU, clientId="small")
    assert desk.admitted() == ["flood-00", "mail", "flood-01", "batch-00", "work"]


def test_turns_go_on_where_they_were() -> None:
    desk = Desk(offer=1)
    for client in ("a", "b"):
        for number in range(3):
            desk.wait(f"{client}{number}", WaitFor.GPU, clientId=client)
    order_of_runs = []
    while uids := desk.admitted():
        assert len(uids) == 1
        order_of_runs += uids
        uid = uids[0]
        desk.scheduler.leave(uid)
        desk.scheduler.claim(uid, WaitFor.GPU, "gpu-0")
        desk.run(uid, {"clientId": uid[0]})
        desk.scheduler.settle(uid)
        desk.tasks.forget(uid, desk.version)
    assert order_of_runs == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_users_tasks_take_turns_by_client_as_well(desk: Desk) -> None:
    desk.run("one", USER, attempt=1)
    desk.have("two", Phase.ORCHESTRATING, {**USER, "clientId": "flood"}, dispatch={"jobName": "j", "backend": "gpu-0"})
    for number in range(3):
        desk.wait(f"flood-{number}", WaitFor.GPU, mode="Foreground", clientId="flood")
    desk.wait("small", WaitFor.GPU, mode="Foreground", clientId="small")
    desk.wait("first", WaitFor.GPU, mode="Foreground", clientId="flood", queuePosition=1)
    assert desk.scheduler.users_in_turn() == ["first", "small", "flood-0", "flood-1", "flood-2"]
    desk.have("one", Phase.COMPLETED, USER)
    assert desk.admitted() == ["first"]


def test_a_free_slot_is_for_the_waiter_whose_turn_it_is(desk: Desk) -> None:
    """A task that is looked at in the moment in which a slot comes free does not take it from those that wait."""
    desk.run("one")
    desk.run("two")
    desk.wait("waits", WaitFor.GPU, clientId="b")
    assert desk.admitted() == []
    desk.have("two", Phase.COMPLETED)
    desk.have("passes", Phase.READY_FOR_GPU)
    assert desk.scheduler.slots("passes").free == ()
    assert desk.admitted() == ["waits"]
    assert desk.scheduler.slots("passes").free == (), "it is being looked at"
    assert desk.scheduler.slots("waits").free == (("gpu-0", 1),)
    desk.scheduler.leave("waits")
    assert desk.scheduler.slots("passes").free == (("gpu-0", 1),)


def test_one_that_was_called_and_does_not_go_gives_its_turn_on() -> None:
    desk = Desk(offer=1)
    desk.wait("x", WaitFor.GPU)
    assert desk.admitted() == ["x"]
    desk.wait("y", WaitFor.GPU)
    assert desk.admitted() == []
    assert desk.scheduler.settle("x")
    assert not desk.scheduler.settle("x")
    assert desk.admitted() == ["y"]


def test_a_background_task_that_has_aged_goes_before_younger_ones_of_better_position() -> None:
    desk = Desk(offer=1, age=HOUR)
    desk.have("old", Phase.READY_FOR_GPU, **entered(desk.now - HOUR))
    desk.scheduler.enter("old", WaitFor.GPU, desk.tasks.entry("old").order)  # type: ignore[union-attr]
    desk.now += timedelta(seconds=1)
    gone: list[str] = []
    for number in range(8):
        uid = f"young-{number}"
        rank = desk.have(uid, Phase.READY_FOR_GPU, {"queuePosition": 1}, **entered(desk.now))
        desk.scheduler.enter(uid, WaitFor.GPU, rank)
        for admitted in desk.admitted():
            gone.append(admitted)
            desk.scheduler.leave(admitted)
            desk.scheduler.settle(admitted)
    assert gone.index("old") == 3


def test_users_who_are_active_for_ever_hold_an_aged_task_back_no_more() -> None:
    desk = Desk(age=HOUR)
    desk.run("user", USER)
    for uid in ("old", "older"):
        rank = desk.have(uid, Phase.READY_FOR_GPU, **entered(desk.now))
        desk.scheduler.enter(uid, WaitFor.GPU, rank)
    assert desk.scheduler.admit() == ([], 3600.0), "asked again when it ages"
    desk.now += HOUR + timedelta(seconds=1)
    assert desk.admitted() == ["old"]
    assert desk.scheduler.users("old") == observed.Users()
    assert desk.scheduler.slots("old").startable == (("gpu-0", 1),)
    assert desk.scheduler.users("older").active, "one slot at a time"
    desk.scheduler.leave("old")
    desk.run("old")
    assert desk.admitted() == []
    desk.have("old", Phase.COMPLETED)
    assert desk.admitted() == ["older"]


def test_users_who_leave_no_slot_free_leave_one_in_ten_to_an_aged_task() -> None:
    desk = Desk(offer=1, age=HOUR)
    rank = desk.have("old", Phase.READY_FOR_GPU, **entered(desk.now - HOUR - HOUR))
    desk.scheduler.enter("old", WaitFor.GPU, rank)
    desk.wait("user-00", WaitFor.GPU, mode="Foreground")
    served = []
    for number in range(1, 12):
        desk.wait(f"user-{number:02}", WaitFor.GPU, mode="Foreground")
        admitted = desk.admitted()
        assert len(admitted) == 1
        served += admitted
        if admitted == ["old"]:
            break
        desk.scheduler.leave(admitted[0])
        desk.scheduler.claim(admitted[0], WaitFor.GPU, "gpu-0")
        desk.scheduler.settle(admitted[0])
        desk.tasks.forget(admitted[0], desk.version)
    assert served == [*(f"user-{number:02}" for number in range(10)), "old"]
    assert desk.scheduler.slots("old").startable == (("gpu-0", 1),)
    assert desk.scheduler.slots("user-10").free == ()


def test_a_run_that_gave_its_slot_up_has_waited_since_it_first_did() -> None:
    desk = Desk(age=HOUR)
    times = {"ReadyForQualification": "2027-03-01T10:00:00Z", "ReadyForGpu": "2027-03-01T12:00:00Z"}
    desk.have("low", Phase.READY_FOR_GPU, phaseTimes=times, preemption=claim("user"))
    entry = present(desk.tasks.entry("low"))
    assert entry.queued == desk.now.timestamp() - 7200


TWO = {"gpu-0": 2, "gpu-1": 2}


def test_with_two_gpus_a_user_holds_background_back_on_its_own() -> None:
    desk = Desk(TWO)
    desk.run("user", USER)
    for number in range(5):
        desk.wait(f"x{number}", WaitFor.GPU)
    assert desk.admitted() == ["x0", "x1"]
    assert desk.scheduler.users("x0") == observed.Users()
    assert desk.scheduler.slots("x0").startable == (("gpu-1", 2),)
    desk.have("next", Phase.READY_FOR_GPU, USER)
    assert desk.scheduler.slots("next").free[0] == ("gpu-0", 1), "users come together"
    desk.tasks.forget("next", desk.version)
    for uid in ("x0", "x1"):
        desk.scheduler.leave(uid)
        desk.have(uid, Phase.ORCHESTRATING, dispatch={"jobName": uid, "backend": "gpu-1"})
    assert desk.admitted() == []
    desk.have("user", Phase.COMPLETED, USER)
    assert desk.scheduler.admit() == ([], 30.0), "its own GPU for thirty seconds more"
    desk.now += timedelta(seconds=30)
    assert desk.admitted() == ["x2", "x3"]


def test_a_users_task_on_its_way_holds_back_the_gpu_that_it_would_get() -> None:
    desk = Desk({"gpu-0": 1, "gpu-1": 1})
    desk.have("user", Phase.QUALIFYING, USER)
    desk.wait("x", WaitFor.GPU)
    desk.wait("y", WaitFor.GPU)
    assert desk.admitted() == ["x"]
    assert desk.scheduler.slots("x").startable == (("gpu-1", 1),)


@pytest.mark.parametrize(
    ("on", "unplaced", "free"),
    [
        ({"gpu-0": 0}, None, ["gpu-1"]),
        ({"gpu-1": 0, "gpu-0": -60}, None, ["gpu-0"]),
        ({}, 0, []),
        ({"cpu": 0}, None, ["gpu-0", "gpu-1"]),
    ],
)
def test_what_the_router_serves_to_users_counts_for_the_backend_that_serves_it(
    on: dict[str, int], unplaced: int | None, free: list[str]
) -> None:
    desk = Desk({"gpu-0": 1, "gpu-1": 1})
    desk.users.last = desk.now
    desk.users.last_on = {name: desk.now + timedelta(seconds=seconds) for name, seconds in on.items()}
    desk.users.unplaced = None if unplaced is None else desk.now
    desk.have("x", Phase.READY_FOR_GPU)
    assert sorted(name for name, _ in desk.scheduler.slots("x").startable) == free
    assert desk.scheduler.users("x") == (observed.Users() if free else observed.Users(False, desk.now, None))


def test_with_one_ready_gpu_of_two_the_thirty_seconds_hold_for_all() -> None:
    desk = Desk({"gpu-0": 2, "gpu-1": 0})
    desk.users.last, desk.users.last_on = desk.now, {"cpu": desk.now}
    desk.wait("x", WaitFor.GPU)
    assert desk.scheduler.admit() == ([], 30.0)


def test_no_idle_threshold_no_quiet() -> None:
    desk = Desk(idle=timedelta(0))
    desk.run("user", USER)
    desk.wait("x", WaitFor.GPU)
    assert desk.scheduler.users("x") == observed.Users()
    assert desk.admitted() == ["x"]


def test_a_users_task_of_another_namespace_has_no_name() -> None:
    desk = Desk(offer=1)
    desk.run("low")
    there = build.task(
        Phase.READY_FOR_GPU, spec=USER, uid="there", name="secret-name", namespace="other", resourceVersion="90"
    )
    desk.tasks.observe(there.wire())
    desk.scheduler.enter("there", WaitFor.GPU, order.of(there))
    assert desk.admitted() == ["low"]
    assert desk.scheduler.claimant("low") == observed.Claimant("there", 1, "")
