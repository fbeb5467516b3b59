"""The scheduler's finer rules, one example each: ties, turns, returns and what a reservation keeps off."""

from __future__ import annotations

import pytest

from crds.gpubackend import Capability
from router.ageing import Ageing
from router.effects import Reason
from router.host import Backend
from router.priority import Level
from router.queue import QueueBounds
from tests.router.plans import M, ask, cancelled, cpu, dispatched, gpu, moves, owned, plan, refused, sets, warm, written

_TWO = frozenset({"m:latest", "n:latest"})


def test_a_backend_that_was_removed_and_comes_again_is_told_its_status_again() -> None:
    made = plan(owned(loaded=frozenset({"small", "embed"})))
    assert made.reconfigured([], 1) == []
    again = made.reconfigured([owned(loaded=frozenset({"small", "embed"}))], 2)
    assert [status.sets for status in written(again)] == [("background",)]


def test_a_question_about_a_model_goes_to_a_gpu_even_a_busy_one() -> None:
    made = plan(cpu(), gpu())
    made.offered(ask(0, Level.P0), 0)
    assert dispatched(made.offered(ask(1, metered=False), 0)) == [(1, "gpu")]


def test_a_p0_that_comes_instead_of_one_that_hung_up_gets_the_slot_of_its_victim() -> None:
    made = plan(gpu(slots=2))
    made.offered(ask(0), 0)
    made.offered(ask(1), 1)
    assert cancelled(made.offered(ask(10, Level.P0), 2)) == [(1, False)]
    made.withdrawn(10, 3)
    assert cancelled(made.offered(ask(11, Level.P0), 3)) == []
    assert dispatched(made.released(1, 4)) == [(11, "gpu")]


def test_nobody_slips_past_a_waiter_into_a_free_slot_of_the_model_that_is_in_the_way() -> None:
    made = plan(gpu(slots=2, models=_TWO, max_loaded=1))
    made.offered(ask(0, Level.P2), 0)
    assert made.offered(ask(1, Level.P1, "n:latest"), 1) == []
    assert made.offered(ask(2, Level.P2), 2) == []
    assert dispatched(made.released(0, 3)) == [(1, "gpu")]


def test_of_equals_the_one_whose_model_has_room_goes_before_the_one_that_came_earlier() -> None:
    made = plan(gpu(slots=1, models=_TWO, max_loaded=1))
    made.offered(ask(0, Level.P0), 0)
    made.offered(ask(1, Level.P2, "n:latest"), 1)
    made.offered(ask(2, Level.P2), 2)
    made.offered(ask(3, Level.P0), 3)
    assert dispatched(made.released(0, 4)) == [(3, "gpu")]
    # Nothing runs there any more after that, so both have room, and the earlier one goes.
    assert dispatched(made.released(3, 5)) == [(1, "gpu")]
    wide = plan(gpu(slots=2, models=_TWO, max_loaded=1))
    wide.offered(ask(0, Level.P2), 0)
    wide.offered(ask(1, Level.P2), 0)
    wide.offered(ask(2, Level.P2, "n:latest"), 1)
    wide.offered(ask(3, Level.P2), 2)
    assert dispatched(wide.released(0, 3)) == [(3, "gpu")]


def test_a_returned_request_is_refused_when_nobody_is_left_whom_it_may_go_to() -> None:
    made = plan(gpu("a"), gpu("b"))
    made.offered(ask(0), 0)
    made.offered(ask(1), 0)
    assert made.offered(ask(2, avoid=frozenset({"a"})), 1) == []
    assert refused(made.reconfigured([gpu("a"), gpu("b", available=False)], 2)) == [(2, Reason.EXHAUSTED)]


def test_slots_that_open_together_are_given_on_gpus_first() -> None:
    made = plan(cpu(), gpu())
    made.offered(ask(0, Level.P0), 0)
    made.offered(ask(1), 0)
    assert made.offered(ask(2), 1) == []
    more = [cpu(slots=2, max_in_flight=2), gpu(slots=2)]
    assert dispatched(made.reconfigured(more, 2)) == [(2, "gpu")]


