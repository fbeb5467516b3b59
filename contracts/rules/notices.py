"""Lines of a hard rule that say who hears of a task: `enforce: notify https://hooks.example.com/x on UserTask`. Pure.

A mail address stands as `mailto:team@example.com`.

`contracts.rules.enforce_lines` finds the lines, `controllers.notices` sends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

VERB = "notify"
MAILTO = "mailto:"
_URL_CHARS = 2000
# One plain address (RFC 5321), in letters that every mail server takes.
_MAILBOX = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
)
_MAILBOX_CHARS = 254
_PRINTABLE = re.compile(r"[!-~]+")


class Event(StrEnum):
    """What can happen to a task that a person wants to hear of."""

    USER_TASK = "UserTask"
    FAILURE = "Failure"
    COMPLETED = "Completed"


@dataclass(frozen=True, slots=True)
class Notice:
    """One line."""

    url: str
    events: frozenset[Event]


def parse(words: str) -> Notice:
    """The line `enforce: notify words`. Raises ValueError with what is wrong and what to write."""
    url, _, rest = words.partition(" ")
    link, _, names = rest.strip().partition(" ")
    if not _is_address(url):
        raise ValueError(
            "give the address of a webhook, such as https://hooks.example.com/jervis, without a login, "
            "or a mail address, such as mailto:team@example.com"
        )
    known = {one.value.casefold(): one for one in Event}
    asked = [one for one in re.split(r"[,\s]+", names.casefold().strip()) if one]
    wrong = [one for one in asked if one not in known]
    if link.casefold() != "on" or not asked or wrong:
        raise ValueError(f"give `on` and one or several of {', '.join(one.value for one in Event)} after the address")
    return Notice(url, frozenset(known[one] for one in asked))


def _is_address(url: str) -> bool:
    if url.startswith(MAILTO):
        mailbox = url.removeprefix(MAILTO)
        return len(mailbox) <= _MAILBOX_CHARS and _MAILBOX.fullmatch(mailbox) is not None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    plain = len(url) <= _URL_CHARS and _PRINTABLE.fullmatch(url) is not None and parts.username is None and port != 0
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname)
