"""People and addresses: reading them, and telling whether one of them is us."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import getaddresses

ADDRESS = re.compile(r"[A-Za-z0-9._%+\-]+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)*\.[A-Za-z]{2,}")
NAMED_ADDRESS = re.compile(
    r"\"?([A-ZÀ-Ž][\wÀ-ž.'\u2019\-]*(?: [A-ZÀ-Ž][\wÀ-ž.'\u2019\-]*){0,3})\"? <(" + ADDRESS.pattern + ")>"
)
MENTION = re.compile(r"(?<![\w@.])@([A-Za-z][A-Za-z0-9._\-]*[A-Za-z0-9])")
_SHORTEST_FIRST_NAME = 3


@dataclass(frozen=True)
class Person:
    """Somebody as a text names them; either part may be empty."""

    name: str
    address: str = ""

    @property
    def label(self) -> str:
        return self.name or self.address


def fold(text: str) -> str:
    """Small letters and digits only, without accents: `Jana Nováková` and `jana.novakova` are the same."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9@]", "", plain.lower().lstrip("@"))


def in_header(value: str) -> list[Person]:
    """The people of a From, To or Cc header."""
    pairs = getaddresses([value.replace("\n", " ")])
    return [Person(name.strip(), address.strip().lower()) for name, address in pairs if name.strip() or "@" in address]


def one(text: str) -> Person | None:
    """`Jana Novak <jana@x.y>`, `jana@x.y`, `@jana` or `Jana Novak`."""
    text = text.strip().strip("*_`").strip()
    if not text or text.lower() in {"unassigned", "none", "nobody", "null", "-"}:
        return None
    if "@" in text and not text.startswith("@"):
        found = in_header(text)
        return found[0] if found else None
    return Person(text.lstrip("@"))


class Team:
    """Us: names of people or teams and mail addresses, as the prompt's `Team:` line lists them."""

    def __init__(self, members: Iterable[str]) -> None:
        self._members = [member for member in (one(text) for text in members) if member is not None]
        self._keys = {key for member in self._members for key in _keys(member)}

    def __bool__(self) -> bool:
        return bool(self._members)

    def has(self, person: Person | None) -> bool:
        """Whether this is one of us, by address or by full name in any spelling (`Jana Novak`, `jana.novak`,
        `novak-jana`).
        """
        return person is not None and bool(_keys(person) & self._keys)

    def answers_to(self, handle: str) -> bool:
        """Whether one of us is called like this in a mention or a salutation, where a first name is enough."""
        folded = fold(handle)
        return folded in self._keys or folded in {fold(member.name.split()[0]) for member in self._first_named()}

    def spellings(self) -> list[str]:
        """Words by which a text may address us, longest first: names, addresses, first names."""
        words = {member.name for member in self._members if member.name}
        words |= {member.address for member in self._members if member.address}
        words |= {member.name.split()[0] for member in self._first_named()}
        return sorted(words, key=lambda word: (-len(word), word))

    def _first_named(self) -> list[Person]:
        """Members with a first name of their own: two words, not a group."""
        return [
            member
            for member in self._members
            if len(member.name.split()) == 2
            and len(member.name.split()[0]) >= _SHORTEST_FIRST_NAME
            and not re.search(r"\b(?:team|group|department|squad|ops|desk|support)\b", member.name, re.IGNORECASE)
        ]


def _keys(person: Person) -> set[str]:
    keys = set()
    if person.address:
        keys.add(person.address.lower())
    if person.name:
        keys |= {fold(person.name), fold(" ".join(reversed(person.name.split())))}
    local = person.address.split("@")[0] if person.address else ""
    if re.search(r"[._\-]", local):
        keys.add(fold(local))
    return keys - {""}
