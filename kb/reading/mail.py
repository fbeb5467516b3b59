"""What the headers of a mail say of it, without a model (RFC 5322)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email import errors as mail_errors
from email import message_from_string, policy, utils

# A header is short; what comes behind that is not read here.
_HEAD_CHARS = 65_536
_LINE = re.compile(r"^(?:[!-9;-~]+:|[ \t])")
_MOST_RECIPIENTS = 200


@dataclass(frozen=True)
class Headers:
    """People are `Name <address>`, or an address; `sent` is RFC 3339, or ""."""

    sender: str
    recipients: tuple[str, ...]
    subject: str
    message_id: str = ""
    sent: str = ""


def read(text: str) -> Headers | None:
    """None for a text that does not begin with the headers of a mail, of which From is one."""
    head = text[:_HEAD_CHARS].replace("\r\n", "\n").lstrip("\n").partition("\n\n")[0]
    if not all(_LINE.match(line) for line in head.splitlines()):
        return None
    try:
        found = message_from_string(f"{head}\n\n", policy=policy.default)
        named = {name: [str(one) for one in found.get_all(name, [])] for name in ("From", "To", "Cc")}
        senders = _people(named["From"])
        if not senders:
            return None
        subject, message_id = str(found.get("Subject", "")), str(found.get("Message-ID", ""))
        sent = _sent(str(found.get("Date", "")))
    except (mail_errors.MessageError, ValueError, IndexError, AttributeError, TypeError):
        # The parser of the standard library fails on some broken headers; a model reads those.
        return None
    return Headers(
        senders[0],
        _people([*named["To"], *named["Cc"]])[:_MOST_RECIPIENTS],
        " ".join(subject.split()),
        message_id.strip().strip("<>"),
        sent,
    )


def named(person: str) -> tuple[str, str]:
    """Name and address of one of `Headers`' people; either may be ""."""
    return utils.parseaddr(person)


def _people(values: list[str]) -> tuple[str, ...]:
    pairs = utils.getaddresses(values)
    found = (f"{name} <{address}>" if name and address else name or address for name, address in pairs)
    return tuple(dict.fromkeys(" ".join(one.split()) for one in found if one))


def _sent(value: str) -> str:
    try:
        return utils.parsedate_to_datetime(value).isoformat() if value else ""
    except ValueError:
        return ""
