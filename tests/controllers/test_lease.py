"""Leadership with clocks in hand: who may take the lease, until when a holder may write, what ends the process."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controllers import lease
from crds import errors

TERMS = lease.Terms(duration=8, renew_every=1.5, margin=2)
WALL = datetime(2027, 3, 1, tzinfo=UTC)


class Store:
    """The Lease in memory with real version checks; `away` makes it fail like a network."""

    def __init__(self) -> None:
        self.record: lease.Record | None = None
        self.version = 0
        self.away = False

    def read(self) -> lease.Record | None:
        self._answer()
        return self.record

    def write(self, record: lease.Record) -> lease.Record:
        self._answer()
        if record.version != (self.record.version if self.record else ""):
            raise lease.ContestedError("changed")
        self.version += 1
        self.record = lease.Record(
            record.holder, record.duration, record.acquired, record.renewed, record.transitions, str(self.version)
        )
        return self.record

    def _answer(self) -> None:
        if self.away:
            raise errors.Operational("away")


class Ended(BaseException):
    """What `die` does in a test."""


class Process:
    """One competitor with its own monotonic clock."""

    def __init__(self, store: Store, name: str, now: float = 0.0, predecessor: str = "") -> None:
        self.now = now
        self.acquired = 0
        self.lease = lease.Lease(
            store,
            name,
            TERMS,
            monotonic=lambda: self.now,
            wall=lambda: WALL,
            die=self._die,
            acquired=self._acquire,
            predecessor=lambda holder: bool(predecessor) and holder == predecessor,
        )

    def at(self, now: float) -> None:
        self.now = now
        self.lease.step()

    def _die(self, reason: str) -> None:
        raise Ended(reason)

    def _acquire(self) -> None:
        self.acquired += 1


def test_the_first_takes_it_and_the_second_waits() -> None:
    store = Store()
    one, two = Process(store, "one"), Process(store, "two", now=1000)
    one.at(0)
    two.at(1000)
    assert (one.lease.leading, one.lease.epoch, two.lease.leading, two.lease.epoch) == (True, 1, False, 0)
    with pytest.raises(lease.Fenced):
        two.lease.check()
    one.lease.check()


def test_a_renewed_lease_is_never_taken_however_the_clocks_differ() -> None:
    store = Store()
    one, two = Process(store, "one"), Process(store, "two", now=10**6)
    one.at(0)
    for step in range(100):
        one.at(step * 1.5)
        two.at(10**6 + step * 1.5)
        assert not two.lease.leading


def test_takeover_after_the_holder_fell_silent_raises_the_epoch() -> None:
    store = Store()
    one, two = Process(store, "one"), Process(store, "two")
    one.at(0)
    two.at(1)
    two.at(8.9)
    assert not two.lease.leading, "8 s are counted from when it was seen, not from when it was written"
    two.at(9)
    assert two.lease.leading
    assert two.lease.epoch == 2


def test_a_frozen_holder_may_not_write_after_it_thaws() -> None:
    store = Store()
    one, two = Process(store, "one"), Process(store, "two")
    one.at(0)
    two.at(0)
    one.now = 5.99
    one.lease.check()
    one.now = 6.0
    with pytest.raises(lease.Fenced):
        one.lease.check()
    two.at(8)
    assert two.lease.leading
    with pytest.raises(Ended):
        one.at(9)


def test_the_old_ones_right_ends_before_the_new_ones_begins() -> None:
    store = Store()
    for start in range(8):
        one, two = Process(store, f"one{start}"), Process(store, f"two{start}")
        store.record = None
        one.at(start)
        two.at(start)
        deadline = TERMS.deadline(start)
        two.at(deadline)
        assert not two.lease.leading
        two.at(start + TERMS.duration)
        assert two.lease.leading


def test_a_holder_that_cannot_renew_in_time_ends() -> None:
    store = Store()
    one = Process(store, "one")
    one.at(0)
    store.away = True
    one.at(3)
    assert one.lease.leading
    with pytest.raises(Ended, match="in time"):
        one.at(6)


def test_a_short_outage_is_survived() -> None:
    store = Store()
    one = Process(store, "one")
    one.at(0)
    store.away = True
    one.at(4)
    store.away = False
    one.at(5.5)
    one.now = 11.4
    one.lease.check()


def test_a_holder_whose_lease_was_taken_ends() -> None:
    store = Store()
    one = Process(store, "one")
    one.at(0)
    assert store.record is not None
    store.write(lease.Record("other", 8, WALL, WALL, 2, store.record.version))
    with pytest.raises(Ended, match="other"):
        one.at(1)


def test_somebody_touching_the_object_is_not_somebody_taking_it() -> None:
    store = Store()
    one = Process(store, "one")
    one.at(0)
    assert store.record is not None
    store.write(store.record)  # an annotation, say: same holder, new version
    one.at(1)
    one.at(2)
    one.now = 7.9
    one.lease.check()


def test_a_released_lease_is_taken_at_once() -> None:
    store = Store()
    one, two = Process(store, "one"), Process(store, "two")
    one.at(0)
    two.at(0)
    one.lease.start()
    one.lease.release()
    assert not one.lease.leading
    two.at(0.5)
    assert two.lease.leading
    assert two.lease.epoch == 2


def test_the_process_that_ran_in_this_pod_before_is_known_to_be_dead() -> None:
    store = Store()
    Process(store, "pod_1").at(0)
    heir = Process(store, "pod_2", now=50, predecessor="pod_1")
    heir.at(50)
    assert heir.lease.leading
    assert heir.lease.epoch == 2
    assert heir.acquired == 1


def test_two_that_reach_for_it_at_once_do_not_both_get_it() -> None:
    store = Store()
    one, two = Process(store, "one"), Process(store, "two")
    record = store.read()
    one.lease._store = _Late(store, record)
    two.at(0)
    one.at(0)
    assert [one.lease.leading, two.lease.leading] == [False, True]


class _Late(Store):
    """A reader that saw the past."""

    def __init__(self, real: Store, past: lease.Record | None) -> None:
        super().__init__()
        self._real, self._past = real, past

    def read(self) -> lease.Record | None:
        return self._past

    def write(self, record: lease.Record) -> lease.Record:
        return self._real.write(record)
