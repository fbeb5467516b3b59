"""The model of the decision agent: prompts with the hard rules in them, and calls that are repeated while it is busy.

What others wrote stands between tags and is data (`kb.prompt_escape`); the rules alone stand in the system message.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contracts.rules import enforce_lines
from crds import errors as root
from crds import priority
from kb import errors, prompt_escape
from kb.agent.environment import Environment
from kb.agent.tree import Retracted, TreeData
from kb.extract import answers, prompt
from router import client
from router.client import reading, schema

_ANSWER_TOKENS = 2000
"""Left of the window for an answer and a repair of it."""
_LEAST_FOUND = 500
_THOUGHTS = 2048
"""Tokens beside an answer: models that are made for decisions think before them though they are told not to."""
"""Half a character; no UTF-8 can have it."""
ATTEMPTS = 3
LONGEST_WAIT = 10.0
"""Seconds between two attempts at most; a model that asks for more time is given up."""
Messages = Sequence[Mapping[str, Any]]


@dataclass
class Spending:
    """What a call of a model is for, and its own `urgency`; what it costs is added to the question's state."""

    tree: TreeData
    urgency: priority.Priority
    cut: bool = False
    """Whether the model would have written on; an answer's own `cut` stays as it is."""

    @property
    def tokens(self) -> int:
        """Read and written for the question so far."""
        return self.tree.tokens

    @tokens.setter
    def tokens(self, count: int) -> None:
        self.tree.tokens = count

    @property
    def calls(self) -> int:
        """Of models for the question so far."""
        return self.tree.calls

    @calls.setter
    def calls(self, count: int) -> None:
        self.tree.calls = count


