"""What is asked at every put costs the same in a full queue, and what is counted is what is there."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crds.priority import Priority
from kb import errors
from kb.queue import job, sqlite
from tests.kb import clock as clocks
from tests.kb import instructions, scopes
from tests.kb.queue import contract

OWNERS = [scopes.SHOP, scopes.OTHER, scopes.GLOBAL]


def opened(
    path: Path, clock: clocks.Clock, *, limit: int = 10_000, per_client: int = 9_000, **more: int
) -> sqlite.Queue:
    return sqlite.Queue(path / "queue.sqlite", clock, limit=limit, per_client=per_client, **more)


async def put(
    queue: sqlite.Queue, name: str, urgency: Priority = Priority.P3, owner: int = 0, size: int = 2
) -> job.Job:
    return await contract.put(queue, name, urgency, OWNERS[owner], "x" * size)


async def test_a_full_queue_costs_no_more_than_an_empty_one(
    tmp_path: Path, clock: clocks.Clock, effort: instructions.Counter
) -> None:
    queue = opened(tmp_path, clock)
    await queue.prepare()
    costs: list[dict[str, int]] = []
    for size in (20, 2_000):
        for number in range(sum((await queue.depth()).values()), size):
            await put(queue, f"d{number}", owner=number % 2)
        more, done = (map("more{}".format, itertools.count()) for _ in range(2))
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "put": lambda: put(queue, next(more)),  # noqa: B023 -- called within the round
            "look": lambda: queue.next(clock(), skip=["d0", "d1"]),
            "look for the urgent": lambda: queue.next(clock(), skip=(), most=Priority.P2),
            "depth": queue.depth,
            "drop": lambda: queue.drop(next(done)),  # noqa: B023 -- called within the round
        }
        costs.append({name: await effort.least(work) for name, work in asked.items()})
    small, large = costs
    assert all(cost > 10 for cost in small.values()), small
    assert all(large[name] <= 2 * small[name] for name in small), costs
    await queue.close()


JOBS, CLIENT_JOBS, BYTES, CLIENT_BYTES = 7, 3, 30, 14
_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "drop", "erase", "move"]),
        st.integers(0, 8),
        st.sampled_from(Priority),
        st.integers(0, 7),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=_OPERATIONS)
async def test_what_is_counted_is_what_is_there(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int, Priority, int]]
) -> None:
    clock = clocks.Clock()
    bounds = {"limit": JOBS, "per_client": CLIENT_JOBS, "max_bytes": BYTES, "client_bytes": CLIENT_BYTES}
    queue = opened(tmp_path_factory.mktemp("q"), clock, **bounds)
    await queue.prepare()
    held: dict[int, tuple[Priority, int]] = {}
    for action, number, urgency, size in operations:
        owner = number % len(OWNERS)
        if action == "put":
            with contextlib.suppress(errors.Crowded):
                held[number] = ((await put(queue, f"d{number}", urgency, owner, size)).urgency, size)
        elif action == "drop":
            await queue.drop(f"d{number}")
            held.pop(number, None)
        elif action == "move":
            await queue.move(OWNERS[owner], f"d{number}", size + 1)
        else:
            await queue.erase(OWNERS[owner])
            held = {other: one for other, one in held.items() if other % len(OWNERS) != owner}
        assert await queue.depth() == Counter(urgency for urgency, _ in held.values())
    listed = [one for owner in OWNERS for one in (await queue.listed(owner, limit=10))[0]]
    order = await contract.order(queue, clock)
    assert sorted(order) == sorted(f"d{number}" for number in held)
    assert {one.document_id: one.ahead for one in listed} == {name: place for place, name in enumerate(order)}
    # What room there is shows what the queue takes for held, to the byte.
    everything = [size for _, size in held.values()]
    for owner in range(len(OWNERS)):
        mine = [size for number, (_, size) in held.items() if number % len(OWNERS) == owner]
        room = min(CLIENT_BYTES - sum(mine) if sum(mine) else BYTES, BYTES - sum(everything))
        if len(mine) >= CLIENT_JOBS or len(everything) >= JOBS:
            room = -1
        if sum(everything):
            with pytest.raises(errors.Crowded):
                await put(queue, "more", owner=owner, size=room + 1)
        if room >= 0:
            await put(queue, "more", owner=owner, size=room)
            await queue.drop("more")
    await queue.close()


async def test_how_many_there_are_is_answered_without_their_requests(tmp_path: Path, clock: clocks.Clock) -> None:
    """What is read of the file does not grow with the requests in it."""
    read: dict[int, int] = {}
    for size in (10, 4_000):
        path = tmp_path / str(size)
        path.mkdir()
        written = opened(path, clock)
        for number in range(300):
            await put(written, f"d{number}", size=size)
        await written.close()
        # Opened anew: nothing of it is in SQLite's memory.
        queue = opened(path, clock)
        before = _read()
        _, total = await queue.listed(scopes.SHOP, limit=1)
        read[size] = _read() - before
        assert total == 300
        await queue.close()
    assert read[10] > 4_096, "at least a page"
    assert read[4_000] < 2 * read[10], read


def _read() -> int:
    """The bytes that this process has read of files."""
    found = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(found["rchar"])
