"""The texts that a run has seen, by who wrote them: the user, or others. Pure."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from orchestrator_job.effects.permits import moments, orders, threads, words
from orchestrator_job.effects.tools.port import Origin
from orchestrator_job.store import task_memory


class UserText:
    """What the user said, one after another, and words that a person put into an approval, which order nothing by
    themselves. The first `spent` texts order nothing any more: a round with their orders has been answered. `answers`:
    those of the others whose time is not known."""

    def __init__(
        self, texts: Sequence[str], edited: Sequence[str] = (), spent: int = 0, answers: Sequence[str] = ()
    ) -> None:
        self._texts, self._edited, self._spent, self._answers = tuple(texts), tuple(edited), spent, tuple(answers)

    @functools.cached_property
    def moments(self) -> tuple[moments.Mention, ...]:
        """The dates and times in it."""
        return tuple(one for text in (*self._texts, *self._edited) for one in moments.read(text))

    @functools.cached_property
    def whole(self) -> words.Words:
        """Of all of it."""
        return words.Words((*self._texts, *self._edited))

    @functools.cached_property
    def open(self) -> tuple[orders.Order, ...]:
        """Those of `orders` that count; the others still name places."""
        if not self._spent:
            return self.orders
        return self.orders[len(self.orders) - len(UserText(self._texts[self._spent :], answers=self._answers).orders) :]

    @functools.cached_property
    def orders(self) -> tuple[orders.Order, ...]:
        """What the user ordered."""
        return orders.read(*self._texts, undated=self._answers)

    @functools.cached_property
    def places(self) -> Mapping[str, frozenset[str]]:
        """The repositories and Connections that any order names, and the Connections that all others are to use, by
        `repository`, `connection` and `via`."""
        done = [one for one in self.orders if one.deeds or one.uses]
        none = frozenset[str]()
        return {
            "repository": none.union(*(one.repositories for one in done)),
            "connection": none.union(*(one.connections for one in done)),
            "via": none.union(*(one.via for one in done if one.uses)),
        }

    @functools.cached_property
    def squeezed(self) -> str:
        """Of all of it."""
        return words.squeezed("\n".join((*self._texts, *self._edited)))


class UntrustedText:
    """A text that another wrote. It is read when an effect is asked for: most runs have none."""

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def text(self) -> str:
        """As it was read."""
        return self._text

    @functools.cached_property
    def moments(self) -> tuple[moments.Mention, ...]:
        """The dates and times in it."""
        return moments.read(self._text)

    @functools.cached_property
    def heading(self) -> threads.Heading:
        """Of the mail that it is, if it is one."""
        return threads.heading(self._text)

    @functools.cached_property
    def whole(self) -> words.Words:
        """Of all of it."""
        return words.Words((self._text,))

    @functools.cached_property
    def squeezed(self) -> str:
        """Of all of it."""
        return words.squeezed(self._text)

    @functools.cached_property
    def passages(self) -> tuple[words.Words, words.Words]:
        """What in it orders something, and all else."""
        ordering, rest = orders.passages(self._text)
        return words.Words(ordering), words.Words(rest)


@dataclass(frozen=True, slots=True)
class Content:
    """What is stored under a key."""

    key: str
    name: str
    media_type: str


@dataclass(frozen=True, slots=True)
class SeenTexts:
    """What a run has read, by who wrote it. Later texts are added by `more`. `stored` is what the run has made, and
    the task's attachments, `thread` the Message-IDs of the task's own mail; `today` is that of the agent."""

    user: UserText
    content: tuple[UntrustedText, ...] = ()
    retrieved: tuple[UntrustedText, ...] = ()
    stored: frozenset[Content] = frozenset()
    thread: frozenset[str] = frozenset()
    today: date | None = None

    @classmethod
    def of(cls, task: task_memory.TaskMemory, document: str, heard: Collection[str] | None = None) -> SeenTexts:
        """The texts of the task: the user's own, and its document where that is another's. `heard`: the ids of messages
        and answers whose orders are used up, as those of the task are; None: none are."""
        past = heard or ()
        said = [(one.id, one.text) for one in task.answers] + [(one.id, one.text) for one in task.messages]
        used = [text for name, text in said if name in past]
        new = [text for name, text in said if name not in past]
        answers = [one.text for one in task.answers if one.id not in past]
        edited = [value for one in task.approvals for value in _values(one.arguments)]
        own = [task.title, document] if task.asked_by_user else []
        content = () if task.asked_by_user else (UntrustedText(document),)
        return cls(
            UserText((*own, *used, *new), edited, 0 if heard is None else len(own) + len(used), answers),
            content,
            stored=frozenset(Content(one.content_ref.key, one.name, one.media_type) for one in task.attachments),
            thread=threads.own(task.source_urn or "").union(*(one.heading.ids for one in content)),
        )

    def more(self, texts: Iterable[str]) -> SeenTexts:
        """With what was retrieved since."""
        return replace(self, retrieved=(*self.retrieved, *map(UntrustedText, texts)))

    def at(self, today: date) -> SeenTexts:
        """On that day."""
        return replace(self, today=today)

    def having(self, stored: Iterable[Content]) -> SeenTexts:
        """With what the run has stored."""
        return replace(self, stored=self.stored.union(stored))

    @property
    def others(self) -> tuple[UntrustedText, ...]:
        """All that another wrote."""
        return (*self.content, *self.retrieved)

    def origin(self, aim: str) -> Origin:
        """Who named it first: the lowest that holds."""
        wanted = words.name(aim)
        if wanted is None:
            return Origin.MODEL
        if self.user.whole.names(wanted):
            return Origin.USER
        if any(one.whole.names(wanted) for one in self.content):
            return Origin.CONTENT
        return Origin.RETRIEVED if any(one.whole.names(wanted) for one in self.retrieved) else Origin.MODEL


def _values(arguments: str) -> Iterable[str]:
    """The values of edited arguments that are one word each: the texts among them may be the model's, unchanged."""
    waiting: list[object] = [json.loads(arguments)] if arguments else []
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and len(value.split()) == 1:
            yield value
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
