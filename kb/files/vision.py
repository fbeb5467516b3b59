"""Which vision model looks at images, and what it said of one before, whichever of the models that was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crds import priority, scope
from kb.files import image
from kb.reading import answers


@dataclass(frozen=True)
class Choice:
    """The model of `asked` looks at `images` or more with together `size` bytes or more."""

    images: int
    size: int
    asked: answers.Answers


class Models:
    """The first of `choices` that holds, else `usual`."""

    def __init__(self, usual: answers.Answers, choices: Sequence[Choice] = ()) -> None:
        self._usual = usual
        self._choices = choices

    def choose(self, sizes: Sequence[int]) -> answers.Answers:
        """Who looks at images of these sizes in bytes."""
        for one in self._choices:
            if len(sizes) >= one.images and sum(sizes) >= one.size:
                return one.asked
        return self._usual

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
        chosen = self.choose(among or [len(body)])
        for one in (self._usual, *(choice.asked for choice in self._choices)):
            if one is not chosen and (known := await one.kept(question, image.Sight, owner)) is not None:
                if spent is not None:
                    spent.kept += 1
                return known
        return await chosen.ask(question, image.Sight, urgency, owner, spent)
