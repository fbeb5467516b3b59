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

_ALONE = "no other backend is there for other models"
_STALE = 0.2
"""The share of the longest time by which a reservation is extended before its status is written again."""


class Allotment:
    """`pace` bounds how often sets change."""

    def __init__(self, fleet: Fleet, queue: Queue, pace: swaps.Pace) -> None:
        self._fleet, self._queue, self._pace = fleet, queue, pace
        self._homing: set[str] = set()
        self._reported: dict[str, WriteStatus] = {}
        self._kept: dict[str, Held] = {}

    # Models come and go.

    def loaded(self, host: Host, model: str, error: str, now: float) -> list[Effect]:
        """A load ended; `error` is empty when the model is in memory."""
        effects: list[Effect] = []
        if host.residency is not None:
            host.residency.loaded(model, now, error=bool(error))
            if host.residency.broken(model, now):
                self._fleet.forget_routes()
        reservation = host.reservation
        if reservation is not None and model in reservation.awaiting:
            reservation.loading.discard(model)
            if error:
                effects.append(
                    Announced(reservation.id, f"backend {host.backend.name!r} cannot load {model!r}: {error}")
                )
                if not reservation.implicit:
                    reservation.awaiting.clear()  # this was the word on it
                    effects += self._end(host, now)  # a GPU that cannot serve its holder is not kept from the others
            else:
                reservation.awaiting.discard(model)
                reservation.active = now
                effects += [Announced(reservation.id)] if reservation.ready else []
        elif error and reservation is not None and reservation.implicit and not self._there(host, reservation):
            effects += self._end(host, now)
        return effects + self.advance(host, now)

    def _there(self, host: Host, reservation: Reservation) -> bool:
        """Is what it is reserved for in memory, or on its way there?"""
        return host.residency is None or reservation.model_set in host.residency.active

    def unloaded(self, host: Host, model: str, now: float) -> list[Effect]:
        """/api/ps does not list a model any more that was to be unloaded."""
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
        if host.reservation is not None:
            return self._prepare(host, host.reservation, now)
        if held is None or held.until <= now or host.backend.openai:
            return self.status(host)
        host.reservation = Reservation(held.lease_id, held.owner, host.backend.name, held.model_set, held.until, now)
        host.reservation.implicit = held.owner == IMPLICIT
        return self._prepare(host, host.reservation, now)

    def restore(self, backend: str, held: Held) -> None:
        """A reservation that a status tells of, from before a restart; it holds once the backend is there."""
        self._kept[backend] = held

    # Sets change.

    def consider(self, now: float) -> list[Effect]:
        """Does a request wait for a model that no GPU holds, and is it time to load it?"""
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
            elif len(gpus) > 1 and now - line.oldest() >= self._pace.residence:
                # Those that serve it have too much to do: another GPU that has nothing to do takes the set as well.
                wishes.append((demand, key.model, tuple(host for host in gpus if _at_rest(host))))
        for demand, model, gpus in sorted(wishes, key=lambda wish: wish[0]):
            effects += self._place(model, gpus, demand, now)
        return effects

    def missed(self, model: str, gpus: tuple[Host, ...], now: float) -> list[Effect]:
        """A CPU has a request for the model: demand as if it waited, for a GPU where nothing has to go for it. No
        reservation comes of it."""
        if any(host.residency is None for host in gpus):
            return []
        effects = self._wake(model, gpus, Demand(Level.P3, now), now)
        options: list[tuple[Cost, Host, str]] = []
        for host in gpus:
            book = host.residency
            if book is None or book.means(model):
                return effects
            if host.reservation is None and not book.moving and not book.waits(model, now):
                options += [(self._cost(host, book, s), host, s) for s in book.holding(model) if not book.evicted(s)]
        if not options:
            return effects
        _, host, target = min(options, key=lambda option: option[0])
        effects += self._begin(host, target, now, urgent=False)
        return effects + self.advance(host, now) + self.status(host)

    def urgent(self, run: Run, now: float) -> list[Effect]:
        """A P0 request runs: the GPU is reserved for its kind, unless it is reserved already or its pool's last."""
        host, model = run.host, run.request.model
        if host.residency is None or host.reservation is not None or not self._spare(host):
            return []
        model_set = next((name for name in host.residency.active if model in host.residency.names([name])), "")
        if not host.residency.special(model_set):
            return []
        until, name = now + host.backend.durations.longest, host.backend.name
        host.reservation = Reservation(f"p0-{run.request.id}", IMPLICIT, name, model_set, until, now, implicit=True)
        self._homing.discard(name)
        return self.status(host)

    def _wake(self, model: str, gpus: tuple[Host, ...], demand: Demand, now: float) -> list[Effect]:
        """Load it again where it is meant to be and is not."""
        effects: list[Effect] = []
        for host in gpus:
            book = host.residency
            if book is not None and book.means(model) and not book.warm(model):
                book.demand(model, now)
                if demand.level is Level.P0:
                    book.first(model)
                effects += self.advance(host, now)
        return effects

    def _serves(self, host: Host, model: str, demand: Demand, now: float) -> bool:
        open_ = host.reservation is None or demand.level <= Level.P2 or now >= demand.due
        return open_ and host.residency is not None and host.residency.means(model)

    def _place(self, model: str, gpus: tuple[Host, ...], demand: Demand, now: float) -> list[Effect]:
        """Bring the model's set to the GPU that loses least by it, if that is worth it now."""
        options: list[tuple[bool, Cost, Host, str]] = []
        for host in gpus:
            book = host.residency
            # A change that has begun is completed first, but not before a P0 (what that would stop is asked below).
            if book is None or book.means(model) or (book.moving and demand.level is not Level.P0):
                continue
            if book.waits(model, now):
                continue  # what cannot be loaded throws nothing out
            if host.reservation is not None and demand.level > Level.P2 and now < demand.due:
                continue
            for target in book.holding(model):
                options.append((book.moving, self._cost(host, book, target), host, target))
        for _, cost, host, target in sorted(options, key=lambda option: option[:2]):
            book, reservation = host.residency, host.reservation
            assert book is not None
            standing = self._standing(host, book, target, cost, now)
            if not swaps.worthwhile(demand, standing, now, self._pace):
                continue
            if reservation is not None and reservation.implicit and standing.evicts:
                host.reservation = None
            effects = self._begin(host, target, now, urgent=demand.level is Level.P0)
            book.first(model)
            return effects + self.advance(host, now) + self.status(host)
        return []

    def _standing(self, host: Host, book: Residency, target: str, cost: Cost, now: float) -> Standing:
        reservation = host.reservation
        other = reservation is not None and reservation.model_set != target
        return Standing(
            evicts=bool(book.evicted(target)),
            # What nobody has used yet is kept for nobody.
            since=book.since if book.adopted or host.used >= book.since else float("-inf"),
            reserved=reservation is not None and not reservation.implicit,
            urgent=other and reservation is not None and reservation.implicit,
            kept=self._waiting_for(book, target, now) if cost.rank == 3 else None,
            idle=not host.load,
        )

    def _begin(self, host: Host, target: str, now: float, *, urgent: bool) -> list[Effect]:
        """Start a change. With `urgent`, requests that can be preempted are."""
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
        return Cost(rank, host.reservation is not None, host.load, host.backend.name)

    def _elsewhere(self, host: Host, model_set: str) -> bool:
        """Does another GPU of the pool hold a set of that name?"""
        return any(
            other is not host
            and other.backend.available
            and other.backend.pool == host.backend.pool
            and other.reservation is None
            and other.residency is not None
            and model_set in other.residency.active
            for other in self._fleet.hosts.values()
        )

    def _waiting_for(self, book: Residency, target: str, now: float) -> Demand | None:
        """Who waits for what would go, without those whose model cannot be loaded there now."""
        models = [model for model in book.leaving(target) if not book.waits(model, now)]
        lines = [line.demand() for key, line in self._queue.lines.items() if key.model in models]
        if not lines:
            return None
        return Demand(min(level for level, _ in lines), min(due for _, due in lines))

    # Reservations.

    def announced(
        self, owner: str, model: str, lease_id: str, fresh_id: str, now: float, *, spare_only: bool = False
    ) -> tuple[Answer, list[Effect]]:
        """Reserve a GPU, or renew. `model` (normalised, may be empty) says what it is for. With `spare_only` a new one
        is made only where another backend is there for other models and no announcement keeps a GPU for this one. Each
        renewal says it again: one whose backend has become the only one is ended."""
        for host in self._fleet.hosts.values():
            reservation = host.reservation
            if reservation is None or not reservation.meant(owner, lease_id):
                continue
            if reservation.owner != owner:
                return Answer(Verdict.TAKEN, reservation, f"the lease belongs to {reservation.owner!r}"), []
            if spare_only and (why := self._renewal_in_the_way(host, model)):
                return Answer(Verdict.TAKEN, None, why), self._end(host, now)
            if not host.backend.available:  # it is carried over to another GPU
                host.reservation = None
                answer, effects = self._reserve(owner, model, reservation.id, now)
                # An announcement may wait for the old one under the same id.
                if answer.verdict is not Verdict.HELD:
                    effects.append(Announced(reservation.id, answer.reason))
                elif answer.reservation is not None and answer.reservation.ready:
                    effects.append(Announced(reservation.id))
                return answer, self.status(host) + effects
            if not model or host.residency is None or model in host.residency.names([reservation.model_set]):
                reservation.until, reservation.active = now + host.backend.durations.longest, now
                return Answer(Verdict.HELD, reservation), self._prepare(host, reservation, now)
            if model not in (host.backend.models or ()):
                return Answer(Verdict.UNAVAILABLE, None, f"backend {host.backend.name!r} has no {model!r}"), []
            reservation.model_set = host.residency.holding(model)[0] if host.residency.holding(model) else ""
            reservation.until, reservation.active = now + host.backend.durations.longest, now
            return Answer(Verdict.HELD, reservation), self._prepare(host, reservation, now)
        if spare_only and (why := self._in_the_way(model)):
            return Answer(Verdict.TAKEN, None, why), []
        return self._reserve(owner, model, fresh_id, now)

    def _in_the_way(self, model: str) -> str:
        """Why one more reservation for the model would be of no use, or do harm; "" if it would not. While a GPU is
        reserved by an announcement its models are not changed: on the only backend all others would wait."""
        hosts = [h for h in self._fleet.hosts.values() if h.backend.available]
        kept = [h.reservation for h in hosts if not model or model in (h.backend.models or ())]
        if any(one is not None and not one.implicit for one in kept):
            return "a GPU is reserved for the model already"
        return "" if len(hosts) > 1 else _ALONE

    def _renewal_in_the_way(self, host: Host, model: str) -> str:
        """The same for the reservation of `host`: one that moves to another GPU is judged as a new one is."""
        if not host.backend.available:
            return self._in_the_way(model)
        others = (h for h in self._fleet.hosts.values() if h is not host and h.backend.available)
        return "" if any(others) else _ALONE

    def _reserve(self, owner: str, model: str, fresh_id: str, now: float) -> tuple[Answer, list[Effect]]:
        able = [
            h for h in self._fleet.hosts.values() if _reservable(h) and (not model or model in (h.backend.models or ()))
        ]
        if not able:
            what = f"that serves model {model!r}" if model else "at all"
            return Answer(Verdict.UNAVAILABLE, None, f"no GPU {what} is available"), []
        free = [h for h in able if h.reservation is None or h.reservation.implicit]
        free = [h for h in free if h.reservation is not None or self._spare(h)]
        if not free:
            holder = next((h.reservation for h in self._fleet.hosts.values() if h.reservation is not None), None)
            return Answer(Verdict.TAKEN, holder, "every GPU that may be reserved is"), []
        host = min(free, key=lambda h: (h.residency is None, *self._claim_cost(h, model)))
        book = host.residency
        model_set = ""
        if book is not None:
            model_set = next(iter(book.holding(model)), "") if model else book.foremost()
        until = now + host.backend.durations.longest
        host.reservation = Reservation(fresh_id, owner, host.backend.name, model_set, until, now)
        if book is None and model and not host.has(model):
            host.reservation.awaiting = {model}
        return Answer(Verdict.HELD, host.reservation), self._prepare(host, host.reservation, now)

    def _claim_cost(self, host: Host, model: str) -> Cost:
        book = host.residency
        if book is None:
            return Cost(
                0 if not model or host.has(model) else 1, host.reservation is not None, host.load, host.backend.name
            )
        target = next(iter(book.holding(model)), "") if model else book.foremost()
        return self._cost(host, book, target) if target else Cost(3, False, host.load, host.backend.name)

    def _prepare(self, host: Host, reservation: Reservation, now: float) -> list[Effect]:
        """Make the GPU what the reservation is for: background gives way, the set comes."""
        book, effects = host.residency, list[Effect]()
        self._homing.discard(host.backend.name)
        if book is None:
            effects += preemption.cancel(filter(preemption.possible, host.runs(list(host.running))))
            for model in sorted(reservation.awaiting - reservation.loading):
                reservation.loading.add(model)
                effects.append(Load(reservation.backend, model, None, host.backend.keep_alive))
        if book is not None and reservation.model_set:
            wanted = book.names([reservation.model_set])
            if reservation.model_set not in book.active and not all(book.waits(model, now) for model in wanted):
                effects += self._begin(host, reservation.model_set, now, urgent=True)
            reservation.awaiting = {model for model in wanted if not book.warm(model)}
            for model in reservation.awaiting:
                book.demand(model, now)
            effects += preemption.cancel(filter(preemption.possible, host.runs(wanted)))
            effects += self.advance(host, now)
        return effects + self.status(host)

    def released(self, owner: str, lease_id: str, now: float) -> tuple[Answer, list[Effect]]:
        """Give a reservation up. To give up what is not held is no error."""
        in_the_way = None
        for host in self._fleet.hosts.values():
            reservation = host.reservation
            if reservation is None or reservation.implicit:
                continue
            if reservation.releasable(owner, lease_id):
                return Answer(Verdict.RELEASED, reservation), self._end(host, now)
            if not lease_id or reservation.id == lease_id:
                in_the_way = reservation
        if in_the_way is not None:
            return Answer(Verdict.TAKEN, in_the_way, f"the GPU is reserved by {in_the_way.owner!r}"), []
        return Answer(Verdict.NOTHING), []

    def tick(self, now: float) -> list[Effect]:
        """Time has passed: reservations end, GPUs go home to their background set, models are asked again to leave."""
        effects: list[Effect] = []
        for host in self._fleet.hosts.values():
            if host.reservation is not None:
                effects += self._end(host, now) if self._over(host, host.reservation, now) else self._extended(host)
            if host.reservation is not None and not host.reservation.ready and host.residency is not None:
                effects += self._prepare(host, host.reservation, now)  # a try that was too early is due by now
            effects += self._go_home(host, now)
            effects += self.advance(host, now)
        return effects

    def _over(self, host: Host, reservation: Reservation, now: float) -> bool:
        """Has the reservation run out? Loading for it is activity; a load that failed is not repeated by itself."""
        book = host.residency
        moves = bool(reservation.loading) if book is None else book.moving
        waits = moves and (reservation.implicit or not reservation.ready)
        talking = host.urgent > 0 and any(run.request.level is Level.P0 for run in host.runs(host.running))
        return reservation.over(now, host.backend.durations, talking=talking, busy=waits or host.urgent > 0)

    def _extended(self, host: Host) -> list[Effect]:
        """Use of the GPU has moved the end of its reservation: its status says so, but not after each request."""
        last, reservation = self._reported.get(host.backend.name), host.reservation
        if reservation is None or last is None or last.held is None:
            return []
        return (
            self.status(host) if reservation.until - last.held.until >= _STALE * host.backend.durations.longest else []
        )

    def _end(self, host: Host, now: float) -> list[Effect]:
        reservation, host.reservation = host.reservation, None
        effects: list[Effect] = []
        if reservation is not None and not reservation.ready:
            effects.append(Announced(reservation.id, "the reservation ended before the GPU was ready"))
        self._homing.add(host.backend.name)
        return effects + self._go_home(host, now) + self.advance(host, now) + self.status(host)

    def _go_home(self, host: Host, now: float) -> list[Effect]:
        """It is not reserved any more, or was not used for long: the background set comes back."""
        book, name = host.residency, host.backend.name
        if book is None or host.reservation is not None or book.moving or not book.active or not host.backend.available:
            return []
        home = book.home()
        idle = not host.load and now - max(host.used, book.since) >= host.backend.durations.idle
        if home in book.active or not (name in self._homing or idle):
            self._homing.discard(name)
            return []
        if self._elsewhere(host, home):
            self._homing.discard(name)
            return []
        kept = self._waiting_for(book, home, now)
        if kept is not None and kept.level <= Level.P2:
            return []
        effects = self._begin(host, home, now, urgent=False)
        return effects + self.advance(host, now) + self.status(host)

    def _spare(self, host: Host) -> bool:
        """May it be reserved? One GPU of a pool stays free of reservations, unless it is the only one."""
        pool = [h for h in self._fleet.hosts.values() if _reservable(h)]
        pool = [h for h in pool if h.backend.pool == host.backend.pool]
        return sum(h.reservation is not None for h in pool) < max(1, len(pool) - 1)

    def status(self, host: Host) -> list[Effect]:
        """What the backend's status should say now, if that is not what was written last."""
        reservation, book = host.reservation, host.residency
        held = (
            None
            if reservation is None
            else Held(reservation.owner, reservation.id, reservation.until, reservation.model_set)
        )
        effect = WriteStatus(host.backend.name, book.active if book is not None else (), held)
        if self._reported.get(host.backend.name) == effect:
            return []
        self._reported[host.backend.name] = effect
        return [effect]

    def forget(self, gone: Mapping[str, Reservation | None]) -> list[Effect]:
        """Those backends are gone, and the reservations of them with them."""
        effects: list[Effect] = []
        for name, reservation in gone.items():
            self._reported.pop(name, None)
            self._homing.discard(name)
            if reservation is not None and not reservation.ready:
                effects.append(Announced(reservation.id, f"backend {name!r} was removed"))
        return effects


def _at_rest(host: Host) -> bool:
    return not host.load and host.reservation is None and host.residency is not None and not host.residency.moving


def _reservable(host: Host) -> bool:
    """An OpenAI server loads and unloads nothing for others."""
    return host.backend.gpu and host.backend.available and not host.backend.openai
