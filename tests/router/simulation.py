"""The router's scheduler on virtual time: Ollama servers, clients who hang up, and a shell, all without I/O.

Servers load one model at a time, hold what fits, and let go of a cancelled request after a moment, as Ollama does. The
simulation checks after every event what must never be otherwise, and keeps the story of every request.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random

from router.ageing import Ageing
from router.effects import Announced, Cancel, Dispatch, Effect, Load, Refuse, Unload, WriteStatus
from router.host import Backend, Host
from router.priority import Level
from router.scheduler import Scheduler
from router.waiting import SlotRequest

_LONG = 50
"""Requests from which on a queue is compared after as many events."""


@dataclass
class Job:
    """One request of a client, over all its attempts. Moments and lengths in seconds."""

    number: int
    request: SlotRequest
    work: float
    first_byte: float
    gives_up: float | None = None
    backend: str = ""
    run: int = -1
    began: bool = False
    dispatched: float | None = None
    done: float | None = None
    end: str = ""
    """done, hung up, refused, preempted (visibly), or broken (its server died after the first byte)."""
    attempts: list[str] = field(default_factory=list)

    @property
    def waited(self) -> float:
        """Until the last dispatch."""
        assert self.dispatched is not None
        return self.dispatched - self.request.arrived


@dataclass
class Server:
    """An Ollama of its own: what it has in memory and what runs there."""

    backend: Backend
    speed: float = 1.0
    load_seconds: float = 20.0
    unload_seconds: float = 2.0
    cancel_seconds: float = 0.05
    alive: bool = True
    lives: int = 0
    memory: set[str] = field(default_factory=set)
    running: dict[int, str] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    """Models whose loads are refused at once."""
    hanging: set[str] = field(default_factory=set)
    """Models whose loads end without success after five minutes, as Ollama's do."""
    loads: Counter[str] = field(default_factory=Counter)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Bytes of the models that the router owns; empty for a server that decides itself."""
        return {model.name: model.vram or 0 for one in self.backend.sets for model in one.members}

    def view(self) -> Backend:
        """As the router sees it after a probe."""
        return replace(self.backend, available=self.alive, loaded=frozenset(self.memory))


class Simulation:
    """Run it with `at` and `run`; look at `jobs`, `servers` and `counts` afterwards."""

    def __init__(
        self,
        plan: Scheduler,
        servers: Iterable[Server],
        *,
        chance: Random,
        cpu_allowed: bool = True,
        ageing: Ageing | None = None,
    ) -> None:
        self.plan, self.chance = plan, chance
        self.servers = {server.backend.name: server for server in servers}
        self.now = 0.0
        self.ageing = ageing or Ageing()
        self.served: dict[str, list[bool]] = {name: [] for name in self.servers}
        """By server, for each start since the last one that passed a more urgent request: was it a P0?"""
        self.jobs: list[Job] = []
        self.counts: Counter[str] = Counter()
        self.ready: dict[str, float] = {}
        self.statuses: dict[str, WriteStatus] = {}
        self._ids = itertools.count(1)
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._waiting: dict[int, Job] = {}
        self._running: dict[int, Job] = {}
        self._cpu_allowed = cpu_allowed
        self._checks = 0
        self.reconfigure()

    # What the outside does.

    def at(self, moment: float, action: Callable[[], object]) -> None:
        """Plan an event."""
        heapq.heappush(self._events, (moment, next(self._order), action))

    def run(self, until: float, tick: float = 0.25) -> None:
        """Let time pass."""
        upcoming = self.now + tick
        while upcoming <= until or (self._events and self._events[0][0] <= until):
            if self._events and self._events[0][0] <= upcoming:
                self.now, _, action = heapq.heappop(self._events)
                action()
            else:
                self.now, upcoming = upcoming, upcoming + tick
                self.apply(self.plan.ticked(self.now))
            self.check()
        self.check_waiting()
        self.now = until

    def ask(
        self,
        level: Level,
        model: str,
        work: float = 1.0,
        *,
        client: str = "",
        gives_up: float | None = None,
        ollama: bool = True,
    ) -> Job:
        """A client asks now; `work` is the length on a GPU, `gives_up` the patience in seconds, `ollama` whether it
        comes by /api."""
        number = len(self.jobs)
        request = SlotRequest(next(self._ids), model, level, self.now, client=client, ollama=ollama)
        job = Job(number, request, work, min(work * 0.5, 2.0), gives_up)
        self.jobs.append(job)
        self._offer(job)
        if gives_up is not None:
            self.at(self.now + gives_up, lambda: self.hang_up(job))
        return job

    def hang_up(self, job: Job) -> None:
        """The client goes, if its request has not ended."""
        if job.done is not None:
            return
        job.done, job.end = self.now, "hung up"
        if job.request.id in self._waiting:
            del self._waiting[job.request.id]
            self.apply(self.plan.withdrawn(job.request.id, self.now))
        elif job.request.id in self._running:
            self._lose(job)

    def kill(self, name: str) -> None:
        """A server dies: what ran there fails, and is tried elsewhere unless its answer had begun."""
        server = self.servers[name]
        server.alive = False
        server.lives += 1
        server.memory.clear()
        victims = [job for job in self._running.values() if job.backend == name]
        self.reconfigure()
        for job in victims:
            server.running.pop(job.request.id, None)
            del self._running[job.request.id]
            self.apply(self.plan.released(job.request.id, self.now))
            if job.done is not None:
                continue
            if job.began:
                job.done, job.end = self.now, "broken"
            else:
                self._again(job, avoid=job.request.avoid | {name})

    def revive(self, name: str) -> None:
        """It comes back, with an empty memory."""
        self.servers[name].alive = True
        self.reconfigure()

    def expel(self, name: str, model: str) -> None:
        """Another program takes the memory, or `keep_alive` is over: a model that is not in use leaves by itself."""
        server = self.servers[name]
        if model in server.memory and model not in server.running.values():
            server.memory.discard(model)
            self.reconfigure()

    def reconfigure(self) -> None:
        """Probes tell the router."""
        views = [server.view() for server in self.servers.values()]
        self.apply(self.plan.reconfigured(views, self.now, lambda model: self._cpu_allowed))

    def announce(self, owner: str, lease: str = "") -> str:
        """An orchestrator announces itself; the lease's id, empty when somebody else has the GPU."""
        answer, effects = self.plan.announced(owner, "", lease, f"lease-{next(self._ids)}", self.now)
        self.apply(effects)
        if answer.reservation is None or answer.reservation.owner != owner:
            return ""
        if answer.reservation.ready:
            self.ready.setdefault(answer.reservation.id, self.now)
        return answer.reservation.id

    def release(self, owner: str) -> None:
        """And gives it back."""
        self.apply(self.plan.unreserved(owner, "", self.now)[1])

    # What the shell does.

    def apply(self, effects: Iterable[Effect]) -> None:
        """Carry effects out."""
        for effect in effects:
            self.counts[type(effect).__name__] += 1
            match effect:
                case Dispatch():
                    self._start(self._waiting.pop(effect.request.id), effect.backend)
                case Refuse():
                    job = self._waiting.pop(effect.request.id)
                    job.done, job.end = self.now, f"refused {effect.reason}"
                case Cancel():
                    self._give_way(effect)
                case Load():
                    self._load(effect)
                case Unload():
                    self._unload(effect)
                case Announced():
                    if not effect.error:
                        self.ready.setdefault(effect.lease_id, self.now)
                case WriteStatus():
                    self.statuses[effect.backend] = effect

    def _offer(self, job: Job) -> None:
        self._waiting[job.request.id] = job
        self.apply(self.plan.offered(job.request, self.now))

    def _again(self, job: Job, *, avoid: frozenset[str], preempted: int = 0) -> None:
        job.request = job.request._replace(id=next(self._ids), avoid=avoid, preempted=job.request.preempted + preempted)
        job.began, job.run, job.backend = False, -1, ""
        self._offer(job)

    def _start(self, job: Job, name: str) -> None:
        server = self.servers[name]
        assert server.alive, f"{job} was sent to a dead server"
        assert not (job.request.ollama and server.backend.openai), f"{job} came by /api"
        self._check_order(job, server)
        job.backend, job.dispatched = name, self.now
        job.attempts.append(name)
        job.run = next(self._ids)
        run = job.run
        self._running[job.request.id] = job
        server.running[job.request.id] = job.request.model
        self.at(self.now + job.first_byte / server.speed, lambda: self._first_byte(job, run))
        self.at(self.now + job.work / server.speed, lambda: self._finish(job, run))

    def _first_byte(self, job: Job, run: int) -> None:
        if job.run == run and job.done is None:
            job.began = self.plan.began(job.request.id)

    def _finish(self, job: Job, run: int) -> None:
        if job.run != run or job.done is not None or not job.began:
            return
        job.done, job.end = self.now, "done"
        self._free(job)

    def _free(self, job: Job) -> None:
        self._running.pop(job.request.id, None)
        self.servers[job.backend].running.pop(job.request.id, None)
        self.apply(self.plan.released(job.request.id, self.now))

    def _lose(self, job: Job, then: Callable[[], object] = lambda: None) -> None:
        """The connection closes now; the server notices a moment later."""
        ticket, job.run = job.request.id, -1
        server = self.servers[job.backend]

        def lost() -> None:
            if self._running.pop(ticket, None) is not None:
                server.running.pop(ticket, None)
                self.apply(self.plan.released(ticket, self.now))
                then()

        self.at(self.now + server.cancel_seconds, lost)

    def _give_way(self, effect: Cancel) -> None:
        job = self._running[effect.request.id]
        assert (job.began, job.backend) == (effect.visible, effect.backend)
        self.counts["visible" if effect.visible else "invisible"] += 1
        if effect.visible and job.done is None:
            job.done, job.end = self.now, "preempted"

        def again() -> None:
            if job.done is None:
                self._again(job, avoid=job.request.avoid, preempted=1)

        self._lose(job, again)

    def _load(self, effect: Load) -> None:
        server = self.servers[effect.backend]
        server.loads[effect.model] += 1

        lives, failing, hanging = server.lives, effect.model in server.failing, effect.model in server.hanging

        def loaded() -> None:
            error = "" if server.lives == lives else "no connection"
            if failing or hanging:
                error = error or "model requires more system memory than is available"
            if not error:
                server.memory.add(effect.model)
                self.reconfigure()
            self.apply(self.plan.loaded(effect.backend, effect.model, self.now, error))

        self.at(self.now + (0.2 if failing else 300.0 if hanging else server.load_seconds), loaded)

    def _unload(self, effect: Unload) -> None:
        server = self.servers[effect.backend]
        assert effect.model not in server.running.values(), f"{effect.model} is unloaded while it is used"

        lives = server.lives

        def gone() -> None:
            if server.lives != lives:
                return
            server.memory.discard(effect.model)
            self.reconfigure()
            self.apply(self.plan.unloaded(effect.backend, effect.model, self.now))

        self.at(self.now + server.unload_seconds, gone)

    # What must always hold.

    def check(self) -> None:
        """No double booking, no lost request, no half model."""
        for name, server in self.servers.items():
            assert self.plan.in_flight(name) == len(server.running), name
            if server.running:
                limit = server.backend.num_parallel
                per_model = Counter(server.running.values())
                assert all(count <= limit for count in per_model.values()), f"{name} runs {per_model}, {limit} fit"
                if server.backend.sets:
                    assert per_model.keys() <= server.memory, f"{name} runs {set(per_model)}, has {server.memory}"
            if server.sizes:
                total = sum(server.sizes.get(model, 0) for model in server.memory)
                assert server.backend.vram is None or total <= server.backend.vram, f"{name} holds {server.memory}"
        self._checks += 1
        # A request that was lost stays lost: a long queue need not be compared after every event.
        if len(self._waiting) < _LONG or self._checks % _LONG == 0:
            self.check_waiting()

    def check_waiting(self) -> None:
        """The router has the same requests in its queue as clients wait for."""
        assert {r.id for r in self.plan.waiting()} == self._waiting.keys()
        assert not self._waiting.keys() & self._running.keys()

    def _check_order(self, job: Job, server: Server) -> None:
        """No priority inversion, over all models: a start passes more urgent requests only when it is due, and then
        once in `every` starts of its server; a P0 only after as many P0s in a row."""
        request, served = job.request, self.served[server.backend.name]
        models = self._could_start(server)
        rivals = (job.request for job in self._waiting.values() if job.request.level < request.level)
        passed = [rival for rival in rivals if rival.model in models and self._admitted(rival, server)]
        self.counts["passed"] += len(passed)
        if passed:
            assert self.now >= self.ageing.due(request.level, request.arrived), f"{request} went before {passed[0]}"
            last = served[1 - self.ageing.every :]
            assert len(last) == self.ageing.every - 1, f"{request} and another one went before {passed[0]}"
            if any(rival.level is Level.P0 for rival in passed):
                assert all(last), f"{request} went before a P0 that followed no others"
            served.clear()
        else:
            served.append(request.level is Level.P0)

    def _could_start(self, server: Server) -> set[str]:
        """Models for which the slot that a request gets now would do as well, at once or when a model is out of use."""
        backend, host = server.backend, self._host(server)
        running = Counter(server.running.values())  # without the one that starts
        if running.total() >= backend.max_in_flight:
            return set()
        models = {model for model in backend.models or () if running[model] < host.limit}
        if not backend.gpu:  # a CPU beside GPUs has rules of its own
            models -= {name for one in self.servers.values() if one.backend.gpu for name in one.backend.models or ()}
        book = host.residency
        return {model for model in models if book is None or (book.warm(model) and not book.broken(model, self.now))}

    def _admitted(self, rival: SlotRequest, server: Server) -> bool:
        """May it go there by its level and its API? Background goes to a reserved GPU only because it is due, in
        turns."""
        closed = rival.level > Level.P2 and self._host(server).reservation is not None
        spoken = not (rival.ollama and server.backend.openai)
        return server.backend.name not in rival.avoid and spoken and not closed

    def _host(self, server: Server) -> Host:
        return next(host for host in self.plan.hosts() if host.backend.name == server.backend.name)

    def unfinished(self) -> list[Job]:
        """Requests that neither ended nor were refused."""
        return [job for job in self.jobs if job.done is None]
