"""Reservations: who holds a GPU, what that changes for others, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from crds.gpubackend import Capability, Preemption
from router.effects import Announced, Effect, Held
from router.priority import Level
from router.reservation import IMPLICIT, Durations, Verdict
from router.scheduler import Scheduler
from tests.router import plans
from tests.router.plans import ask, cancelled, cpu, dispatched, gpu, moves, owned, plan, sets, warm, written

_BOTH = frozenset({"small", "embed"})
_DURATIONS = Durations(longest=1800, idle=300)


def _announce(made: Scheduler, now: float, owner: str = "job", lease: str = "", model: str = "") -> list[Effect]:
    answer, effects = made.announced(owner, model, lease, f"lease-{now:g}", now)
    assert answer.verdict is Verdict.HELD, answer
    return effects


def _held(now: float = 0, **more: Any) -> Scheduler:
    """One GPU with the orchestrator's set in memory, which `job` has announced."""
    made = plan(owned(loaded=frozenset({"big"}), **more))
    _announce(made, now)
    return made


def _ready(effects: list[Effect]) -> list[str]:
    return [e.lease_id for e in effects if isinstance(e, Announced) and not e.error]


def test_announcing_clears_the_gpu_loads_the_orchestrator_set_and_is_ready_when_it_is_there() -> None:
    made = plan(owned(loaded=_BOTH, slots=4))
    for number in range(3):
        made.offered(ask(number, Level.P3, "small"), 0)
    made.began(1)
    effects = _announce(made, 10)
    assert cancelled(effects) == [(0, False), (2, False)]  # the one whose answer has begun may end
    assert moves(effects) == [("unload", "embed")]
    made.unloaded("gpu", "embed", 11)
    assert [made.released(number, 11) for number in (0, 2)] == [[], []]
    effects = made.released(1, 12)
    assert moves(effects) == [("unload", "small")]
    happened = warm(made, effects, 13)
    assert moves(happened)[-1] == ("load", "big")
    assert _ready(happened) == ["lease-10"]


def test_what_is_there_already_is_ready_at_once() -> None:
    made = plan(owned(loaded=frozenset({"big"})))
    answer, effects = made.announced("job", "", "", "id", 5)
    assert plans.reserved(answer).ready
    assert [w.held for w in written(effects)] == [Held("job", "id", 1805, "orchestrator")]


def test_announcing_again_renews_and_a_stranger_is_told_who_holds_it() -> None:
    made = _held(5)
    answer, effects = made.announced("job", "", "lease-5", "other", 100)
    assert (plans.reserved(answer).id, plans.reserved(answer).until) == ("lease-5", 1900)
    assert written(effects)[0].held == Held("job", "lease-5", 1900, "orchestrator")
    again, _ = made.announced("job", "", "", "other", 200)
    assert again.reservation is answer.reservation
    stranger, effects = made.announced("thief", "", "", "other", 300)
    assert (stranger.verdict, effects) == (Verdict.TAKEN, [])
    assert plans.reserved(stranger).owner == "job"
    guess, _ = made.announced("thief", "", "lease-5", "other", 300)
    assert guess.verdict is Verdict.TAKEN
    assert made.unreserved("thief", "lease-5", 301)[0].verdict is Verdict.TAKEN
    assert made.unreserved("thief", "", 301)[0].verdict is Verdict.TAKEN


def test_an_owner_that_forgot_its_lease_goes_on_with_it_and_a_late_release_ends_nothing_newer() -> None:
    made = _held(5)
    answer, _ = made.announced("job", "", "from-before", "x", 6)
    assert plans.reserved(answer).id == "lease-5"
    assert made.unreserved("job", "from-before", 7)[0].verdict is Verdict.NOTHING
    assert made.unreserved("job", "", 8)[0].verdict is Verdict.RELEASED


def test_releasing_brings_the_background_set_back_and_may_be_repeated() -> None:
    made = _held(5)
    answer, effects = made.unreserved("job", "lease-5", 50)
    assert answer.verdict is Verdict.RELEASED
    assert moves(warm(made, effects, 51)) == [("unload", "big"), ("load", "embed"), ("load", "small")]
    assert written(effects)[-1].held is None
    assert made.unreserved("job", "lease-5", 60)[0].verdict is Verdict.NOTHING
    assert made.unreserved("anybody", "", 60)[0].verdict is Verdict.NOTHING


