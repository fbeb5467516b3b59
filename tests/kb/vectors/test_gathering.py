"""What callers write at the same time: how it travels, and who hears of which error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from kb.vectors.weaviate import gathering


class Outside:
    """Stores on command: every request waits until it is let through; "bad" objects are refused."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self._gates: list[asyncio.Future[None]] = []

    async def send(self, place: str, objects: Sequence[str]) -> Mapping[int, str]:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests.append(list(objects))
        self._gates.append(gate)
        await gate
        return {at: f"{one} at {place}" for at, one in enumerate(objects) if one.startswith("bad")}

    async def let(self, number: int, error: Exception | None = None) -> None:
        """Let the request of this number through, or fail it."""
        if error is None:
            self._gates[number].set_result(None)
        else:
            self._gates[number].set_exception(error)
        await settled()


async def settled() -> None:
    """Everything that can run has run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def begun(gathered: gathering.Gathering[str, str], *parcels: list[str]) -> list[asyncio.Task[str | None]]:
    tasks = [asyncio.create_task(gathered.store("here", parcel)) for parcel in parcels]
    await settled()
    return tasks


async def test_what_waits_travels_together_up_to_what_a_request_may_hold() -> None:
    outside = Outside()
    gathered = gathering.Gathering(outside.send, most=4)
    tasks = await begun(gathered, ["a"], ["b"], ["c", "d"], ["e"], ["f", "g"], ["h"] * 9)
    assert outside.requests == [["a"], ["b"]]  # two at once, whoever comes first alone
    await outside.let(0)
    assert outside.requests[2:] == [["c", "d", "e"]]
    await outside.let(1)
    assert outside.requests[3:] == [["f", "g"]]
    await outside.let(2)
    assert outside.requests[4:] == [["h"] * 9]  # one caller's objects are not torn apart
    assert [task.done() for task in tasks] == [True, True, True, True, False, False]
    await outside.let(3)
    await outside.let(4)
    assert [await task for task in tasks] == [None] * 6


async def test_each_hears_of_its_own_errors() -> None:
    outside = Outside()
    gathered = gathering.Gathering(outside.send, most=10)
    tasks = await begun(gathered, ["a"], ["b"], ["c"], ["d", "bad 1", "bad 2"], ["e"])
    for number in range(3):
        await outside.let(number)
    assert [await task for task in tasks] == [None, None, None, "bad 1 at here", None]


async def test_a_request_that_fails_fails_for_all_and_the_next_one_goes() -> None:
    outside = Outside()
    gathered = gathering.Gathering(outside.send, most=10)
    tasks = await begun(gathered, ["a"], ["b"], ["c"], ["d"])
    await outside.let(0)
    await outside.let(2, ConnectionError("gone"))
    assert outside.requests[2] == ["c", "d"]
    for task in tasks[2:]:
        with pytest.raises(ConnectionError, match="gone"):
            await task
    [again] = await begun(gathered, ["c"])
    await outside.let(1)
    await outside.let(3)
    assert await again is None


async def test_what_a_cancelled_caller_had_waiting_is_never_written() -> None:
    outside = Outside()
    gathered = gathering.Gathering(outside.send, most=10)
    tasks = await begun(gathered, ["a"], ["b"], ["c"], ["d"])
    tasks[2].cancel()
    tasks[0].cancel()  # its request is under way; the others must not notice
    await settled()
    await outside.let(0)
    await outside.let(1)
    await outside.let(2)
    assert outside.requests == [["a"], ["b"], ["d"]]
    assert await tasks[1] is None
    assert await tasks[3] is None


async def test_places_do_not_wait_for_each_other() -> None:
    outside = Outside()
    gathered = gathering.Gathering(outside.send, most=10)
    await begun(gathered, ["a"], ["b"], ["c"])
    other = asyncio.create_task(gathered.store("there", ["x"]))
    await settled()
    assert outside.requests == [["a"], ["b"], ["x"]]
    for number in range(4):
        await outside.let(number)
    assert await other is None
    assert await gathered.store("here", []) is None
