"""Which models a GPU holds: the router's own book of a memory that it owns, one model after the other.

A GpuBackend's model sets take turns in its memory. Changing from one to another is: let the leaving models' requests
end, unload them, wait until /api/ps has lost them, load the new ones one at a time by requests that no client owns. A
request goes to such a GPU only when its model is WARM there, so that 300 requests for a cold model cause one load, and
a client that hangs up aborts none.

    COLD -> LOADING -> WARM -> LEAVING -> COLD

Pure; the time is an argument. Source: the design's router page, "keep_alive and loading".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from router.effects import Load, Unload


@dataclass(frozen=True, slots=True)
class Member:
    """One model of a set: bytes, tokens, and the urgency of its requests (0 to 3)."""

    name: str
    vram: int | None = None
    num_ctx: int | None = None
    urgency: int = 3


@dataclass(frozen=True, slots=True)
class LoadableSet:
    """A model set as the scheduler knows it: with what its models need."""

    name: str
    members: tuple[Member, ...]

    @property
    def urgency(self) -> int:
        """That of its most urgent model."""
        return min((member.urgency for member in self.members), default=3)


class State(Enum):
    """Where a model stands; COLD is not written down."""

    LOADING = auto()
    WARM = auto()
    LEAVING = auto()


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds. `again` between two requests to unload, `gone` until a model that will not leave counts as gone;
    `retry` after a failed load, doubling up to `longest`; after `tries` failures in a row the model is broken."""

    again: float = 5.0
    gone: float = 60.0
    retry: float = 2.0
    longest: float = 60.0
    tries: int = 3


