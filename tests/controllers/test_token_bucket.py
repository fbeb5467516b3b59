"""The token bucket: never more than the burst plus the refill since."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controllers.events import TokenBucket

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
