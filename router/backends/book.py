"""Every backend with its specification and what was last observed of it.

The book changes only here and tells its listeners when something changed that matters for scheduling. It is used from
the event loop alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from crds import gpubackend
from crds.gpubackend import Circuit, Engine
from crds.modelcheck import Facts
from router import ceilings, models, scheduler
from router.backends import placement, records
from router.backends.circuit import Breaker
from router.backends.records import Record

_BUSY_SECONDS, _LONGEST_BUSY_SECONDS = 1.0, 10.0
"""For so long a server that answered "busy" gets nothing; the time doubles while it says so again."""


_WARY_SECONDS = 120.0
"""For so long a backend gets one request at a time after a runner ended there: those that come again are alone then."""
_LONGEST_WARY_SECONDS, _WARY_HOUR = 600.0, 3600.0
"""No longer than that in an hour that begins with a crash: one client that crashes runners slows down all others."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one round of probes saw. `tags` and `ps` are the server's own model objects (`ps` is empty for an OpenAI
    server, which does not say what is in its memory); None was not asked this time."""

    reachable: bool
    reason: str = ""
    final: bool = False
    """No connection at all: one such round is enough to call it away."""
    silent: bool = False
    """Nothing came back, not even a refusal: the server or the way to it is gone, with all that runs there."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Ollama's `/api/version`."""
    tags: tuple[Record, ...] | None = None
    ps: tuple[Record, ...] | None = None


def _busy() -> Breaker:
    return Breaker(threshold=1, pause=_BUSY_SECONDS, longest=_LONGEST_BUSY_SECONDS)


@dataclass(slots=True)
class Entry:
    """One backend. `reachable` is None until the first probe has ended.

    It has three kinds of circuits, because failures say different things: `breaker` counts exchanges that broke (the
    server, or the way to it), `busy` opens with the first "server busy", and those in `circuits` count failures of one
    model, whose runner may crash or hang while the others work.
    """

    name: str
    spec: gpubackend.Spec
    breaker: Breaker = field(default_factory=Breaker)
    busy: Breaker = field(default_factory=_busy)
    circuits: dict[str, Breaker] = field(default_factory=dict)
    """By normalised model; one that is closed again is left out."""
    wary_until: float = 0.0
    """A runner ended there under a request of unknown guilt, which matters until then; 0 when it does not."""
    wary_since: float = -_WARY_HOUR
    """When the hour began in which it may be wary no longer than `_LONGEST_WARY_SECONDS`."""
    reachable: bool | None = None
    reason: str = "not probed yet"
    about: Mapping[str, object] = field(default_factory=dict)
    tags: tuple[Record, ...] | None = None
    ps: tuple[Record, ...] = ()
    facts: dict[str, Facts] = field(default_factory=dict)
    """What the server says about models that roles use, by normalised name."""

    @property
    def openai(self) -> bool:
        """Does it speak OpenAI's API alone?"""
        return self.spec.engine is Engine.OPENAI

    @property
    def version(self) -> str:
        """What the server calls itself, empty while unknown."""
        return str(self.about.get("version", ""))

    @property
    def circuit(self) -> Circuit:
        """Of the server as a whole."""
        states = (self.breaker.state, self.busy.state)
        return next((one for one in (Circuit.OPEN, Circuit.HALF_OPEN) if one in states), Circuit.CLOSED)

    @property
    def healthy(self) -> bool:
        """Answers probes and its circuit lets requests through."""
        return self.reachable is True and self.breaker.state is not Circuit.OPEN

    @property
    def served(self) -> frozenset[str] | None:
        """Models it can serve: what it lists, narrowed to its model sets if it has any; None while unknown."""
        listed = None if self.tags is None else records.names(self.tags)
        if not self.spec.model_sets:
            return listed
        return frozenset(member.name for one in placement.sets(self.spec, listed) for member in one.members)

    @property
    def loaded(self) -> frozenset[str]:
        """Models in its memory at the last probe; those of an OpenAI server are always ready."""
        return self.served or frozenset() if self.openai else records.names(self.ps)

    def models_in(self, state: Circuit) -> frozenset[str]:
        """Models whose own circuit is in that state."""
        return frozenset(model for model, one in self.circuits.items() if one.state is state)

    def _held(self, state: Circuit) -> frozenset[str]:
        """Models that are held back in that way: all of them on a server that is busy, which still answers questions
        about them."""
        every = (self.served or frozenset()) if self.busy.state is state else frozenset()
        return self.models_in(state) | every

    def view(self) -> scheduler.Backend:
        """What the scheduler needs to know."""
        listed = None if self.tags is None else records.names(self.tags)
        view = placement.view(
            self.name,
            self.spec,
            listed=listed,
            num_parallel=1 if self.breaker.state is Circuit.HALF_OPEN else self.spec.num_parallel,
            available=self.healthy and not self.spec.drain,
            models=self.served,
            loaded=self.loaded,
            tripped=self._held(Circuit.OPEN),
            cautious=self._held(Circuit.HALF_OPEN),
        )
        return replace(view, max_in_flight=1) if self.wary_until else view


