"""The tool `read_step`: the full text of an earlier step, goal or design that the context shows as a summary or a line.

It reads the context of the run's own task alone, and is offered to the agents that are shown this context, while
something of it is not shown whole.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from orchestrator_job.context import entries
from orchestrator_job.effects.tools import bounds, port

READ_STEP = "read_step"


class ReadStep(port.Arguments):
    """`step` as it is named where its text should stand; `start` is the first character that is wanted."""

    step: Annotated[str, Field(min_length=1, max_length=100)]
    start: Annotated[int, Field(ge=0)] = 0


class Steps:
    """The tool; `room` is the most characters of one answer."""

    name = READ_STEP
    description = "Read the full text of an earlier step or goal of this task that is only summarized here, in parts."
    arguments = ReadStep

    def __init__(self, context: entries.Context, room: int) -> None:
        self._context, self._room = context, room

    async def read(self, given: ReadStep, place: port.Place) -> port.Result:
        """A part, with where it goes on. Raises `StoreUnavailable`."""
        text = await self._context.text(given.step)
        if text is None:
            return bounds.failed(f"There is no such step; there are {', '.join(await self._context.paths())}.")
        return bounds.part(text, given.start, self._room)
