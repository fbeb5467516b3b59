"""However wrongly a model decides: the run ends, no call is made twice, nothing is raised."""

from __future__ import annotations

import pytest

from bench.agent_search import wrong
from tests import thorough


@pytest.mark.parametrize("outages", [False, True])
async def test_every_run_ends_with_an_answer_or_as_impossible(outages: bool) -> None:
    runs = thorough.examples(100)
    found = await wrong.measure(runs, 9, outages=outages)
    assert found["problems"] == []
    assert sum(found["outcomes"].values()) == runs
    assert set(found["outcomes"]) - {"failed" if outages else ""} == {"answered", "impossible"}
    assert found["executedTwice"] == 0
    # Every kind of mistake was made, and repetitions were refused.
    assert {"unknown_tool", "wrong_type", "repeated", "nothing", "megabyte", "no_json", "invented"} <= set(
        found["said"]
    )
    assert found["refusedRepetitions"] > 0
    assert found["mostRefusedInOneRun"] <= 2
