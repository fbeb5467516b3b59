"""The mails that a text is, as far as their Message-IDs matter: which of them an answer may name. Pure.

A mail is read with its heading, a line each (`text.mail`): From, Message-ID, In-Reply-To, References. Only a heading at
the beginning of a text counts, behind its title: what stands in the middle was written by the sender.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(
    r"(from|to|cc|date|message-id|in-reply-to|references|subject|attachments[\w-]*): *(.*)", re.IGNORECASE
)
_ID = re.compile(r"<([^<>\s]+@[^<>\s]+)>")
_ADDRESS = re.compile(r"[^\s<>(),;:\"]+@[^\s<>(),;:\"]+")
_URN = "email::"
_BEFORE = 3
"""Lines before a heading: the title, the source, a blank one."""


@dataclass(frozen=True, slots=True)
class Heading:
    """`senders` are addresses, `ids` Message-IDs of the mail and of those that it answers; both folded, without
    brackets."""

    senders: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()


def heading(text: str) -> Heading:
    """Of the mail that the text is; an empty one where it is none."""
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines[: _BEFORE + 1]) if _LINE.fullmatch(line)), None)
    senders: set[str] = set()
    ids: set[str] = set()
    for line in lines[first:] if first is not None else ():
        found = _LINE.fullmatch(line)
        if found is None:
            break
        name, value = found[1].casefold(), found[2].casefold()
        if name == "from":
            senders |= set(_ADDRESS.findall(value))
        elif name in ("message-id", "in-reply-to", "references"):
            ids |= set(_ID.findall(value))
    return Heading(frozenset(senders), frozenset(ids))


def own(urn: str) -> frozenset[str]:
    """The Message-ID of the mail with this source URN, if it is one of a mail."""
    return frozenset((urn.removeprefix(_URN).casefold(),)) if urn.startswith(_URN) else frozenset()


def names(identity: str) -> tuple[tuple[str, ...], ...]:
    """The words by which a user names the mail: its Message-ID, or its source URN."""
    return (identity,), (f"{_URN}{identity}",)


def plain(message_id: str) -> str:
    """Folded, without brackets."""
    return message_id.strip("<>").casefold()
