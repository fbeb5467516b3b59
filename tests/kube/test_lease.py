"""Leadership with clocks in hand: who may take the lease, until when a holder may write, what ends the process."""

from __future__ import annotations

from collections.abc import Callable
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


@pytest.fixture(name="store")
def _store() -> Store:
    return Store()


@pytest.fixture(name="holder")
def _holder(store: Store) -> Process:
    """It leads since 0."""
    process = Process(store, "one")
    process.at(0)
    return process


@pytest.fixture(name="rival")
def _rival(store: Store) -> Process:
    return Process(store, "two")


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


def test_takeover_after_the_holder_fell_silent_raises_the_epoch(holder: Process, rival: Process) -> None:
    rival.at(1)
    rival.at(8.9)
    assert not rival.lease.leading, "8 s are counted from when it was seen, not from when it was written"
    rival.at(9)
    assert rival.lease.leading
    assert rival.lease.epoch == 2


def test_a_frozen_holder_may_not_write_after_it_thaws(holder: Process, rival: Process) -> None:
    rival.at(0)
    holder.now = 5.99
    holder.lease.check()
    holder.now = 6.0
    with pytest.raises(lease.Fenced):
        holder.lease.check()
    rival.at(8)
    assert rival.lease.leading
    with pytest.raises(Ended):
        holder.at(9)


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


def test_a_holder_that_cannot_renew_in_time_ends(store: Store, holder: Process) -> None:
    store.away = True
    holder.at(3)
    assert holder.lease.leading
    with pytest.raises(Ended, match="in time"):
        holder.at(6)


def test_a_short_outage_is_survived(store: Store, holder: Process) -> None:
    store.away = True
    holder.at(4)
    store.away = False
    holder.at(5.5)
    holder.now = 11.4
    holder.lease.check()


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


def test_a_holder_whose_lease_was_taken_ends(store: Store, holder: Process) -> None:
    assert store.record is not None
    store.write(lease.Record("other", 8, WALL, WALL, 2, store.record.version))
    with pytest.raises(Ended, match="other"):
        holder.at(1)


def test_somebody_touching_the_object_is_not_somebody_taking_it(store: Store, holder: Process) -> None:
    assert store.record is not None
    store.write(store.record)  # an annotation, say: same holder, new version
    holder.at(1)
    holder.at(2)
    holder.now = 7.9
    holder.lease.check()


def test_a_released_lease_is_taken_at_once(holder: Process, rival: Process) -> None:
    rival.at(0)
    holder.lease.start()
    holder.lease.release()
    assert not holder.lease.leading
    rival.at(0.5)
    assert rival.lease.leading
    assert rival.lease.epoch == 2


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
    one.lease._store = _Misled(store, lambda: record)
    two.at(0)
    one.at(0)
    assert [one.lease.leading, two.lease.leading] == [False, True]


def test_a_deleted_lease_is_written_again_by_its_holder_and_taken_by_no_other(
    store: Store, holder: Process, rival: Process
) -> None:
    rival.at(0)
    store.record = None
    rival.at(0.5)
    assert not rival.lease.leading, "the holder may not have noticed yet"
    holder.at(1)
    holder.lease.check()
    assert (holder.lease.epoch, holder.acquired) == (1, 1)
    rival.at(9)
    holder.at(9 - 2.5)
    rival.at(10)
    assert not rival.lease.leading


def test_a_deleted_lease_of_a_dead_holder_is_taken_after_its_duration(
    store: Store, holder: Process, rival: Process
) -> None:
    rival.at(0)
    store.record = None
    rival.at(1)
    rival.at(8.9)
    assert not rival.lease.leading
    rival.lease.heed(1)
    rival.at(9)
    assert rival.lease.leading
    assert rival.lease.epoch == 2, "one more than what was seen"


def test_a_holder_does_not_write_a_lease_again_that_it_may_not_renew_any_more(store: Store, holder: Process) -> None:
    store.record = None
    with pytest.raises(Ended, match="in time"):
        holder.at(7)
    assert store.record is None


def test_nothing_is_written_under_a_lower_epoch_than_the_highest_seen(store: Store, holder: Process) -> None:
    holder.lease.heed(7)
    with pytest.raises(lease.Fenced, match="epoch 7"):
        holder.lease.check()
    holder.at(0.1)
    holder.lease.check()
    assert holder.lease.epoch == 8
    assert store.record is not None
    assert store.record.transitions == 8
    holder.lease.heed(8)
    holder.lease.heed(3)
    holder.lease.check()
    holder.lease.heed(2**40)
    holder.lease.check()


def test_a_forged_epoch_does_not_use_up_those_that_are_left(holder: Process) -> None:
    holder.lease.heed(lease.MOST_TRANSITIONS - 1)
    holder.lease.heed(lease.MOST_HEEDED + 1)
    holder.at(0.1)
    holder.lease.check()
    assert holder.lease.epoch == 1, "no Lease of ours ever had it"
    holder.lease.heed(lease.MOST_HEEDED)
    holder.at(0.2)
    assert holder.lease.epoch == lease.MOST_HEEDED + 1, "half of them are left"


def test_an_old_holder_that_thaws_cannot_raise_its_epoch_to_the_new_ones(holder: Process, rival: Process) -> None:
    rival.at(0)
    rival.at(8)
    assert rival.lease.epoch == 2
    holder.now = 5
    holder.lease.heed(2)
    with pytest.raises(lease.Fenced):
        holder.lease.check()
    with pytest.raises(Ended, match="two"):
        holder.at(5)


def test_a_conflict_while_the_api_is_away_is_settled_later(store: Store, holder: Process) -> None:
    assert store.record is not None
    store.write(store.record)
    real, holder.lease._store = holder.lease._store, _Misled(store, _away)
    holder.at(1)
    holder.lease._store = real
    holder.at(2)
    holder.at(3)
    holder.now = 8.9
    holder.lease.check()


class _Misled(Store):
    """Writes to the real one, and reads what the test says."""

    def __init__(self, real: Store, look: Callable[[], lease.Record | None]) -> None:
        super().__init__()
        self.write, self.read = real.write, look  # type: ignore[method-assign]  # that is what it is for


def _away() -> lease.Record | None:
    raise errors.Operational("away")


def test_a_holder_that_was_frozen_beyond_its_lease_ends_without_another_word(store: Store, holder: Process) -> None:
    version = store.version
    with pytest.raises(Ended, match="not be renewed in time"):
        holder.at(TERMS.duration - TERMS.margin)
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
