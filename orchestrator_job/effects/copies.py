"""What may leave: which parts of an effect's text are copies of passages, and whether its targets may read them. Pure.

What counts as a copy says `text.shingles`; what the user wrote is none. A copy goes to a target without a person where
the target is inside of the client and all its readers may read the source:

| readers of the source | inside | outside |
| -- | -- | -- |
| public, or not known | done | a person |
| named ones | done to them, else a person | a person |

A permit with `mayShare` says more (`crds.permits`); the caller knows that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from crds import access, domains
from orchestrator_job.effects import seen_texts
from text import shingles

_MOST_SHOWN, _SHOWN_CHARS = 30, 300


class Place(StrEnum):
    """What a target is."""

    ADDRESS = "address"
    """The person with this address of mail."""
    HOST = "host"
    """All that a host passes it on to; the value is its name, or an address on the web."""
    OWN = "own"
    """Readers of a place of the client's own, whom no source names: an issue, a page, a branch at a Connection, the
    knowledge base."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a text goes."""

    place: Place
    value: str

    @property
    def host(self) -> str:
        """That has to be inside; "" where none can be made out."""
        if self.place is Place.ADDRESS:
            return self.value.rpartition("@")[2]
        if "://" not in self.value:
            return self.value
        try:
            return urlsplit(self.value).hostname or ""
        except ValueError:
            return ""


@dataclass(frozen=True, slots=True)
class Copy:
    """A part of an effect's text as it stands there. `why` says in a sentence why a person has to see it first; it is
    empty where the targets may read its source."""

    text: str
    source: str
    why: str = ""


def targets(connection: str, named: Collection[str], url: str = "") -> tuple[Target, ...]:
    """The targets of an effect, from how its permit calls them: an address of mail, a place at the `connection` that it
    acts through, or, without one, a host. `url`: of the server that is called; without one, and without any target, the
    effect reaches what nobody knows."""
    found = []
    for value in named:
        local, sign, _ = value.rpartition("@")
        if sign and local and "/" not in value:
            found.append(Target(Place.ADDRESS, value))
        else:
            found.append(Target(Place.OWN if connection else Place.HOST, value))
    if url or not found:
        found.append(Target(Place.OWN, connection) if connection and not url else Target(Place.HOST, url))
    return tuple(found)


def copies(
    text: str, reached: Sequence[Target], seen: seen_texts.SeenTexts, stored: Collection[str] = ()
) -> tuple[Copy, ...]:
    """The copies in the text of an effect that goes to these targets, those that need a person first. Text that a
    source shows to them by name, or to all, is no secret of another one; one whose readers are not known shows nothing,
    as tools repeat what they are given. `stored` are keys of contents that leave with it, each of which is a copy as a
    whole: of unknown readers, or of those who may read all that was read where some was shown to some alone. Costs
    about 20 ms for 20 kB, and 60 ms for each MB of passages (0.8 s more where they are looked at for the first time).
    """
    probe = shingles.Probe(text)
    probe.without(seen.own)
    passages = list({(one.text, one.source, one.readers): one for one in seen.passages}.values())
    judged = [(passage, _why(passage, reached, seen.internal)) for passage in passages]
    allowed = [copy for passage, why in judged if not why for copy in _of(probe, text, passage, why)]
    for passage, why in judged:
        if not why and passage.readers.visibility is not access.Visibility.UNKNOWN:
            probe.without(passage.shingled)
    held = [copy for passage, why in judged if why for copy in _of(probe, text, passage, why)]
    readers = seen.readers if seen.readers.visibility is access.Visibility.RESTRICTED else access.UNKNOWN
    for key in stored:
        file = seen_texts.Passage("", f"stored::{key}", readers)
        why = _why(file, reached, seen.internal)
        (held if why else allowed).append(Copy(key, file.source, why))
    return tuple(dict.fromkeys((*held, *allowed)))[:_MOST_SHOWN]


def _of(probe: shingles.Probe, text: str, passage: seen_texts.Passage, why: str) -> list[Copy]:
    spans = probe.copied(passage.shingled)
    return [Copy(text[start:end][:_SHOWN_CHARS], passage.source, why) for start, end in spans]


def _why(passage: seen_texts.Passage, reached: Sequence[Target], internal: domains.Internal) -> str:
    for target in reached:
        if target.place is not Place.OWN and not internal.has(target.host):
            return f"{passage.source} may be read inside alone, and {target.value[:100]!r} is outside."
        if passage.readers.visibility is not access.Visibility.RESTRICTED:
            continue
        reader = access.principal("user", target.value) if target.place is Place.ADDRESS else ""
        if reader not in passage.readers.principals:
            return f"{passage.source} is shown to some alone, and {target.value[:100]!r} is not named among them."
    return "" if reached else f"Where a copy of {passage.source} goes is not known."
