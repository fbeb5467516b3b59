"""The scheduler in scenes of minutes and of a whole day, on virtual time. Every event is checked by the simulation."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from random import Random

import pytest

from crds.gpubackend import Preemption
from router.priority import Level
from router.scheduler import Scheduler
from tests.router.plans import ask, cpu, dispatched, gpu, owned, sets
from tests.router.simulation import Job, Server, Simulation

_SMALL = frozenset({"small", "embed"})
_M = "m:latest"


def _simulate(*servers: Server, plan: Scheduler | None = None, seed: int = 1) -> Simulation:
    return Simulation(plan or Scheduler(), servers, chance=Random(seed))


def _cpu(slots: int = 4, models: frozenset[str] = frozenset({_M}), speed: float = 0.1) -> Server:
    return Server(cpu("cpu", slots, models=models, max_in_flight=slots), speed=speed, memory=set(models))


def test_a_p0_takes_the_gpu_from_background_that_has_not_begun_and_the_victim_ends_on_the_cpu() -> None:
    world = _simulate(Server(gpu(slots=4)), _cpu())
    background = [world.ask(Level.P3, _M, 20.0) for _ in range(4)]
    world.run(1.0)
    urgent = world.ask(Level.P0, _M)
    world.run(1.25)
    assert urgent.dispatched is not None
    assert urgent.waited == pytest.approx(world.servers["gpu"].cancel_seconds)
    world.run(600)
    assert world.counts["invisible"] == 1
    assert [job.end for job in background] == ["done"] * 4
    assert [job.attempts for job in background].count(["gpu", "cpu"]) == 1


def test_a_p0_takes_the_next_free_slot_when_everybody_has_begun() -> None:
    world = _simulate(Server(gpu(slots=2)))
    for level in (Level.P3, Level.P3, Level.P1, Level.P2, Level.P3):
        world.ask(level, _M, 10.0)
    world.run(5)
    urgent = world.ask(Level.P0, _M)
    world.run(11)
    assert urgent.waited == pytest.approx(5.0)
    assert world.counts["Cancel"] == 0


def test_with_the_backends_consent_a_running_answer_ends_visibly() -> None:
    world = _simulate(Server(gpu(preemption=Preemption.AFTER_FIRST_BYTE)))
    victim = world.ask(Level.P3, _M, 50.0)
    world.run(5)
    urgent = world.ask(Level.P0, _M)
    world.run(10)
    assert victim.end == "preempted"
    assert urgent.waited == pytest.approx(0.05)


def test_five_hundred_background_requests_before_it_cost_a_p0_one_job_at_most() -> None:
    world = _simulate(Server(gpu()))
    for _ in range(500):
        world.ask(Level.P3, _M, 1.0)
    waits = []
    for second in range(10, 400, 10):
        world.run(second + 0.6)
        urgent = world.ask(Level.P0, _M, 1.0)
        world.run(second + 3)
        waits.append(urgent.waited)
    assert max(waits) <= 1.0


@pytest.mark.parametrize("overload", [False, True])
def test_background_is_served_within_its_limit_under_endless_urgent_load(overload: bool) -> None:
    world = _simulate(Server(gpu(slots=2)))
    background: list[Job] = []

    def busy() -> None:
        for _ in range(2):
            world.ask(Level(world.chance.randrange(2)), _M, 1.0)
        if world.now < 3000:
            world.at(world.now + 1.0, busy)

    def quiet() -> None:
        background.append(world.ask(Level.P3, _M, 1.0))
        if world.now < 2000:
            world.at(world.now + 20, quiet)

    busy()
    if overload:
        busy()  # twice what fits
    for _ in range(10):
        world.ask(Level.P0, _M, 1.0)  # from now on the GPU is never free
    quiet()
    world.run(3000)
    assert len(background) == 101
    assert {job.end for job in background} == {"done"}
    assert max(job.waited for job in background) <= 600.0


def test_sixty_alternating_requests_change_sets_at_most_twice() -> None:
    world = _simulate(Server(owned(sets=sets(a=["x"], b=["y"])), load_seconds=10))
    for number in range(60):
        world.at(number * 0.5, partial(world.ask, Level.P1, "xy"[number % 2], 0.5))
    world.run(300)
    assert not world.unfinished()
    loads = sum(world.servers["gpu"].loads.values())
    assert loads <= 3
    assert max(job.waited for job in world.jobs) <= 60


def test_three_hundred_at_once_for_a_cold_model_cause_one_load_and_their_hang_ups_no_other() -> None:
    world = _simulate(Server(owned(slots=4)))
    for number in range(300):
        world.ask(Level.P2, "big", 0.2, client=str(number % 7), gives_up=5.0 if number % 3 == 0 else None)
    world.run(100)
    assert world.servers["gpu"].loads == {"big": 1}
    assert Counter(job.end for job in world.jobs) == {"done": 200, "hung up": 100}


def test_a_reservation_is_ready_after_a_drain_and_a_load_and_goes_home_after_five_idle_minutes() -> None:
    world = _simulate(Server(owned(slots=2, loaded=_SMALL), memory=set(_SMALL)), _cpu(models=_SMALL))
    for _ in range(20):
        world.ask(Level.P3, "small", 8.0)
    world.run(2.5)  # two have begun, the others wait or run on the CPU
    lease = world.announce("job")
    world.run(60)
    drain, unload, load = 8.0, 2.0, 20.0
    assert world.ready[lease] <= drain + unload + load + 0.5
    first = world.ask(Level.P0, "big", 420.0)  # seven minutes: not idle
    assert first.dispatched == 60.0
    world.run(480 + 299)
    assert world.statuses["gpu"].held is not None
    world.run(480 + 301)
    assert world.statuses["gpu"].held is None
    world.run(900)
    assert world.servers["gpu"].memory == _SMALL


def test_background_goes_on_during_a_reservation_and_nobody_is_lost() -> None:
    world = _simulate(Server(owned(loaded=_SMALL), memory=set(_SMALL)), _cpu(models=_SMALL))
    world.announce("job")
    for second in range(0, 1200, 10):
        world.at(second, partial(world.ask, Level.P3, "small", 1.0))
        world.at(second + 5, partial(world.ask, Level.P0, "big", 2.0))
    world.run(1200)
    world.release("job")
    world.run(2000)
    assert not world.unfinished()
    assert {job.end for job in world.jobs} == {"done"}
    assert all(
        job.backend == "cpu" for job in world.jobs if job.request.model == "small" and job.request.arrived < 1200
    )


def test_a_set_that_cannot_be_loaded_is_not_there_and_keeps_nobody_out() -> None:
    world = _simulate(Server(owned(loaded=_SMALL), memory=set(_SMALL), failing={"big"}, load_seconds=3.0))
    for second in range(0, 1000, 100):
        world.at(second, partial(world.ask, Level.P0, "big"))
    background = [world.ask(Level.P3, "small")]
    for second in range(1, 1000, 30):
        world.at(second, lambda: background.append(world.ask(Level.P3, "small")))
    world.run(1100)
    assert not world.unfinished()
    assert max(job.waited for job in background) <= 3 * (2.0 + 0.2 + 3.0) + 5.0  # three tries, each out and in again
    assert {job.end for job in world.jobs if job.request.model == "big"} == {"refused Unavailable"}


@pytest.mark.parametrize("level", [Level.P0, Level.P1, Level.P3])
def test_who_left_during_a_load_reserves_nothing(level: Level) -> None:
    world = _simulate(Server(owned(loaded=_SMALL), memory=set(_SMALL), load_seconds=4.0))
    world.ask(Level.P0, "big", gives_up=1.0)
    world.run(2)
    other = world.ask(level, "small")
    world.run(100)
    assert other.dispatched is not None
    assert other.waited <= 4.0 + 2 * world.servers["gpu"].unload_seconds + 2 * 4.0 + 1.0


def test_a_p0_of_another_set_takes_an_idle_gpu_at_once() -> None:
    world = _simulate(Server(owned(loaded=_SMALL), memory=set(_SMALL), load_seconds=4.0))
    world.ask(Level.P0, "big")
    world.run(20)
    other = world.ask(Level.P0, "small")
    world.run(60)
    assert other.dispatched is not None
    assert other.waited <= world.servers["gpu"].unload_seconds + 4.0 + 0.5


@pytest.mark.parametrize("level", [Level.P0, Level.P3])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_cold_gpu_is_loaded_although_a_cpu_has_a_free_slot(level: Level, restarts: bool) -> None:
    memory = set(_SMALL) if restarts else set()
    world = _simulate(Server(owned(slots=2, loaded=frozenset(memory)), memory=memory), _cpu(models=_SMALL, slots=2))
    for second in range(120):
        world.at(second, partial(world.ask, level, "embed", 0.1))
    if restarts:
        world.at(1.0, partial(world.expel, "gpu", "small"))
        world.at(1.5, partial(world.expel, "gpu", "embed"))
    world.run(200)
    late = Counter(job.backend for job in world.jobs if job.request.arrived >= 60)
    assert late == {"gpu": 60}
    assert world.servers["gpu"].loads["embed"] == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_day(seed: int) -> None:
    """Two GPUs and a CPU, people by day and machines by night, hang-ups, and servers that die and come back."""
    world = _simulate(
        Server(owned("gpu-0", 2)),
        Server(owned("gpu-1", 2)),
        _cpu(4, _SMALL, speed=0.2),
        seed=seed,
    )
    chance = world.chance
    day = 86_400.0

    def traffic(level: Level, model: str, per_hour: float, work: float, by_day: bool) -> None:
        def arrive() -> None:
            patience = chance.uniform(1, 60) if chance.random() < 0.05 else None
            client = f"{level.label}-{chance.randrange(5)}"
            if world.now < day:
                world.ask(level, model, chance.expovariate(1 / work), client=client, gives_up=patience)
                plan()

        def plan() -> None:
            light = max(0.05, math.sin(math.pi * world.now / day)) if by_day else 1.0
            world.at(world.now + chance.expovariate(per_hour * light / 3600), arrive)

        plan()

    traffic(Level.P0, "big", 60, 15, by_day=True)
    traffic(Level.P1, "big", 40, 10, by_day=True)
    traffic(Level.P2, "small", 20, 5, by_day=False)
    traffic(Level.AUTO, "small", 40, 5, by_day=True)
    traffic(Level.P3, "small", 150, 6, by_day=False)
    traffic(Level.P3, "embed", 150, 1, by_day=False)
    for hour in range(2, 24, 3):
        name = f"gpu-{chance.randrange(2)}"
        world.at(hour * 3600.0 + chance.uniform(0, 3600), partial(world.kill, name))
        world.at(hour * 3600.0 + 3600 + chance.uniform(0, 600), partial(world.revive, name))
    for hour in range(1, 24, 4):
        world.at(hour * 3600.0, partial(world.announce, "orchestrator"))
        world.at(hour * 3600.0 + 1500, partial(world.release, "orchestrator"))
    world.run(day + 4000, tick=1.0)
    assert len(world.jobs) > 5000
    assert not world.unfinished()
    ends = Counter(job.end.split()[0] for job in world.jobs)
    assert ends["done"] >= 0.93 * len(world.jobs), ends
    assert ends["preempted"] == 0
    done = [job for job in world.jobs if job.end == "done"]
    background = [job.waited for job in done if job.request.level is Level.P3]
    assert max(background) <= 600.0
    assert max(job.request.preempted for job in world.jobs) <= 2


def test_one_model_on_both_engines_and_one_on_each() -> None:
    """Four models, an Ollama whose sets take turns, an OpenAI server and a CPU; the OpenAI server dies meanwhile."""
    world = _simulate(
        Server(owned(loaded=_SMALL), memory=set(_SMALL)),
        Server(gpu("vllm", 2, models=frozenset({"small", "big", "only"}), openai=True), memory={"small"}),
        _cpu(models=_SMALL),
    )
    chance = world.chance
    for number in range(900):
        level, model = chance.choice(list(Level)), chance.choice(["small", "big", "embed", "only"])
        ollama = model != "only" and chance.random() < 0.5
        work = chance.expovariate(0.5)
        world.at(number * 1.5, partial(world.ask, level, model, work, client=str(number % 3), ollama=ollama))
    world.at(400, partial(world.kill, "vllm"))
    world.at(415, partial(world.revive, "vllm"))
    world.run(4000)
    assert not world.unfinished()
    ends = Counter((job.request.model == "only", job.end.split()[0]) for job in world.jobs)
    assert ends.keys() <= {(False, "done"), (False, "broken"), (True, "done"), (True, "broken"), (True, "refused")}
    where = Counter((job.backend, job.request.ollama) for job in world.jobs if job.end == "done")
    assert where["vllm", True] == 0
    assert min(where["vllm", False], where["gpu", True], where["gpu", False]) > 0
    assert not world.servers["vllm"].loads


def test_v1_goes_on_at_the_other_engine_when_a_server_dies() -> None:
    for dies, stays in (("vllm", "gpu"), ("gpu", "vllm")):
        world = _simulate(Server(gpu(slots=2)), Server(gpu("vllm", 2, openai=True)))
        jobs = [world.ask(Level.P1, _M, 9.0, ollama=False) for _ in range(4)]
        world.at(1.0, partial(world.kill, dies))
        world.run(100)
        assert {job.end for job in jobs} == {"done"}
        assert Counter(tuple(job.attempts) for job in jobs) == {(stays,): 2, (dies, stays): 2}


def test_the_lines_of_both_apis_are_told_apart_while_they_have_to_be() -> None:
    """An OpenAI server with the model comes and goes while requests by both APIs wait for Ollama."""
    made = Scheduler()
    ollama, vllm = gpu(), gpu("vllm", openai=True)
    made.reconfigured([ollama], 0.0, lambda model: True)
    for number in range(5):
        made.offered(ask(number, Level.P2, client="abcab"[number], ollama=number % 2 == 0), float(number))
    assert dispatched(made.reconfigured([ollama, vllm], 5.0)) == [(1, "vllm")]
    assert dispatched(made.released(0, 6.0)) == [(2, "gpu")]
    made.reconfigured([ollama], 7.0)
    assert [request.id for request in made.waiting()] == [3, 4]
    assert dispatched(made.released(2, 8.0)) == [(3, "gpu")]
