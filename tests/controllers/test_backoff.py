"""How long is waited: the numbers of seed 000, the breaker's three states, the bucket, pauses of housekeeping."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients import backoff
from controllers.backpressure import MOST_SECONDS, SHARE, Backpressure, Schedule
from controllers.breaker import Breaker, State
from controllers.events import TokenBucket


def test_qualification_doubles_from_five_seconds_to_five_minutes() -> None:
    waits = [backoff.QUALIFICATION.delay(n) for n in range(1, 10)]
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_dispatch_steps() -> None:
    assert [backoff.DISPATCH.delay(n) for n in range(1, 8)] == [5, 15, 30, 60, 300, 300, 300]


@given(st.integers(min_value=-3, max_value=10**9))
def test_every_count_has_a_bounded_wait(count: int) -> None:
    for schedule in (backoff.QUALIFICATION, backoff.DISPATCH, backoff.PROBE):
        assert 0 < schedule.delay(count) <= 300


def test_five_failures_in_a_row_open_the_breaker_and_one_probe_decides() -> None:
    breaker = Breaker()
    for second in range(4):
        breaker.failed(second)
        assert breaker.allows(second)
    breaker.failed(4)
    assert breaker.state(4) is State.OPEN
    assert not breaker.allows(33.9)
    assert breaker.state(34) is State.HALF_OPEN
    assert breaker.allows(34)
    breaker.started(34)
    assert not breaker.allows(35), "only one probe at a time"
    breaker.failed(35)
    assert breaker.state(35) is State.OPEN
    assert breaker.state(65) is State.HALF_OPEN
    breaker.started(65)
    breaker.succeeded()
    assert breaker.state(65) is State.CLOSED


def test_a_success_in_between_forgets_the_failures() -> None:
    breaker = Breaker()
    for _ in range(3):
        for _ in range(4):
            breaker.failed(0)
        breaker.succeeded()
    assert breaker.state(0) is State.CLOSED


def test_a_probe_that_never_reports_does_not_block_for_ever() -> None:
    breaker = Breaker(threshold=1, rest=30)
    breaker.failed(0)
    breaker.started(30)
    assert not breaker.allows(31)
    assert breaker.opens_at() == 60
    assert breaker.allows(60)


def test_the_cause_is_that_of_the_last_failure_and_goes_with_it() -> None:
    breaker = Breaker()
    breaker.failed(0, "See the quota.")
    assert breaker.cause == "See the quota."
    breaker.failed(1)
    assert breaker.cause == ""
    breaker.failed(2, "See the quota.")
    breaker.succeeded()
    assert breaker.cause == ""


RATE, BURST = 5.0, 12.0
STEPS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8), st.booleans()), max_size=40)


@given(STEPS)
def test_any_stretch_of_time_spends_no_more_than_the_burst_and_the_rate_allow(
    steps: list[tuple[int, int, bool]],
) -> None:
    now = 0.0
    one = TokenBucket(RATE, BURST, monotonic=lambda: now)
    spent: list[tuple[float, int]] = []
    for pause, number, asks in steps:
        now += pause / 8
        if not asks:
            one.charge(number)
        elif one.spend(number):
            spent.append((now, number))
    for first, (begun, _) in enumerate(spent):
        total = 0
        for at, number in spent[first:]:
            total += number
            assert total <= BURST + RATE * (at - begun) + 1e-6


def test_what_is_there_is_given_and_what_is_not_costs_nothing() -> None:
    now = 0.0
    one = TokenBucket(RATE, BURST, monotonic=lambda: now)
    assert one.spend(12)
    assert not one.spend(1)
    now = 1.0
    assert not one.spend(6), "five have come back"
    assert one.spend(5), "the refused question took nothing"
    one.charge(100)
    now = 2.0
    assert one.spend(5), "a charge is no debt"
    now = 0.0
    assert not one.spend(1), "a clock that goes back gives nothing"


@pytest.mark.parametrize(
    ("engaged", "took", "paused"),
    [(True, 0.02, [0.02 * SHARE]), (True, 60.0, [MOST_SECONDS]), (False, 0.02, []), (True, 0.0, [0.0])],
)
async def test_the_pause_follows_from_the_step(engaged: bool, took: float, paused: list[float]) -> None:
    now, slept = 100.0, list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    throttle = Backpressure(lambda: engaged, monotonic=lambda: now, sleep=sleep)
    begun = throttle.begin()
    now += took
    await throttle.after(begun)
    assert slept == pytest.approx(paused)


@pytest.mark.parametrize(("spare", "paused"), [(10.0, 0.06), (0.05, 0.05), (0.0, 0.0)])
async def test_the_pause_is_no_longer_than_the_schedule_has_to_spare(spare: float, paused: float) -> None:
    now, slept = 100.0, list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    throttle = Backpressure(lambda: True, monotonic=lambda: now, sleep=sleep)
    begun = throttle.begin()
    now += 0.02
    await throttle.after(begun, spare)
    assert slept == pytest.approx([paused])


def test_a_schedule_spares_what_its_share_of_the_time_leaves() -> None:
    now = 100.0
    schedule = Schedule(200, 10.0, monotonic=lambda: now)
    assert schedule.spare(50) == pytest.approx(2.5)
    now += 2.0
    assert schedule.spare(50) == pytest.approx(0.5)
    assert schedule.spare(20) == 0.0, "late: no pause"
    assert schedule.spare(500) == pytest.approx(8.0), "more than there was counts as all of it"
