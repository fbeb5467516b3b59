"""The circuit breaker and the retry budget: pure, with the time as an argument."""

from __future__ import annotations

from crds.gpubackend import Circuit
from router.backends.circuit import Breaker
from router.proxy.budget import Budget


def _state(breaker: Breaker) -> Circuit:
    """Read anew: mypy takes an attribute for unchanged by calls."""
    return breaker.state


def test_failures_in_a_row_open_it_and_a_success_between_does_not() -> None:
    breaker = Breaker(threshold=3)
    assert [breaker.failed(0), breaker.failed(0), breaker.succeeded(), breaker.failed(0)] == [False] * 4
    assert not breaker.failed(0)
    assert _state(breaker) is Circuit.CLOSED
    assert breaker.failed(0)
    assert _state(breaker) is Circuit.OPEN


def test_a_late_success_or_failure_does_not_move_an_open_one() -> None:
    breaker = Breaker(threshold=1)
    breaker.failed(0)
    assert not breaker.succeeded()
    assert not breaker.failed(1)
    assert breaker.state is Circuit.OPEN


def test_a_probe_after_the_pause_half_opens_and_the_next_request_decides() -> None:
    breaker = Breaker(threshold=3, pause=5, longest=15)
    moment = 0.0
    for pause in (5, 10, 15, 15):
        while _state(breaker) is not Circuit.OPEN:
            breaker.failed(moment)
        assert not breaker.probed(moment + pause - 0.1)
        assert breaker.probed(moment + pause)
        assert _state(breaker) is Circuit.HALF_OPEN
        moment += pause
    assert breaker.succeeded()
    assert breaker.state is Circuit.CLOSED
    for _ in range(3):
        breaker.failed(moment)
    assert breaker.probed(moment + 5)  # from the start again


def test_budget_is_a_share_of_the_requests_with_a_small_reserve() -> None:
    budget = Budget(share=0.1, reserve=3)
    assert [budget.spend() for _ in range(4)] == [True, True, True, False]
    spent = 0
    for _ in range(1000):
        budget.earn()
        spent += budget.spend()
    assert 98 <= spent <= 100
