"""The texts that a run has seen, by who wrote them: the user, or others. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from orchestrator_job.store import task_memory


@dataclass(frozen=True, slots=True)
class UntrustedText:
    """A text that another wrote."""

    text: str


@dataclass(frozen=True, slots=True)
class SeenTexts:
    """What a run has read: `user` is the user's own, `others` what was retrieved, or is the task's document."""

    user: tuple[str, ...] = ()
    others: tuple[UntrustedText, ...] = ()

    @classmethod
    def of(cls, task: task_memory.TaskMemory, document: str) -> SeenTexts:
        """The texts of the task: the user's own, and its document where that is another's."""
        said = [one.text for one in (*task.answers, *task.messages)]
        own = [task.title, document] if task.asked_by_user else []
        return cls((*own, *said), () if task.asked_by_user else (UntrustedText(document),))

    def more(self, texts: Iterable[str]) -> SeenTexts:
        """With what was retrieved since."""
        return replace(self, others=(*self.others, *map(UntrustedText, texts)))
