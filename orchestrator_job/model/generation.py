"""One answer of a model, by as many calls as it takes: each is reserved on the budget before it is made, and settled.

A call that was refused, or that never reached the router, is the same call when it is made again. One that broke in the
middle stays counted, with the tokens of its prompt, for a model may have read it: the next try is another call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from orchestrator_job import errors
from orchestrator_job.store import retry
from router import client as router_client
from router.client import asking, reading, schema

_log = structlog.get_logger("orchestrator_job.model.generation")

B = TypeVar("B")
S = TypeVar("S", bound=schema.Shape)
T = TypeVar("T")


async def generate(
    insistence: retry.Patience,
    what: str,
    about: int,
    *,
    reserve: Callable[[], Awaitable[B]],
    converse: Callable[[B], Awaitable[router_client.Reply]],
    settle: Callable[[int], Awaitable[None]],
) -> tuple[router_client.Reply, B]:
    """The reply, and what `reserve` gave for its call.

    `reserve` books a call with a prompt of `about` tokens and raises BudgetExhausted where there is none left; `settle`
    counts the tokens that the call has taken in place of those. `what` names it in the log. Raises what the three
    raise, the router's errors once the patience ends.
    """
    booked: list[B] = []

    async def once() -> router_client.Reply:
        if not booked:
            booked.append(await reserve())
        try:
            return await converse(booked[0])
        except router_client.Broken:
            booked.clear()
            raise

    try:
        reply = await insistence.insist(what, once)
    except (router_client.Unavailable, router_client.Rejected):
        if booked:
            # It counts as a call, but no model has read its prompt.
            await settle(0)
        raise
    # The backend does not count a prompt that it has cached: the estimate stays.
    await settle((reply.prompt_tokens or about) + reply.answer_tokens)
    return reply, booked[0]


async def shaped(
    name: str,
    send: Callable[[asking.Try], Awaitable[router_client.Reply]],
    messages: asking.Messages,
    shape: type[S],
    judge: Callable[[S], T],
    *,
    model: str,
    wire: schema.Wire,
    choices: schema.Choices | None = None,
    smaller: Callable[[], asking.Messages] | None = None,
) -> T:
    """What `judge` makes of an answer of that shape, as `router.client.asking.ask`; `name` is its prompt's, `send`
    makes one call on the budget. Raises InvalidOutput after all tries, and what `send` raises."""

    def refused(complaint: str) -> None:
        _log.warning("answer.unusable", prompt=name, problem=complaint)

    try:
        asked = await asking.ask(
            send, messages, [shape], judge, wire=wire, choices=choices, smaller=smaller, refused=refused
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
