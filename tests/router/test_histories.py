"""Random histories of the scheduler against a simple model of the truth, and random worlds in the simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from crds.gpubackend import Preemption
from router.ageing import Ageing
from router.effects import Cancel, Dispatch, Effect, Refuse, WriteStatus
from router.host import Backend
from router.priority import OVERFLOW, Level
from router.scheduler import Scheduler
from router.waiting import Request
from tests import thorough
from tests.router.plans import GIB, cpu, gpu, owned, sets
from tests.router.simulation import Server, Simulation

_M = frozenset({"m:latest"})
_NEVER = (1e9, 1e9, 1e9, 1e9, 1e9)


class History(RuleBasedStateMachine):
    """Requests come, end and hang up while backends come, go and change; a model of the truth is kept beside."""

    alive = Bundle("alive")

    def __init__(self) -> None:
        super().__init__()
        self.views: dict[str, Backend] = {}
        self.allowed = True
        self.plan = Scheduler(ageing=Ageing(limits=_NEVER))
        self.number = 0
        self.waiting: dict[int, Request] = {}
        self.running: dict[int, tuple[Request, str]] = {}
        self.victims: set[int] = set()

    @property
    def now(self) -> float:
        """Every request arrives a second after the one before."""
        return float(self.number)

    def note(self, effects: Iterable[Effect]) -> None:
        """Every effect is about somebody who waited, or ran and may give way."""
        for effect in effects:
            if isinstance(effect, Dispatch):
                assert self.views[effect.backend].available
                self.overtakes(effect.request, effect.backend)
                self.running[effect.request.id] = (self.waiting.pop(effect.request.id), effect.backend)
            elif isinstance(effect, Refuse):
                assert not self.eligible(self.waiting.pop(effect.request.id))
            elif isinstance(effect, WriteStatus):
                assert effect.held is None
            else:
                assert isinstance(effect, Cancel)
                request, backend = self.running[effect.request.id]
                assert (effect.backend, effect.visible) == (backend, False)
                assert request.level in OVERFLOW
                assert effect.request.id not in self.victims
                self.victims.add(effect.request.id)

    def overtakes(self, chosen: Request, name: str) -> None:
        """Who is served goes before everybody else that this backend could have taken."""
        backend = self.views[name]
        for other in self.waiting.values():
            if other.id != chosen.id and other.model == chosen.model and backend in self.eligible(other):
                assert chosen.level <= other.level
                if chosen.level == other.level and chosen.client == other.client and not chosen.avoid | other.avoid:
                    assert chosen.id < other.id

    @rule(
        target=alive,
        level=st.sampled_from(Level),
        model=st.sampled_from(["m:latest", "n:latest"]),
        client=st.sampled_from(["x", "y"]),
        avoid=st.frozensets(st.sampled_from(["a", "b", "c"]), max_size=2),
    )
    def offer(self, level: Level, model: str, client: str, avoid: frozenset[str]) -> object:
        """A request comes."""
        self.number += 1
        request = Request(self.number, model, level, self.now, avoid, client=client)
        self.waiting[request.id] = request
        self.note(self.plan.offered(request, self.now))
        return request.id if request.id in self.waiting or request.id in self.running else multiple()

    @rule(number=consumes(alive))
    def end(self, number: int) -> None:
        """It ends, or hangs up, whichever fits its state."""
        self.victims.discard(number)
        if self.running.pop(number, None) is not None:
            self.note(self.plan.released(number, self.now))
        else:
            self.waiting.pop(number, None)
            self.note(self.plan.withdrawn(number, self.now))

    @rule(number=alive)
    def begin(self, number: int) -> None:
        """The first byte: refused to victims, and only to them."""
        if number in self.running:
            assert self.plan.began(number) == (number not in self.victims)

    @rule(
        name=st.sampled_from(["a", "b", "c"]),
        on_gpu=st.booleans(),
        slots=st.integers(1, 3),
        available=st.booleans(),
        models=st.sampled_from([None, _M, _M | {"n:latest"}]),
    )
    def change(self, name: str, on_gpu: bool, slots: int, available: bool, models: frozenset[str] | None) -> None:
        """A backend comes or changes."""
        self.views[name] = Backend(name, on_gpu, slots, available, models)
        self.tell()

    @rule(name=st.sampled_from(["a", "b", "c"]))
    def remove(self, name: str) -> None:
        """A backend goes."""
        self.views.pop(name, None)
        self.tell()

    @rule(allowed=st.booleans())
    def allow(self, allowed: bool) -> None:
        """The table of models changes."""
        self.allowed = allowed
        self.tell()

    def tell(self) -> None:
        """The scheduler hears of it."""
        self.note(self.plan.reconfigured(self.views.values(), self.now, lambda model: self.allowed))

    def eligible(self, request: Request) -> list[Backend]:
        """The rule, written the long way."""
        having = [b for b in self.views.values() if request.model in (b.models or ())]
        able = [b for b in having if b.available and b.name not in request.avoid]
        gpus = [b for b in able if b.gpu]
        cpus = [b for b in able if not b.gpu]
        if any(b.gpu for b in having) and not self.allowed:
            return gpus
        if gpus and request.level not in OVERFLOW:
            return gpus
        return gpus + cpus

    @invariant()
    def nobody_is_lost_or_served_twice(self) -> None:
        """The scheduler and the model agree on who waits and how many run."""
        assert {r.id for r in self.plan.waiting()} == set(self.waiting)
        assert not set(self.waiting) & set(self.running)
        per_backend = Counter(backend for _, backend in self.running.values())
        assert {n: self.plan.in_flight(n) for n in "abc"} == {n: per_backend[n] for n in "abc"}

    @invariant()
    def nobody_waits_beside_a_free_slot(self) -> None:
        """Work is never held back, but for the slow start of who came back; everybody who waits could run somewhere."""
        used = Counter((backend, request.model) for request, backend in self.running.values())
        for request in self.waiting.values():
            backends = self.eligible(request)
            assert backends
            for backend in backends:
                assert used[backend.name, request.model] >= 1


class Slots(History):
    """The same histories with backends that only come: then slots are never exceeded and never left empty."""

    @rule(name=st.sampled_from(["a", "b", "c"]))
    def remove(self, name: str) -> None:
        """Nothing: see `change`."""

    @rule(name=st.sampled_from(["a", "b", "c"]), on_gpu=st.booleans(), slots=st.integers(1, 3))
    def change(self, name: str, on_gpu: bool, slots: int) -> None:
        """A backend comes once."""
        self.views.setdefault(name, Backend(name, on_gpu, slots, True, _M | {"n:latest"}))
        self.tell()

    @invariant()
    def never_more_than_num_parallel_and_never_less_while_somebody_waits(self) -> None:
        """Per model and backend."""
        used = Counter((backend, request.model) for request, backend in self.running.values())
        assert all(count <= self.views[backend].num_parallel for (backend, _), count in used.items())
        for request in self.waiting.values():
            for backend in self.eligible(request):
                assert used[backend.name, request.model] == backend.num_parallel


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=thorough.examples(100), stateful_step_count=50, deadline=None)
TestSlots = Slots.TestCase
TestSlots.settings = settings(max_examples=thorough.examples(100), stateful_step_count=50, deadline=None)


def _server(chance: Random, name: str) -> Server:
    """Any kind of server."""
    trio = sets(orchestrator=["big=20"], background=["small=6", "embed=5"], vision=["eye=9"])
    models = frozenset({"big", "small", "embed", "eye"})
    slots, policy = chance.randint(1, 4), chance.choice(list(Preemption))
    kind = chance.randrange(4)
    if kind == 0:
        backend = cpu(name, slots, models=models, max_in_flight=slots)
        return Server(backend, speed=0.3, memory=set(models))
    if kind == 1:
        backend = gpu(name, slots, models=models, max_loaded=chance.randint(1, 4), preemption=policy)
        return Server(backend, speed=1.0, memory=set(models))
    backend = owned(name, slots, sets=trio[: chance.randint(1, 3)], preemption=policy)
    return Server(backend, load_seconds=chance.choice([0.1, 5, 30]), unload_seconds=chance.choice([0.1, 4]))


@pytest.mark.parametrize("seed", range(25))
def test_any_world(seed: int) -> None:
    """An hour of anything with any servers: checked after every event, and in the end nobody is left behind."""
    chance = Random(seed)
    servers = [_server(chance, f"s{n}") for n in range(chance.randint(1, 4))]
    world = Simulation(Scheduler(), servers, chance=chance, cpu_allowed=chance.random() < 0.7)
    models = sorted({model for server in servers for model in server.backend.models or ()})
    for _ in range(300):
        moment = chance.uniform(0, 3000)
        ask = partial(
            world.ask,
            chance.choice(list(Level)),
            chance.choice(models),
            chance.expovariate(0.2),
            client=chance.choice("abc"),
            gives_up=chance.uniform(0, 30) if chance.random() < 0.2 else None,
        )
        world.at(moment, ask)
    for _ in range(chance.randint(0, 6)):
        name, moment = chance.choice(servers).backend.name, chance.uniform(0, 3000)
        world.at(moment, partial(world.kill, name))
        world.at(moment + chance.uniform(1, 300), partial(world.revive, name))
    for _ in range(chance.randint(0, 6)):
        owner, moment = chance.choice(["one", "two"]), chance.uniform(0, 3000)
        world.at(moment, partial(world.announce, owner))
        if chance.random() < 0.7:
            world.at(moment + chance.uniform(1, 600), partial(world.release, owner))
    world.run(9000, tick=1.0)
    assert len(world.jobs) == 300
    assert not world.unfinished()
    assert max(job.request.preempted for job in world.jobs) <= 2
    assert not any(server.running for server in servers)
    assert {server.backend.name: world.plan.in_flight(server.backend.name) for server in servers} == {
        server.backend.name: 0 for server in servers
    }
    for server in servers:
        if server.backend.sets and server.backend.vram:
            assert server.backend.vram == 24 * GIB
