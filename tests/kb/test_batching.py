"""Items that callers bring at the same time: how they travel, and which caller gets which error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kb import batching


class Outside:
    """Answers on command: every request waits until it is let through."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._gates: list[asyncio.Future[None]] = []

    async def send(self, key: str, items: Sequence[str]) -> list[str]:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests.append(f"{key}: {' '.join(items)}")
        self._gates.append(gate)
        number = len(self.requests)
        await gate
        return [f"{item} of {number}" for item in items]

    async def let(self, *numbers: int, error: Exception | None = None) -> None:
        """Let the requests of these numbers through, or fail them."""
        for number in numbers:
            if error is None:
                self._gates[number - 1].set_result(None)
            else:
                self._gates[number - 1].set_exception(error)
            await settled()


async def settled() -> None:
    """All that can run has run."""
    for _ in range(10):
        await asyncio.sleep(0)


Batcher = batching.Batcher[str, str, str]


async def begun(batcher: Batcher, *callers: str, key: str = "here") -> list[asyncio.Task[list[str]]]:
    """A caller for each argument, with the words of it as its items."""
    tasks = [asyncio.create_task(batcher.ask(key, caller.split())) for caller in callers]
    await settled()
    return tasks


async def test_what_waits_travels_together_up_to_what_a_request_may_hold() -> None:
    outside = Outside()
    tasks = await begun(Batcher(outside.send, most=3), "a", "b", "c d", "e f", "g")
    assert outside.requests == ["here: a", "here: b"]
    await outside.let(1)
    assert outside.requests[2:] == ["here: c d e"]
    await outside.let(2)
    assert outside.requests[3:] == ["here: f g"]
    await outside.let(4, 3)
    answers = [answer for task in tasks for answer in task.result()]
    assert answers == ["a of 1", "b of 2", "c of 3", "d of 3", "e of 3", "f of 4", "g of 4"]


async def test_an_answer_is_never_older_than_its_question() -> None:
    outside = Outside()
    batcher = Batcher(outside.send, most=9)
    [early] = await begun(batcher, "a")
    [late] = await begun(batcher, "a")
    assert outside.requests == ["here: a", "here: a"]
    await outside.let(2, 1)
    assert (early.result(), late.result()) == (["a of 1"], ["a of 2"])


async def test_keys_do_not_wait_for_each_other() -> None:
    outside = Outside()
    batcher = Batcher(outside.send, most=9)
    await begun(batcher, "a", "b", "c")
    [other] = await begun(batcher, "x", key="there")
    assert outside.requests == ["here: a", "here: b", "there: x"]
    await outside.let(3)
    assert other.result() == ["x of 3"]
    assert await batcher.ask("there", []) == []
    await outside.let(1, 2, 4)


async def test_keys_of_one_lane_share_its_requests_and_the_smallest_goes_first() -> None:
    outside = Outside()
    batcher = Batcher(outside.send, most=9, parallel=1, lane=lambda key: None if key == "0" else "slow")
    await begun(batcher, "a", key="3")
    await begun(batcher, "b", key="5")
    await begun(batcher, "c", key="4")
    urgent = [*await begun(batcher, "d", key="0"), *await begun(batcher, "e", key="0")]
    assert outside.requests == ["3: a", "0: d", "0: e"]
    await outside.let(3, 2)
    assert [task.done() for task in urgent] == [True, True]
    assert len(outside.requests) == 3
    await outside.let(1)
    assert outside.requests[3:] == ["4: c"]
    await outside.let(4)
    assert outside.requests[4:] == ["5: b"]
    await outside.let(5)


async def test_a_request_that_fails_fails_those_that_travelled_in_it() -> None:
    outside = Outside()
    batcher = Batcher(outside.send, most=3)
    tasks = await begun(batcher, "a", "b", "c", "d", "e")
    await outside.let(1)
    await outside.let(3, error=ConnectionError("gone"))
    for task in tasks[2:]:
        with pytest.raises(ConnectionError, match="gone"):
            await task
    [again] = await begun(batcher, "c")
    await outside.let(2, 4)
    assert again.result() == ["c of 4"]


async def test_what_a_cancelled_caller_had_waiting_is_never_sent() -> None:
    outside = Outside()
    tasks = await begun(Batcher(outside.send, most=9), "a", "b", "c", "d")
    tasks[2].cancel()
    tasks[0].cancel()  # its request is under way; the others must not notice
    await settled()
    await outside.let(1, 2, 3)
    assert outside.requests == ["here: a", "here: b", "here: d"]
    assert [task.result() for task in (tasks[1], tasks[3])] == [["b of 2"], ["d of 3"]]
