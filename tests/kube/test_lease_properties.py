"""Never two leaders, never none for long: for those who end when they lose the lease and for those who step down."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube import lease
from router import ha
from tests.kube.memory import Store, Way

WALL = datetime(2027, 3, 1, tzinfo=UTC)
OPERATOR, ROUTER = lease.Terms(), ha.TERMS
MODES = [("ends", OPERATOR), ("steps down", OPERATOR), ("steps down", ROUTER), ("ends", ROUTER)]
BOTH = pytest.mark.parametrize(("mode", "terms"), MODES)


class Ended(BaseException):
    """The process is gone."""


class World:
    """Processes `a`, `b`, `c` before one Lease. Time passes for all alike; their clocks show different hours."""

    def __init__(self, mode: str, terms: lease.Terms) -> None:
        self.mode, self.terms = mode, terms
        self.now, self.store, self.lives = 0.0, Store(), 0
        self.running = {name: Process(self, name) for name in "abc"}
        self.told: list[tuple[str, str]] = []

    def passes(self, seconds: float) -> None:
        """Time."""
        self.now += seconds
        self.holds()

    def holds(self) -> None:
        """What must be true at any moment."""
        assert sum(one.lease.leading for one in self.running.values()) <= 1

    def leader(self) -> str:
        """The leader, or none."""
        return next((name for name, one in self.running.items() if one.lease.leading), "")


class Process:
    """One competitor, which is replaced by another one when it ends."""

    def __init__(self, world: World, name: str) -> None:
        world.lives += 1
        self._world, self._name, self._offset = world, name, 10.0**world.lives if world.lives < 6 else world.lives
        self.way, self.identity = Way(world.store), f"{name}{world.lives}"
        self.lease = lease.Lease(
            self.way,
            self.identity,
            world.terms,
            monotonic=lambda: world.now + self._offset,
            wall=lambda: WALL,
            lost=self._lost,
            acquired=lambda: world.told.append((name, "acquired")),
        )

    def step(self) -> float:
        """A turn of its thread: the seconds until the next one."""
        try:
            return self.lease.step()
        except Ended:
            # Without a word: what it was in the middle of stays as it is.
            self._world.running[self._name] = Process(self._world, self._name)
            return 0.0
        finally:
            self._world.holds()

    def leave(self) -> None:
        """A release; another process begins."""
        self.lease.release(0)
        self._world.holds()
        self.lease.start()
        self.lease.release()
        self._world.running[self._name] = Process(self._world, self._name)

    def _lost(self, reason: str) -> None:
        assert not self.lease.leading
        self._world.told.append((self._name, "lost"))
        if self._world.mode == "ends":
            raise Ended(reason)


NAMES = st.sampled_from("abc")
SECONDS = st.one_of(st.floats(0.0, 4.0), st.sampled_from([0.1, 0.5, 1.5, 2.5, 3.0, 6.0, 8.0]))
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), NAMES, SECONDS),
        st.tuples(st.sampled_from(["cut", "repair", "leave", "crash", "touch"]), NAMES, SECONDS),
        st.tuples(st.sampled_from(["read there", "read back", "write there", "write back"]), NAMES, SECONDS, NAMES),
    ),
    max_size=60,
)


def play(world: World, event: tuple[object, ...]) -> None:
    """`read there` and so on: the next one's way takes so long, while another process has a turn."""
    what, name, seconds = str(event[0]), str(event[1]), float(str(event[2]))
    one = world.running[name]
    if " " in what:
        verb, way = what.split()
        other = str(event[3])

        def meanwhile() -> None:
            world.passes(seconds)
            if other != name:
                world.running[other].step()

        one.way.meanwhile[verb, way] = meanwhile
        one.step()
        return
    world.passes(seconds)
    if what == "cut":
        one.way.cut = True
    elif what == "repair":
        one.way.cut = False
    elif what == "leave":
        one.leave()
    elif what == "crash":
        world.running[name] = Process(world, name)
    elif what == "touch" and world.store.record is not None:
        world.store.write(world.store.record)  # an annotation, say
    else:
        one.step()


@BOTH
@given(events=EVENTS)
def test_never_two_at_once(mode: str, terms: lease.Terms, events: list[tuple[object, ...]]) -> None:
    world = World(mode, terms)
    for event in events:
        play(world, event)
        world.holds()


@BOTH
@given(events=EVENTS)
def test_somebody_leads_soon_after_the_trouble_is_over(
    mode: str, terms: lease.Terms, events: list[tuple[object, ...]]
) -> None:
    world = World(mode, terms)
    for event in events:
        play(world, event)
    for one in world.running.values():
        one.way.cut = False
        one.way.meanwhile.clear()
    over = world.now
    alternate(world, until=lambda: world.leader() != "")
    assert world.now - over <= terms.duration + 2 * terms.renew_every
    leader = world.leader()
    alternate(world, until=lambda: world.now - over > 10 * terms.duration)
    assert world.leader() == leader, "and goes on to"


