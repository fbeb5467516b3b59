"""The scheduler's rules about slots, one example each: who goes where, in which order, and who is refused."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from crds.gpubackend import Capability
from router.ageing import Ageing
from router.effects import Reason
from router.host import Backend
from router.priority import OVERFLOW, Level
from router.queue import QueueBounds
from tests.router.plans import M, ask, cpu, dispatched, gpu, offer, plan, refused, served


def test_free_gpu_before_cpu_and_queue_when_both_are_full() -> None:
    made = plan(cpu(), gpu())
    assert [dispatched(made.offered(ask(n), 0)) for n in range(4)] == [[(0, "gpu")], [(1, "cpu")], [], []]
    assert [r.id for r in made.waiting()] == [2, 3]


@pytest.mark.parametrize("level", list(Level))
def test_who_overflows_to_the_cpu_while_the_gpu_is_busy(level: Level) -> None:
    made = plan(gpu(), cpu())
    made.offered(ask(0, Level.P0), 0)
    assert bool(dispatched(made.offered(ask(1, level), 0))) == (level in OVERFLOW)
    assert bool(dispatched(made.offered(ask(2, level, need=Capability.EMBED), 0))) == (level not in OVERFLOW)


def test_a_model_that_no_backend_allows_on_a_cpu_never_goes_there_beside_a_gpu() -> None:
    made = plan(gpu(), cpu(), cpu_allowed=False)
    made.offered(ask(0), 0)
    assert made.offered(ask(1), 0) == []
    effects = made.reconfigured([gpu(available=False), cpu()], 1)
    assert refused(effects) == [(1, Reason.UNAVAILABLE)]


def test_a_model_that_only_cpus_have_runs_there() -> None:
    made = plan(gpu(models=frozenset({"other:latest"})), cpu(), cpu_allowed=False)
    assert dispatched(made.offered(ask(0, Level.P0), 0)) == [(0, "cpu")]


def test_when_the_gpu_is_away_the_cpu_takes_everybody_it_may() -> None:
    made = plan(gpu(), cpu(slots=9))
    offer(made, ask(0), ask(1, Level.P0), now=0)
    effects = made.reconfigured([gpu(available=False), cpu(slots=9)], 1)
    assert dispatched(effects) == [(1, "cpu")]


def test_order_is_by_level_then_by_arrival() -> None:
    made = plan(gpu())
    made.offered(ask(0), 0)
    levels = [Level.P3, Level.P1, Level.AUTO, Level.P0, Level.P2, Level.P3, Level.P0]
    for number, level in enumerate(levels, start=1):
        made.offered(ask(number, level, arrived=0.0), 0)
    assert served(made, 0, len(levels), now=1) == [4, 7, 2, 5, 3, 1, 6]


def test_clients_take_turns_and_each_keeps_its_order() -> None:
    made = plan(gpu())
    made.offered(ask(0), 0)
    for number, client in enumerate("aaaabbc", start=1):
        made.offered(ask(number, client=client, arrived=0.0), 0)
    assert served(made, 0, 7, now=1) == [1, 5, 7, 2, 6, 3, 4]


def test_who_is_due_goes_first_but_only_every_fourth_time() -> None:
    made = plan(gpu(), ageing=Ageing(limits=(5, 30, 120, 240, 600), every=4))
    made.offered(ask(0, Level.P0), 0)
    for number in range(1, 4):
        made.offered(ask(number, Level.P3, arrived=0.0), 0)
    for number in range(10, 20):
        made.offered(ask(number, Level.P0, arrived=599.0), 599)
    assert served(made, 0, 9, now=600) == [10, 11, 1, 12, 13, 14, 2, 15, 16]  # the first one of four runs already


def test_due_requests_are_served_in_the_order_in_which_they_became_due() -> None:
    made = plan(gpu(), ageing=Ageing(limits=(5, 30, 120, 240, 600), every=1))
    offer(made, ask(0, Level.P0), ask(1, Level.P3, arrived=0.0), now=0)  # due at 540
    made.offered(ask(2, Level.P1, arrived=510.0), 510)  # due at 537
    made.offered(ask(3, Level.P0, arrived=540.0), 540)  # due at 544.5
    assert served(made, 0, 3, now=541) == [2, 1, 3]


def test_loaded_before_idle_before_name_and_weights() -> None:
    assert dispatched(plan(gpu("a"), gpu("b", loaded=M)).offered(ask(0), 0)) == [(0, "b")]
    made = plan(gpu("a", 2), gpu("b", 2))
    found = [dispatched(made.offered(ask(n), 0))[0][1] for n in range(4)]
    assert found == ["a", "a", "b", "b"]  # first where its model is loaded by now
    made = plan(gpu("a", 9, loaded=M), gpu("b", 9, loaded=M, weight=2))
    found = [dispatched(made.offered(ask(n), 0))[0][1] for n in range(9)]
    assert (found.count("a"), found.count("b")) == (3, 6)


def test_slots_are_per_model_and_models_at_once_are_bounded() -> None:
    names = frozenset({"m:latest", "n:latest", "o:latest"})
    made = plan(gpu(models=names, max_loaded=2))
    assert dispatched(made.offered(ask(0), 0))
    assert dispatched(made.offered(ask(1, model="n:latest"), 0))
    assert made.offered(ask(2), 0) == []
    assert made.offered(ask(3, model="o:latest"), 0) == []
    assert dispatched(made.released(1, 1)) == [(3, "gpu")]


def test_a_model_that_waits_for_its_turn_is_not_starved_by_those_that_are_loaded() -> None:
    names = frozenset({"m:latest", "n:latest"})
    made = plan(gpu(models=names, max_loaded=1))
    offer(made, ask(0, Level.P2), ask(1, Level.P2, arrived=0.0), ask(2, Level.P0, "n:latest", arrived=0.0), now=0)
    assert dispatched(made.released(0, 1)) == [(2, "gpu")]
    assert made.offered(ask(3, Level.P2, arrived=1.0), 1) == []
    assert dispatched(made.released(2, 2)) == [(1, "gpu")]


def test_a_cpu_is_bounded_over_all_its_models() -> None:
    names = frozenset({"m:latest", "n:latest"})
    made = plan(cpu(slots=4, models=names, max_in_flight=2))
    outcomes = [
        dispatched(made.offered(ask(n, model=m), 0)) for n, m in enumerate(["m:latest", "n:latest", "m:latest"])
    ]
    assert [bool(o) for o in outcomes] == [True, True, False]
    assert dispatched(made.released(1, 1)) == [(2, "cpu")]


def test_a_backend_that_comes_back_starts_with_one_then_two_then_four() -> None:
    made = plan(gpu(slots=8))
    made.reconfigured([gpu(slots=8, available=False)], 1)
    made.reconfigured([gpu(slots=8)], 2)
    running = [made.offered(ask(n, Level.P1), 3) for n in range(1, 30)]
    alive = [number for effects in running for number, _ in dispatched(effects)]
    waves = []
    while alive:
        waves.append(len(alive))
        alive = [number for ended in alive for number, _ in dispatched(made.released(ended, 4))]
    assert waves == [1, 2, 4, 8, 8, 6]


def test_capabilities_route() -> None:
    seeing = gpu("eye", capabilities=frozenset({Capability.GENERATE, Capability.VISION}))
    blind = frozenset({Capability.GENERATE, Capability.EMBED})
    made = plan(gpu("blind", capabilities=blind), seeing)
    assert dispatched(made.offered(ask(0, need=Capability.VISION), 0)) == [(0, "eye")]
    assert made.offered(ask(1, need=Capability.VISION), 0) == []
    assert dispatched(made.offered(ask(2, need=Capability.GENERATE), 0)) == [(2, "blind")]
    made = plan(gpu(capabilities=blind))
    assert refused(made.offered(ask(3, need=Capability.VISION), 0)) == [(3, Reason.INCAPABLE)]


def test_unmetered_requests_take_no_slot_and_wait_for_none() -> None:
    made = plan(gpu())
    made.offered(ask(0), 0)
    assert dispatched(made.offered(ask(1, metered=False), 0)) == [(1, "gpu")]
    assert made.in_flight("gpu") == 2
    assert made.released(1, 1) == []


@pytest.mark.parametrize(
    ("backends", "model", "reason"),
    [
        ([], "m:latest", Reason.NO_BACKEND),
        ([gpu()], "other:latest", Reason.UNKNOWN_MODEL),
        ([gpu(available=False)], "m:latest", Reason.UNAVAILABLE),
        ([gpu(available=False)], "", Reason.UNAVAILABLE),
        ([gpu(models=None, available=False)], "other:latest", Reason.UNAVAILABLE),
    ],
)
def test_refusals(backends: list[Backend], model: str, reason: Reason) -> None:
    assert refused(plan(*backends).offered(ask(0, model=model), 0)) == [(0, reason)]


def test_a_request_that_every_backend_failed_is_refused() -> None:
    made = plan(gpu("a"), gpu("b"))
    assert dispatched(made.offered(ask(0, avoid=frozenset({"a"})), 0)) == [(0, "b")]
    tried = ask(1, avoid=frozenset({"a", "b"}))
    assert refused(made.offered(tried, 0)) == [(1, Reason.EXHAUSTED)]
    assert not made.possible(tried, 0)


def test_the_queue_is_bounded_by_count_by_bytes_and_by_client() -> None:
    made = plan(gpu(), bounds=QueueBounds(count=3, size=100, per_client=2))
    made.offered(ask(0), 0)
    assert refused(made.offered(ask(1, size=101), 0)) == [(1, Reason.QUEUE_FULL)]
    assert made.offered(ask(2, client="a", size=60), 0) == []
    assert refused(made.offered(ask(3, client="b", size=60), 0)) == [(3, Reason.QUEUE_FULL)]
    assert made.offered(ask(4, client="a"), 0) == []
    assert refused(made.offered(ask(5, client="a"), 0)) == [(5, Reason.CLIENT_QUEUE_FULL)]
    assert made.offered(ask(6, client="b"), 0) == []
    assert refused(made.offered(ask(7, client="b"), 0)) == [(7, Reason.QUEUE_FULL)]


def test_the_youngest_of_the_least_urgent_makes_room_for_somebody_more_urgent() -> None:
    made = plan(gpu(), bounds=QueueBounds(count=2))
    offer(made, ask(0, Level.P0), ask(1), ask(2), now=0)
    assert refused(made.offered(ask(3, Level.P1), 0)) == [(2, Reason.QUEUE_FULL)]
    assert refused(made.offered(ask(4), 0)) == [(4, Reason.QUEUE_FULL)]
    assert [r.id for r in made.waiting()] == [3, 1]


def test_nobody_waits_beyond_the_deadline_of_its_level() -> None:
    made = plan(gpu(), bounds=QueueBounds(deadlines=(10, 20, 30, 40, 50)))
    made.offered(ask(0, Level.P0), 0)
    for number, level in enumerate(Level, start=1):
        made.offered(ask(number, level, arrived=0.0), 0)
    seen = [refused(made.ticked(float(now))) for now in (9, 10, 25, 50)]
    late = Reason.DEADLINE
    assert seen == [[], [(1, late)], [(2, late)], [(3, late), (4, late), (5, late)]]
    assert not list(made.waiting())


def test_a_backend_that_comes_back_under_its_name_still_carries_what_runs_there() -> None:
    made = plan(gpu())
    made.offered(ask(0), 0)
    made.reconfigured([], 1)
    assert made.in_flight("gpu") == 1
    made.reconfigured([gpu()], 2)
    assert made.offered(ask(1), 3) == []
    assert dispatched(made.released(0, 4)) == [(1, "gpu")]


def test_waiters_are_refused_when_their_last_backend_goes() -> None:
    made = plan(gpu())
    for number in range(3):
        made.offered(ask(number), 0)
    assert refused(made.reconfigured([gpu(available=False)], 1)) == [(1, Reason.UNAVAILABLE), (2, Reason.UNAVAILABLE)]
    assert not list(made.waiting())


def test_many_requests_leave_nothing_behind() -> None:
    made = plan(gpu(slots=3), cpu())

    def pass_by(first: int, last: int) -> int:
        for number in range(first, last):
            made.offered(ask(number, Level(number % 5), client=str(number), size=number), float(number))
            made.offered(ask(-number, Level.P1, client=str(-number), avoid=frozenset({"cpu"})), float(number))
            made.withdrawn(number, float(number))
            made.withdrawn(-number, float(number))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    made.offered(ask(0, Level.P0), 0)
    tracemalloc.start()
    try:
        before = pass_by(1, 1_000)
        after = pass_by(1_000, 20_000)
    finally:
        tracemalloc.stop()
    assert after - before < 19_000  # less than a byte for each request
    assert (made.in_flight("gpu"), made.in_flight("cpu"), len(list(made.waiting()))) == (1, 0, 0)