def test_the_first_p0_request_reserves_and_an_announcement_takes_that_over() -> None:
    made = plan(owned(loaded=frozenset({"big"})))
    effects = made.offered(ask(0, Level.P0, "big"), 7)
    held = written(effects)[0].held
    assert held is not None
    assert (held.owner, held.until, held.model_set) == (IMPLICIT, 1807, "orchestrator")
    assert made.unreserved("anybody", "", 8)[0].verdict is Verdict.NOTHING
    assert _announce(made, 10)
    assert made.announced("stranger", "", "", "x", 11)[0].verdict is Verdict.TAKEN


def test_neither_an_embedding_nor_a_gpu_without_sets_is_reserved_by_a_p0_request() -> None:
    made = plan(owned(loaded=_BOTH))
    assert written(made.offered(ask(0, Level.P0, "embed", need=Capability.EMBED), 0)) == []
    bare = plan(gpu())
    assert written(bare.offered(ask(0, Level.P0), 0)) == []
    assert dispatched(bare.released(0, 1)) == []
    assert dispatched(bare.offered(ask(1), 2)) == [(1, "gpu")]


def test_it_ends_after_idle_time_and_a_running_request_is_not_idle() -> None:
    made = _held(durations=_DURATIONS)
    made.offered(ask(0, Level.P0, "big"), 10)
    assert [moves(made.ticked(float(now))) for now in (310, 420, 430)] == [[], [], []]  # a generation of seven minutes
    made.released(0, 430)
    assert moves(made.ticked(729)) == []
    effects = made.ticked(730)
    assert written(effects)[-1].held is None
    assert moves(effects) == [("unload", "big")]


@pytest.mark.parametrize("announced", [True, False])
def test_a_conversation_is_not_cut_off_after_the_longest_time(announced: bool) -> None:
    made = plan(owned(loaded=frozenset({"big"}), durations=_DURATIONS))
    if announced:
        _announce(made, 0)
    ends = []
    for second in range(0, 7200, 200):
        assert dispatched(made.offered(ask(second, Level.P0, "big"), second)) == [(second, "gpu")]
        happened = made.ticked(second + 50)
        made.released(second, second + 100)
        happened += made.ticked(second + 150)
        assert moves(happened) == []
        ends += [status.held.until for status in written(happened) if status.held is not None]
    assert moves(made.ticked(7399)) == []
    assert moves(made.ticked(7400)) == [("unload", "big")]
    # The status follows, so that the next router keeps the reservation as well, but not at each request.
    assert len(ends) < 20
    assert ends == sorted(ends)
    assert 7400 < ends[-1] <= 7100 + 1800


def test_a_p0_that_runs_past_the_end_keeps_the_reservation() -> None:
    made = plan(owned(loaded=frozenset({"big"}), durations=Durations(longest=400, idle=300)))
    made.offered(ask(0, Level.P0, "big"), 0)
    assert moves(made.ticked(500)) == []
    assert moves(made.released(0, 500)) == []
    assert moves(made.ticked(799)) == []
    assert moves(made.ticked(800)) == [("unload", "big")]


def test_urgent_work_of_others_alone_keeps_no_reservation_beyond_its_longest_time() -> None:
    made = _held(durations=_DURATIONS)
    for second in range(0, 1800, 200):
        made.offered(ask(second, Level.P1, "big"), second)
        made.released(second, second + 100)
        assert written(made.ticked(second + 150)) == []
    assert written(made.ticked(1800))[-1].held is None


def test_a_set_that_loads_for_longer_than_the_idle_time_is_ready_in_the_end() -> None:
    made = plan(owned(loaded=_BOTH, durations=_DURATIONS))
    effects = _announce(made, 0)
    for model in ("embed", "small"):
        effects += made.unloaded("gpu", model, 2)
    assert ("load", "big") in moves(effects)
    assert [e for second in range(3, 330) for e in made.ticked(float(second))] == []
    assert _ready(made.loaded("gpu", "big", 330)) == ["lease-0"]
    assert [e for second in range(331, 630) for e in made.ticked(float(second))] == []
    assert moves(made.ticked(630)) == [("unload", "big")]  # from then on it was idle


