"""Every backend with its specification and what was last observed of it.

The book changes only here and tells its listeners when something changed that matters for scheduling. It is used from
the event loop alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crds import gpubackend
from router import ceilings, models, scheduler
from router.backends import placement
from router.backends.circuit import Breaker

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observation:
    """What one round of probes saw. `tags` and `ps` are Ollama's own model objects; None was not asked this time."""

    reachable: bool
    reason: str = ""
    final: bool = False
    """No connection at all: one such round is enough to call it away."""
    about: Record = field(default_factory=dict)
    """Ollama's `/api/version`."""
    tags: tuple[Record, ...] | None = None
    ps: tuple[Record, ...] | None = None


@dataclass(slots=True)
class Entry:
    """One backend. `reachable` is None until the first probe has ended."""

    name: str
    spec: gpubackend.Spec
    breaker: Breaker = field(default_factory=Breaker)
    reachable: bool | None = None
    reason: str = "not probed yet"
    about: Record = field(default_factory=dict)
    tags: tuple[Record, ...] | None = None
    ps: tuple[Record, ...] = ()

    @property
    def version(self) -> str:
        """What the server calls itself, empty while unknown."""
        return str(self.about.get("version", ""))

    @property
    def healthy(self) -> bool:
        """Answers probes and its circuit lets requests through."""
        return self.reachable is True and self.breaker.state is not gpubackend.Circuit.OPEN

    @property
    def served(self) -> frozenset[str] | None:
        """Models it can serve: what it lists, narrowed to its model sets if it has any; None while unknown."""
        listed = None if self.tags is None else _names(self.tags)
        if not self.spec.model_sets:
            return listed
        return frozenset(member.name for one in placement.sets(self.spec, listed) for member in one.members)

    @property
    def loaded(self) -> frozenset[str]:
        """Models in its memory at the last probe."""
        return _names(self.ps)

    def view(self) -> scheduler.Backend:
        """What the scheduler needs to know."""
        half_open = self.breaker.state is gpubackend.Circuit.HALF_OPEN
        listed = None if self.tags is None else _names(self.tags)
        return placement.view(
            self.name,
            self.spec,
            listed=listed,
            num_parallel=1 if half_open else self.spec.num_parallel,
            available=self.healthy and not self.spec.drain,
            models=self.served,
            loaded=self.loaded,
        )


class Book:
    """Entries by name. `breakers` makes the circuit of a new entry; `now` is a monotonic clock in seconds."""

    def __init__(self, *, now: Callable[[], float], breakers: Callable[[], Breaker] = Breaker) -> None:
        self._now = now
        self._breakers = breakers
        self._entries: dict[str, Entry] = {}
        self._views: dict[str, scheduler.Backend] = {}
        self._listeners: list[Callable[[], None]] = []
        self.table = models.Table(())
        self.ceilings = ceilings.Ceilings(())

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change that matters for scheduling, entries added and removed included."""
        self._listeners.append(listener)

    def entries(self) -> list[Entry]:
        """All entries by name; do not change them."""
        return [self._entries[name] for name in sorted(self._entries)]

    def find(self, name: str) -> Entry | None:
        """The entry of that name, or None."""
        return self._entries.get(name)

    def views(self) -> Iterable[scheduler.Backend]:
        """What the scheduler needs, of every entry."""
        return self._views.values()

    def put(self, name: str, spec: gpubackend.Spec) -> None:
        """Add a backend or change its specification. Another URL is another server: what was observed is forgotten."""
        old = self._entries.get(name)
        if old is not None and old.spec == spec:
            return
        if old is not None and old.spec.url == spec.url:
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
        entry.reachable, entry.reason = seen.reachable, seen.reason
        if seen.reachable:
            entry.about = seen.about
            entry.tags = entry.tags if seen.tags is None else seen.tags
            entry.ps = entry.ps if seen.ps is None else seen.ps
            entry.breaker.probed(self._now())
        else:
            entry.ps = ()
        self._refresh(entry)

    def resident(self, name: str, records: tuple[Record, ...]) -> None:
        """`/api/ps` of a backend, read between two rounds."""
        entry = self._entries.get(name)
        if entry is not None and entry.reachable:
            entry.ps = records
            self._refresh(entry)

    def lacks(self, name: str, model: str) -> None:
        """The backend says it does not have a model that it was thought to serve: the catalogue was stale."""
        entry = self._entries.get(name)
        if entry is not None and entry.tags is not None:
            entry.tags = tuple(r for r in entry.tags if models.normalise(str(r.get("name", ""))) != model)
            self._refresh(entry)

    def failed(self, name: str, reason: str) -> None:
        """The backend spoiled a request."""
        entry = self._entries.get(name)
        if entry is not None and entry.breaker.failed(self._now()):
            entry.reason = reason
            self._refresh(entry)

    def succeeded(self, name: str) -> None:
        """The backend answered a request."""
        entry = self._entries.get(name)
        if entry is not None and entry.breaker.succeeded():
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


def _names(records: Iterable[Record]) -> frozenset[str]:
    return frozenset(models.normalise(str(r.get("name") or r.get("model") or "")) for r in records) - {""}
