"""One pool for a tree of delegations, whatever its form: random trees whose branches run side by side."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator_job import errors
from orchestrator_job.model import budget
from orchestrator_job.store import fence, mongo, retry
from tests import thorough
from tests.orchestrator_job import job, mongowire, workbench

pytestmark = pytest.mark.services


@dataclass
class Spent:
    """What a tree did. `over`: the most that one call took beyond what was booked for it, by branch."""

    begun: set[str] = field(default_factory=set)
    calls: int = 0
    tokens: int = 0
    longest: int = 0
    refused: int = 0


@dataclass(frozen=True)
class Shape:
    """A tree: each agent makes `calls` calls and delegates to `width` others, down to `depth`."""

    groups: int
    width: int
    depth: int
    calls: int
    prompt: int
    answer: int
    seed: int


_SHAPES = st.builds(
    Shape,
    groups=st.integers(1, 6),
    width=st.integers(0, 3),
    depth=st.integers(1, 5),
    calls=st.integers(1, 4),
    prompt=st.integers(1, 500),
    answer=st.integers(0, 2000),
    seed=st.integers(0, 1000),
)
_LIMITS = st.builds(
    budget.Limits,
    llm_calls=st.integers(0, 60),
    tokens=st.none() | st.integers(1, 20_000),
    delegations=st.integers(0, 40),
    depth=st.integers(0, 4),
)


async def _agent(pool: budget.Budget, shape: Shape, name: str, depth: int, spent: Spent, chance: random.Random) -> None:
    """What an agent does to the budget; it ends at the first refusal, as the loop does."""
    try:
        await pool.delegate(1, name, depth)
        spent.begun.add(name)
        for number in range(shape.calls):
            left = await pool.reserve(1, shape.prompt)
            spent.calls += 1
            answer = chance.randint(0, shape.answer)
            # The backend cuts an answer at `num_predict`.
            used = shape.prompt + (answer if left is None else min(answer, left))
            spent.longest = max(spent.longest, used)
            spent.tokens += used
            await pool.settle(1, shape.prompt, used)
            if number < shape.width and depth < shape.depth:
                await _agent(pool, shape, f"{name}.{number + 1}", depth + 1, spent, chance)
    except errors.BudgetExhausted:
        spent.refused += 1


@pytest.fixture(scope="module")
def shared(mongodb_uri: str) -> Iterator[job.Store]:
    """One database for all trees; each has a task of its own."""
    with job.stored(mongodb_uri, "test_budget") as stored:
        yield stored


@settings(max_examples=thorough.examples(200), deadline=None)
@given(shape=_SHAPES, limits=_LIMITS)
def test_random_trees_overspend_by_one_call_in_each_branch(
    shared: job.Store, shape: Shape, limits: budget.Limits
) -> None:
    async def tree() -> None:
        database = mongo.Database(shared.client, shared.name, retry.Retry(5))
        guard = fence.Fence(database, uuid.uuid4().hex, 1, "tree")
        await guard.claim(workbench.NOW)
        pool = budget.Budget(guard, limits)
        spent, chance = Spent(), random.Random(shape.seed)
        names = [f"r1.d{number + 1}" for number in range(shape.groups)]
        await asyncio.gather(*(_agent(pool, shape, name, 1, spent, chance) for name in names))
        assert len(spent.begun) <= limits.delegations
        assert all(name.count(".") <= limits.depth for name in spent.begun)
        assert spent.calls <= max(0, limits.llm_calls - budget.SYNTHESIS_CALLS)
        stored = shared.all("orchestrator_fences", _id=guard.task_uid)[0].get("spent", {}).get("r1", {})
        assert sorted(stored.get("delegations", [])) == sorted(spent.begun)
        assert (stored.get("llmCalls", 0), stored.get("tokens", 0)) == (spent.calls, spent.tokens)
        if limits.tokens is not None:
            most = limits.tokens - int(limits.tokens * budget.SYNTHESIS_TOKENS)
            assert spent.tokens <= most + shape.groups * spent.longest
        # What was counted once costs nothing more when a resumed run counts it again.
        for name in sorted(spent.begun):
            await pool.delegate(1, name, name.count("."))
        # However they end, the synthesis has its calls, as far as the whole budget has any.
        if limits.tokens is None:
            for _ in range(min(budget.SYNTHESIS_CALLS, limits.llm_calls)):
                await pool.reserve(1, shape.prompt, final=True)

    asyncio.run(tree())


async def test_what_is_refused_or_given_back_is_counted_once_though_answers_are_lost(
    shared: job.Store, mongodb_uri: str
) -> None:
    async with mongowire.proxying(mongodb_uri) as proxy:
        database = mongo.Database(mongo.connect(proxy.url), shared.name, retry.Retry(30))
        guard = fence.Fence(database, uuid.uuid4().hex, 1, "tree")
        await guard.claim(workbench.NOW)
        first = await guard.reserve_call(1, 2, 100, 1000)
        await guard.reserve_call(1, 2, 100, 1000)
        cut: list[int] = []

        def once(collection: str, number: int) -> bool:
            """The first answer to each change that gives something back is lost."""
            if min(proxy.command["update"]["$inc"].values()) >= 0:
                return False
            cut.append(number)
            return len(cut) % 2 == 1

        proxy.after = once
        await guard.settle_call(1, 100, 40)
        await guard.settle_call(1, 100, 40)
        for limit, tokens in ((2, 1), (9, 900)):
            for _ in range(3):
                with pytest.raises(errors.BudgetExhausted):
                    await guard.reserve_call(1, limit, tokens, 900)
        database.client.close()
    assert len(cut) >= 4, "each of the two settlements was asked twice"
    assert (first.calls, first.tokens) == (1, 100)
    [kept] = shared.all("orchestrator_fences", _id=guard.task_uid)
    assert (kept["spent"]["r1"]["llmCalls"], kept["spent"]["r1"]["tokens"]) == (2, 80)