def test_a_load_that_failed_ends_the_reservation() -> None:
    made = plan(owned(durations=_DURATIONS))
    _announce(made, 0)
    assert [status.held for status in written(made.loaded("gpu", "big", 100, "answered 500"))] == [None]
    bare = plan(gpu(durations=_DURATIONS))
    _announce(bare, 0, model="m:latest")
    assert written(bare.ticked(400)) == []
    assert [status.held for status in written(bare.loaded("gpu", "m:latest", 500, "answered 500"))] == [None]


def test_a_p0_turns_a_change_that_has_begun_and_waits_for_one_load_at_most() -> None:
    made = _held()
    effects = made.unreserved("job", "", 10)[1]
    assert moves(effects) == [("unload", "big")]
    assert moves(made.unloaded("gpu", "big", 12)) == [("load", "embed")]
    assert moves(made.offered(ask(0, Level.P0, "big"), 15)) == []  # what is being loaded cannot be stopped
    effects = made.loaded("gpu", "embed", 32)
    assert moves(effects) == [("unload", "embed")]  # and not "small" first
    effects = made.unloaded("gpu", "embed", 34)
    assert moves(effects) == [("load", "big")]
    assert dispatched(made.loaded("gpu", "big", 54)) == [(0, "gpu")]


def test_a_change_that_is_turned_twice_sends_nothing_to_a_model_that_still_loads() -> None:
    made = _held()
    made.unreserved("job", "", 10)
    assert moves(made.unloaded("gpu", "big", 12)) == [("load", "embed")]
    made.offered(ask(0, Level.P0, "big"), 15)
    made.withdrawn(0, 16)
    made.offered(ask(1, Level.P0, "embed"), 17)
    assert dispatched(made.ticked(60) + made.ticked(61)) == []
    assert dispatched(made.loaded("gpu", "embed", 62)) == [(1, "gpu")]


def test_a_p0_takes_back_a_model_that_still_drains() -> None:
    made = _held(slots=2)
    made.offered(ask(0, Level.P1, "big"), 5)
    assert moves(made.unreserved("job", "", 10)[1]) == []
    assert dispatched(made.offered(ask(1, Level.P0, "big"), 11)) + dispatched(made.ticked(12)) == [(1, "gpu")]
    assert moves(made.released(0, 13)) == []


def test_neither_p1_nor_a_p0_against_a_reservation_turns_a_change() -> None:
    made = _held()
    made.unreserved("job", "", 10)
    assert moves(made.unloaded("gpu", "big", 12)) == [("load", "embed")]
    made.offered(ask(0, Level.P1, "big", arrived=15.0), 15)
    assert moves(made.loaded("gpu", "embed", 32)) == [("load", "small")]
    held = plan(owned(loaded=_BOTH))
    _announce(held, 0)
    held.offered(ask(0, Level.P0, "small"), 1)
    assert moves(warm(held, held.unloaded("gpu", "embed", 2) + held.unloaded("gpu", "small", 2), 3)) == [
        ("load", "big")
    ]


def test_background_keeps_off_a_reserved_gpu_until_it_is_due() -> None:
    pair = sets(orchestrator=["big=10"], background=["small=6"])
    made = plan(owned(sets=pair, loaded=frozenset({"big", "small"})))
    _announce(made, 0)
    assert dispatched(made.offered(ask(0, Level.P2, "small"), 1)) == [(0, "gpu")]
    made.released(0, 2)
    assert made.offered(ask(1, Level.P3, "small", arrived=2.0), 2) == []
    _announce(made, 200)
    _announce(made, 400)
    assert dispatched(made.ticked(541)) == []
    assert dispatched(made.ticked(542.5)) == [(1, "gpu")]


def test_background_runs_again_as_soon_as_the_gpu_is_given_back() -> None:
    pair = sets(orchestrator=["big=10"], background=["small=6"])
    made = plan(owned(sets=pair, loaded=frozenset({"big", "small"})))
    _announce(made, 0)
    assert made.offered(ask(1, Level.P3, "small"), 2) == []
    assert dispatched(made.unreserved("job", "", 3)[1]) == [(1, "gpu")]


def test_an_announced_reservation_stands_against_who_is_due_and_one_of_a_p0_request_does_not() -> None:
    made = _held()
    plans.offer(made, ask(0, Level.P0, "big"), ask(1, Level.P2, "small", arrived=0.0), now=0)
    assert moves(made.ticked(200)) == []
    assert moves(made.released(0, 200)) == []
    soft = plan(owned(loaded=frozenset({"big"})))
    plans.offer(soft, ask(0, Level.P0, "big"), ask(1, Level.P2, "small", arrived=0.0), now=0)
    soft.ticked(109)
    assert moves(soft.released(0, 110)) == [("unload", "big")]


