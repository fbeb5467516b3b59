"""The scheduler's finer rules, one example each: ties, turns, returns, what reservations keep off, who gives way."""

from __future__ import annotations

import pytest

from crds.gpubackend import Capability, Preemption
from router.ageing import Ageing
from router.effects import Reason
from router.host import Backend
from router.priority import Level
from router.queue import QueueBounds
from router.scheduler import Scheduler
from router.waiting import SlotRequest
from tests.router import plans
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
    plans.offer(wide, ask(0, Level.P2), ask(1, Level.P2), now=0)
    wide.offered(ask(2, Level.P2, "n:latest"), 1)
    wide.offered(ask(3, Level.P2), 2)
    assert dispatched(wide.released(0, 3)) == [(3, "gpu")]


def test_a_returned_request_is_refused_when_nobody_is_left_whom_it_may_go_to() -> None:
    made = plan(gpu("a"), gpu("b"))
    plans.offer(made, ask(0), ask(1), now=0)
    assert made.offered(ask(2, avoid=frozenset({"a"})), 1) == []
    assert refused(made.reconfigured([gpu("a"), gpu("b", available=False)], 2)) == [(2, Reason.EXHAUSTED)]


def test_slots_that_open_together_are_given_on_gpus_first() -> None:
    made = plan(cpu(), gpu())
    plans.offer(made, ask(0, Level.P0), ask(1), now=0)
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
    plans.offer(made, ask(0, Level.P0), ask(1, Level.P0, arrived=0.0), ask(2, Level.P0, arrived=0.0), now=0)
    made.offered(ask(3, Level.P3, arrived=1.0), 1)
    assert plans.served(made, 0, 3, now=10) == [3, 1, 2]  # a P0 runs already, so the second slot is theirs


def test_levels_with_somebody_due_take_turns() -> None:
    made = plan(gpu(), ageing=Ageing(limits=(1000, 1, 1, 1, 1), every=1))
    made.offered(ask(0, Level.P0), 0)
    for number in (1, 2, 3):
        made.offered(ask(number, Level.P3, arrived=0.0), 0)
    for number in (11, 12, 13):
        made.offered(ask(number, Level.P2, arrived=1.0), 1)
    for number in range(20, 30):
        made.offered(ask(number, Level.P0, arrived=2.0), 2)
    assert plans.served(made, 0, 6, now=10) == [1, 11, 2, 12, 3, 13]


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


# Giving way: who, when, how often, and the one place where it is decided against the first byte.


def test_a_p0_takes_the_slot_of_the_youngest_background_request_that_has_not_begun() -> None:
    made = plan(gpu(slots=4))
    for number, level in enumerate((Level.P3, Level.P3, Level.P3, Level.P1)):
        made.offered(ask(number, level), float(number))
    made.began(2)
    assert cancelled(made.offered(ask(9, Level.P0), 10)) == [(1, False)]
    assert dispatched(made.released(1, 11)) == [(9, "gpu")]


def test_one_victim_for_each_p0_and_none_for_others() -> None:
    made = plan(gpu(slots=3))
    for number in range(3):
        made.offered(ask(number), float(number))
    assert [cancelled(made.offered(ask(n, level), 10)) for n, level in [(10, Level.P1), (11, Level.P2)]] == [[], []]
    assert [len(cancelled(made.offered(ask(n, Level.P0), 10))) for n in range(20, 25)] == [1, 1, 1, 0, 0]


def test_p3_before_auto_and_never_p1_or_p2() -> None:
    made = plan(gpu(slots=4))
    for number, level in enumerate((Level.P1, Level.P2, Level.P3, Level.AUTO)):
        made.offered(ask(number, level), float(number))
    victims = [cancelled(made.offered(ask(n, Level.P0), 10)) for n in range(10, 13)]
    assert victims == [[(2, False)], [(3, False)], []]


def test_first_byte_or_preempted_is_decided_once() -> None:
    made = plan(gpu())
    made.offered(ask(0), 0)
    assert made.began(0)
    assert cancelled(made.offered(ask(1, Level.P0), 1)) == []  # too late: it is left alone
    made.released(0, 2)
    made.released(1, 3)
    made.offered(ask(2), 4)
    assert cancelled(made.offered(ask(3, Level.P0), 5)) == [(2, False)]
    assert not made.began(2)  # too late for the other side


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [
        (Preemption.NEVER, [], []),
        (Preemption.BEFORE_FIRST_BYTE, [(0, False)], []),
        (Preemption.AFTER_FIRST_BYTE, [(0, False)], [(0, True)]),
    ],
)
def test_the_policy_of_the_backend(
    policy: Preemption, before: list[tuple[int, bool]], after: list[tuple[int, bool]]
) -> None:
    made = plan(gpu(preemption=policy))
    made.offered(ask(0), 0)
    assert cancelled(made.offered(ask(1, Level.P0), 1)) == before
    made = plan(gpu(preemption=policy))
    made.offered(ask(0), 0)
    made.began(0)
    assert cancelled(made.offered(ask(1, Level.P0), 1)) == after


def test_the_victim_goes_to_the_cpu_at_once_or_waits_before_the_others_of_its_level() -> None:
    made = plan(gpu(), cpu())
    victim = _preempt(made, 0)
    assert dispatched(made.offered(victim, 12)) == [(100, "cpu")]
    alone = plan(gpu())
    victim = _preempt(alone, 0)
    alone.offered(ask(50, arrived=1.0), 12)
    assert alone.offered(victim, 13) == []
    assert dispatched(alone.released(1, 14)) == [(100, "gpu")]


def test_nobody_is_a_victim_more_than_twice() -> None:
    made = plan(gpu())
    made.offered(ask(0, preempted=2), 0)
    assert cancelled(made.offered(ask(1, Level.P0), 1)) == []
    assert dispatched(made.released(0, 2)) == [(1, "gpu")]


def test_a_victim_that_ends_by_itself_leaves_its_slot_to_the_p0() -> None:
    made = plan(gpu())
    made.offered(ask(0), 0)
    made.offered(ask(1, Level.P0), 1)
    assert dispatched(made.released(0, 2)) == [(1, "gpu")]


def _preempt(made: Scheduler, number: int) -> SlotRequest:
    """Run a background request, let a P0 take its slot; the victim as it comes back."""
    made.offered(ask(number), 0)
    made.offered(ask(number + 1, Level.P0), 10)
    made.released(number, 11)
    return ask(100, arrived=float(number), preempted=1)


def test_a_p0_of_v1_takes_no_slot_for_one_of_api_that_could_not_use_it() -> None:
    """The same model on an Ollama and on an OpenAI server: a victim there is of no use to a request by /api."""
    made = plan(gpu("ollama", slots=2), gpu("openai", slots=2, openai=True))
    for number in (1, 2):
        made.offered(ask(number, Level.P0), 0)
    for number in (3, 4):
        made.offered(ask(number, Level.P3, ollama=False), 0)
    assert cancelled(made.offered(ask(5, Level.P0), 1)) == []
    assert len(cancelled(made.offered(ask(6, Level.P0, ollama=False), 1))) == 1
    made.withdrawn(6, 1)
    assert cancelled(made.offered(ask(7, Level.P0, ollama=False), 2)) == [], "that slot is on its way"
