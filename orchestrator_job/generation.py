"""One answer of a model, by as many calls as it takes: each is reserved on the budget before it is made, and settled.

A call that was refused, or that never reached the router, is the same call when it is made again. One that broke in the
middle stays counted, with the tokens of its prompt, for a model may have read it: the next try is another call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from orchestrator_job import patience
from router import client as router_client

B = TypeVar("B")


async def generate(
    insistence: patience.Patience,
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