@BOTH
@given(phase=st.floats(0.0, 1.0), after=st.floats(0.0, 10.0))
def test_a_holder_that_died_is_succeeded_in_time(mode: str, terms: lease.Terms, phase: float, after: float) -> None:
    world = World(mode, terms)
    del world.running["c"]
    world.running["a"].step()
    world.passes(phase * terms.renew_every)
    alternate(world, until=lambda: world.now > after)
    assert world.leader() == "a"
    died, dead = world.now, world.running.pop("a")
    alternate(world, until=lambda: world.leader() == "b")
    assert world.now - died <= terms.duration + 2 * terms.renew_every
    assert not dead.lease.leading


@BOTH
def test_one_that_is_cut_off_is_replaced_and_competes_again_or_is_gone(mode: str, terms: lease.Terms) -> None:
    world = World(mode, terms)
    del world.running["c"]
    first = world.running["a"]
    first.step()
    first.way.cut = True
    alternate(world, until=lambda: world.leader() == "b")
    assert world.told == [("a", "acquired"), ("a", "lost"), ("b", "acquired")]
    assert (world.running["a"] is first) is (mode == "steps down")
    first.way.cut = False
    world.running["b"].leave()
    alternate(world, until=lambda: world.leader() == "a")
    assert world.running["a"].lease.epoch == 3


@BOTH
def test_one_that_lost_a_lease_that_no_other_took_has_it_again_at_once(mode: str, terms: lease.Terms) -> None:
    world = World(mode, terms)
    one = world.running["a"]
    one.step()
    world.passes(terms.duration)  # frozen
    one.step()
    assert world.leader() == ("a" if mode == "steps down" else "")


def test_one_that_stepped_down_does_not_take_a_lease_that_disappears() -> None:
    """Another one took it meanwhile, and may not have noticed that it is gone."""
    world = World("steps down", ROUTER)
    one, two = world.running["a"], world.running["b"]
    one.step()
    two.step()
    one.way.cut = True
    alternate(world, until=lambda: world.leader() == "b")
    one.way.cut, world.store.record = False, None
    one.step()
    assert world.leader() == "b"


@BOTH
def test_a_renewal_whose_answer_was_lost_is_made_good_in_the_next_turn(mode: str, terms: lease.Terms) -> None:
    world = World(mode, terms)
    one = world.running["a"]
    one.step()

    def lose() -> None:
        one.way.cut = True

    one.way.meanwhile["write", "back"] = lose
    world.passes(terms.renew_every)
    one.step()
    one.way.cut = False
    world.passes(terms.renew_every)
    one.step()
    assert one.lease.left() == pytest.approx(terms.duration - terms.margin), "renewed, not only read"
    assert world.told == [("a", "acquired")]


@BOTH
@pytest.mark.parametrize("way", ["there", "back"])
def test_what_a_write_is_under_way_is_the_holder_s_loss(mode: str, terms: lease.Terms, way: str) -> None:
    world = World(mode, terms)
    one = world.running["a"]
    for _ in ("won", "renewed"):
        one.way.meanwhile["write", way] = lambda: world.passes(terms.renew_every)
        one.step()
        assert one.lease.left() == pytest.approx(terms.duration - terms.margin - terms.renew_every)


@BOTH
def test_one_that_is_about_to_hand_over_leads_no_more(mode: str, terms: lease.Terms) -> None:
    world = World(mode, terms)
    one = world.running["a"]
    one.step()
    one.lease.release(0)
    assert not one.lease.leading
    assert world.store.record is not None
    assert world.store.record.holder == one.identity, "it has not begun to"
    one.lease.start()
    one.lease.release()
    assert (world.store.record.holder, one.way.closed) == ("", 1)


@BOTH
def test_an_apiserver_that_is_away_is_not_asked_more_often(mode: str, terms: lease.Terms) -> None:
    world = World(mode, terms)
    one = world.running["b"]
    world.running["a"].step()
    one.step()
    world.store.away = True
    world.passes(10 * terms.duration)
    assert one.step() == terms.renew_every


def alternate(world: World, *, until: Callable[[], bool]) -> None:
    """Each process has its turns when it wants them."""
    due = dict.fromkeys(world.running, world.now)
    for _ in range(10_000):
        if until():
            return
        name = min(due, key=lambda one: due[one])
        world.passes(max(0.0, due[name] - world.now))
        due[name] = world.now + world.running[name].step()
    raise AssertionError("never")
