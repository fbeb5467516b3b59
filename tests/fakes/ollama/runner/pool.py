"""What is loaded and who waits: Ollama's scheduler as a pure state machine.

The rules, from Ollama's behaviour:
- a request for a loaded model joins it at once; at most `num_parallel` of them run, the others wait without a limit;
- a request for anything else waits in one line, longer than `max_queue` is refused; only the head of the line is looked
  at, so a cold model blocks the other cold ones;
- a different `num_ctx` needs a reload; a reload or an eviction waits until nobody uses the runner (idle ones go first,
  least recently used first);
- whoever caused a load owns it: when that request hangs up the load is aborted and the next waiter starts it again;
- an idle runner leaves after its keep_alive, at once if that is 0;
- of a runner that has ended nobody hears until its model is asked for again: it is listed, and then replaced; one that
  ends while it loads is forgotten, and what else waited for it loads it again.

Time (`now`, seconds on any steady clock) is always an argument. Every method returns the events it caused, in order.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from dataclasses import dataclass, field

from tests.fakes.ollama import catalogue
from tests.fakes.ollama.protocol import quantity


class What(enum.Enum):
    """The kinds of event. GRANTED, REFUSED, CRASHED and FAILED carry a ticket, the others only a model."""

    GRANTED = "granted"
    REFUSED = "refused"
    LOADING = "loading"
    LOADED = "loaded"
    ABORTED = "aborted"
    UNLOADED = "unloaded"
    CRASHED = "crashed"
    FAILED = "failed"


@dataclass(frozen=True)
class Event:
    """Something that happened, for the shell to act upon."""

    what: What
    model: str
    ticket: int | None = None


@dataclass(frozen=True)
class Limits:
    """The server's settings. Bytes and seconds; `max_loaded` 0 means no limit; `keep_alive` may be infinite."""

    vram: int
    num_parallel: int
    max_loaded: int
    max_queue: int
    keep_alive: float
    load_seconds_per_gib: float = 0.0
    unload_seconds: float = 0.0
    on_gpu: bool = True


@dataclass(frozen=True)
class Ticket:
    """One request's wish. `keep_alive` None leaves the runner's own; `load_only` needs the model, but no slot of it. A
    load that is made for one that `fails` does so."""

    id: int
    model: catalogue.Model
    num_ctx: int
    keep_alive: float | None = None
    load_only: bool = False
    fails: bool = False


@dataclass
class Runner:
    """A model in memory or on its way there. `ended`: its process is not there any more, and nobody has noticed."""

    model: catalogue.Model
    num_ctx: int
    size: int
    size_vram: int
    loader: int
    ready_at: float
    keep_alive: float
    ready: bool = False
    doomed: bool = False
    ended: bool = False
    last_used: float = 0.0
    expires_at: float = math.inf
    active: dict[int, Ticket] = field(default_factory=dict)
    waiting: deque[Ticket] = field(default_factory=deque)

    def fits(self, ticket: Ticket) -> bool:
        """Whether it can serve the request as it is."""
        return self.num_ctx == ticket.num_ctx and not self.ended

    @property
    def users(self) -> int:
        return len(self.active) + len(self.waiting)


