"""Asking a model for an answer of a shape: ask, read, correct, and at last give up. The one loop that does it.

A second try differs from the first: it names what was wrong, and it has another temperature, because the same model
writes the same answer to the same prompt. What came to no end is not shown to the model again, which would go on with
it. The last is a smaller question where the caller has one. The shape stands in the prompt as well, for engines that
ignore `format`.

`send` makes one call with all that its caller needs for it: budgets, waits, counters. What it raises goes through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from crds import errors
from router.client import calls, reading, schema

S = TypeVar("S", bound=schema.Shape)
T = TypeVar("T")
Messages = Sequence[Mapping[str, Any]]

ATTEMPTS = 3
TEMPERATURES = (None, 0.2, 0.7)
"""Of each try; None leaves the first to the model."""
THOUGHTS = 1024
"""Tokens beside those of an answer: some models think before it though they are told not to."""
_ECHO_CHARS, _CUT_CHARS = 4000, 200
"""Of an answer that is shown to the model again; of one that came to its bound, or is a loop."""


@dataclass(frozen=True, slots=True)
class Try:
    """One call. `number` counts from 0."""

    number: int
    messages: Messages
    format_schema: schema.Wire
    temperature: float | None


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """`value` is what `judge` made of the answer. `problems` are those of this answer, `tries` how many there were.
    `cut`: it is not whole, and no other one was."""

    value: T
    problems: tuple[reading.Problem, ...]
    tries: int
    reply: calls.Reply
    cut: bool = False


async def ask(
    send: Callable[[Try], Awaitable[calls.Reply]],
    messages: Messages,
    shapes: Sequence[type[S]],
    judge: Callable[[S], T],
    *,
    choices: schema.Choices | None = None,
    wire: schema.Wire | None = None,
    smaller: Callable[[], Messages] | None = None,
    refused: Callable[[str], None] = lambda complaint: None,
    attempts: int = ATTEMPTS,
) -> Asked[T]:
    """What `judge` makes of the first usable answer; it raises `reading.Unusable` for one that means nothing. One that
    is not whole is taken where no try gives one that is, or where the window or the caller lets no other be made.

    `wire` is what is sent; None: what follows from shapes and choices. `smaller` are the messages of the last try,
    which comes at once where the messages are too long for the window; without it an answer that made them too long is
    not shown. `refused` is called with the complaint about each answer that was not usable, or not whole. Raises
    Unusable after all tries, and what `send` raises.
    """
    wire = schema.wire(*shapes, choices=choices) if wire is None else wire
    base = shaped(messages, wire)
    talk, complaint = base, ""
    begun: Asked[T] | None = None
    tries, left = 0, attempts
    while left:
        last = left == 1
        if last and smaller is not None and attempts > 1:
            talk = shaped(smaller(), wire)
        try:
            reply = await send(Try(tries, talk, wire, TEMPERATURES[min(tries, len(TEMPERATURES) - 1)]))
        except errors.Permanent as error:
            too_long = isinstance(error, calls.TooLong)
            # What the router refuses otherwise, a model or a token, an operator sets right: then it is asked again.
            if begun is not None and (too_long or not isinstance(error, calls.Rejected)):
                return replace(begun, tries=tries)
            if not too_long:
                raise
            if smaller is not None and not last:
                left = 1
            elif smaller is None and talk is not base:
                talk = base
            else:
                raise
            continue
        tries, left = tries + 1, left - 1
        try:
            read = reading.read(reply.text, *shapes, choices=choices)
            asked = Asked(judge(read.value), read.problems, tries, reply, bool(read.unfinished))
            if not asked.cut:
                return asked
            begun, complaint = asked, read.unfinished
        except reading.Unusable as error:
            complaint = error.message
        complaint = ended(reply, complaint)
        refused(complaint)
        talk = corrected(base, reply, complaint)
    if begun is None:
        raise reading.Unusable(complaint)
    return replace(begun, tries=tries)


def ended(reply: calls.Reply, complaint: str) -> str:
    """What is wrong with an answer: where it was ended, that comes before what follows from it."""
    if reply.endless:
        return "it repeats itself and has no end"
    if reply.cut:
        return f"it was cut off after {reply.answer_tokens} tokens, which is more than it may have"
    return complaint


def shaped(messages: Messages, wire: schema.Wire) -> list[dict[str, Any]]:
    """The messages with the shape of the answer at the end of the system's, or before all where there is none."""
    line = f"Answer with one JSON object and nothing else: {schema.sketch(wire)}"
    made = [dict(message) for message in messages]
    for message in made:
        if message.get("role") == "system":
            message["content"] = f"{message.get('content', '')}\n{line}"
            return made
    return [{"role": "system", "content": line}, *made]


def corrected(messages: Messages, reply: calls.Reply, complaint: str) -> list[dict[str, Any]]:
    """The messages of the next try: the answer that was not usable, and why. Of one that came to its bound they have
    the beginning alone: a small model writes again what it sees, up to the same bound."""
    return [
        *(dict(message) for message in messages),
        {"role": "assistant", "content": reply.text[: _CUT_CHARS if reply.cut else _ECHO_CHARS]},
        {"role": "user", "content": f"That answer cannot be used: {complaint}. Answer again, with JSON only."},
    ]
