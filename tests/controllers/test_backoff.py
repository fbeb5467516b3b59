"""The numbers of seed 000, and the breaker's three states."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controllers import backoff
from controllers.breaker import Breaker, Breakers, State


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


def test_what_is_refused_to_one_namespace_holds_up_no_other() -> None:
    breakers = Breakers()
    for second in range(5):
        breakers.started(second, "a")
        breakers.refused(second, "a")
    assert breakers.refused_for("a", 5) == 29
    assert breakers.refused_for("b", 5) is None
    assert (breakers.state(5), breakers.refusing(5)) == (State.CLOSED, 1)
    assert breakers.refused_for("a", 34) is None, "one is tried"
    breakers.started(34, "a")
    assert breakers.refused_for("a", 35) == 29, "and only one"
    breakers.succeeded("a")
    assert breakers.refused_for("a", 36) is None
    assert breakers.refusing(36) == 0


def test_a_refusal_as_the_probe_shows_that_the_shared_parts_work_again() -> None:
    breakers = Breakers()
    for _ in range(5):
        breakers.failed(0)
    breakers.started(30, "a")
    breakers.refused(30, "a")
    assert breakers.state(30) is State.CLOSED
    assert breakers.refused_for("a", 30) is None, "one refusal is no row of them"