class Pool:
    """The memory of one Ollama server. Synchronous; one caller at a time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.runners: dict[str, Runner] = {}
        self.pending: deque[Ticket] = deque()
        self._leaving: list[tuple[float, int]] = []
        self._events: list[Event] = []

    # -- what may happen ------------------------------------------------------------------------------------------

    def submit(self, ticket: Ticket, now: float) -> list[Event]:
        """A request arrives: it is granted now, granted later, or refused because the line is full."""
        runner = self.runners.get(ticket.model.key)
        if runner is not None and runner.fits(ticket):
            self._join(runner, ticket)
        elif len(self.pending) > self.limits.max_queue:  # one is in the loader's hand, max_queue stand behind it
            self._note(What.REFUSED, ticket.model.key, ticket.id)
        else:
            self.pending.append(ticket)
        return self._settle(now)

    def leave(self, ticket_id: int, now: float) -> list[Event]:
        """A request is over: it finished, or its client hung up while it ran or waited. Unknown ids are ignored."""
        self.pending = deque(ticket for ticket in self.pending if ticket.id != ticket_id)
        for runner in list(self.runners.values()):
            if ticket_id in runner.active:
                del runner.active[ticket_id]
                runner.last_used = now
                runner.expires_at = now + runner.keep_alive
            elif any(ticket.id == ticket_id for ticket in runner.waiting):
                runner.waiting = deque(ticket for ticket in runner.waiting if ticket.id != ticket_id)
                runner.expires_at = now + runner.keep_alive
                if not runner.ready and runner.loader == ticket_id:
                    self._abort(runner)
        return self._settle(now)

    def expel(self, key: str, now: float) -> list[Event]:
        """Unload a model as soon as nobody uses it (an empty request with keep_alive 0)."""
        runner = self.runners.get(key)
        if runner is not None:
            runner.doomed = True
        return self._settle(now)

    def crash(self, key: str, now: float) -> list[Event]:
        """The runner's process ends, and with it what it was at and what waited for it. Its memory is free."""
        runner = self.runners.get(key)
        if runner is not None and not runner.ended:
            runner.ended = True
            for ticket in (*runner.active.values(), *runner.waiting):
                self._note(What.CRASHED, key, ticket.id)
            runner.waiting.clear()
        return self._settle(now)

    def tick(self, now: float) -> list[Event]:
        """Time has passed: loads end, idle models leave."""
        return self._settle(now)

    def next_wakeup(self) -> float | None:
        """The earliest moment at which `tick` will do something, or None."""
        times = [runner.ready_at for runner in self.runners.values() if not runner.ready]
        times += [runner.expires_at for runner in self.runners.values() if runner.ready and not runner.users]
        times += [until for until, _ in self._leaving]
        finite = [moment for moment in times if math.isfinite(moment)]
        return min(finite) if finite else None

    # -- how it happens -------------------------------------------------------------------------------------------

    def _settle(self, now: float) -> list[Event]:
        self._leaving = [(until, size) for until, size in self._leaving if until > now]
        moved = True
        while moved:
            moved = self._finish_loads(now) or self._drop_idle(now) or self._serve_head(now)
            for runner in self.runners.values():
                self._fill(runner)
        events, self._events = self._events, []
        return events

    def _finish_loads(self, now: float) -> bool:
        for runner in self.runners.values():
            if not runner.ready and runner.ready_at <= now:
                if any(ticket.fails and ticket.id == runner.loader for ticket in runner.waiting):
                    runner.waiting = deque(ticket for ticket in runner.waiting if ticket.id != runner.loader)
                    self._note(What.FAILED, runner.model.key, runner.loader)
                    self._abort(runner)
                    return True
                runner.ready = True
                runner.last_used = now
                runner.expires_at = now + runner.keep_alive
                self._note(What.LOADED, runner.model.key)
                return True
        return False

    def _drop_idle(self, now: float) -> bool:
        for runner in self.runners.values():
            if runner.ready and not runner.users and (runner.doomed or runner.expires_at <= now):
                self._unload(runner, now)
                return True
        return False

    def _serve_head(self, now: float) -> bool:
        if not self.pending:
            return False
        head = self.pending[0]
        runner = self.runners.get(head.model.key)
        if runner is not None:
            if not runner.fits(head):
                return self._evict(runner, now)
            self.pending.popleft()
            self._join(runner, head)
            return True
        if self._leaving or any(not other.ready for other in self.runners.values()):
            return False
        if not self._has_room(head):
            return self._evict(min(self.runners.values(), key=_expendable), now)
        self.pending.popleft()
        self._load(head, now)
        return True

    def _has_room(self, ticket: Ticket) -> bool:
        if not self.runners:
            return True  # larger than the memory: it is loaded in part, the rest runs on the processor
        if self.limits.max_loaded and len(self.runners) >= self.limits.max_loaded:
            return False
        used = sum(runner.size for runner in self.runners.values() if not runner.ended)
        used += sum(size for _, size in self._leaving)
        return used + self._size(ticket) <= self.limits.vram

    def _size(self, ticket: Ticket) -> int:
        return ticket.model.memory(ticket.num_ctx, self.limits.num_parallel)

    def _load(self, ticket: Ticket, now: float) -> None:
        size = self._size(ticket)
        keep_alive = self.limits.keep_alive if ticket.keep_alive is None else ticket.keep_alive
        runner = Runner(
            model=ticket.model,
            num_ctx=ticket.num_ctx,
            size=size,
            size_vram=min(size, self.limits.vram) if self.limits.on_gpu else 0,
            loader=ticket.id,
            ready_at=now + size / quantity.GIB * self.limits.load_seconds_per_gib,
            keep_alive=keep_alive,
        )
        runner.waiting.append(ticket)
        self.runners[ticket.model.key] = runner
        self._note(What.LOADING, ticket.model.key)

    def _join(self, runner: Runner, ticket: Ticket) -> None:
        if ticket.keep_alive is not None:
            runner.keep_alive = ticket.keep_alive  # a request overwrites the runner's timer, whoever else uses it
            runner.doomed = False
        runner.waiting.append(ticket)

    def _fill(self, runner: Runner) -> None:
        if not runner.ready or runner.ended:
            return
        busy = sum(not ticket.load_only for ticket in runner.active.values())
        still_waiting: deque[Ticket] = deque()
        for ticket in runner.waiting:
            if ticket.load_only or busy < self.limits.num_parallel:
                busy += not ticket.load_only
                runner.active[ticket.id] = ticket
                self._note(What.GRANTED, ticket.model.key, ticket.id)
            else:
                still_waiting.append(ticket)
        runner.waiting = still_waiting

    def _evict(self, runner: Runner, now: float) -> bool:
        if runner.users or not runner.ready:
            runner.doomed = True
            return False
        self._unload(runner, now)
        return True

    def _unload(self, runner: Runner, now: float) -> None:
        del self.runners[runner.model.key]
        if self.limits.unload_seconds and not runner.ended:
            self._leaving.append((now + self.limits.unload_seconds, runner.size))
        self._note(What.UNLOADED, runner.model.key)

    def _abort(self, runner: Runner) -> None:
        del self.runners[runner.model.key]
        self.pending.extendleft(reversed(runner.waiting))
        self._note(What.ABORTED, runner.model.key)

    def _note(self, what: What, model: str, ticket: int | None = None) -> None:
        self._events.append(Event(what, model, ticket))


def _expendable(runner: Runner) -> tuple[bool, float]:
    """Sort key of eviction: idle before busy, then least recently used."""
    return (runner.users > 0, runner.last_used)
