"""Worlds in which loads fail, hang or lose their memory, clients leave and servers die: the promises of docs/router.md.

Virtual time. hypothesis makes a world and what happens in it; the simulation checks each event, and this file, at each
tick, that no server stands idle while a request that it could serve waits.
"""

from __future__ import annotations

from functools import partial
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from router.host import Host
from router.priority import Level
from router.reservation import Durations
from router.scheduler import Scheduler
from router.waiting import SlotRequest
from tests import thorough
from tests.router.plans import cpu, owned, sets
from tests.router.simulation import Job, Server, Simulation

_BIG, _BACKGROUND = "big", ("small", "embed")
_MODELS = (_BIG, *_BACKGROUND)
_LOAD, _UNLOAD, _CANCEL = 20.0, 2.0, 0.05
_RESIDENCE = 30.0
"""As `swaps.Pace` has it."""
_TICK = 0.5
_END = 900.0
"""Seconds until which something happens."""


class World(Simulation):
    """A simulation that notes since when a server is idle and could serve a request that waits."""

    def __init__(self, servers: list[Server]) -> None:
        super().__init__(Scheduler(grace=30.0), servers, chance=Random(1))
        self._idle: dict[str, float] = {}

    def check(self) -> None:
        super().check()
        for host in self.plan.hosts():
            name = host.backend.name
            if self._rests(host) and any(self._could_serve(host, request) for request in self.plan.waiting()):
                since = self._idle.setdefault(name, self.now)
                assert self.now - since <= _RESIDENCE + 2 * _TICK, f"{name} is idle since {since}: {self._queue()}"
            else:
                self._idle.pop(name, None)

    def _rests(self, host: Host) -> bool:
        book = host.residency
        moving = book is not None and book.moving
        return host.backend.gpu and host.backend.available and not (host.load or moving or host.reservation)

    def _could_serve(self, host: Host, request: SlotRequest) -> bool:
        """Could it load the model and has the request waited for long enough that a second GPU may take its set?"""
        book, model = host.residency, request.model
        able = book is not None and bool(book.holding(model)) and not book.waits(model, self.now)
        return able and host.backend.name not in request.avoid and self.now - request.arrived > _RESIDENCE

    def _queue(self) -> list[tuple[str, str, float]]:
        return [(request.level.label, request.model, request.arrived) for request in self.plan.waiting()]


def _gpu(name: str, memory: frozenset[str], slots: int) -> Server:
    pair = sets(orchestrator=["big=20"], background=["small=6", "embed=5"])
    backend = owned(name, slots, sets=pair, loaded=memory, durations=Durations(1800, 300))
    return Server(backend, load_seconds=_LOAD, unload_seconds=_UNLOAD, cancel_seconds=_CANCEL, memory=set(memory))


_moment = st.integers(0, int(_END)).map(float)
_memory = st.sampled_from([frozenset(), frozenset({_BIG}), frozenset(_BACKGROUND), frozenset({"small"})])
_asked = st.tuples(
    _moment,
    st.sampled_from(list(Level)),
    st.sampled_from(_MODELS),
    st.sampled_from([0.5, 5.0, 40.0]),
    st.none() | st.sampled_from([0.5, 3.0, 25.0]),
    st.sampled_from([1, 2, 8]),
)
_faults = st.tuples(
    _moment,
    st.sampled_from(["fail", "hang", "heal", "expel", "kill", "revive", "announce", "release"]),
    st.sampled_from(_MODELS),
    st.integers(0, 1),
)


def _happen(world: World, what: str, model: str, name: str) -> None:
    server = world.servers[name]
    match what:
        case "fail":
            server.failing.add(model)
        case "hang":
            server.hanging.add(model)
        case "heal":
            server.failing.clear()
            server.hanging.clear()
        case "expel":
            world.expel(name, model)
        case "kill" if server.alive:
            world.kill(name)
        case "revive" if not server.alive:
            world.revive(name)
        case "announce":
            world.announce("run")
        case "release":
            world.release("run")


@settings(max_examples=thorough.examples(400), deadline=None)
@given(
    memories=st.lists(_memory, min_size=1, max_size=2),
    with_cpu=st.booleans(),
    slots=st.integers(1, 2),
    requests=st.lists(_asked, min_size=1, max_size=25),
    faults=st.lists(_faults, max_size=10),
)
def test_an_idle_gpu_serves_who_waits_and_nobody_is_lost(
    memories: list[frozenset[str]],
    with_cpu: bool,
    slots: int,
    requests: list[tuple[float, Level, str, float, float | None, int]],
    faults: list[tuple[float, str, str, int]],
) -> None:
    servers = [_gpu(f"gpu-{number}", memory, slots) for number, memory in enumerate(memories)]
    if with_cpu:
        small = frozenset(_BACKGROUND)
        servers.append(Server(cpu("cpu", 2, models=small), speed=0.2, memory=set(small)))
    world = World(servers)
    for moment, level, model, work, gives_up, times in requests:
        for _ in range(times):
            world.at(moment, partial(world.ask, level, model, work, gives_up=gives_up))
    for moment, what, model, number in faults:
        world.at(moment, partial(_happen, world, what, model, f"gpu-{number % len(memories)}"))
    for name in [server.backend.name for server in servers[: len(memories)]]:
        world.at(_END, partial(_happen, world, "heal", _BIG, name))
        world.at(_END, partial(_happen, world, "revive", _BIG, name))
    world.at(_END, partial(_happen, world, "release", _BIG, "gpu-0"))
    world.run(_END + 3000, tick=_TICK)
    assert not world.unfinished()


@settings(max_examples=thorough.examples(400), deadline=None)
@given(
    memory=_memory,
    urgent=st.lists(st.tuples(st.sampled_from(_MODELS), st.booleans()), min_size=1, max_size=6),
    others=st.lists(
        st.tuples(_moment, st.sampled_from([Level.P1, Level.P2, Level.P3]), st.sampled_from(_MODELS)), max_size=60
    ),
    broken=st.sets(st.sampled_from(_MODELS), max_size=1),
)
def test_a_p0_of_any_set_waits_for_one_job_and_one_change_at_most(
    memory: frozenset[str],
    urgent: list[tuple[str, bool]],
    others: list[tuple[float, Level, str]],
    broken: set[str],
) -> None:
    """One GPU; each P0 comes after the one before it has ended or has left."""
    job, members = 8.0, 2
    # What runs ends, a load that is under way ends, the set leaves, and the P0's model is loaded first.
    bound = job + _LOAD + members * _UNLOAD + _LOAD + 4 * _TICK
    world = World([_gpu("gpu-0", memory, 1)])
    world.servers["gpu-0"].failing |= broken
    asked: list[Job] = []

    def ask(model: str, gives_up: float | None) -> None:
        asked.append(world.ask(Level.P0, model, job, gives_up=gives_up))

    for number, (model, leaves) in enumerate(urgent):
        if model not in broken:
            moment = 10.0 + number * 140.0
            world.at(moment, partial(ask, model, 1.0 if leaves else None))
    for moment, level, model in others:
        world.at(moment, partial(world.ask, level, model, job))
    world.run(_END + 3000, tick=_TICK)
    waits = [request.waited for request in asked if request.dispatched is not None]
    assert all(request.dispatched is not None for request in asked if request.gives_up is None)
    assert max(waits, default=0.0) <= bound, waits
