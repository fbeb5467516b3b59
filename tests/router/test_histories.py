"""Random histories of the scheduler against a simple model of the truth, and random worlds in the simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from crds.gpubackend import Preemption
from router.ageing import Ageing
from router.effects import Cancel, Dispatch, Effect, Refuse, WriteStatus
from router.host import Backend
from router.priority import OVERFLOW, Level
from router.scheduler import Scheduler
from router.waiting import SlotRequest
from tests import thorough
from tests.router.plans import cpu, gpu, owned, sets
from tests.router.simulation import Server, Simulation

_M = frozenset({"m:latest"})
_ALL = _M | {"n:latest", "o:latest"}
_BOUNDS = st.tuples(st.sampled_from([1, 2, 9]), st.sampled_from([1, 2, 3, 9]))
"""Models and requests at once."""
_AGEING = Ageing(limits=(5, 8, 12, 16, 20), every=3)


class History(RuleBasedStateMachine):
    """Requests come, end and hang up while backends come, go and change; a model of the truth is kept beside."""

    alive = Bundle("alive")

    def __init__(self) -> None:
        super().__init__()
        self.views: dict[str, Backend] = {}
        self.allowed = True
        self.plan = Scheduler(ageing=_AGEING)
        self.served: dict[str, list[bool]] = {name: [] for name in "abc"}
        self.number = 0
        self.waiting: dict[int, SlotRequest] = {}
        self.running: dict[int, tuple[SlotRequest, str]] = {}
        self.victims: set[int] = set()

    @initialize(on_gpu=st.booleans(), slots=st.integers(1, 3), most=_BOUNDS)
    def first(self, on_gpu: bool, slots: int, most: tuple[int, int]) -> None:
        """There is a backend from the beginning."""
        self.views["a"] = Backend("a", on_gpu, slots, True, _ALL, max_loaded=most[0], max_in_flight=most[1])
        self.tell()

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

    def overtakes(self, chosen: SlotRequest, name: str) -> None:
        """A request goes before all others, of any model, that this backend could have taken. One that is due may pass
        more urgent ones once in `every` starts, but a P0 only after as many P0s in a row."""
        backend, served = self.views[name], self.served[name]
        host = next(host for host in self.plan.hosts() if host.backend.name == name)
        runs = Counter(request.model for request, where in self.running.values() if where == name)
        passed = []
        for other in self.waiting.values():
            # A backend that starts slowly has fewer slots than its view says.
            fits = runs[other.model] < host.limit and runs.total() < backend.max_in_flight
            if other.id == chosen.id or not fits or backend not in self.eligible(other):
                continue
            if chosen.level > other.level:
                passed.append(other)
            same = (chosen.level, chosen.client, chosen.model) == (other.level, other.client, other.model)
            same = same and chosen.ollama == other.ollama
            if same and not chosen.avoid | other.avoid:
                assert chosen.id < other.id
        if passed:
            assert self.now >= _AGEING.due(chosen.level, chosen.arrived)
            last = served[1 - _AGEING.every :]
            assert len(last) == _AGEING.every - 1
            assert all(last) or all(other.level is not Level.P0 for other in passed)
            served.clear()
        else:
            served.append(chosen.level is Level.P0)

    @rule(
        target=alive,
        level=st.sampled_from(Level),
        model=st.sampled_from(sorted(_ALL)),
        client=st.sampled_from(["x", "y"]),
        avoid=st.frozensets(st.sampled_from(["a", "b", "c"]), max_size=2),
        ollama=st.booleans(),
    )
    def offer(self, level: Level, model: str, client: str, avoid: frozenset[str], ollama: bool) -> object:
        """A request comes, by /api or by /v1."""
        return multiple(*self.offered([SlotRequest(0, model, level, avoid=avoid, client=client, ollama=ollama)]))

    def offered(self, requests: Iterable[SlotRequest]) -> list[int]:
        """Their ids, of those that were not refused."""
        taken = []
        for request in requests:
            self.number += 1
            request = request._replace(id=self.number, arrived=self.now)
            self.waiting[request.id] = request
            self.note(self.plan.offered(request, self.now))
            if request.id in self.waiting or request.id in self.running:
                taken.append(request.id)
        return taken

    @rule(
        target=alive,
        burst=st.lists(st.tuples(st.sampled_from(Level), st.sampled_from(sorted(_ALL))), min_size=3, max_size=9),
    )
    def flood(self, burst: list[tuple[Level, str]]) -> object:
        """Many come: a queue of several models."""
        return multiple(*self.offered(SlotRequest(0, model, level) for level, model in burst))

    @rule(turns=st.lists(st.integers(0, 99), min_size=1, max_size=9))
    def work(self, turns: list[int]) -> None:
        """Some of those that run end, one after the other."""
        for turn in turns:
            if self.running:
                self.end(sorted(self.running)[turn % len(self.running)])

    @rule(number=consumes(alive))
    def leave(self, number: int) -> None:
        """A client is gone."""
        self.end(number)

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
        models=st.sampled_from([None, _M, _M | {"n:latest"}, _ALL]),
        most=_BOUNDS,
        openai=st.booleans(),
    )
    def change(
        self,
        name: str,
        on_gpu: bool,
        slots: int,
        available: bool,
        models: frozenset[str] | None,
        most: tuple[int, int],
        openai: bool,
    ) -> None:
        """A backend comes or changes."""
        self.views[name] = Backend(
            name, on_gpu, slots, available, models, max_loaded=most[0], max_in_flight=most[1], openai=openai
        )
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

    def eligible(self, request: SlotRequest) -> list[Backend]:
        """The rule, written the long way."""
        spoken = [b for b in self.views.values() if not (request.ollama and b.openai)]
        having = [b for b in spoken if request.model in (b.models or ())]
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
                assert used[backend.name, request.model] >= 1 or self.shared(backend)

    def shared(self, backend: Backend) -> bool:
        """Does it have as many requests or models as it may, over all models?"""
        models = Counter(request.model for request, name in self.running.values() if name == backend.name)
        return models.total() >= backend.max_in_flight or len(models) >= backend.max_loaded


class Slots(History):
    """The same histories with backends that only come: then slots are never exceeded and never left empty."""

    @rule(name=st.sampled_from(["a", "b", "c"]))
    def remove(self, name: str) -> None:
        """Nothing: see `change`."""

    @rule(name=st.sampled_from(["a", "b", "c"]), on_gpu=st.booleans(), slots=st.integers(1, 3), most=_BOUNDS)
    def change(self, name: str, on_gpu: bool, slots: int, most: tuple[int, int]) -> None:
        """A backend comes once."""
        view = Backend(name, on_gpu, slots, True, _ALL, max_loaded=most[0], max_in_flight=most[1])
        self.views.setdefault(name, view)
        self.tell()

    @invariant()
    def never_more_than_num_parallel_and_never_less_while_somebody_waits(self) -> None:
        """Per model and backend."""
        used = Counter((backend, request.model) for request, backend in self.running.values())
        assert all(count <= self.views[backend].num_parallel for (backend, _), count in used.items())
        for name, backend in self.views.items():
            models = [model for where, model in used if where == name]
            assert len(models) <= backend.max_loaded
            assert sum(used[name, model] for model in models) <= backend.max_in_flight
        for request in self.waiting.values():
            for backend in self.eligible(request):
                assert used[backend.name, request.model] == backend.num_parallel or self.shared(backend)


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=thorough.examples(100), stateful_step_count=50, deadline=None)
TestSlots = Slots.TestCase
TestSlots.settings = settings(max_examples=thorough.examples(100), stateful_step_count=50, deadline=None)


def _server(chance: Random, name: str) -> Server:
    """Any kind of server."""
    trio = sets(orchestrator=["big=20"], background=["small=6", "embed=5"], vision=["eye=9"])
    models = frozenset({"big", "small", "embed", "eye"})
    slots, policy = chance.randint(1, 4), chance.choice(list(Preemption))
    kind = chance.randrange(5)
    if kind == 0:
        backend = cpu(name, slots, models=models, max_in_flight=chance.randint(1, slots))
        return Server(backend, speed=0.3, memory=set(models))
    if kind == 1:
        most, loaded = chance.choice([chance.randint(1, 6), 1 << 30]), chance.randint(1, 4)
        backend = gpu(name, slots, models=models, max_loaded=loaded, max_in_flight=most, preemption=policy)
        return Server(backend, speed=1.0, memory=set(models))
    if kind == 2:
        backend = gpu(name, slots, models=frozenset({"small", "eye"}), openai=True, preemption=policy)
        return Server(backend, speed=1.0, memory={"small", "eye"})
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
            ollama=chance.random() < 0.5,
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
    ends = Counter(job.end.split()[0] for job in world.jobs)
    assert ends["done"] > 0
    assert ends["broken"] == 0 or any(server.lives for server in servers)
