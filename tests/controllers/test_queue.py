"""The work queue: order, no key twice, wake-ups, the bound."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from controllers.queue import Ranked, WorkQueue
from crds import order
from crds.phases import Phase
from tests.controllers import build
from tests.controllers.build import present


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue(Clock())


async def drain(queue: WorkQueue[str]) -> list[str]:
    keys = []
    while len(queue):
        key = await queue.get()
        keys.append(key)
        queue.done(key)
    return keys


async def test_foreground_then_position_then_age() -> None:
    def rank(name: str, created: str, **spec: object) -> order.Order:
        return order.of(build.task(Phase.NEW, spec=dict(spec), name=name, creationTimestamp=created))

    queue: WorkQueue[str] = WorkQueue(Clock())
    queue.put("old", rank("old", "2027-01-01T00:00:00Z"))
    queue.put("young", rank("young", "2027-01-02T00:00:00Z"))
    queue.put("second", rank("second", "2027-01-03T00:00:00Z", queuePosition=2))
    queue.put("first", rank("first", "2027-01-04T00:00:00Z", queuePosition=1))
    queue.put("user", rank("user", "2027-01-05T00:00:00Z", mode="Foreground"))
    queue.put("chat", rank("chat", "2027-01-06T00:00:00Z", type="UserInputProcessing"))
    assert await drain(queue) == ["user", "chat", "first", "second", "old", "young"]


async def test_a_key_is_in_once_at_its_latest_rank(queue: WorkQueue[str]) -> None:
    for rank in ((3,), (1,), (2,)):
        queue.put("a", rank)
    queue.put("b", (1,))
    assert await drain(queue) == ["b", "a"]


async def test_a_busy_key_comes_back_once_it_is_done(queue: WorkQueue[str]) -> None:
    queue.put("a", (1,))
    assert await queue.get() == "a"
    queue.put("a", (1,))
    queue.put("a", (1,))
    assert (len(queue), queue.active) == (0, 1)
    queue.done("a")
    assert await drain(queue) == ["a"]


async def test_wake_ups_come_in_time_and_an_event_supersedes_them() -> None:
    clock = Clock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.wake("late", (1,), at=50)
    queue.wake("soon", (1,), at=10)
    queue.wake("soon", (1,), at=20)  # a later wake-up does not postpone an earlier one
    queue.wake("event", (0,), at=10)
    queue.put("event", (0,))
    assert await drain(queue) == ["event"]
    clock.now = 10
    assert await queue.get() == "soon"
    queue.done("soon")
    assert queue.sleeping == 1
    clock.now = 50
    assert await queue.get() == "late"


async def test_get_waits_for_put(queue: WorkQueue[str]) -> None:
    getter = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not getter.done()
    queue.put("a", (1,))
    assert await getter == "a"


async def test_the_bound_turns_the_least_urgent_away_and_says_so() -> None:
    queue: WorkQueue[str] = WorkQueue(Clock(), capacity=2)
    queue.put("b", (2,))
    queue.put("c", (3,))
    assert not queue.overflowed
    queue.put("d", (4,))
    queue.put("a", (1,))
    assert queue.overflowed
    assert await drain(queue) == ["a", "b"]


async def test_a_forgotten_key_is_gone() -> None:
    clock = Clock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.put("a", (1,))
    queue.wake("b", (1,), at=0)
    queue.forget("a")
    queue.forget("b")
    assert await drain(queue) == []
    assert queue.sleeping == 0


class RankedModel(RuleBasedStateMachine):
    """Against a dictionary: whatever the history, the smallest rank comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.ranked: Ranked[int] = Ranked()
        self.model: dict[int, int] = {}

    @rule(key=st.integers(0, 8), rank=st.integers(0, 5))
    def put(self, key: int, rank: int) -> None:
        self.ranked.put(key, (rank,))
        self.model[key] = rank

    @rule(key=st.integers(0, 8))
    def discard(self, key: int) -> None:
        self.ranked.discard(key)
        self.model.pop(key, None)

    @precondition(lambda self: bool(self.model))
    @rule()
    def pop(self) -> None:
        found = present(self.ranked.pop())
        key, rank = found
        assert rank == (min(self.model.values()),)
        assert self.model.pop(key) == rank[0]

    @invariant()
    def same(self) -> None:
        assert len(self.ranked) == len(self.model)
        assert (self.ranked.peek() is None) == (not self.model)

    @rule()
    def last(self) -> None:
        worst = self.ranked.worst()
        assert (worst is None) == (not self.model)
        assert worst is None or worst[1] == (max(self.model.values()),)


class Counted:
    """A number that counts how often it is compared."""

    compared = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __lt__(self, other: Counted) -> bool:
        Counted.compared += 1
        return self.number < other.number

    def __le__(self, other: Counted) -> bool:
        return not other < self

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return isinstance(other, Counted) and self.number == other.number

    __hash__ = None  # type: ignore[assignment]  # nothing puts it into a set


def test_beyond_its_bound_the_queue_takes_a_key_in_without_looking_at_all_of_them() -> None:
    chance, most = random.Random(7), 4096
    queue: WorkQueue[int] = WorkQueue(Clock(), most)
    for number in range(most + 1):  # the first key beyond the bound pays for the order once
        queue.put(number, (Counted(chance.randrange(10**6)),))
    Counted.compared = 0
    for number in range(most + 1, 2 * most):
        queue.put(number, (Counted(chance.randrange(10**6)),))
    assert len(queue) == most
    assert queue.overflowed
    assert Counted.compared / most < 100, "about two logarithms, not the length"


TestRanked = pytest.mark.filterwarnings("default")(RankedModel.TestCase)
