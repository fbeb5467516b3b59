"""The figures of the code graph: branches by state, how far the worst one is behind, files by what became of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kb import client, metrics, mongo
from kb.code import book, branch_metrics
from tests.kb import clock as clocks
from tests.kb.ingest import trees

pytestmark = pytest.mark.services
kb, served = trees.kb, trees.served


def value(meters: metrics.Metrics, name: str, **labels: str) -> float | None:
    return meters.registry.get_sample_value(f"jervis_kb_code_{name}", labels)


async def test_branches_that_wait_are_counted_and_dated(
    served: client.Client, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database
) -> None:
    counting = branch_metrics.BranchMetrics(book.Book(database, clock), meters, clock)

    async def states() -> list[float | None]:
        await counting.count()
        return [value(meters, "branches", state=one) for one in branch_metrics.STATES]

    assert await states() == [0, 0, 0]
    await served.code.structure(trees.tree(trees.FILES))
    assert (await states(), value(meters, "stale_seconds")) == ([1, 0, 0], 0)
    # A newer commit and a new branch are announced, and their contents do not come.
    changed = trees.FILES | {"app/square.py": "def side():\n    return 2\n"}
    await served.code.structure(trees.tree(changed, contents=False, commit="b" * 40))
    clock.now += timedelta(minutes=5)
    other = {"app/other.py": "x = 1\n"}
    await served.code.structure(trees.tree(other, contents=False, branch="next"))
    clock.now += timedelta(minutes=2)
    assert (await states(), value(meters, "stale_seconds")) == ([0, 1, 1], 420)
    await served.code.structure(trees.tree(changed, commit="b" * 40))
    assert (await states(), value(meters, "stale_seconds")) == ([1, 0, 1], 120)


async def test_files_are_counted_by_what_became_of_them(served: client.Client, meters: metrics.Metrics) -> None:
    files = trees.FILES | {"app/blob.py": "x = '\0'\n"}
    skipped = [{"path": "large.py", "reason": "too-large"}, {"path": "x.py", "reason": "a reason of its own"}]
    for _ in range(2):
        await served.code.structure(trees.tree(files, contents=False, skipped=skipped))
        await served.code.structure(trees.tree(files, skipped=skipped))
    counted = {name: value(meters, "files_total", outcome=name) for name in ("read", "binary", "too-large", "other")}
    assert counted == {"read": 6, "binary": 2, "too-large": 1, "other": 1}
    assert (value(meters, "worker_seconds_total") or 0) > 0
    assert (value(meters, "resolution_seconds_count") or 0) >= 2
