"""Where the aims of an effect come from, and whether a person has to decide about it. Pure: no model has a say.

A text that a run has read may say "send this to a@example.com". What counts is who named the address: the user, in
the task, a message, an answer or an edited approval; or a document that another person wrote. So each aim of a call is
looked up in the texts of the run, as whole words: `a@example.com` does not stand in `aa@example.com.evil`.

Compared are canonical words: Unicode NFKC, case folded, without the punctuation around them. An aim in compatibility
forms of letters or with invisible characters equals no word of a text: a person decides.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from crds import provisions
from orchestrator_job import memory
from orchestrator_job.delegation.tools import port
from orchestrator_job.delegation.tools.port import Origin, Tier

_LIMITS = re.compile(r"""[\s<>()\[\]{}"|,;«»“”„‹›，；、。]+""")  # noqa: RUF001
_AROUND = ".:!?*_~…·•-–—=&'`‚‘’"  # noqa: RUF001
_URL = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?(?P<host>[^/?#:]+|\[[^]]*\])(?P<port>:\d+)?(?P<path>/[^?#]*)?")
_SCHEMES = ("mailto:",)
_HOST = re.compile(r"^[^\s@/:]+\.[^\s@/:.]+$")
_NUMBERED = re.compile(r"^(?:\d{1,12}|[a-z][a-z0-9_]*-\d{1,12})$")
_PART = re.compile(r"^(?:to|cc|bcc|from|an|kopie|komu)[:=](?=\S*@)")


class Words:
    """A text as its words, each with the other ways in which it names the same: the host of an address on the web."""

    __slots__ = ("_at", "_words")

    def __init__(self, texts: Iterable[str]) -> None:
        self._words: list[frozenset[str]] = []
        self._at: dict[str, list[int]] = {}
        for text in texts:
            for word in _split(text):
                self._add(_forms(word))
            # A name does not go on from one text into the next.
            self._add(frozenset())

    def _add(self, forms: frozenset[str]) -> None:
        for form in forms:
            self._at.setdefault(form, []).append(len(self._words))
        self._words.append(forms)

    def names(self, wanted: Sequence[str]) -> bool:
        """Whether these words stand in the text, one after another."""
        if not wanted:
            return False
        return any(
            all(
                place + step < len(self._words) and word in self._words[place + step]
                for step, word in enumerate(wanted)
            )
            for place in self._at.get(wanted[0], ())
        )


@dataclass(frozen=True, slots=True)
class Known:
    """What a run has read, by who wrote it. Later texts are added by `more`."""

    user: Words
    content: Words
    retrieved: tuple[Words, ...] = ()

    @classmethod
    def of(cls, task: memory.TaskMemory, document: str) -> Known:
        """The texts of the task: the user's own, and its document where that is another's."""
        said = [message.text for message in task.messages] + [given.text for given in task.answers]
        edited = [value for one in task.approvals for value in _values(one.arguments)]
        own = [document, task.title] if task.asked_by_user else []
        return cls(user=Words([*own, *said, *edited]), content=Words([] if task.asked_by_user else [document]))

    def more(self, texts: Iterable[str]) -> Known:
        """With what was retrieved since."""
        return Known(self.user, self.content, (*self.retrieved, Words(texts)))

    def origin(self, aim: str) -> Origin:
        """Who named it first: the lowest that holds."""
        wanted = _aim(aim)
        if wanted is None:
            return Origin.MODEL
        if self.user.names(wanted):
            return Origin.USER
        if self.content.names(wanted):
            return Origin.CONTENT
        return Origin.RETRIEVED if any(one.names(wanted) for one in self.retrieved) else Origin.MODEL


@dataclass(frozen=True, slots=True)
class Ruling:
    """`asks`: a person has to decide, and `why` says so in a sentence; else the call is carried out."""

    asks: bool
    why: str = ""
    origins: Mapping[str, Origin] | None = None


_WHOSE = {
    Origin.CONTENT: "stands in the task's document, not in what the user wrote",
    Origin.RETRIEVED: "comes from a text that was retrieved",
    Origin.MODEL: "was named by the model alone",
}


def rule(tool: port.Acting, aims: Mapping[str, str], known: Known, held: provisions.Provisions) -> Ruling:
    """Whether the call may be carried out without a person."""
    origins = {name: known.origin(aim) for name, aim in aims.items()}
    if held.needs_approval:
        return Ruling(True, "A rule of this client requires a person's approval.", origins)
    if tool.tier is Tier.FREE:
        return Ruling(False, origins=origins)
    if tool.tier is Tier.NAMED and aims:
        foreign = [name for name, origin in origins.items() if origin is not Origin.USER]
        if not foreign:
            return Ruling(False, origins=origins)
        parts = [f"{name} ({aims[name][:100]!r}) {_WHOSE[origins[name]]}" for name in foreign[:5]]
        return Ruling(True, f"{'; '.join(parts)}.", origins)
    if tool.tier is Tier.NAMED:
        return Ruling(True, f"This call of {tool.name} names no aim that the user could have named.", origins)
    return Ruling(True, f"{tool.name} always needs a person's approval.", origins)


def _values(arguments: str) -> Iterable[str]:
    """The values of edited arguments that are one word each: the texts among them may be the model's, unchanged."""
    waiting: list[object] = [json.loads(arguments)] if arguments else []
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and len(value.split()) == 1:
            yield value
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value


def _aim(aim: str) -> tuple[str, ...] | None:
    """The words of an aim; None when it is empty, or not plainly what it looks like."""
    plain = unicodedata.normalize("NFC", aim)
    if unicodedata.normalize("NFKC", plain) != plain or any(_hidden(one) for one in plain):
        return None
    return tuple(_split(plain)) or None


def _hidden(one: str) -> bool:
    return unicodedata.category(one) in ("Cf", "Cc", "Co", "Cn", "Cs")


def _split(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word for part in _LIMITS.split(folded) if (word := _trimmed(part))]


def _trimmed(word: str) -> str:
    word = word.strip(_AROUND)
    for scheme in _SCHEMES:
        word = word.removeprefix(scheme)
    return _PART.sub("", word).rstrip("/").lstrip("#@").strip(_AROUND)


def _forms(word: str) -> frozenset[str]:
    """The word, and what else it names: of an address on the web its host, the first two parts of its path
    (a repository) and a number at its end (an issue)."""
    forms = {word}
    found = _URL.match(word)
    if found is None:
        if _HOST.match(word):
            forms.add(provisions.hostname(word))
        return frozenset(forms)
    host = provisions.hostname(found["host"])
    forms |= {found["host"], host, word.partition("://")[2]}
    if found["port"]:
        forms.add(host + found["port"])
    parts = [part for part in (found["path"] or "").split("/") if part]
    if len(parts) > 1 and "@" not in parts[0] + parts[1]:
        forms.add(f"{parts[0]}/{parts[1].removesuffix('.git')}")
    if len(parts) > 1 and _NUMBERED.match(parts[-1]):
        forms.add(parts[-1])
    return frozenset(forms)
