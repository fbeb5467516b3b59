"""The samples behind the plots: what the counters gained, in a ring that does not grow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry

from router import history, metrics
from tests.router import plans

_BEGIN = datetime(2026, 11, 24, tzinfo=UTC)


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return _BEGIN + timedelta(seconds=self.now)


def _made(**more: int) -> tuple[history.Recorder, metrics.Metrics, _Clock]:
    clock = _Clock()
    counters = metrics.Metrics(CollectorRegistry(), now=clock)
    return history.Recorder(counters, plans.plan(plans.gpu()), now=clock, wall=clock.wall, **more), counters, clock


def test_a_sample_is_what_happened_since_the_one_before() -> None:
    made, counters, clock = _made()
    for model, tokens in (("m", 300), ("n", 200)):
        exchange = counters.exchange("P0", model, "gpu")
        exchange.tokens += tokens
        exchange.prompt_tokens += 50
        for waited in (0.0, 0.0, 0.0, 8.0):
            exchange.began(waited, 0.1)
    clock.now = 5.0
    made.sample()
    counters.exchange("P3", "m", "gpu").began(10_000.0, 0.1)
    clock.now = 10.0
    made.sample()
    first, second = made.document().samples
    assert (first.at, first.seconds, first.tokens_per_second) == (_BEGIN + timedelta(seconds=5), 5.0, 100.0)
    assert first.prompt_tokens_per_second == 20.0
    waits = first.waits["P0"]
    assert waits.count == 8
    assert waits.p50 <= 0.001
    assert 5.0 < waits.p95 <= 10.0
    assert (second.tokens_per_second, second.waits["P3"].p95, [*second.waits]) == (0.0, 600.0, ["P3"])


def test_the_ring_is_bounded() -> None:
    made, _, clock = _made(most=3)
    for second in range(10):
        clock.now = float(second)
        made.sample()
    assert [sample.at.second for sample in made.document().samples] == [7, 8, 9]


def test_swaps_are_counted_and_a_backend_that_goes_takes_none_back() -> None:
    clock = _Clock()
    plan = plans.plan(plans.owned())
    counters = metrics.Metrics(CollectorRegistry(), now=clock)
    made = history.Recorder(counters, plan, now=clock, wall=clock.wall)
    (host,) = plan.hosts()
    assert host.residency is not None
    host.residency.swaps += 2
    made.sample()
    plan.reconfigured([], 1.0)
    made.sample()
    assert [sample.swaps for sample in made.document().samples] == [2, 0]