class Book:
    """Entries by name. `breakers` makes the circuit of a new entry; `now` is a monotonic clock in seconds."""

    def __init__(self, *, now: Callable[[], float], breakers: Callable[[], Breaker] = Breaker) -> None:
        self._now = now
        self._breakers = breakers
        self._entries: dict[str, Entry] = {}
        self.find: Callable[[str], Entry | None] = self._entries.get
        """The entry of that name, or None."""
        self._views: dict[str, scheduler.Backend] = {}
        self._listeners: list[Callable[[], None]] = []
        self._silences: list[Callable[[str], None]] = []
        self.table = models.Table(())
        self.ceilings = ceilings.Ceilings(())

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change that matters for scheduling, entries added and removed included."""
        self._listeners.append(listener)

    def listen_for_silence(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of a backend that was there and answers nothing any more."""
        self._silences.append(listener)

    def entries(self) -> list[Entry]:
        """All entries by name; do not change them."""
        return [self._entries[name] for name in sorted(self._entries)]

    def views(self) -> Iterable[scheduler.Backend]:
        """What the scheduler needs, of every entry."""
        return self._views.values()

    def put(self, name: str, spec: gpubackend.Spec) -> None:
        """Add a backend or change its specification. Another URL or engine is another server: what was observed is
        forgotten."""
        old = self._entries.get(name)
        if old is not None and old.spec == spec:
            return
        if old is not None and (old.spec.url, old.spec.engine) == (spec.url, spec.engine):
            old.spec = spec
        else:
            self._entries[name] = Entry(name, spec, breaker=self._breakers())
        self._changed()

    def remove(self, name: str) -> None:
        """Forget a backend; nothing happens when it is unknown. What runs on it is left alone."""
        if self._entries.pop(name, None) is not None:
            self._changed()

    def replace(self, specs: Mapping[str, gpubackend.Spec]) -> None:
        """Make the book hold exactly these."""
        for name in self._entries.keys() - specs.keys():
            self.remove(name)
        for name, spec in specs.items():
            self.put(name, spec)

    def observed(self, entry: Entry, seen: Observation) -> None:
        """A round of probes of `entry` ended; ignored when the entry was replaced or removed meanwhile."""
        if self._entries.get(entry.name) is not entry:
            return
        fell_silent = entry.reachable is True and seen.silent
        entry.reachable, entry.reason = seen.reachable, seen.reason
        if entry.wary_until <= self._now():
            entry.wary_until = 0.0
        if seen.reachable:
            entry.about = seen.about
            entry.tags = entry.tags if seen.tags is None else seen.tags
            entry.ps = entry.ps if seen.ps is None else seen.ps
            for one in chain((entry.breaker, entry.busy), entry.circuits.values()):
                one.probed(self._now())
        else:
            entry.ps = ()
        self._refresh(entry)
        if fell_silent:
            for listener in self._silences:
                listener(entry.name)

    def resident(self, name: str, loaded: tuple[Record, ...]) -> None:
        """`/api/ps` of a backend, read between two rounds."""
        entry = self._entries.get(name)
        if entry is not None and entry.reachable:
            entry.ps = loaded
            self._refresh(entry)

    def lacks(self, name: str, model: str, asked: str) -> None:
        """The backend says it does not have a model that it was thought to serve: the catalogue was stale. `asked` is
        the client's spelling: an OpenAI server takes its own alone, and another one says nothing about the model."""
        entry = self._entries.get(name)
        if entry is not None and entry.tags is not None:
            entry.tags = tuple(
                one
                for one in entry.tags
                if records.model(one) != model or (entry.openai and records.name(one) != asked)
            )
            self._refresh(entry)

    def away(self, name: str, reason: str) -> None:
        """No connection could be made for a request: the backend is away until a probe is answered."""
        entry = self._entries.get(name)
        if entry is not None and entry.reachable:
            entry.breaker.failed(self._now())
            self.observed(entry, Observation(reachable=False, reason=reason))

    def failed(self, name: str, reason: str, *, model: str = "") -> None:
        """The backend spoiled a request; with a `model`, that model's runner did. What is known to be away and breaks
        off what ran there is not counted for it."""
        entry = self._entries.get(name)
        if entry is None or entry.reachable is False:
            return
        if not model:
            changed = entry.breaker.failed(self._now())
        else:
            if (circuit := entry.circuits.get(model)) is None:
                circuit = entry.circuits[model] = self._breakers()
            changed = circuit.failed(self._now())
        if changed:
            entry.reason = reason if not model else entry.reason
            self._refresh(entry)

    def crashed(self, name: str) -> None:
        """A runner ended there, and it is not known which request did that."""
        entry = self._entries.get(name)
        if entry is not None:
            now = self._now()
            if now >= entry.wary_since + _WARY_HOUR:
                entry.wary_since = now
            until = min(now + _WARY_SECONDS, entry.wary_since + _LONGEST_WARY_SECONDS)
            entry.wary_until = until if until > now else 0.0
            self._refresh(entry)

    def busy(self, name: str) -> None:
        """The backend has too much to do: it gets nothing for a moment, or it would attract every request by being
        free so soon."""
        entry = self._entries.get(name)
        if entry is not None and entry.busy.failed(self._now()):
            self._refresh(entry)

    def succeeded(self, name: str, model: str = "") -> None:
        """The backend answered a request; with a `model`, that model did."""
        entry = self._entries.get(name)
        if entry is None:
            return
        changed = entry.breaker.succeeded()
        changed |= entry.busy.succeeded()
        if model and (circuit := entry.circuits.get(model)) is not None:
            changed |= circuit.succeeded()
            if circuit.state is Circuit.CLOSED:
                del entry.circuits[model]
        if changed:
            self._refresh(entry)

    def _refresh(self, entry: Entry) -> None:
        if entry.view() != self._views.get(entry.name):
            self._changed()

    def _changed(self) -> None:
        self._views = {entry.name: entry.view() for entry in self._entries.values()}
        self.table = models.Table(
            model.model_copy(update={"cpu_allowed": True}) if entry.spec.kind is gpubackend.Kind.CPU else model
            for entry in self._entries.values()
            for model_set in entry.spec.model_sets
            for model in model_set.models
        )
        self.ceilings = ceilings.Ceilings(
            ceiling for entry in self._entries.values() for ceiling in entry.spec.ceilings
        )
        for listener in self._listeners:
            listener()
