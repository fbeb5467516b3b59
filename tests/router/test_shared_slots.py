"""Several models share the slots of one backend: nothing that holds for one model may be lost over two."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

import pytest

from crds.gpubackend import Preemption
from router.ageing import Ageing
from router.effects import Reason
from router.host import Backend
from router.priority import Level
from router.queue import QueueBounds
from router.scheduler import Scheduler
from tests.router.plans import ask, cancelled, cpu, dispatched, gpu, offer, plan, refused, served
from tests.router.simulation import Job, Server, Simulation

_NAMES = ("chat", "code", "ingest", "embed")
_BOTH = frozenset({"chat", "ingest"})
_SHARED = {
    "a CPU": cpu(models=_BOTH, max_in_flight=1),
    "maxInFlight": gpu(models=_BOTH, max_in_flight=1),
    "maxLoadedModels": gpu(models=_BOTH, max_loaded=1),
}


@pytest.mark.parametrize("backend", _SHARED.values(), ids=_SHARED)
def test_a_p0_goes_before_an_old_backlog_of_another_model(backend: Backend) -> None:
    made = plan(backend)
    for number in range(200):
        made.offered(ask(number, Level.P3, "ingest", arrived=0.0), 0)
    made.offered(ask(1000, Level.P0, "chat", arrived=600.0), 600)
    assert dispatched(made.released(0, 601)) == [(1000, backend.name)]


def test_the_turn_of_those_that_are_due_is_one_account_for_all_models() -> None:
    made = plan(gpu(models=frozenset(_NAMES), max_in_flight=1))
    made.offered(ask(0, Level.P1, "chat", arrived=600.0), 600)
    for number in range(1, 4):
        made.offered(ask(number, Level.P3, "ingest", arrived=0.0), 600)
        made.offered(ask(number + 3, Level.P3, "embed", arrived=1.0), 600)
    for number in range(10, 20):
        made.offered(ask(number, Level.P1, "chat", arrived=600.0), 600)
    assert served(made, 0, 12, now=601) == [10, 11, 1, 12, 13, 14, 2, 15, 16, 17, 3, 18]


def test_what_is_due_goes_before_a_p0_only_after_three_others() -> None:
    made = plan(gpu(models=_BOTH, max_in_flight=1))
    for number in range(8):
        made.offered(ask(number, Level.P3, "ingest", arrived=0.0), 0)
    made.offered(ask(9, Level.P1, "chat", arrived=600.0), 600)
    for number in range(10, 16):
        made.offered(ask(number, Level.P0, "chat", arrived=600.0), 600)
    assert served(made, 0, 9, now=601) == [10, 11, 12, 1, 13, 14, 15, 2, 9]


def test_a_p0_takes_the_slot_of_background_of_another_model() -> None:
    made = plan(gpu(slots=4, models=_BOTH, max_in_flight=2))
    for number in range(2):
        made.offered(ask(number, Level.P3, "ingest"), float(number))
    assert cancelled(made.offered(ask(2, Level.P0, "chat"), 2)) == [(1, False)]
    assert cancelled(made.offered(ask(3, Level.P0, "chat"), 3)) == [(0, False)]
    assert cancelled(made.offered(ask(4, Level.P0, "chat"), 4)) == []  # two are on their way out, and no third is there
    assert dispatched(made.released(1, 5)) == [(2, "gpu")]


def test_where_the_models_at_once_are_bounded_one_of_them_leaves_whole_or_not_at_all() -> None:
    names = frozenset(_NAMES)
    made = plan(gpu(slots=2, models=names, max_loaded=2))
    for number, (level, model) in enumerate(
        [(Level.P3, "ingest"), (Level.P3, "ingest"), (Level.AUTO, "embed"), (Level.P1, "embed")]
    ):
        made.offered(ask(number, level, model), float(number))
    assert cancelled(made.offered(ask(9, Level.P0, "chat"), 9)) == [(0, False), (1, False)]
    assert dispatched(made.released(0, 10)) == []
    assert dispatched(made.released(1, 10)) == [(9, "gpu")]
    made = plan(gpu(slots=2, models=names, max_loaded=1))
    made.offered(ask(0, Level.P3, "ingest"), 0)
    made.offered(ask(1, Level.P3, "ingest"), 1)
    made.began(1)
    assert cancelled(made.offered(ask(2, Level.P0, "chat"), 2)) == []  # to cancel one would win nothing


def test_its_own_models_slots_are_full_then_only_those_help() -> None:
    made = plan(gpu(models=_BOTH, max_in_flight=2))
    made.offered(ask(0, Level.AUTO, "chat"), 0)
    made.offered(ask(1, Level.P3, "ingest"), 1)
    assert cancelled(made.offered(ask(2, Level.P0, "chat"), 2)) == [(0, False)]


def test_a_p0_is_not_refused_for_the_bytes_of_background() -> None:
    made = plan(gpu(), bounds=QueueBounds(count=1000, size=100))
    made.offered(ask(0, Level.P0), 0)
    for number, level in enumerate([Level.P3] * 6 + [Level.AUTO] * 3 + [Level.P1], start=1):
        made.offered(ask(number, level, size=10), 0)
    full = Reason.QUEUE_FULL
    assert refused(made.offered(ask(98, Level.P1, size=91), 1)) == [(98, full)]  # no sacrifice without a gain
    assert refused(made.offered(ask(99, Level.P0, size=80), 1)) == [
        *[(number, full) for number in (6, 5, 4, 3, 2, 1)],
        *[(number, full) for number in (9, 8)],
    ]
    assert sorted(request.id for request in made.waiting()) == [7, 10, 99]


def _drawn(chance: Random) -> Server:
    """A backend with any bounds; jobs of a second take a second there."""
    slots, names = chance.randint(1, 3), frozenset(_NAMES)
    bounds = {"max_loaded": chance.choice([1, 2, 3, 4]), "max_in_flight": chance.choice([1, 2, 5, 1 << 30])}
    make = chance.choice([cpu, gpu])
    backend = make("b", slots, models=names, preemption=chance.choice(list(Preemption)), **bounds)
    return Server(backend, memory=set(names))


@pytest.mark.parametrize("seed", range(20))
def test_a_p0_waits_for_one_job_at_most_whatever_else_there_is(seed: int) -> None:
    """Minutes of twice what fits, of all other levels and all models, with a P0 every five seconds or so. Requests are
    due after a tenth of the usual times."""
    chance = Random(seed)
    server = _drawn(chance)
    backend = server.backend
    capacity = min(backend.max_in_flight, backend.num_parallel * min(backend.max_loaded, len(_NAMES)))
    ageing = Ageing(limits=(0.5, 3, 12, 24, 60))
    made = Scheduler(ageing=ageing, bounds=QueueBounds(deadlines=(1e9,) * 5))
    world = Simulation(made, [server], chance=chance, ageing=ageing)
    for step in range(180 * 2):
        for _ in range(capacity):
            world.at(step * 0.5, partial(world.ask, Level(chance.randint(1, 4)), chance.choice(_NAMES), 1.0))
    urgent: list[Job] = []

    def ask_urgently() -> None:
        urgent.append(world.ask(Level.P0, chance.choice(_NAMES), 1.0))

    for moment in range(5, 180, 5):
        world.at(moment + chance.random(), ask_urgently)
    world.run(180)
    assert len(urgent) == 35
    assert max(job.waited for job in urgent) <= 1.0 + 0.02
    late = [job for job in world.jobs if job.dispatched is not None and job.dispatched > 60]
    shares = Counter(job.request.level for job in late)
    assert min(shares[level] for level in Level if level is not Level.P0) >= len(late) // 28
    assert world.counts["passed"] > 0  # those that are due did go before others


def test_the_account_lives_as_long_as_the_backend_not_as_the_queue() -> None:
    """A queue that is empty for a moment takes no turn away."""
    made = plan(gpu(models=_BOTH, max_in_flight=1), ageing=Ageing(every=3))
    offer(made, ask(0, Level.P1, "chat", arrived=600.0), ask(1, Level.P1, "chat", arrived=600.0), now=600)
    assert dispatched(made.released(0, 600)) == [(1, "gpu")]
    offer(made, ask(2, Level.P1, "chat", arrived=600.0), ask(3, Level.P3, "ingest", arrived=0.0), now=600)
    assert dispatched(made.released(1, 600)) == [(3, "gpu")]