def test_of_two_gpus_one_is_never_reserved() -> None:
    made = plan(owned("a", loaded=frozenset({"big"})), owned("b", loaded=_BOTH))
    _announce(made, 0)
    assert made.announced("second", "", "", "x", 1)[0].verdict is Verdict.TAKEN
    assert dispatched(made.offered(ask(0, Level.P3, "small"), 2)) == [(0, "b")]
    happened = made.unreserved("job", "", 3)[1]
    assert moves(happened) == []  # the background set is on the other one: nothing needs to change


def test_of_three_gpus_two_orchestrators_get_one_each() -> None:
    made = plan(owned("a", loaded=frozenset({"big"})), owned("b", loaded=_BOTH), owned("c"))
    first, _ = made.announced("one", "", "", "1", 0)
    second, effects = made.announced("two", "", "", "2", 1)
    assert (plans.reserved(first).backend, plans.reserved(second).backend) == ("a", "c")
    assert moves(effects) == [("load", "big")]


def test_it_survives_a_restart_of_the_router() -> None:
    made = Scheduler()
    made.restored("gpu", Held("job", "kept", 900, "orchestrator"))
    effects = made.reconfigured([owned(loaded=_BOTH)], 0, lambda model: True)
    assert moves(warm(made, effects, 1)) == [("unload", "embed"), ("unload", "small"), ("load", "big")]
    assert made.announced("stranger", "", "", "x", 2)[0].verdict is Verdict.TAKEN
    answer, _ = made.announced("job", "", "kept", "x", 3)
    assert plans.reserved(answer).id == "kept"


def test_a_reservation_that_ran_out_while_nobody_was_there_is_gone() -> None:
    made = Scheduler()
    made.restored("gpu", Held("job", "kept", 10, "orchestrator"))
    made.reconfigured([owned(loaded=_BOTH)], 20, lambda model: True)
    assert made.unreserved("job", "kept", 21)[0].verdict is Verdict.NOTHING


def test_announcing_while_the_reserved_gpu_is_away_moves_to_another() -> None:
    made = plan(owned("a", loaded=frozenset({"big"})), owned("b"))
    _announce(made, 0)
    made.reconfigured([owned("a", available=False), owned("b")], 1)
    answer, effects = made.announced("job", "", "lease-0", "x", 2)
    assert (plans.reserved(answer).id, plans.reserved(answer).backend) == ("lease-0", "b")
    assert moves(effects) == [("load", "big")]


def test_a_load_that_fails_is_told_to_who_announced() -> None:
    made = plan(owned())
    _announce(made, 0)
    effects = made.loaded("gpu", "big", 1, "answered 500")
    assert [(e.lease_id, bool(e.error)) for e in effects if isinstance(e, Announced)] == [("lease-0", True)]


def test_no_gpu_no_reservation() -> None:
    assert plan(cpu()).announced("job", "", "", "x", 0)[0].verdict is Verdict.UNAVAILABLE
    made = plan(owned())
    assert made.announced("job", "unknown", "", "x", 0)[0].verdict is Verdict.UNAVAILABLE


def test_with_preemption_after_the_first_byte_running_background_ends_as_well() -> None:
    made = plan(owned(loaded=_BOTH, slots=2, preemption=Preemption.AFTER_FIRST_BYTE))
    for number, level in enumerate((Level.P3, Level.AUTO)):
        made.offered(ask(number, level, "small"), 0)
        made.began(number)
    assert cancelled(_announce(made, 10)) == [(0, True)]


def test_while_the_gpu_is_reserved_for_other_models_even_urgent_requests_use_the_cpu() -> None:
    background = sets(background=["small", "embed"])
    for announced in (True, False):
        made = plan(owned(loaded=frozenset({"big"})), cpu(models=_BOTH, sets=background))
        if announced:
            _announce(made, 0)
        else:
            made.offered(ask(0, Level.P0, "big"), 0)
        assert dispatched(made.offered(ask(1, Level.P0, "small"), 1)) == [(1, "cpu")]
        assert moves(made.offered(ask(2, Level.P1, "small", arrived=2.0), 2)) == []
        assert dispatched(made.released(1, 3)) == [(2, "cpu")]


