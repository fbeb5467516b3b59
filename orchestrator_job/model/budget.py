"""One pool of model calls, tokens, delegations and time for a round, its whole tree of delegations together.

What a round may take is reserved before and settled after, on the task's fence, so that it counts over processes that
die and over branches that run side by side. A part is kept for the synthesis: however the delegations end, what they
have found is still put into an answer. With several branches the pool is overspent by one call in flight each at most.

Source: the agents page of the design (budgets).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from orchestrator_job import errors
from orchestrator_job.store import delegation_models, fence

SYNTHESIS_CALLS = 3
"""Model calls that only the synthesis may use: an answer and two corrections."""
SYNTHESIS_TOKENS = 0.25
"""Its share of the tokens."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds of a round; None: no bound. 0 allows nothing."""

    llm_calls: int
    tokens: int | None = None
    delegations: int = 40
    depth: int = delegation_models.MAX_DEPTH


class Budget:
    """The pool of the task whose fence it is. `left()`: seconds that delegations have; the rest is the synthesis's."""

    def __init__(self, guard: fence.Fence, limits: Limits, left: Callable[[], float] = lambda: math.inf) -> None:
        self._guard = guard
        self._limits = limits
        self._left = left

    async def reserve(self, round_number: int, tokens: int, *, final: bool = False) -> int | None:
        """Book one model call with a prompt of `tokens`; returns the most tokens that its answer may have, None: no
        bound. `final`: it is the synthesis's, which may use all. Raises Fenced or BudgetExhausted."""
        limits = self._limits
        calls, most = limits.llm_calls, limits.tokens
        if not final:
            if self._left() <= 0:
                raise _over()
            calls = max(0, calls - SYNTHESIS_CALLS)
            most = None if most is None else most - int(most * SYNTHESIS_TOKENS)
        spent = await self._guard.reserve_call(round_number, calls, tokens, most)
        return None if most is None else most - spent.tokens

    @asynccontextmanager
    async def in_time(self, *, final: bool = False) -> AsyncIterator[None]:
        """Around a call: it is cancelled where the time of delegations ends. Raises BudgetExhausted then."""
        left = math.inf if final else self._left()
        limit = asyncio.timeout(left if left < math.inf else None)
        try:
            async with limit:
                yield
        except TimeoutError:
            if limit.expired():
                raise _over() from None
            raise

    async def settle(self, round_number: int, booked: int, used: int) -> None:
        """Count the tokens that a call has taken in place of those that were booked. Raises Fenced."""
        await self._guard.settle_call(round_number, booked, used)

    async def delegate(self, round_number: int, delegation_id: str, depth: int) -> None:
        """Book a delegation at `depth`, once however often it is resumed. Raises Fenced or BudgetExhausted."""
        if depth > self._limits.depth:
            raise errors.BudgetExhausted(
                f"A delegation at depth {depth} is deeper than the {self._limits.depth} levels of this task.",
                field="spec.budget.maxDepth",
                remedy="Raise spec.budget.maxDepth and try again, or narrow the task.",
            )
        await self._guard.reserve_delegation(round_number, delegation_id, self._limits.delegations)


def _over() -> errors.BudgetExhausted:
    return errors.BudgetExhausted(
        "The time of this run is nearly over.",
        field="spec.activeDeadlineSeconds",
        remedy="Raise spec.activeDeadlineSeconds and try again, or narrow the task.",
    )
