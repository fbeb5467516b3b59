"""Leadership with clocks in hand: who may take the lease, until when a holder may write, what ends the process."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from crds import errors
from kube import lease
from router import ha
from tests.kube.memory import Store, Way

TERMS = lease.Terms(duration=8, renew_every=1.5, margin=2)
LATE = 0.04
WALL = datetime(2027, 3, 1, tzinfo=UTC)


class Ended(BaseException):
    """What `die` does in a test."""


class Process:
    """One competitor with its own monotonic clock."""

    def __init__(
        self, store: Store, name: str, now: float = 0.0, predecessor: str = "", terms: lease.Terms = TERMS
    ) -> None:
        self.now, self.pause = now, 0.0
        self.acquired = 0
        self.lease = lease.Lease(
            store,
            name,
            terms,
            monotonic=lambda: self.now,
            wall=lambda: WALL,
            lost=self._die,
            acquired=self._acquire,
            predecessor=lambda holder: bool(predecessor) and holder == predecessor,
        )

    def at(self, now: float) -> None:
        self.now = now
        self.pause = self.lease.step()

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


@pytest.mark.parametrize("terms", [*(lease.Terms(seconds) for seconds in (lease.SHORTEST_DURATION, 8, 20)), ha.TERMS])
def test_one_renewal_without_an_answer_is_survived(terms: lease.Terms) -> None:
    """It fails after its whole timeout, the process is late each time, and the next renewal still comes in time."""

    class Hanging(Store):
        def _answer(self) -> None:
            one.now += LATE
            if self.away:
                one.now += terms.timeout
            super()._answer()

    store = Hanging()
    one = Process(store, "one", terms=terms)
    for away in (False, False, True, False, False):
        store.away = away
        one.at(one.now + one.pause + LATE)
        assert one.lease.leading
    assert terms.timeout >= 0.5, "time enough for an apiserver that is busy"


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


def test_a_deleted_lease_is_written_again_by_its_holder_and_taken_by_no_other() -> None:
    store = Store()
    one, two = Process(store, "one"), Process(store, "two")
    one.at(0)
    two.at(0)
    store.record = None
    two.at(0.5)
    assert not two.lease.leading, "the holder may not have noticed yet"
    one.at(1)
    one.lease.check()
    assert (one.lease.epoch, one.acquired) == (1, 1)
    two.at(9)
    one.at(9 - 2.5)
    two.at(10)
    assert not two.lease.leading


def test_a_deleted_lease_of_a_dead_holder_is_taken_after_its_duration() -> None:
    store = Store()
    one, two = Process(store, "one"), Process(store, "two")
    one.at(0)
    two.at(0)
    store.record = None
    two.at(1)
    two.at(8.9)
    assert not two.lease.leading
    two.lease.heed(1)
    two.at(9)
    assert two.lease.leading
    assert two.lease.epoch == 2, "one more than what was seen"


def test_a_holder_does_not_write_a_lease_again_that_it_may_not_renew_any_more() -> None:
    store = Store()
    one = Process(store, "one")
    one.at(0)
    store.record = None
    with pytest.raises(Ended, match="in time"):
        one.at(7)
    assert store.record is None


def test_nothing_is_written_under_a_lower_epoch_than_the_highest_seen() -> None:
    store = Store()
    one = Process(store, "one")
    one.at(0)
    one.lease.heed(7)
    with pytest.raises(lease.Fenced, match="epoch 7"):
        one.lease.check()
    one.at(0.1)
    one.lease.check()
    assert one.lease.epoch == 8
    assert store.record is not None
    assert store.record.transitions == 8
    one.lease.heed(8)
    one.lease.heed(3)
    one.lease.check()
    one.lease.heed(2**40)
    one.lease.check()


def test_a_forged_epoch_does_not_use_up_those_that_are_left() -> None:
    one = Process(Store(), "one")
    one.at(0)
    one.lease.heed(lease.MOST_TRANSITIONS - 1)
    one.lease.heed(lease.MOST_HEEDED + 1)
    one.at(0.1)
    one.lease.check()
    assert one.lease.epoch == 1, "no Lease of ours ever had it"
    one.lease.heed(lease.MOST_HEEDED)
    one.at(0.2)
    assert one.lease.epoch == lease.MOST_HEEDED + 1, "half of them are left"


def test_an_old_holder_that_thaws_cannot_raise_its_epoch_to_the_new_ones() -> None:
    store = Store()
    one, two = Process(store, "one"), Process(store, "two")
    one.at(0)
    two.at(0)
    two.at(8)
    assert two.lease.epoch == 2
    one.now = 5
    one.lease.heed(2)
    with pytest.raises(lease.Fenced):
        one.lease.check()
    with pytest.raises(Ended, match="two"):
        one.at(5)


def test_a_conflict_while_the_api_is_away_is_settled_later() -> None:
    store = Store()
    one = Process(store, "one")
    one.at(0)
    assert store.record is not None
    store.write(store.record)
    real, one.lease._store = one.lease._store, _Flaky(store)
    one.at(1)
    one.lease._store = real
    one.at(2)
    one.at(3)
    one.now = 8.9
    one.lease.check()


class _Flaky(Store):
    """Says that the record changed, then nothing."""

    def __init__(self, real: Store) -> None:
        super().__init__()
        self._real = real

    def read(self) -> lease.Record | None:
        raise errors.Operational("away")

    def write(self, record: lease.Record) -> lease.Record:
        return self._real.write(record)


class _Late(Store):
    """A reader that saw the past."""

    def __init__(self, real: Store, past: lease.Record | None) -> None:
        super().__init__()
        self._real, self._past = real, past

    def read(self) -> lease.Record | None:
        return self._past

    def write(self, record: lease.Record) -> lease.Record:
        return self._real.write(record)


def test_a_holder_that_was_frozen_beyond_its_lease_ends_without_another_word() -> None:
    store = Store()
    one = Process(store, "one")
    one.at(0)
    version = store.version
    with pytest.raises(Ended, match="not be renewed in time"):
        one.at(TERMS.duration - TERMS.margin)
    assert store.version == version, "not even a renewal was sent"


def test_an_observer_looks_again_the_moment_the_lease_runs_out() -> None:
    """With a fixed pause it would look up to `renew_every` too late, and the takeover take longer than it may."""
    store = Store()
    one, two = Process(store, "one"), Process(store, "two", now=1.4)
    one.at(0)
    taken = 0.0
    while not two.lease.leading:
        pause = two.lease.step()
        assert 0 < pause <= TERMS.renew_every
        taken, two.now = two.now, two.now + pause
    assert taken == pytest.approx(1.4 + TERMS.duration)


@pytest.mark.parametrize("seconds", [0.0, 1.9, 2.9])
def test_what_an_observer_saw_counts_from_when_it_saw_it(seconds: float) -> None:
    """A look may be under way for longer than the margin, and the holder renew meanwhile."""
    store = Store()
    way = Way(store)
    one, two = Process(store, "one"), Process(way, "two")
    one.at(0)

    def renewed() -> None:
        one.at(seconds)
        two.now = seconds

    way.meanwhile["read", "there"] = renewed
    two.at(0)
    while not two.lease.leading:
        one.now = two.now = two.now + 0.1
        two.lease.step()
        assert not (one.lease.leading and two.lease.leading)
