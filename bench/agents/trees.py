"""Random trees of delegations on one budget, branches side by side, beside a counter that is read before each call.

The pool is that of the program, in MongoDB. A call takes a turn or more of the event loop, and as many tokens as its
answer has; the simulated backend cuts an answer at the bound that it is given. Of a branch, calls are overspent that
end with more than the bound used. A third of the trees is stopped in the middle, as by kill -9, and gone through again;
they are counted apart, because each of their two processes may have a call in flight in each branch.

The reference reads what was spent, makes the call, and adds what it took.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import pymongo

from bench import variables
from bench.agents.report import Report
from orchestrator_job import errors
from orchestrator_job.model import budget
from orchestrator_job.store import fence, mongo, retry

_AT_ONCE = 8
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_COUNTERS = "bench_counters"


@dataclass(frozen=True)
class Tree:
    """A tree: `groups` branches, whose agents make `calls` calls each and delegate to `width` others, to `depth`."""

    seed: int
    groups: int
    width: int
    depth: int
    calls: int
    prompt: int
    answer: int
    killed: bool
    limits: budget.Limits

    @property
    def most_calls(self) -> int:
        """Calls that delegations may make."""
        return max(0, self.limits.llm_calls - budget.SYNTHESIS_CALLS)

    @property
    def most_tokens(self) -> int | None:
        """Tokens that delegations may take."""
        tokens = self.limits.tokens
        return None if tokens is None else tokens - int(tokens * budget.SYNTHESIS_TOKENS)


def tree(seed: int) -> Tree:
    """The tree of this seed."""
    chance = random.Random(f"tree {seed}")
    limits = budget.Limits(
        llm_calls=chance.randint(0, 40),
        tokens=None if chance.random() < 0.3 else chance.randint(1, 20_000),
        delegations=chance.randint(0, 40),
        depth=chance.randint(0, 4),
    )
    return Tree(
        seed,
        groups=chance.randint(1, 8),
        width=chance.randint(0, 3),
        depth=chance.randint(1, 4),
        calls=chance.randint(1, 4),
        prompt=chance.randint(1, 500),
        answer=chance.randint(0, 2000),
        killed=chance.random() < 1 / 3,
        limits=limits,
    )


class Pool(Protocol):
    """What an agent asks before and after a call."""

    async def delegate(self, name: str, depth: int) -> None: ...
    async def before(self, tokens: int) -> int | None: ...
    async def after(self, booked: int, used: int) -> None: ...
    async def spent(self) -> tuple[int, int]: ...


class Real:
    """The pool of the program."""

    def __init__(self, database: mongo.Database, limits: budget.Limits) -> None:
        self.guard = fence.Fence(database, uuid.uuid4().hex, 1, "bench")
        self._database, self._pool = database, budget.Budget(self.guard, limits)

    async def delegate(self, name: str, depth: int) -> None:
        """Raises BudgetExhausted."""
        await self._pool.delegate(1, name, depth)

    async def before(self, tokens: int) -> int | None:
        """Most tokens of the answer. Raises BudgetExhausted."""
        return await self._pool.reserve(1, tokens)

    async def after(self, booked: int, used: int) -> None:
        """What it took."""
        await self._pool.settle(1, booked, used)

    async def spent(self) -> tuple[int, int]:
        """Calls and tokens that are counted."""
        found = await self._database.find_one(fence.COLLECTION, {"_id": self.guard.task_uid}) or {}
        counted = found.get("spent", {}).get("r1", {})
        return int(counted.get("llmCalls", 0)), int(counted.get("tokens", 0))


class Naive:
    """Reads the counter before a call and adds to it after it; delegations are bounded in this process."""

    def __init__(self, database: mongo.Database, tree: Tree) -> None:
        self._database, self._tree, self._own = database, tree, {"_id": uuid.uuid4().hex}
        self._begun: set[str] = set()

    async def delegate(self, name: str, depth: int) -> None:
        """Raises BudgetExhausted."""
        limits = self._tree.limits
        if depth > limits.depth or (name not in self._begun and len(self._begun) >= limits.delegations):
            raise errors.BudgetExhausted("no more delegations")
        self._begun.add(name)

    async def before(self, tokens: int) -> int | None:
        """Raises BudgetExhausted."""
        calls, used = await self.spent()
        most = self._tree.most_tokens
        if calls >= self._tree.most_calls or (most is not None and used + tokens >= most):
            raise errors.BudgetExhausted("no more calls")
        return None if most is None else most - used - tokens

    async def after(self, booked: int, used: int) -> None:
        """One call more."""
        await self._database.update(_COUNTERS, self._own, {"$inc": {"calls": 1, "tokens": used}}, upsert=True)

    async def spent(self) -> tuple[int, int]:
        """Calls and tokens that are counted."""
        found = await self._database.find_one(_COUNTERS, self._own) or {}
        return int(found.get("calls", 0)), int(found.get("tokens", 0))


@dataclass
class Spent:
    """What a tree really did. `over`: by branch, calls that ended beyond the bound of calls or of tokens."""

    calls: int = 0
    tokens: int = 0
    longest: int = 0
    begun: set[str] = field(default_factory=set)
    over: Counter[str] = field(default_factory=Counter)


class _Walk:
    """One process's way through a tree."""

    def __init__(self, tree: Tree, pool: Pool, spent: Spent) -> None:
        self._tree, self._pool, self._spent = tree, pool, spent

    async def whole(self, stop_after: int | None) -> None:
        """All branches; stopped in the middle of what they do once `stop_after` calls were made."""
        self._left = stop_after
        self._stopped = asyncio.Event()
        branches = [asyncio.ensure_future(self._agent(f"r1.d{n + 1}", n + 1, 1)) for n in range(self._tree.groups)]
        ended = asyncio.ensure_future(self._all_of(branches))
        stopping = asyncio.ensure_future(self._stopped.wait())
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for one in branches:
            one.cancel()
        for found in await asyncio.gather(*branches, return_exceptions=True):
            if isinstance(found, BaseException) and not isinstance(found, asyncio.CancelledError):
                raise found
        await ended

    async def _all_of(self, branches: Sequence[asyncio.Future[None]]) -> bool:
        await asyncio.wait(branches)
        return True

    async def _agent(self, name: str, branch: int, depth: int) -> None:
        shape, spent = self._tree, self._spent
        chance = random.Random(f"{shape.seed} {name}")
        with contextlib.suppress(errors.BudgetExhausted):
            await self._pool.delegate(name, depth)
            spent.begun.add(name)
            for number in range(shape.calls):
                left = await self._pool.before(shape.prompt)
                for _ in range(chance.randint(1, 3)):
                    await asyncio.sleep(0)
                answer = chance.randint(0, shape.answer)
                used = shape.prompt + (answer if left is None else min(answer, left))
                spent.calls += 1
                spent.tokens += used
                spent.longest = max(spent.longest, used)
                if self._over():
                    spent.over[f"d{branch}"] += 1
                self._count()
                await self._pool.after(shape.prompt, used)
                if number < shape.width and depth < shape.depth:
                    await self._agent(f"{name}.{number + 1}", branch, depth + 1)

    def _over(self) -> bool:
        most = self._tree.most_tokens
        return self._spent.calls > self._tree.most_calls or (most is not None and self._spent.tokens > most)

    def _count(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self._stopped.set()


async def walked(shape: Tree, pool: Pool) -> tuple[Spent, tuple[int, int]]:
    """What the tree did, and what the pool has counted; a killed one is begun, stopped and gone through again."""
    spent = Spent()
    if shape.killed:
        await _Walk(shape, pool, spent).whole(random.Random(f"stop {shape.seed}").randint(1, 6))
    await _Walk(shape, pool, spent).whole(None)
    return spent, await pool.spent()


@dataclass
class Sum:
    """Over many trees."""

    trees: int = 0
    calls: int = 0
    worst_of_a_branch: int = 0
    trees_over: int = 0
    beyond_calls: int = 0
    worst_beyond_calls: int = 0
    beyond_tokens: int = 0
    worst_in_calls: float = 0.0
    uncounted: int = 0
    more_delegations: int = 0

    def add(self, shape: Tree, spent: Spent, counted: tuple[int, int]) -> None:
        """One tree."""
        beyond = max(0, spent.calls - shape.most_calls)
        self.trees += 1
        self.calls += spent.calls
        self.worst_of_a_branch = max([self.worst_of_a_branch, *spent.over.values()])
        self.trees_over += bool(spent.over)
        self.beyond_calls += beyond
        self.worst_beyond_calls = max(self.worst_beyond_calls, beyond)
        if shape.most_tokens is not None:
            tokens = max(0, spent.tokens - shape.most_tokens)
            self.beyond_tokens += tokens
            if tokens:
                self.worst_in_calls = max(self.worst_in_calls, tokens / spent.longest / shape.groups)
        # What was done and is in no count can be spent again.
        self.uncounted += max(0, spent.calls - counted[0])
        self.more_delegations += max(0, len(spent.begun) - shape.limits.delegations)

    def figures(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "trees": self.trees,
            "calls": self.calls,
            "treesWithOverspend": self.trees_over,
            "overspentCallsOfOneBranchMost": self.worst_of_a_branch,
            "callsBeyondTheBound": self.beyond_calls,
            "callsBeyondTheBoundInOneTreeMost": self.worst_beyond_calls,
            "tokensBeyondTheBound": self.beyond_tokens,
            "tokensBeyondInLongestCallsOfEachBranchMost": round(self.worst_in_calls, 3),
            "callsThatWereNotCounted": self.uncounted,
            "delegationsBeyondTheBound": self.more_delegations,
        }


@contextlib.contextmanager
def stored() -> Iterator[mongo.Database]:
    """A database that goes at the end."""
    uri = variables.required("JERVIS_TEST_MONGODB_URI")
    client = mongo.connect(uri)
    name = f"bench_trees_{uuid.uuid4().hex[:12]}"
    try:
        yield mongo.Database(client, name, retry.Retry(60))
    finally:
        with pymongo.MongoClient[dict[str, Any]](uri) as last:
            last.drop_database(name)
        client.close()


async def run(trees: int, seed: int) -> Report:
    """Both pools on the same trees."""
    sums = {name: Sum() for name in ("pool", "poolKilled", "checkBeforeCall", "checkBeforeCallKilled")}
    slots = asyncio.Semaphore(_AT_ONCE)
    began = time.monotonic()
    with stored() as database:

        async def one(number: int) -> None:
            async with slots:
                shape = tree(seed + number)
                real = Real(database, shape.limits)
                await real.guard.claim(NOW)
                killed = "Killed" if shape.killed else ""
                sums[f"pool{killed}"].add(shape, *await walked(shape, real))
                sums[f"checkBeforeCall{killed}"].add(shape, *await walked(shape, Naive(database, shape)))

        for first in range(0, trees, 200):
            async with asyncio.TaskGroup() as group:
                for number in range(first, min(trees, first + 200)):
                    group.create_task(one(number))
            spent = round(time.monotonic() - began)
            print(f"{min(trees, first + 200)} of {trees} trees, {spent} s", file=sys.stderr, flush=True)
    report = Report({"seconds": round(time.monotonic() - began, 1)})
    report.figures |= {name: one.figures() for name, one in sums.items()}
    whole, killed = sums["pool"], sums["poolKilled"]
    report.checks["overspent calls of one branch"] = (whole.worst_of_a_branch, 1)
    report.checks["tokens beyond, in calls of each branch"] = (whole.worst_in_calls, 1)
    # One in flight at the kill, whose tokens are in no count, and one at the end.
    report.checks["tokens beyond, in calls of each branch, of two processes"] = (killed.worst_in_calls, 2)
    report.checks["calls beyond the bound"] = (whole.beyond_calls + killed.beyond_calls, 0)
    report.checks["calls that were not counted"] = (whole.uncounted + killed.uncounted, 0)
    report.checks["delegations beyond the bound"] = (whole.more_delegations + killed.more_delegations, 0)
    return report