class Residency:
    """One GPU's memory. `keep_alive` is what its models are loaded with, in seconds."""

    def __init__(
        self,
        backend: str,
        sets: tuple[LoadableSet, ...],
        *,
        vram: int | None,
        max_loaded: int,
        keep_alive: int,
        patience: Patience | None = None,
    ) -> None:
        self.backend = backend
        self.active: tuple[str, ...] = ()
        """Sets of which a model is in memory or on its way there, in the order in which they were chosen. That a set
        was chosen is not enough: one whose models could not be loaded, or have left by themselves, is not there."""
        self.since = float("-inf")
        """When that changed."""
        self.adopted = True
        """What is there was found there: an earlier router may have used it a moment ago."""
        self.known = False
        """Was the memory looked at since the server came (back)?"""
        self.swaps = 0
        """Changes that threw something out."""
        self.loads = 0
        self._patience = patience or Patience()
        self._states: dict[str, State] = {}
        self._wanted: dict[str, None] = {}
        self._under_way: set[str] = set()
        """Loads that were not answered yet: what is still being loaded cannot be unloaded."""
        self._asked: dict[str, tuple[float, float]] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self.configure(sets, vram=vram, max_loaded=max_loaded, keep_alive=keep_alive)

    def configure(self, sets: tuple[LoadableSet, ...], *, vram: int | None, max_loaded: int, keep_alive: int) -> None:
        """The sets changed. Models that no active set names any more leave with the next change."""
        self._sets = {one.name: one for one in sets}
        self._contents = {one.name: frozenset(member.name for member in one.members) for one in sets}
        self._vram, self._max_loaded, self.keep_alive = vram, max_loaded, keep_alive
        self._members = {member.name: member for one in reversed(sets) for member in one.members}
        self.active = tuple(name for name in self.active if name in self._sets)

    # What stands now.

    def warm(self, model: str) -> bool:
        """May requests for it be sent?"""
        return self._states.get(model) is State.WARM

    def means(self, model: str) -> bool:
        """Is it in memory for some time to come, or on its way there?"""
        return any(model in self._contents[name] for name in self.active)

    def broken(self, model: str, now: float) -> bool:
        """Could it not be loaded, again and again, and is it too early for another try?"""
        return self._failures.get(model, 0) >= self._patience.tries and now < self._not_before.get(model, 0.0)

    def waits(self, model: str, now: float) -> bool:
        """Could it not be loaded, and is it too early for another try?"""
        return now < self._not_before.get(model, 0.0)

    @property
    def moving(self) -> bool:
        """Something is being unloaded or loaded."""
        return bool(self._wanted) or any(state is not State.WARM for state in self._states.values())

    def complete(self, name: str) -> bool:
        """Is every model of that set usable?"""
        return name in self.active and all(self.warm(model) for model in self._contents[name])

    def holding(self, model: str) -> tuple[str, ...]:
        """The sets that contain it."""
        return tuple(name for name in self._sets if model in self._contents[name])

    def home(self) -> str:
        """The set for a GPU that is not reserved: the one called background, else the least urgent."""
        if "background" in self._sets:
            return "background"
        return max(self._sets.values(), key=lambda one: (one.urgency, one.name)).name

    def special(self, name: str) -> bool:
        """Is it another set than the one for everyday work? Only such a set needs a reservation to stay."""
        return name != "" and (name != self.home() or len(self._sets) == 1)

    def foremost(self) -> str:
        """The set for an orchestrator that names no model: the one called orchestrator, else the most urgent."""
        if "orchestrator" in self._sets:
            return "orchestrator"
        return min(self._sets.values(), key=lambda one: (one.urgency, one.name)).name

    def names(self, sets: Iterable[str]) -> frozenset[str]:
        """The models of those sets; none of one that a specification has lost."""
        return frozenset(model for name in sets for model in self._contents.get(name, ()))

    # What shall stand.

    def evicted(self, target: str) -> tuple[str, ...]:
        """The sets that must go so that `target` fits, the longest there first; none when it fits beside them.

        Without sizes nothing is known to fit together: then the sets take turns.
        """
        stay = [name for name in self.active if name != target]
        gone: list[str] = []
        while stay and not self._fits([*stay, target]):
            gone.append(stay.pop(0))
        return tuple(gone)

    def leaving(self, target: str) -> frozenset[str]:
        """The models that would go."""
        evicted = set(self.evicted(target))
        return self.names(evicted) - self.names([*(set(self.active) - evicted), target])

    def begin(self, target: str, loaded: frozenset[str], now: float) -> None:
        """Change to `target`; what is `loaded` without belonging to what stays leaves as well."""
        evicted = self.evicted(target)
        if evicted:
            self.swaps += 1
        self.active = (*(name for name in self.active if name not in evicted and name != target), target)
        self.since, self.adopted = now, False
        keep = self.names(self.active)
        for model in sorted((loaded | self._states.keys()) - keep):
            self._states[model] = State.LEAVING
            self._wanted.pop(model, None)
        for model in sorted(self.names([target]), key=lambda name: (self._members[name].urgency, name)):
            if self._states.get(model) is State.LEAVING and model not in self._asked:
                self._states[model] = State.LOADING if model in self._under_way else State.WARM
            self.demand(model, now)
        self._settle()

    def demand(self, model: str, now: float) -> None:
        """A request needs it: load it when its turn comes, unless it is there or it is too early for another try. It
        must be meant to be there."""
        if self._states.get(model) not in (State.LOADING, State.WARM) and not self.waits(model, now):
            self._wanted[model] = None

    def first(self, model: str) -> None:
        """Load this one before the others."""
        if model in self._wanted:
            self._wanted = {model: None} | self._wanted

    def adopt(self, loaded: frozenset[str], now: float) -> None:
        """A server that was not asked before: take what is in its memory for the work of an earlier router."""
        self.known = self.adopted = True
        by_presence = sorted(self._sets, key=lambda name: (-len(self._contents[name] & loaded), name))
        for name in by_presence:
            if self._contents[name] & loaded and self._fits([*self.active, name]):
                self.active = (*self.active, name)
                self.since = now
        for model in sorted(self.names(self.active) & loaded):
            self._states[model] = State.WARM

    def lost(self) -> None:
        """The server went away: nothing is known of its memory any more."""
        self.active, self.known = (), False
        self._states.clear()
        self._wanted.clear()
        self._asked.clear()

    def seen(self, loaded: frozenset[str], busy: Callable[[str], bool]) -> None:
        """/api/ps was read: what is not there and not in use has left by itself, and is loaded when it is asked for."""
        for model, state in list(self._states.items()):
            if state is State.WARM and model not in loaded and not busy(model):
                self._forget(model)
        self._settle()

    def unloaded(self, model: str) -> None:
        """/api/ps has lost a model that was asked to leave."""
        if self._states.get(model) is State.LEAVING:
            self._forget(model)

    def loaded(self, model: str, now: float, *, error: bool) -> None:
        """A load ended."""
        state = self._states.get(model)
        self._under_way.discard(model)
        if not error:
            self._failures.pop(model, None)
            if state is State.LOADING:
                self._states[model] = State.WARM
            return
        if state in (State.LOADING, State.LEAVING):
            self._forget(model)
        failures = self._failures[model] = self._failures.get(model, 0) + 1
        wait = min(self._patience.retry * 2 ** (failures - 1), self._patience.longest)
        self._not_before[model] = now + (self._patience.longest if failures >= self._patience.tries else wait)
        self._settle()

    def step(self, busy: Callable[[str], bool], now: float) -> Iterator[Load | Unload]:
        """What is to be done next; nothing while it is under way."""
        leaving = [model for model, state in self._states.items() if state is State.LEAVING]
        for model in leaving:
            if busy(model) or model in self._under_way:
                continue
            first, last = self._asked.get(model, (now, float("-inf")))
            if now - first >= self._patience.gone:
                self._forget(model)
            elif now - last >= self._patience.again:
                self._asked[model] = (first, now)
                yield Unload(self.backend, model)
        if any(state is not State.WARM for state in self._states.values()):
            return
        for model in list(self._wanted):
            if model not in self.names(self.active):
                del self._wanted[model]
            elif not self.waits(model, now):
                del self._wanted[model]
                self._states[model] = State.LOADING
                self._under_way.add(model)
                self.loads += 1
                member = self._members[model]
                yield Load(self.backend, model, member.num_ctx, self.keep_alive)
                return

    def _settle(self) -> None:
        """Sets of which nothing is there any more, or on its way, are not there."""
        near = self._states.keys() | self._wanted.keys()
        self.active = tuple(name for name in self.active if self._contents[name] & near)

    def _forget(self, model: str) -> None:
        self._states.pop(model, None)
        self._asked.pop(model, None)

    def _fits(self, names: list[str]) -> bool:
        if len(names) <= 1:
            return True
        members = [self._members[model] for model in self.names(names)]
        if len(members) > self._max_loaded or self._vram is None or any(m.vram is None for m in members):
            return False
        return sum(member.vram or 0 for member in members) <= self._vram
