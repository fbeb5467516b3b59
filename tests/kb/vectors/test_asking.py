"""Questions about single keys that are asked at the same time: how they travel, and who hears of which error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from kb.vectors.weaviate import asking


class Outside:
    """Answers on command: every request waits until it is let through."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self._gates: list[asyncio.Future[None]] = []

    async def ask(self, place: str, keys: Sequence[str]) -> Mapping[str, str]:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.requests.append(list(keys))
        self._gates.append(gate)
        number = len(self.requests)
        await gate
        return {key: f"{key} of {place} in {number}" for key in keys}

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


async def begun(asked: asking.Asking[str, str], *keys: str, place: str = "here") -> list[asyncio.Task[str]]:
    tasks = [asyncio.create_task(asked.about(place, key)) for key in keys]
    await settled()
    return tasks


async def test_what_waits_is_asked_together_up_to_what_a_request_may_name() -> None:
    outside = Outside()
    tasks = await begun(asking.Asking(outside.ask, most=2), "a", "b", "c", "d", "e")
    assert outside.requests == [["a"], ["b"]]  # two at once, whoever comes first alone
    await outside.let(0)
    assert outside.requests[2:] == [["c", "d"]]
    await outside.let(1)
    assert outside.requests[3:] == [["e"]]
    for number in (2, 3):
        await outside.let(number)
    assert [task.result() for task in tasks] == [
        "a of here in 1",
        "b of here in 2",
        "c of here in 3",
        "d of here in 3",
        "e of here in 4",
    ]


async def test_an_answer_is_never_older_than_its_question() -> None:
    outside = Outside()
    asked = asking.Asking(outside.ask, most=9)
    [early] = await begun(asked, "a")
    [late] = await begun(asked, "a")
    assert outside.requests == [["a"], ["a"]]
    await outside.let(1)
    await outside.let(0)
    assert (early.result(), late.result()) == ("a of here in 1", "a of here in 2")


async def test_places_do_not_wait_for_each_other_and_equal_keys_are_named_once() -> None:
    outside = Outside()
    asked = asking.Asking(outside.ask, most=9)
    here = await begun(asked, "a", "b", "c", "c")
    there = await begun(asked, "c", place="there")
    assert outside.requests == [["a"], ["b"], ["c"]]
    for number in (0, 1, 2, 3):
        await outside.let(number)
    assert outside.requests[3:] == [["c"]]
    assert [task.result() for task in (*here[2:], *there)] == ["c of here in 4"] * 2 + ["c of there in 3"]


async def test_a_request_that_fails_fails_those_that_it_asked_for() -> None:
    outside = Outside()
    tasks = await begun(asking.Asking(outside.ask, most=9), "a", "b", "c", "d")
    await outside.let(0)
    await outside.let(2, ValueError("away"))
    await outside.let(1)
    assert [task.result() for task in tasks[:2]] == ["a of here in 1", "b of here in 2"]
    for task in tasks[2:]:
        with pytest.raises(ValueError, match="away"):
            task.result()


async def test_who_is_cancelled_disturbs_nobody() -> None:
    outside = Outside()
    tasks = await begun(asking.Asking(outside.ask, most=9), "a", "b", "c", "c")
    tasks[0].cancel()
    tasks[2].cancel()
    await settled()
    for number in (0, 1, 2):
        await outside.let(number)
    assert tasks[3].result() == "c of here in 3"
