"""The numbers of seed 000, and the breaker's three states."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controllers import backoff
from controllers.breaker import Breaker, State


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