def test_who_becomes_due_is_served_by_a_reserved_gpu_without_sets_as_well() -> None:
    made = plan(gpu())
    made.announced("job", "", "", "lease", 0)
    assert made.offered(ask(1, Level.P3, arrived=0.0), 0) == []
    made.announced("job", "", "lease", "x", 290)
    made.announced("job", "", "lease", "x", 530)
    assert dispatched(made.ticked(539)) == []
    assert dispatched(made.ticked(541)) == [(1, "gpu")]


def test_a_request_that_came_back_does_not_outlive_its_deadline_behind_younger_ones() -> None:
    made = plan(gpu("a"), gpu("b"), bounds=QueueBounds(deadlines=(10, 10, 10, 10, 10)))
    for number in range(2):
        made.offered(ask(number, Level.P0), 0)
    made.offered(ask(2, Level.P1, arrived=5.0), 5)
    made.offered(ask(3, Level.P1, arrived=1.0, avoid=frozenset({"a"})), 6)
    assert refused(made.ticked(12)) == [(3, Reason.DEADLINE)]


def test_a_slot_for_who_is_due_goes_to_another_level_than_the_one_that_is_served_anyway() -> None:
    made = plan(gpu(), ageing=Ageing(limits=(1, 1, 1, 1, 1), every=2))
    made.offered(ask(0, Level.P0), 0)
    made.offered(ask(1, Level.P0, arrived=0.0), 0)
    made.offered(ask(2, Level.P0, arrived=0.0), 0)
    made.offered(ask(3, Level.P3, arrived=1.0), 1)
    served, running = [], 0
    for _ in range(3):
        ((running, _backend),) = dispatched(made.released(running, 10))
        served.append(running)
    assert served == [3, 1, 2]  # a P0 runs already, so the second slot is theirs


def test_levels_with_somebody_due_take_turns() -> None:
    made = plan(gpu(), ageing=Ageing(limits=(1000, 1, 1, 1, 1), every=1))
    made.offered(ask(0, Level.P0), 0)
    for number in (1, 2, 3):
        made.offered(ask(number, Level.P3, arrived=0.0), 0)
    for number in (11, 12, 13):
        made.offered(ask(number, Level.P2, arrived=1.0), 1)
    for number in range(20, 30):
        made.offered(ask(number, Level.P0, arrived=2.0), 2)
    served, running = [], 0
    for _ in range(6):
        ((running, _backend),) = dispatched(made.released(running, 10))
        served.append(running)
    assert served == [1, 11, 2, 12, 3, 13]


def test_a_backend_that_is_seen_for_the_first_time_does_not_start_slowly() -> None:
    made = plan(gpu(slots=4, available=False, models=None))
    made.reconfigured([gpu(slots=4)], 1)
    assert [len(dispatched(made.offered(ask(n), 2))) for n in range(5)] == [1, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("level", "served"), [(Level.P0, True), (Level.P2, True), (Level.AUTO, False), (Level.P3, False)]
)
@pytest.mark.parametrize(
    "backend",
    [gpu(), owned(sets=sets(orchestrator=["m:latest"], background=["small"]), loaded=M)],
    ids=["without sets", "with sets"],
)
def test_a_reserved_gpu_serves_whom_nobody_called_background(backend: Backend, level: Level, served: bool) -> None:
    made = plan(backend)
    made.announced("job", "", "", "lease", 0)
    assert bool(dispatched(made.offered(ask(0, level, arrived=1.0), 1))) == served


def test_an_embedding_at_p0_reserves_no_gpu_whatever_its_set() -> None:
    pair = sets(orchestrator=["big=10", "embed=5"], background=["small=6"])
    made = plan(owned(sets=pair, loaded=frozenset({"big", "embed"})))
    assert written(made.offered(ask(0, Level.P0, "embed", need=Capability.EMBED), 0)) == []
    assert written(made.offered(ask(1, Level.P0, "big"), 0)) != []


def test_the_background_set_does_not_come_back_while_somebody_urgent_waits_for_the_present_one() -> None:
    made = plan(owned(loaded=frozenset({"big"})))
    made.announced("job", "", "", "lease", 0)
    made.offered(ask(0, Level.P1, "big"), 1)
    made.offered(ask(1, Level.P1, "big"), 2)
    effects = made.unreserved("job", "", 3)[1]
    assert moves(effects) == []
    assert dispatched(made.released(0, 4)) == [(1, "gpu")]
    effects = made.released(1, 5) + made.ticked(6)
    assert moves(warm(made, effects, 7))[0] == ("unload", "big")
