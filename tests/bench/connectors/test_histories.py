"""A few histories of every protocol: nothing differs at their end, and they tell simpler algorithms apart."""

from __future__ import annotations

import os
import shlex

import pytest

from bench.connectors import __main__ as connectors
from bench.connectors import history, plan, report
from tests import thorough

HISTORIES = 5 if thorough.whole() else 2


def test_a_plan_follows_from_its_seed_and_has_every_kind_of_trouble() -> None:
    assert plan.steps(7) == plan.steps(7) != plan.steps(8)
    some = [step for seed in range(100) for step in plan.steps(seed)]
    assert {fault[1] for step in some if (fault := step.fault)} == set(plan.FAULTS)
    assert {step.replica for step in some} == {0, 1}
    assert {step.kill for step in some} > set(range(41))
    assert any(step.freeze for step in some)
    assert any(step.resync for step in some)


def test_sums_of_runs_are_added_and_a_mistake_of_ours_is_shown() -> None:
    def outcome(algorithm: str, *differing: str) -> history.Outcome:
        return history.Outcome("Git", algorithm, 1, 30, 1, 50, 1.0, differing, (), (), ())

    fine = report.document([outcome("ours"), outcome("window", "a", "b")])
    assert report.good(fine)
    both = report.merged([fine, report.document([outcome("ours", "a")])])
    assert not report.good(both)
    assert both["protocols"]["Git"]["ours"] == {
        "histories": 2, "failed": 1, "events": 60, "kills": 2, "requests": 100, "seconds": 2.0, "differing": 1,
        "unnamed": 0, "twice": 0, "wrong": 0,
    }  # fmt: skip
    [failing] = both["problems"]
    rerun = failing["rerun"]
    expected = {"differing": ["a"], "unnamed": [], "twice": [], "wrong": []}
    assert failing == {"rerun": rerun, "protocol": "Git", "seed": 1, **expected}
    assert report.table(both).endswith(f"\n\n{rerun}")
    assert not report.table(fine).endswith("Git")
    alone = connectors._parser().parse_args(shlex.split(rerun)[3:])
    assert (alone.seed, alone.histories, alone.references, alone.protocols) == (1, 1, 0, ["Git"])
    assert not report.good(report.document([outcome("ours"), outcome("days")])), "the histories prove nothing"


@pytest.mark.services
@pytest.mark.parametrize("protocol", history.PROTOCOLS)
async def test_nothing_differs_at_the_end_of_histories(protocol: str) -> None:
    async with history.database(os.environ["JERVIS_TEST_MONGODB_URI"]) as database:
        for seed in range(HISTORIES):
            one = await history.run(protocol, history.OURS, seed, database)
            assert (one.differing, one.unnamed, one.twice, one.wrong) == ((), (), (), ()), f"seed {seed}"
            assert one.events >= 10


@pytest.mark.services
@thorough.only  # What the histories are worth, not what the product does.
@pytest.mark.parametrize("algorithm", ["window", "days"])
@pytest.mark.parametrize("protocol", history.PROTOCOLS)
async def test_a_window_of_time_and_days_with_numbers_miss_changes(protocol: str, algorithm: str) -> None:
    async with history.database(os.environ["JERVIS_TEST_MONGODB_URI"]) as database:
        for seed in range(5):
            if (await history.run(protocol, algorithm, seed, database)).differing:
                return
    raise AssertionError("the histories do not tell the difference")


@pytest.mark.services
@thorough.only
async def test_an_error_that_is_taken_for_the_end_deletes_what_is_there() -> None:
    async with history.database(os.environ["JERVIS_TEST_MONGODB_URI"]) as database:
        found = [await history.run("Meetings", "believed", seed, database) for seed in range(5)]
    assert sum(len(one.wrong) for one in found) > 0
