"""Which GPU holds which model set, and for whom: reservations and changes of sets, put together from `residency`,
`reservation`, `swaps` and `preemption`.

Part of the scheduler and under its rules: synchronous, no I/O, no clock. Methods return effects.
"""

from __future__ import annotations

from collections.abc import Mapping

from router import preemption, swaps
from router.effects import Announced, Effect, Held, Load, WriteStatus
from router.fleet import Fleet
from router.host import Host, Run
from router.priority import Level
from router.queue import Queue
from router.reservation import IMPLICIT, Answer, Reservation, Verdict
from router.residency import Residency
from router.swaps import Cost, Demand, Standing

_STALE = 0.2
"""The share of the longest time by which a reservation is extended before its status is written again."""


class Allotment:
    """`pace` bounds how often sets change."""

    def __init__(self, fleet: Fleet, queue: Queue, pace: swaps.Pace) -> None:
        self._fleet, self._queue, self._pace = fleet, queue, pace
        self._homing: set[str] = set()
        self._told: dict[str, WriteStatus] = {}
        self._kept: dict[str, Held] = {}

    # Models come and go.

    def loaded(self, host: Host, model: str, error: str, now: float) -> list[Effect]:
        """A load ended; `error` is empty when the model is in memory."""
        effects: list[Effect] = []
        if host.residency is not None:
            host.residency.loaded(model, now, error=bool(error))
            if host.residency.broken(model, now):
                self._fleet.forget_routes()
        lease = host.lease
        if lease is not None and model in lease.awaiting:
            lease.loading.discard(model)
            if error:
                effects.append(Announced(lease.id, f"backend {host.backend.name!r} cannot load {model!r}: {error}"))
                if not lease.implicit:
                    lease.awaiting.clear()  # this was the word on it
                    effects += self._end(host, now)  # a GPU that cannot serve its holder is not kept from the others
            else:
                lease.awaiting.discard(model)
                lease.active = now
                effects += [Announced(lease.id)] if lease.ready else []
        return effects + self.advance(host, now)

    def unloaded(self, host: Host, model: str, now: float) -> list[Effect]:
        """/api/ps has lost a model that was told to go."""
        if host.residency is not None:
            host.residency.unloaded(model)
        return self.advance(host, now)

    def advance(self, host: Host, now: float) -> list[Effect]:
        """Whatever can be done next about the host's memory."""
        if host.residency is None:
            return []
        return list(host.residency.step(host.running.__contains__, now))

    def settle(self, host: Host, now: float) -> list[Effect]:
        """The host is there for the first time (again): take up a reservation of the router before."""
        held = self._kept.pop(host.backend.name, None)
        if host.lease is not None:
            return self._prepare(host, host.lease, now)
        if held is None or held.until <= now:
            return self.status(host)
        host.lease = Reservation(held.lease, held.owner, host.backend.name, held.model_set, held.until, now)
        host.lease.implicit = held.owner == IMPLICIT
        return self._prepare(host, host.lease, now)

    def restore(self, backend: str, held: Held) -> None:
        """A reservation that a status tells of, from before a restart; it holds once the backend is there."""
        self._kept[backend] = held

    # Sets change.

    def consider(self, now: float) -> list[Effect]:
        """Does somebody wait for a model that no GPU holds, and is it time to do something about it?"""
        effects: list[Effect] = []
        wishes: list[tuple[Demand, str, tuple[Host, ...]]] = []
        for key, line in self._queue.lines.items():
            gpus = self._fleet.route(key, now).gpus
            if not gpus or any(host.residency is None for host in gpus):
                continue  # a GPU without sets loads what it is asked for
            demand = Demand(*line.demand())
            effects += self._wake(key.model, gpus, demand, now)
            if not any(self._serves(host, key.model, demand, now) for host in gpus):
                wishes.append((demand, key.model, gpus))
        for demand, model, gpus in sorted(wishes, key=lambda wish: wish[0]):
            effects += self._place(model, gpus, demand, now)
        return effects

    def urgent(self, run: Run, now: float) -> list[Effect]:
        """A P0 request runs: the GPU is reserved for its kind, unless somebody holds it or it is its pool's last."""
        host, model = run.host, run.request.model
        if host.residency is None or host.lease is not None or not self._spare(host):
            return []
        model_set = next((name for name in host.residency.active if model in host.residency.names([name])), "")
        if not host.residency.special(model_set):
            return []
        self._reserve_implicitly(host, model_set, run.request.id, now)
        return self.status(host)

    def _reserve_implicitly(self, host: Host, model_set: str, number: int, now: float) -> None:
        until = now + host.backend.terms.longest
        host.lease = Reservation(f"p0-{number}", IMPLICIT, host.backend.name, model_set, until, now, implicit=True)
        self._homing.discard(host.backend.name)

    def _wake(self, model: str, gpus: tuple[Host, ...], demand: Demand, now: float) -> list[Effect]:
        """Load it again where it is meant to be and is not."""
        effects: list[Effect] = []
        for host in gpus:
            book = host.residency
            if book is not None and book.means(model) and not book.warm(model):
                book.demand(model)
                if demand.level is Level.P0:
                    book.first(model)
                effects += self.advance(host, now)
        return effects

    def _serves(self, host: Host, model: str, demand: Demand, now: float) -> bool:
        open_ = host.lease is None or demand.level <= Level.P2 or now >= demand.due
        return open_ and host.residency is not None and host.residency.means(model)

    def _place(self, model: str, gpus: tuple[Host, ...], demand: Demand, now: float) -> list[Effect]:
        """Bring the model's set to the GPU that loses least by it, if that is worth it now."""
        options: list[tuple[bool, Cost, Host, str]] = []
        for host in gpus:
            book = host.residency
            # A change that has begun is completed first, but not before a P0 (what that would stop is asked below).
            if book is None or book.means(model) or (book.moving and demand.level is not Level.P0):
                continue
            if host.lease is not None and demand.level > Level.P2 and now < demand.due:
                continue
            for target in book.holding(model):
                options.append((book.moving, self._cost(host, book, target), host, target))
        if not options:
            return []
        _, cost, host, target = min(options, key=lambda option: option[:2])
        book = host.residency
        assert book is not None
        lease = host.lease
        other = lease is not None and lease.model_set != target
        standing = Standing(
            evicts=bool(book.evicted(target)),
            since=book.since,
            reserved=lease is not None and not lease.implicit,
            urgent=other and lease is not None and lease.implicit,
            kept=self._waiting_for(book.leaving(target)) if cost.rank == 3 else None,
        )
        if not swaps.worthwhile(demand, standing, now, self._pace):
            return []
        if lease is not None and lease.implicit and standing.evicts:
            host.lease = None
        if demand.level is Level.P0 and host.lease is None and book.special(target) and self._spare(host):
            self._reserve_implicitly(host, target, book.swaps + book.loads, now)
        effects = self._begin(host, target, now, urgent=demand.level is Level.P0)
        book.first(model)
        return effects + self.advance(host, now) + self.status(host)

    def _begin(self, host: Host, target: str, now: float, *, urgent: bool) -> list[Effect]:
        """Start a change. For somebody urgent, who can give way does."""
        book = host.residency
        assert book is not None
        leaving = book.leaving(target)
        book.begin(target, host.backend.loaded, now)
        self._homing.discard(host.backend.name)
        return preemption.cancel(filter(preemption.possible, host.runs(leaving))) if urgent else []

    def _cost(self, host: Host, book: Residency, target: str) -> Cost:
        if target in book.active:
            rank = 0
        elif not (evicted := book.evicted(target)):
            rank = 1
        else:
            rank = 2 if all(self._elsewhere(host, name) for name in evicted) else 3
        return Cost(rank, host.lease is not None, host.load, host.backend.name)

    def _elsewhere(self, host: Host, model_set: str) -> bool:
        """Does another GPU of the pool hold a set of that name?"""
        return any(
            other is not host
            and other.backend.available
            and other.backend.pool == host.backend.pool
            and other.lease is None
            and other.residency is not None
            and model_set in other.residency.active
            for other in self._fleet.hosts.values()
        )

    def _waiting_for(self, models: frozenset[str]) -> Demand | None:
        lines = [line.demand() for key, line in self._queue.lines.items() if key.model in models]
        if not lines:
            return None
        return Demand(min(level for level, _ in lines), min(due for _, due in lines))

    # Reservations.

    def announced(
        self, owner: str, model: str, lease_id: str, fresh_id: str, now: float
    ) -> tuple[Answer, list[Effect]]:
        """Reserve a GPU, or renew. `model` (normalised, may be empty) says what it is for."""
        for host in self._fleet.hosts.values():
            lease = host.lease
            if lease is None or not lease.meant(owner, lease_id):
                continue
            if lease.owner != owner:
                return Answer(Verdict.TAKEN, lease, f"the lease belongs to {lease.owner!r}"), []
            if not host.backend.available:  # it is carried over to another GPU
                host.lease = None
                answer, effects = self._reserve(owner, model, lease.id, now)
                # An announcement may wait for the old one under the same id.
                if answer.verdict is not Verdict.HELD:
                    effects.append(Announced(lease.id, answer.reason))
                elif answer.lease is not None and answer.lease.ready:
                    effects.append(Announced(lease.id))
                return answer, self.status(host) + effects
            if not model or host.residency is None or model in host.residency.names([lease.model_set]):
                lease.until, lease.active = now + host.backend.terms.longest, now
                return Answer(Verdict.HELD, lease), self._prepare(host, lease, now)
            if model not in (host.backend.models or ()):
                return Answer(Verdict.UNAVAILABLE, None, f"backend {host.backend.name!r} has no {model!r}"), []
            lease.model_set = host.residency.holding(model)[0] if host.residency.holding(model) else ""
            lease.until, lease.active = now + host.backend.terms.longest, now
            return Answer(Verdict.HELD, lease), self._prepare(host, lease, now)
        return self._reserve(owner, model, fresh_id, now)

    def _reserve(self, owner: str, model: str, fresh_id: str, now: float) -> tuple[Answer, list[Effect]]:
        able = [
            h
            for h in self._fleet.hosts.values()
            if h.backend.gpu and h.backend.available and (not model or model in (h.backend.models or ()))
        ]
        if not able:
            what = f"that serves model {model!r}" if model else "at all"
            return Answer(Verdict.UNAVAILABLE, None, f"no GPU {what} is available"), []
        free = [h for h in able if h.lease is None or h.lease.implicit]
        free = [h for h in free if h.lease is not None or self._spare(h)]
        if not free:
            holder = next((h.lease for h in self._fleet.hosts.values() if h.lease is not None), None)
            return Answer(Verdict.TAKEN, holder, "every GPU that may be reserved is"), []
        host = min(free, key=lambda h: (h.residency is None, *self._claim_cost(h, model)))
        book = host.residency
        model_set = ""
        if book is not None:
            model_set = next(iter(book.holding(model)), "") if model else book.foremost()
        until = now + host.backend.terms.longest
        host.lease = Reservation(fresh_id, owner, host.backend.name, model_set, until, now)
        if book is None and model and not host.has(model):
            host.lease.awaiting = {model}
        return Answer(Verdict.HELD, host.lease), self._prepare(host, host.lease, now)

    def _claim_cost(self, host: Host, model: str) -> Cost:
        book = host.residency
        if book is None:
            return Cost(0 if not model or host.has(model) else 1, host.lease is not None, host.load, host.backend.name)
        target = next(iter(book.holding(model)), "") if model else book.foremost()
        return self._cost(host, book, target) if target else Cost(3, False, host.load, host.backend.name)

    def _prepare(self, host: Host, lease: Reservation, now: float) -> list[Effect]:
        """Make the GPU what the lease is for: background gives way, the set comes."""
        book, effects = host.residency, list[Effect]()
        self._homing.discard(host.backend.name)
        if book is None:
            effects += preemption.cancel(filter(preemption.possible, host.runs(list(host.running))))
            for model in sorted(lease.awaiting - lease.loading):
                lease.loading.add(model)
                effects.append(Load(lease.backend, model, None, host.backend.keep_alive))
        if book is not None and lease.model_set:
            if lease.model_set not in book.active:
                effects += self._begin(host, lease.model_set, now, urgent=True)
            wanted = book.names([lease.model_set])
            lease.awaiting = {model for model in wanted if not book.warm(model)}
            for model in lease.awaiting:
                book.demand(model)
            effects += preemption.cancel(filter(preemption.possible, host.runs(wanted)))
            effects += self.advance(host, now)
        return effects + self.status(host)

    def released(self, owner: str, lease_id: str, now: float) -> tuple[Answer, list[Effect]]:
        """Give a reservation up. To give up what is not held is no error."""
        in_the_way = None
        for host in self._fleet.hosts.values():
            lease = host.lease
            if lease is None or lease.implicit:
                continue
            if lease.releasable(owner, lease_id):
                return Answer(Verdict.RELEASED, lease), self._end(host, now)
            if not lease_id or lease.id == lease_id:
                in_the_way = lease
        if in_the_way is not None:
            return Answer(Verdict.TAKEN, in_the_way, f"the GPU is reserved by {in_the_way.owner!r}"), []
        return Answer(Verdict.NOTHING), []

    def tick(self, now: float) -> list[Effect]:
        """Time has passed: reservations end, GPUs go home to their background set, models are asked again to leave."""
        effects: list[Effect] = []
        for host in self._fleet.hosts.values():
            if host.lease is not None:
                effects += self._end(host, now) if self._over(host, host.lease, now) else self._extended(host)
            effects += self._go_home(host, now)
            effects += self.advance(host, now)
        return effects

    def _over(self, host: Host, lease: Reservation, now: float) -> bool:
        """Has the reservation run out? Loading for it is activity; a load that failed is not repeated by itself."""
        book = host.residency
        moves = bool(lease.loading) if book is None else book.moving
        waits = moves and (lease.implicit or not lease.ready)
        talking = host.urgent > 0 and any(run.request.level is Level.P0 for run in host.runs(host.running))
        return lease.over(now, host.backend.terms, talking=talking, busy=waits or host.urgent > 0)

    def _extended(self, host: Host) -> list[Effect]:
        """Use of the GPU has moved the end of its reservation: its status says so, but not after each request."""
        told, lease = self._told.get(host.backend.name), host.lease
        if lease is None or told is None or told.held is None:
            return []
        return self.status(host) if lease.until - told.held.until >= _STALE * host.backend.terms.longest else []

    def _end(self, host: Host, now: float) -> list[Effect]:
        lease, host.lease = host.lease, None
        effects: list[Effect] = []
        if lease is not None and not lease.ready:
            effects.append(Announced(lease.id, "the reservation ended before the GPU was ready"))
        self._homing.add(host.backend.name)
        return effects + self._go_home(host, now) + self.advance(host, now) + self.status(host)

    def _go_home(self, host: Host, now: float) -> list[Effect]:
        """Nobody reserves it any more, or nobody has used it for long: the background set comes back."""
        book, name = host.residency, host.backend.name
        if book is None or host.lease is not None or book.moving or not book.active or not host.backend.available:
            return []
        home = book.home()
        idle = not host.load and now - max(host.used, book.since) >= host.backend.terms.idle
        if home in book.active or not (name in self._homing or idle):
            self._homing.discard(name)
            return []
        if self._elsewhere(host, home):
            self._homing.discard(name)
            return []
        kept = self._waiting_for(book.leaving(home))
        if kept is not None and kept.level <= Level.P2:
            return []
        effects = self._begin(host, home, now, urgent=False)
        return effects + self.advance(host, now) + self.status(host)

    def _spare(self, host: Host) -> bool:
        """May it be reserved? One GPU of a pool stays free of reservations, unless it is the only one."""
        pool = [h for h in self._fleet.hosts.values() if h.backend.gpu and h.backend.available]
        pool = [h for h in pool if h.backend.pool == host.backend.pool]
        return sum(h.lease is not None for h in pool) < max(1, len(pool) - 1)

    def status(self, host: Host) -> list[Effect]:
        """What the backend's status should say now, if that is not what it was told last."""
        lease, book = host.lease, host.residency
        held = None if lease is None else Held(lease.owner, lease.id, lease.until, lease.model_set)
        effect = WriteStatus(host.backend.name, book.active if book is not None else (), held)
        if self._told.get(host.backend.name) == effect:
            return []
        self._told[host.backend.name] = effect
        return [effect]

    def forget(self, gone: Mapping[str, Reservation | None]) -> list[Effect]:
        """Those backends are gone, and the reservations of them with them."""
        effects: list[Effect] = []
        for name, lease in gone.items():
            self._told.pop(name, None)
            self._homing.discard(name)
            if lease is not None and not lease.ready:
                effects.append(Announced(lease.id, f"backend {name!r} was removed"))
        return effects
