"""The tools that an agent's loop has itself: to delegate, and to read whole what another agent handed back.

What an agent hands back is never cut. Where it does not fit beside the task, its place says how long it is and how it
is read, and `read_result` gives it in parts that fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from orchestrator_job.agents import registry
from orchestrator_job.effects.tools import bounds, port
from orchestrator_job.model import prompt_budget
from orchestrator_job.store import delegation_models

READ_RESULT = "read_result"
TASK = "task"
"""By this name `read_result` gives the whole task, where its text is too long for the context of a delegation."""


class Delegate(port.Arguments):
    """A part of your task for another agent, who sees nothing but this."""

    agent: Annotated[str, Field(min_length=1, max_length=60)]
    task: Annotated[str, Field(min_length=1, max_length=8000)]
    context: Annotated[str, Field(max_length=40_000)] = ""
    expected_output: Annotated[str, Field(max_length=2000)] = ""


@dataclass(slots=True)
class Delegating:
    """The tool `delegate`; the loop carries it out."""

    description: str
    name: str = registry.DELEGATE
    arguments: type[port.Arguments] = Delegate


class ReadResult(port.Arguments):
    """`delegation` as it is named where the result should stand; `start` is the first character that is wanted."""

    delegation: Annotated[str, Field(min_length=1, max_length=100)]
    start: Annotated[int, Field(ge=0)] = 0


class Results:
    """What others handed back to one agent, and its tool `read_result`; `window` is that of the model in tokens."""

    name = READ_RESULT
    description = "Read what does not fit here, in parts: what another agent handed back, or a long task."
    arguments = ReadResult

    def __init__(self, window: int) -> None:
        self._room = prompt_budget.room(window)
        self._texts: dict[str, str] = {}

    def __len__(self) -> int:
        """Results that have to be read."""
        return len(self._texts)

    def earlier(self, outputs: Sequence[delegation_models.AgentOutput]) -> list[tuple[str, str]]:
        """Where each is from, and its text, or where to read it: the latest ones stand here as long as there is
        room."""
        room, found = self._room, list[tuple[str, str]]()
        for one in reversed(outputs):
            shown = one.result
            if len(shown) > room:
                shown = self.keep(one.delegation_id, one.result, f"{one.agent_name} handed this back.")
            room = max(0, room - len(shown))
            found.append((f"{one.delegation_id} {one.agent_name}", shown))
        return found[::-1]

    def fits(self, text: str) -> bool:
        """Whether it has room as one result."""
        return len(text) <= self._room

    def keep(self, delegation_id: str, text: str, about: str) -> str:
        """`about`, and how the text is read from now on."""
        self._texts[delegation_id] = text
        return (
            f"{about} It has {len(text)} characters, for which there is no room here. Read all of it with"
            f' {READ_RESULT}, delegation "{delegation_id}".'
        )

    async def read(self, given: ReadResult, place: port.Place) -> port.Result:
        """A part, with where it goes on."""
        text = self._texts.get(given.delegation)
        if text is None:
            return bounds.failed(f"There is no such result; there are {', '.join(self._texts)}.")
        return bounds.part(text, given.start, self._room)
