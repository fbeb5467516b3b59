"""Structured answers of a model: asked for a shape, read, asked again within bounds, kept.

An answer is kept under the hash of everything it depends on (prompt version, messages, schema, model), so that a
repeated or resumed ingest asks nothing twice. What can be used of an answer is used (`router.client.reading`), and each
problem is counted; of which nothing can be used three times is `kb.errors.Unusable` and not kept, and neither is one
that breaks off.

An answer belongs to the scope it was asked for, and goes when that is erased (decision 0076). The other scopes of its
client find it too and have a copy of their own from then on; another client never finds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pydantic

from crds import priority, scope
from kb import errors, identity, metrics
from kb.extract import prompt, shape
from router import client
from router.client import asking, reading, schema

_Shape = TypeVar("_Shape", bound=shape.Shape)
ATTEMPTS = asking.ATTEMPTS
ANSWER_TOKENS, _LEAST_TOKENS = 8192, 512
"""The most that an answer may have, whatever the window; the least that it is given, however full the window is."""
_CALLS_TOKENS = 4096
_IMAGE_TOKENS = 1024
MOST_CALLS = 10
"""Calls of tools in all (seed 003 "No infinite loops"); more of them are no answer."""


class Shelf(Protocol):
    """Where answers are kept between calls and runs."""

    async def answer(self, key: str, owner: scope.Scope) -> str | None:
        """The answer that is kept for the client of `owner`, if any; from now on it belongs to `owner` too."""
        ...

    async def keep_answer(self, key: str, prompt_name: str, text: str, owner: scope.Scope) -> None:
        """Keep an answer of `owner`; those not used for longest may be evicted."""
        ...


class Desk(Protocol):
    """Takes the calls of tools that a model makes in the place of a structured answer."""

    @property
    def functions(self) -> list[dict[str, Any]]:
        """The tools, as the model is offered them."""
        ...

    @property
    def accepted(self) -> list[dict[str, Any]]:
        """The calls that hold: `name` and `arguments`."""
        ...

    @property
    def decided(self) -> bool:
        """Whether they are an answer."""
        ...

    def call(self, name: str, arguments: object) -> tuple[bool, dict[str, object]]:
        """Whether a call holds, and its result for the model."""
        ...


@dataclass
class Spent:
    """What answers have cost: calls of the model, answers that were kept already, tokens as the backend counts."""

    calls: int = 0
    kept: int = 0
    tokens: int = 0


def place(key: str, owner: scope.Scope) -> str:
    """Under which a shelf has the copy of one owner."""
    return f"{key}:{identity.digest(json.dumps([owner.client_id, owner.project_id, owner.group_id]))[:16]}"


def key(model: str, question: prompt.Prompt, asked_for: type[shape.Shape]) -> str:
    """Under which an answer is kept: the hash of everything that it depends on."""
    about = [model, question.name, question.messages, schema.wire(asked_for)]
    return identity.digest(json.dumps(about, sort_keys=True))


class Answers:
    """Asks one model.

    Raises `router.client.Unavailable` or `Rejected`, `kb.errors.Unconfigured` when the router does not know the model,
    or `kb.errors.Unusable`.
    """

    def __init__(
        self, router: client.Client, model: str, shelf: Shelf, meters: metrics.Metrics, *, num_ctx: int | None = None
    ) -> None:
        self._router = router
        self._model = model
        self._shelf = shelf
        self._meters = meters
        self.num_ctx = num_ctx

    async def ask(
        self,
        question: prompt.Prompt,
        asked_for: type[_Shape],
        urgency: priority.Priority,
        owner: scope.Scope,
        spent: Spent | None = None,
        *,
        smaller: prompt.Prompt | None = None,
    ) -> _Shape:
        """The model's answer to `question` as a valid `asked_for`; `owner` is whose text the question is about.
        `smaller` is asked where the question is too long for the window, or its last answer is to be another one.

        What it costs is added to `spent`, also when it fails.
        """
        known = await self.kept(question, asked_for, owner)
        spent = Spent() if spent is None else spent
        if known is not None:
            spent.kept += 1
            return known
        asked = await self._converse(question, asked_for, urgency, spent, smaller)
        # What one that breaks off does not say is asked for the next time.
        if not asked.cut:
            where = key(self._model, question, asked_for)
            await self._shelf.keep_answer(where, question.name, asked.value.model_dump_json(by_alias=True), owner)
        # Counted once it is kept: from here on it is not asked again.
        self._meters.answers.labels(question.name, "model").inc()
        return asked.value

    async def called(
        self, question: prompt.Prompt, desk: Desk, urgency: priority.Priority, owner: scope.Scope, spent: Spent
    ) -> None:
        """Have the model answer by calls, which `desk` takes; those that are kept are made again without it.

        Raises what `ask` raises, `Unusable` when after ATTEMPTS nothing is decided.
        """
        about = [self._model, question.name, question.messages, desk.functions]
        where = identity.digest(json.dumps(about, sort_keys=True))
        known = await self._shelf.answer(where, owner)
        if known is not None:
            for one in json.loads(known):
                desk.call(one["name"], one["arguments"])
            spent.kept += 1
            self._meters.answers.labels(question.name, "cache").inc()
            return
        messages: list[dict[str, Any]] = list(question.messages)
        for _ in range(ATTEMPTS):
            spent.calls += 1
            reply = await self._said(messages, urgency, tools=desk.functions, most=_CALLS_TOKENS)
            spent.tokens += reply.prompt_tokens + reply.answer_tokens
            results = [(one, *desk.call(one.name, one.arguments)) for one in reply.calls]
            if desk.decided and all(holds for _, holds, _ in results):
                break
            if not 0 < len(results) <= MOST_CALLS:
                break
            if not all(holds for _, holds, _ in results):
                self._meters.answers.labels(question.name, "invalid").inc()
            # What it thought goes back to it: some models go on from there (Ollama's page "Thinking", gpt-oss).
            thought = {"thinking": reply.thinking} if reply.thinking else {}
            # What was refused may be of any length.
            made = [
                {"function": {"name": one.name[:100], "arguments": one.arguments if holds else {}}}
                for one, holds, _ in results
            ]
            told = [
                {"role": "tool", "tool_name": one.name[:100], "content": json.dumps(result)}
                for one, _, result in results
            ]
            messages += [{"role": "assistant", "content": "", "tool_calls": made, **thought}, *told]
        if not desk.decided:
            raise errors.Unusable(
                f"model {self._model!r} made no calls of tools that decide for {question.name}",
                field="extractModel",
                remedy="Use a model that calls tools, or set kb.settings.qualifyTools to false.",
            )
        await self._shelf.keep_answer(where, question.name, json.dumps(desk.accepted), owner)
        self._meters.answers.labels(question.name, "model").inc()

    async def kept(self, question: prompt.Prompt, asked_for: type[_Shape], owner: scope.Scope) -> _Shape | None:
        """The answer that was given before, if it is still kept; asks no model."""
        known = await self._shelf.answer(key(self._model, question, asked_for), owner)
        if known is None:
            return None
        try:
            answer = asked_for.model_validate_json(known)
        except pydantic.ValidationError:
            # Kept by a version of this program that took it for valid.
            return None
        self._meters.answers.labels(question.name, "cache").inc()
        return answer

    async def _converse(
        self,
        question: prompt.Prompt,
        asked_for: type[_Shape],
        urgency: priority.Priority,
        spent: Spent,
        smaller: prompt.Prompt | None,
    ) -> asking.Asked[_Shape]:
        asked = await self._asked(question, asked_for, urgency, spent, smaller, question.most)
        if not _fills(asked.value, question.most):
            return asked
        # A list of names is denser than other texts: it is asked for without a bound.
        try:
            again = await self._asked(question, asked_for, urgency, spent, smaller, {})
        except errors.Unusable:
            return asked
        return asked if again.cut else again

    async def _asked(
        self,
        question: prompt.Prompt,
        asked_for: type[_Shape],
        urgency: priority.Priority,
        spent: Spent,
        smaller: prompt.Prompt | None,
        longest: Mapping[str, int],
    ) -> asking.Asked[_Shape]:
        most = asked_for.tokens if question.tokens is None else question.tokens

        async def send(each: asking.Try) -> client.Reply:
            spent.calls += 1
            reply = await self._said(
                each.messages, urgency, each.format_schema, temperature=each.temperature, most=most
            )
            spent.tokens += reply.prompt_tokens + reply.answer_tokens
            return reply

        def refused(complaint: str) -> None:
            self._meters.answers.labels(question.name, "invalid").inc()

        less = None if smaller is None else lambda: smaller.messages
        try:
            asked = await asking.ask(
                send,
                question.messages,
                [asked_for],
                _as_it_is,
                wire=schema.wire(asked_for, most=longest),
                smaller=less,
                refused=refused,
                attempts=ATTEMPTS,
            )
        except (reading.Unusable, client.TooLong) as error:
            raise errors.Unusable(
                f"model {self._model!r} gave no valid answer to {question.name} in {ATTEMPTS} attempts: "
                f"{error.message}",
                field="extractModel",
                remedy="Use a model that follows Ollama's `format` schema, or a larger context window.",
            ) from error
        for problem in asked.problems:
            self._meters.answer_problems.labels(question.name, problem.field or "answer").inc()
        return asked

    async def _said(
        self,
        messages: Sequence[Mapping[str, Any]],
        urgency: priority.Priority,
        wire: schema.Wire | None = None,
        tools: Sequence[dict[str, Any]] = (),
        *,
        temperature: float | None = None,
        most: int,
    ) -> client.Reply:
        try:
            return await self._router.converse(
                self._model,
                messages,
                urgency,
                format_schema=wire,
                num_ctx=self.num_ctx,
                num_predict=room(messages, self.num_ctx, most + asking.THOUGHTS),
                tools=tools,
                temperature=temperature,
                unthought=most,
            )
        except (client.UnknownModel, client.Unauthorized) as error:
            raise errors.Unconfigured(
                error.message, field="model", remedy=error.remedy or "Check the router's token of this service."
            ) from error


def room(messages: Sequence[Mapping[str, Any]], num_ctx: int | None, most: int = ANSWER_TOKENS) -> int:
    """The most tokens that the answer to `messages` may have: `most`, and what they leave of the window."""
    most = min(most, ANSWER_TOKENS)
    return most if num_ctx is None else min(most, max(num_ctx - taken(messages), _LEAST_TOKENS))


def taken(messages: Sequence[Mapping[str, Any]]) -> int:
    """The most tokens that messages have."""
    said = "".join(str(one.get("content", "")) for one in messages)
    images = sum(len(one.get("images", ())) for one in messages)
    # As `kb.extract.typed` counts what fits: three letters of a Latin script are a token, and one of any other.
    plain = sum(1 for letter in said if letter.isascii())
    return plain // 3 + len(said) - plain + _IMAGE_TOKENS * images


def _fills(answer: shape.Shape, most: Mapping[str, int]) -> bool:
    """Whether a list that its grammar has ended may go on: it is full, and no item is another one again."""
    bounded = {name: count for name, count in most.items() if count <= schema.LONGEST_LIST}
    written = {name: [item.model_dump_json() for item in getattr(answer, name)] for name in bounded}
    return any(len(set(written[name])) == len(written[name]) >= count for name, count in bounded.items())


def _as_it_is(answer: _Shape) -> _Shape:
    return answer
