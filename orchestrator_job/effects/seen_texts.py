"""The texts that a run has read: what the user wrote, and passages of others with their source and readers. Pure."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import date

from crds import access, domains
from orchestrator_job.effects.tools import port
from orchestrator_job.store import task_memory
from text import shingles


@dataclass(frozen=True)
class Passage:
    """A text that another wrote. `source` is its URN or says where it is from, `readers` are those who may read it
    there."""

    text: str
    source: str
    readers: access.Access = access.UNKNOWN

    @functools.cached_property
    def shingled(self) -> shingles.Shingled:
        """What a copy of it is found by. It is read when an effect is asked for: most runs have none."""
        return shingles.Shingled(self.text)


def of_result(tool: str, result: port.Result) -> list[Passage]:
    """What a call of a tool gave: its parts with their sources, and what is in none of them."""
    passages = [Passage(result.text[one.start : one.end], one.source, one.readers) for one in result.parts]
    between, at = [], 0
    for one in result.parts:
        between.append(result.text[at : one.start])
        at = max(at, one.end)
    rest = "\n".join(filter(str.strip, (*between, result.text[at:])))
    return [*passages, Passage(rest, ", ".join(result.sources) or tool)] if rest else passages


@dataclass(frozen=True)
class SeenTexts:
    """What a run has read. `user` are the user's own texts, which are copies of nobody."""

    user: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()
    internal: domains.Internal = domains.NOTHING
    today: date | None = None
    """Of the agent, which is told it: the year in it is copied from no passage."""

    @classmethod
    def of(cls, task: task_memory.TaskMemory, document: str, internal: domains.Internal = domains.NOTHING) -> SeenTexts:
        """The texts of the task: the user's own, and its document where that is another's."""
        said = [*(one.text for one in task.answers), *(one.text for one in task.messages)]
        if task.asked_by_user:
            return cls((task.title, document, *said), internal=internal)
        return cls(tuple(said), (Passage(document, task.source), Passage(task.title, task.source)), internal)

    def more(self, passages: Iterable[Passage]) -> SeenTexts:
        """With what was read since."""
        return replace(self, passages=(*self.passages, *passages))

    def at(self, today: date) -> SeenTexts:
        """On that day."""
        return replace(self, today=today)

    @property
    def readers(self) -> access.Access:
        """Who may read a text that was made of all of it."""
        return joint([one.readers for one in self.passages])

    @functools.cached_property
    def own(self) -> shingles.Shingled:
        """What is copied from nobody."""
        day = f"{self.today:%Y-%m-%d}" if self.today is not None else ""
        return shingles.Shingled("\n\n\n\n".join(filter(None, (*self.user, day))))


def joint(readers: Collection[access.Access]) -> access.Access:
    """Who may read a text that was made of passages with these readers."""
    named = [set(one.principals) for one in readers if one.visibility is access.Visibility.RESTRICTED]
    if named:
        return access.restricted(set.intersection(*named))
    public = bool(readers) and all(one.visibility is access.Visibility.PUBLIC for one in readers)
    return access.PUBLIC if public else access.UNKNOWN
