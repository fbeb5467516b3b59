"""Which vision model looks at images, and what it said of one before, whichever of the models that was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from crds import errors as root
from crds import priority, scope
from kb.extract import answers
from kb.files import image

_LOOKS = 4
_Model = TypeVar("_Model")
"""Images of a file that are looked at at once."""


@dataclass(frozen=True)
class Choice(Generic[_Model]):
    """The model of `asked` looks at `images` or more with together `size` bytes or more."""

    images: int
    size: int
    asked: _Model


def chosen(usual: _Model, choices: Sequence[Choice[_Model]], sizes: Sequence[int]) -> _Model:
    """Who looks at images of these sizes in bytes: the first of `choices` that holds, else `usual`."""
    return next((one.asked for one in choices if len(sizes) >= one.images and sum(sizes) >= one.size), usual)


class Models:
    """The first of `choices` that holds, else `usual`."""

    def __init__(self, usual: answers.Answers, choices: Sequence[Choice[answers.Answers]] = ()) -> None:
        self._usual = usual
        self._choices = choices

    def choose(self, sizes: Sequence[int]) -> answers.Answers:
        """Who looks at images of these sizes in bytes."""
        return chosen(self._usual, self._choices, sizes)

    async def describe(
        self,
        body: bytes,
        owner: scope.Scope,
        *,
        title: str,
        kind: str,
        urgency: priority.Priority,
        among: Sequence[int] = (),
        spent: answers.Spent | None = None,
    ) -> image.Sight:
        """What a model sees in an image that came with images of the sizes `among`. It is kept: the same image of a
        client is looked at once, also when another number of images calls for another model."""
        question = image.question(body, title=title, kind=kind)
        looking = self.choose(among or [len(body)])
        for one in (self._usual, *(choice.asked for choice in self._choices)):
            if one is not looking and (known := await one.kept(question, image.Sight, owner)) is not None:
                if spent is not None:
                    spent.kept += 1
                return known
        return await looking.ask(question, image.Sight, urgency, owner, spent)

    async def describe_all(
        self, images: Sequence[tuple[str, str, bytes]], owner: scope.Scope, urgency: priority.Priority
    ) -> list[image.Sight | root.JervisError]:
        """What a model sees in each image that came with a file (title, media type, bytes), or why it sees nothing.

        Before what runs in the background: the file waits for them.
        """
        sizes = [len(body) for _, _, body in images]
        slots = asyncio.Semaphore(_LOOKS)

        async def look(title: str, kind: str, body: bytes) -> image.Sight | root.JervisError:
            try:
                async with slots:
                    sight_urgency = min(urgency, priority.Priority.P2)
                    return await self.describe(body, owner, title=title, kind=kind, urgency=sight_urgency, among=sizes)
            except root.JervisError as error:
                return error

        # All are awaited even when one fails: the answers that do arrive are kept for the repeated call.
        return list(await asyncio.gather(*(look(*one) for one in images)))
