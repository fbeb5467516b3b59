"""The one way in which the delegation graph asks a model: reserved on the budget, insisted on, settled.

`delegation_id` says whose call it is and of which round: the id of a delegation, or `r<round>.plan` and
`r<round>.synthesis` for the two nodes around them.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from crds.priority import Priority
from orchestrator_job.model import budget, generation, prompt_budget
from orchestrator_job.store import delegation_progress, retry
from router import client as router_client
from router.client import asking
from router.client import schema as schemas

S = TypeVar("S", bound=schemas.Shape)
T = TypeVar("T")


class Asking:
    """Asks on one budget. `num_ctx` is the window that is requested of the backend; None: the backend's own."""

    def __init__(
        self,
        router: router_client.Client,
        pool: budget.Budget,
        insistence: retry.Patience,
        *,
        num_ctx: int | None = None,
    ) -> None:
        self._router = router
        self._pool = pool
        self._insistence = insistence
        self._num_ctx = num_ctx

    async def ask(
        self,
        delegation_id: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        schema: schemas.Wire | None = None,
        priority: Priority,
        model: str,
        num_ctx: int | None = None,
        num_predict: int,
        final: bool = False,
        temperature: float | None = None,
        think: bool | None = None,
    ) -> router_client.Reply:
        """The model's reply. `final`: the call may use what is kept for the synthesis. `num_ctx` in place of the own
        one; `num_predict` bounds the answer, and so does what is left of the budget.

        Raises BudgetExhausted before a call is made, one that is made again included, and where the time of delegations
        ends in it; Fenced, and what the router's client raises when the patience ends.
        """
        round_number = delegation_progress.round_of(delegation_id)
        about = prompt_budget.tokens(messages, tools)

        def converse(left: int | None) -> Awaitable[router_client.Reply]:
            most = num_predict if left is None else min(left, num_predict)
            window = num_ctx or self._num_ctx
            return self._router.converse(
                model, messages, priority, schema, window, most, tools, temperature=temperature, think=think
            )

        async with self._pool.in_time(final=final):
            reply, _ = await generation.generate(
                self._insistence,
                "ask the model",
                about,
                reserve=lambda: self._pool.reserve(round_number, about, final=final),
                converse=converse,
                settle=functools.partial(self._pool.settle, round_number, about),
            )
        return reply

    async def shaped(
        self,
        name: str,
        delegation_id: str,
        messages: Sequence[Mapping[str, Any]],
        shape: type[S],
        judge: Callable[[S], T],
        *,
        wire: schemas.Wire,
        priority: Priority,
        model: str,
        num_ctx: int | None,
        num_predict: int,
        choices: schemas.Choices | None = None,
        smaller: Callable[[], asking.Messages] | None = None,
        final: bool = False,
    ) -> T:
        """What `judge` makes of an answer of that shape. Raises as `ask`, and InvalidOutput after all tries."""

        def send(each: asking.Try) -> Awaitable[router_client.Reply]:
            return self.ask(
                delegation_id,
                each.messages,
                schema=each.format_schema,
                priority=priority,
                model=model,
                num_ctx=num_ctx,
                num_predict=num_predict + asking.THOUGHTS,
                final=final,
                temperature=each.temperature,
            )

        return await generation.shaped(
            name, send, messages, shape, judge, model=model, wire=wire, choices=choices, smaller=smaller
        )


def dumped(reply: router_client.Reply) -> dict[str, Any]:
    """For the journal."""
    return {
        "text": reply.text,
        "prompt_tokens": reply.prompt_tokens,
        "answer_tokens": reply.answer_tokens,
        "calls": [{"name": one.name, "arguments": one.arguments} for one in reply.calls],
        "cut": reply.cut,
        # Only for the model itself, in the turns with tools that follow.
        **({"thinking": reply.thinking} if reply.thinking and reply.calls else {}),
        **({"endless": True} if reply.endless else {}),
    }
