"""The one way in which a run asks a model: reserved on the budget, tried again, settled, and corrected.

`call_id` says whose call it is and of which round: the id of a delegation, or `r<round>.NAME` for a node.

Each call is reserved before it is made, and settled after. One that was refused, or that never reached the router, is
the same call when it is made again. One that broke in the middle stays counted, with the tokens of its prompt, for a
model may have read it: the next try is another call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import structlog

from crds.priority import Priority
from orchestrator_job import errors
from orchestrator_job.model import budget, intent, prompt_budget
from orchestrator_job.store import delegation_progress, retry
from router import client as router_client
from router.client import asking, reading
from router.client import schema as schemas

_log = structlog.get_logger("orchestrator_job.model.model_calls")

S = TypeVar("S", bound=schemas.Shape)
T = TypeVar("T")


class Asking:
    """Asks on one budget. `num_ctx` is the window that is requested of the backend; None: the backend's own."""

    def __init__(
        self,
        router: router_client.Client,
        pool: budget.Budget,
        retries: retry.Retry,
        *,
        num_ctx: int | None = None,
    ) -> None:
        self._router = router
        self._pool = pool
        self._retries = retries
        self._num_ctx = num_ctx

    async def ask(
        self,
        call_id: str,
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
        ends in it; Fenced, and what the router's client raises when the retries end.
        """
        round_number = delegation_progress.round_of(call_id)
        about = prompt_budget.tokens(messages, tools)
        booked: list[int | None] = []

        async def call() -> router_client.Reply:
            if not booked:
                booked.append(await self._pool.reserve(round_number, about, final=final))
            [left] = booked
            most = num_predict if left is None else min(left, num_predict)
            window = num_ctx or self._num_ctx
            try:
                return await self._router.converse(
                    model, messages, priority, schema, window, most, tools, temperature=temperature, think=think
                )
            except router_client.Broken:
                booked.clear()
                raise

        async with self._pool.in_time(final=final):
            try:
                reply = await self._retries.call("ask the model", call)
            except (router_client.Unavailable, router_client.Rejected):
                if booked:
                    # It counts as a call, but no model has read its prompt.
                    await self._pool.settle(round_number, about, 0)
                raise
            # The backend does not count a prompt that it has cached: the estimate stays.
            await self._pool.settle(round_number, about, (reply.prompt_tokens or about) + reply.answer_tokens)
        return reply

    async def shaped(
        self,
        name: str,
        call_id: str,
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
        ordered: Callable[[intent.Ordered], T] | None = None,
    ) -> T:
        """What `judge` makes of an answer of that shape, as `router.client.asking.ask`; `name` is that of the answer.
        `ordered` judges a reply in place of it, where `wire` has that. Raises as `ask`, and InvalidOutput after all
        tries."""
        shapes: list[type[Any]] = [shape] if ordered is None else [shape, intent.Ordered]

        def judged(reply: Any) -> T:
            return ordered(reply) if ordered is not None and isinstance(reply, intent.Ordered) else judge(reply)

        def send(each: asking.Try) -> Awaitable[router_client.Reply]:
            return self.ask(
                call_id,
                each.messages,
                schema=each.format_schema,
                priority=priority,
                model=model,
                num_ctx=num_ctx,
                num_predict=num_predict + asking.THOUGHTS,
                final=final,
                temperature=each.temperature,
            )

        def refused(complaint: str) -> None:
            _log.warning("answer.unusable", prompt=name, problem=complaint)

        try:
            asked = await asking.ask(
                send, messages, shapes, judged, wire=wire, choices=choices, smaller=smaller, refused=refused
            )
        except reading.Unusable as error:
            raise errors.InvalidOutput(
                f"Model {model!r} gave no usable {name} in {asking.ATTEMPTS} tries: {error.message}",
                remedy="Run the task again, or choose a model that follows a JSON schema.",
            ) from error
        if asked.problems:
            listed = sorted({f"{problem.field or 'text'}: {problem.what}" for problem in asked.problems})
            _log.warning("answer.repaired", prompt=name, problems=listed, count=len(asked.problems))
        return asked.value


def dumped(reply: router_client.Reply) -> dict[str, Any]:
    """For the journal."""
    return {
        "text": reply.text,
        "prompt_tokens": reply.prompt_tokens,
        "answer_tokens": reply.answer_tokens,
        "calls": [{"name": call.name, "arguments": call.arguments} for call in reply.calls],
        "cut": reply.cut,
        # Only for the model itself, in the turns with tools that follow.
        **({"thinking": reply.thinking} if reply.thinking and reply.calls else {}),
        **({"endless": True} if reply.endless else {}),
    }