def test_everyday_work_at_p0_reserves_nothing() -> None:
    made = plan(owned(loaded=_BOTH))
    assert written(made.offered(ask(0, Level.P0, "small"), 0)) == []
    made.released(0, 1)
    assert moves(made.offered(ask(1, Level.P0, "big"), 2)) == [("unload", "embed"), ("unload", "small")]


def test_a_gpu_without_sets_can_be_announced_for_a_model() -> None:
    made = plan(gpu(slots=2))
    made.offered(ask(0, Level.P3), 0)
    effects = _announce(made, 1, model="m:latest")
    assert (cancelled(effects), moves(effects)) == ([(0, False)], [])  # it is in use: nothing to load
    cold = plan(gpu())
    effects = _announce(cold, 0, model="m:latest")
    assert (moves(effects), _ready(effects)) == ([("load", "m:latest")], [])
    assert moves(_announce(cold, 1, lease="lease-0")) == []  # it is being loaded
    assert _ready(cold.loaded("gpu", "m:latest", 5)) == ["lease-0"]


def test_a_spare_one_is_in_nothings_way() -> None:
    alone = plan(owned(loaded=frozenset({"big"})))
    answer, effects = alone.announced("run", "big", "", "id", 5, spare_only=True)
    assert (answer.verdict, effects) == (Verdict.TAKEN, [])
    assert "no other backend" in answer.reason
    made = plan(owned(loaded=frozenset({"big"})), cpu())
    answer, _ = made.announced("run", "big", "", "id", 5, spare_only=True)
    assert answer.verdict is Verdict.HELD
    again, _ = made.announced("run", "big", "id", "other", 10, spare_only=True)
    assert again.reservation is answer.reservation, "its own is renewed"
    other, _ = made.announced("another run", "big", "", "other", 15, spare_only=True)
    assert (other.verdict, other.reservation) == (Verdict.TAKEN, None)
    assert "already" in other.reason
    assert made.unreserved("run", "id", 20)[0].verdict is Verdict.RELEASED


def test_a_spare_one_ends_when_its_backend_becomes_the_only_one() -> None:
    big = frozenset({"big"})
    made = plan(owned("a", loaded=big), owned("b", loaded=_BOTH))
    first, _ = made.announced("run", "big", "", "id", 0, spare_only=True)
    assert plans.reserved(first).backend == "a"
    made.reconfigured([owned("a", loaded=big), owned("b", available=False)], 1)
    kept, _ = made.announced("operator", "big", "id-of-another", "x", 2)
    assert kept.verdict is Verdict.TAKEN
    answer, effects = made.announced("run", "big", "id", "other", 60, spare_only=True)
    assert (answer.verdict, answer.reservation) == (Verdict.TAKEN, None)
    assert "no other backend" in answer.reason
    assert [(one.backend, one.held) for one in written(effects)][-1] == ("a", None)
    made.reconfigured([owned("a", loaded=big), owned("b", loaded=_BOTH)], 61)
    again, _ = made.announced("run", "big", "", "new", 75, spare_only=True)
    assert again.verdict is Verdict.HELD, "the other one is back"


def test_a_spare_one_is_not_carried_over_to_the_only_backend() -> None:
    made = plan(owned("a", loaded=frozenset({"big"})), owned("b", loaded=_BOTH))
    assert made.announced("run", "big", "", "id", 0, spare_only=True)[0].verdict is Verdict.HELD
    made.reconfigured([owned("a", available=False), owned("b", loaded=_BOTH)], 1)
    answer, effects = made.announced("run", "big", "id", "other", 60, spare_only=True)
    assert (answer.verdict, answer.reservation) == (Verdict.TAKEN, None)
    assert moves(effects) == [], "the models of the other one stay"
    assert made.unreserved("run", "id", 61)[0].verdict is Verdict.NOTHING


def test_a_spare_one_of_before_a_restart_ends_on_the_only_backend() -> None:
    made = Scheduler()
    made.restored("gpu", Held("run", "kept", 900, "orchestrator"))
    made.reconfigured([owned(loaded=frozenset({"big"}))], 0, lambda model: True)
    assert made.announced("run", "big", "kept", "x", 3, spare_only=True)[0].verdict is Verdict.TAKEN
    assert made.unreserved("run", "kept", 4)[0].verdict is Verdict.NOTHING