class DecisionModel:
    """Asks one model by the router. `sleep` waits so many seconds; `setting` names it to an operator.

    Raises `router.client.Unavailable` after ATTEMPTS, `Rejected` (`TooLong` for more than the window takes), or
    `kb.errors.Unconfigured` for an unknown model.
    """

    def __init__(
        self,
        router: client.Client,
        model: str,
        sleep: Callable[[float], Awaitable[None]],
        *,
        num_ctx: int | None = None,
        setting: str = "models.decision",
    ) -> None:
        self._setting = setting
        self._router = router
        self._model = model
        self._sleep = sleep
        self._num_ctx = num_ctx

    @property
    def name(self) -> str:
        """The model's."""
        return self._model

    async def structured(
        self, messages: Messages, tree: TreeData, wire: schema.Wire, *, most: int, temperature: float | None = None
    ) -> client.Reply:
        """An answer that should follow the schema, of `most` tokens beside thoughts, not validated; what it cost is
        added to the state.

        A call counts once a model has answered: one that was refused is none.
        """
        for attempt in range(ATTEMPTS):
            try:
                with _known(self._setting):
                    reply = await self._router.converse(
                        self._model,
                        messages,
                        tree.urgency,
                        format_schema=wire,
                        num_ctx=self._num_ctx,
                        num_predict=answers.room(messages, self._num_ctx, most + _THOUGHTS),
                        temperature=temperature,
                        think=False,
                        unthought=most,
                    )
            except client.Unavailable as error:
                await self.wait(error, attempt)
            else:
                tree.calls += 1
                tree.tokens += reply.prompt_tokens + reply.answer_tokens
                return reply
        raise AssertionError("the loop returns or raises")

    async def said(self, messages: Messages, tree: TreeData | Spending, *, most: int | None = None) -> str:
        """An answer in words, of `most` tokens."""
        pieces: list[str] = []
        async for piece in self.stream(messages, tree, most=most):
            if isinstance(piece, Retracted):
                pieces.clear()
            else:
                pieces.append(piece)
        return "".join(pieces)

    async def stream(
        self, messages: Messages, tree: TreeData | Spending, *, most: int | None = None
    ) -> AsyncGenerator[str | Retracted, None]:
        """The same piece by piece, without what the model thinks before. Once a piece was given, a failure is not
        repeated."""
        room = answers.room(messages, self._num_ctx)
        counted = False
        for attempt in range(ATTEMPTS):
            begun, thoughts = False, reading.Thoughts()
            try:
                with _known(self._setting):
                    async with contextlib.aclosing(
                        self._router.stream(
                            self._model,
                            messages,
                            tree.urgency,
                            num_ctx=self._num_ctx,
                            num_predict=min(room, most or room),
                        )
                    ) as pieces:
                        async for one in pieces:
                            tree.calls += not counted
                            counted = True
                            tree.tokens += one.prompt_tokens + one.answer_tokens
                            tree.cut = one.cut
                            said = thoughts.feed(one.text)
                            if thoughts.before and begun:
                                yield Retracted()
                            if said:
                                begun = True
                                yield said
                if said := thoughts.end():
                    yield said
                tree.calls += not counted
                return
            except client.Unavailable as error:
                if begun:
                    raise
                await self.wait(error, attempt)

    def fitted(self, found: Environment, beside: Messages, most: int) -> str:
        """What was found as text for a prompt: `most` tokens of it, fewer where the window has no room beside the rest
        of the prompt. Raises `kb.errors.Unconfigured` where it has next to none."""
        if self._num_ctx is None:
            return found.to_llm_context(most)
        free = self.free(beside)
        size = min(most, free)
        text = found.to_llm_context(size)
        while size > 0 and (taken := answers.taken([{"content": text}])) > free:
            size = size * free // (taken + 1)
            text = found.to_llm_context(size)
        return text

    def free(self, beside: Messages) -> int:
        """Tokens of the window that are left beside the rest of a prompt and for the answer. Raises `Unconfigured`."""
        if self._num_ctx is None:
            return sys.maxsize
        taken = answers.taken(beside)
        left = self._num_ctx - taken - min(_ANSWER_TOKENS, self._num_ctx // 4)
        if left < _LEAST_FOUND:
            raise errors.Unconfigured(
                f"the window of {self._num_ctx} tokens has no room for evidence beside {taken} tokens of rules, "
                "conversation and question",
                field="models.numCtx.decision",
                remedy="Make the window of the model larger, or the hard rules or the question shorter.",
            )
        return left

    async def wait(self, error: client.Unavailable, attempt: int) -> None:
        """Until the next attempt. Raises the error after the last one, or where the router asks for more time."""
        pause = 1.0 if error.retry_after is None else error.retry_after
        if attempt == ATTEMPTS - 1 or pause > LONGEST_WAIT:
            raise error
        await self._sleep(pause)


def messages(name: str, instructions: str, parts: Sequence[str], tree: TreeData) -> list[dict[str, Any]]:
    """A prompt: `instructions` and the rules to the system, `parts` to the user."""
    asked = prompt.Prompt(
        name,
        (
            {"role": "system", "content": f"[prompt:{name}]\n{instructions}"},
            {"role": "user", "content": "\n".join(parts)},
        ),
    )
    spoken = [enforce_lines.unaddressed(one.rule_content) for one in tree.rules]
    return list(prompt.under(asked, spoken).messages)


def question(tree: TreeData) -> str:
    """The asker's question as a part of a prompt."""
    return f"<question>\n{_closed(tree.user_prompt, 'question')}\n</question>"


def history(tree: TreeData) -> list[str]:
    """What was said before, as a part of a prompt; nothing where nothing was."""
    if not tree.conversation_history:
        return []
    lines = "\n".join(f"Question: {one.question}\nAnswer: {one.answer}" for one in tree.conversation_history)
    return [prompt_escape.thread(lines)]


def _closed(text: str, tag: str) -> str:
    return prompt_escape.text(text).replace(f"</{tag}", f"< /{tag}")


@contextlib.contextmanager
def _known(setting: str) -> Any:
    try:
        yield
    except (client.UnknownModel, client.Unauthorized) as error:
        remedy = error.remedy or "Check the router's token of this service."
        raise errors.Unconfigured(error.message, field=setting, remedy=remedy) from error


def failure(error: root.JervisError) -> tuple[str, bool, str]:
    """(message, recoverable, suggestion) of an error: for a tool, whether another call of it may succeed."""
    remedy = str(getattr(error, "remedy", "") or "")
    return error.message, not isinstance(error, root.Operational), remedy
