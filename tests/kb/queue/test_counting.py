"""What is asked at every put costs the same in a full queue, and what is counted is what is there."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crds.priority import Priority
from kb import errors
from kb.queue import job, sqlite, statements
from tests.kb import clock as clocks
from tests.kb import scopes

OWNERS = [scopes.SHOP, scopes.OTHER, scopes.GLOBAL]


def opened(path: Path, clock: clocks.Clock, *, limit: int = 10_000, per_client: int = 9_000) -> sqlite.Queue:
    return sqlite.Queue(path / "queue.sqlite", clock, limit=limit, per_client=per_client)


async def put(queue: sqlite.Queue, name: str, urgency: Priority = Priority.P3, owner: int = 0) -> job.Job:
    return await queue.put(name, OWNERS[owner], f"u:{name}", "email", job.Action.EXTRACT, urgency, "{}")


async def watched(queue: sqlite.Queue) -> itertools.count[int]:
    """Counts the instructions that SQLite's machine runs for the queue: rows looked at, and no seconds."""
    taken = itertools.count()

    def watch(connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(lambda: next(taken) < 0, 1)

    await queue._database.write(watch)
    # Two threads read; each has a connection of its own, and which one is asked is not known: both open theirs here.
    both = threading.Barrier(2, timeout=60)
    await asyncio.gather(*(queue._database.read(lambda connection: both.wait()) for _ in range(2)))
    for connection in queue._database._open:
        watch(connection)
    return taken


async def test_a_full_queue_costs_no_more_than_an_empty_one(tmp_path: Path, clock: clocks.Clock) -> None:
    queue = opened(tmp_path, clock)
    await queue.prepare()
    costs: list[dict[str, int]] = []
    for size in (20, 2_000):
        for number in range(sum((await queue.depth()).values()), size):
            await put(queue, f"d{number}", owner=number % 2)
        await queue.next(clock(), skip=())
        await queue.depth()
        taken = await watched(queue)
        cost = {}
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "put": lambda: put(queue, "one more"),
            "look": lambda: queue.next(clock(), skip=["d0", "d1"]),
            "look for the urgent": lambda: queue.next(clock(), skip=(), most=Priority.P2),
            "depth": queue.depth,
            "drop": lambda: queue.drop("one more"),
        }
        for name, work in asked.items():
            before = next(taken)
            await work()
            cost[name] = next(taken) - before
        costs.append(cost)
    small, large = costs
    assert all(cost > 10 for cost in small.values()), small
    assert all(large[name] <= 2 * small[name] for name in small), costs
    await queue.close()


_OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "erase", "move"]), st.integers(0, 5), st.integers(0, 3)), max_size=25
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=_OPERATIONS)
async def test_what_is_counted_is_what_is_there(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int, int]]
) -> None:
    queue = opened(tmp_path_factory.mktemp("q"), clocks.Clock())
    await queue.prepare()
    for action, number, urgency in operations:
        owner = number % len(OWNERS)
        if action == "put":
            await put(queue, f"d{number}", Priority(urgency), owner)
        elif action == "drop":
            await queue.drop(f"d{number}")
        elif action == "move":
            await queue.move(OWNERS[owner], f"d{number}", urgency + 1)
        else:
            await queue.erase(OWNERS[owner])
        rows = await _rows(queue, "SELECT client, priority, length(request) AS size FROM jobs")
        assert await queue.depth() == Counter(Priority(row["priority"]) for row in rows)
        counted = await _rows(queue, "SELECT * FROM clients")
        held = {(row["priority"], row["client"]): row["n"] for row in counted}
        assert held == Counter((row["priority"], row["client"]) for row in rows)
        assert sum(row["bytes"] for row in counted) == sum(row["size"] for row in rows)
        assert [row["bytes"] for row in await _rows(queue, "SELECT sum(bytes) AS bytes FROM depths")] in (
            [sum(row["size"] for row in rows)],
            [None],
        )
    await queue.close()


async def test_a_file_of_version_1_is_counted_once(tmp_path: Path, clock: clocks.Clock) -> None:
    first = opened(tmp_path, clock)
    for number in range(3):
        await put(first, f"d{number}", Priority.P1 if number else Priority.P3)
    await first.close()
    with sqlite3.connect(tmp_path / "queue.sqlite") as connection:
        connection.executescript("""
            DROP TRIGGER jobs_put; DROP TRIGGER jobs_changed; DROP TRIGGER jobs_dropped;
            DROP TABLE depths; DROP TABLE clients; DROP INDEX jobs_placed; DROP INDEX jobs_turn;
            ALTER TABLE jobs DROP COLUMN size;
            CREATE INDEX jobs_order ON jobs (position, priority, seq);
            DROP INDEX jobs_scope; CREATE INDEX jobs_client ON jobs (client); PRAGMA user_version = 1;
        """)
    connection.close()
    again = opened(tmp_path, clock, limit=3)
    await again.prepare()
    assert await again.depth() == {Priority.P1: 2, Priority.P3: 1}
    with pytest.raises(errors.Crowded, match="3 documents"):
        await put(again, "more", owner=1)
    await again.drop("d0")
    await put(again, "more", owner=1)
    assert await again.depth() == {Priority.P1: 2, Priority.P3: 1}
    assert [row["bytes"] for row in await _rows(again, "SELECT * FROM depths ORDER BY priority")] == [4, 2]
    fresh = sqlite3.connect(":memory:")
    fresh.executescript(statements.SCHEMA)
    listed = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
    assert [tuple(row) for row in await _rows(again, listed)] == fresh.execute(listed).fetchall()
    fresh.close()
    await again.close()


async def test_how_many_there_are_is_answered_without_their_requests(tmp_path: Path, clock: clocks.Clock) -> None:
    queue = opened(tmp_path, clock)
    await queue.prepare()
    explained, viewer = f"EXPLAIN QUERY PLAN {statements.COUNT}", {"client": "shop", "project": "p", "grp": "g"}
    plan = await queue._database.read(lambda connection: connection.execute(explained, viewer).fetchall())
    steps = [row["detail"] for row in plan if "jobs" in row["detail"]]
    assert steps, "and jobs are looked for"
    assert all("USING COVERING INDEX jobs_scope" in step for step in steps)
    await queue.close()


async def _rows(queue: sqlite.Queue, statement: str) -> list[sqlite3.Row]:
    return await queue._database.read(lambda connection: connection.execute(statement).fetchall())
