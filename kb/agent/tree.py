"""What passes between the decision agent and its tools, and what a tool is.

Source: seed 004 "TreeData (Shared State)", "Tool Specifications".
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pydantic

from contracts.rules import enforce_lines
from crds import priority, scope
from kb import api
from kb.agent.environment import Environment, Error, Result
from text import quotations

MOST_ERRORS = 5
"""Of the latest errors that a model reads."""


@dataclass(frozen=True)
class Turn:
    """A question of a conversation and its answer, both "" where they are not kept any more. `chunks`, `pages`: ids of
    the passages, and of the pages as they are seen, that were found for it. `rests_on`: the `id`s of turns that were in
    its prompt (`kb.agent.turn_sources`)."""

    question: str
    answer: str
    chunks: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    rests_on: tuple[str, ...] = ()
    id: str = ""


@dataclass
class TreeData:
    """The state of one question.

    `tasks_completed`: tool -> seconds of each call. `errors`: sentences for the model. `collection_names`: what the
    tools search. `rules` are those in force, `held` what of them the program enforces; both are read before the first
    decision and never change. `most_tokens`: of `tokens`, the model's; None for any number. `answer` is the text that
    was given, `parts` are those of it; `cut`: the model would have written on.
    """

    user_prompt: str
    viewer: scope.Scope
    urgency: priority.Priority
    environment: Environment = field(default_factory=Environment)
    conversation_history: list[Turn] = field(default_factory=list)
    tasks_completed: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    collection_names: list[str] = field(default_factory=list)
    rules: tuple[api.Rule, ...] = ()
    held: enforce_lines.Provisions = field(default_factory=enforce_lines.Provisions)
    repository: str = ""
    calls: int = 0
    tokens: int = 0
    most_tokens: int | None = None
    answer: str = ""
    parts: list[quotations.Part] = field(default_factory=list)
    cut: bool = False

    @property
    def spent(self) -> bool:
        """Whether no call of a model may follow but the one that answers."""
        return self.most_tokens is not None and self.tokens >= self.most_tokens

    def permits(self, *names: str) -> bool:
        """Whether the hard rules permit a tool that has these names."""
        return all(self.held.permits_tool(name) for name in names)


@dataclass(frozen=True)
class Status:
    """What a tool does at the moment, in words."""

    message: str


@dataclass(frozen=True)
class Token:
    """A piece of the answer."""

    content: str


@dataclass(frozen=True)
class Dropped:
    """A part of the answer that is not given, because of a quotation in it; `text` is "" where rules hold it back."""

    text: str
    judged: quotations.Judged


@dataclass(frozen=True)
class Retracted:
    """All pieces that were given of the answer were what the model thought before it."""


Given = Result | Error | Status | Token | Dropped | Retracted


class NoInputs(pydantic.BaseModel):
    """Of a tool that takes none."""

    model_config = pydantic.ConfigDict(extra="forbid")


class Tool(Protocol):
    """One tool. Its availability follows from the state and the rules, never from what a text asks for."""

    @property
    def name(self) -> str:
        """By which it is chosen."""
        ...

    @property
    def description(self) -> str:
        """What the model reads about it."""
        ...

    @property
    def end(self) -> bool:
        """Whether the question is answered after it."""
        ...

    @property
    def inputs(self) -> type[pydantic.BaseModel]:
        """What it takes."""
        ...

    @property
    def status(self) -> str:
        """What the asker reads while it works; "" for nothing."""
        ...

    @property
    def source(self) -> str:
        """The collection that it searches; "" for none."""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether the same call may be made again: it works on what was found since."""
        ...

    @property
    def exact(self) -> bool:
        """Whether an argument in other case or with other blanks makes another call."""
        ...

    async def is_tool_available(self, tree_data: TreeData) -> bool:
        """Whether it may be chosen now."""
        ...

    async def run_if_true(self, tree_data: TreeData) -> tuple[bool, dict[str, Any]]:
        """Whether it runs before the next decision without being chosen, and with which inputs."""
        ...

    def __call__(self, tree_data: TreeData, inputs: dict[str, Any]) -> AsyncIterator[Given]:
        """Work. A failure is an `Error`, or raises a `crds.errors.JervisError`, of which one is made."""
        ...


class Chosen:
    """Base of tools that run only when they are chosen."""

    end = False
    status = ""
    source = ""
    repeatable = False
    exact = False

    async def run_if_true(self, tree_data: TreeData) -> tuple[bool, dict[str, Any]]:
        """Never by itself."""
        return False, {}
