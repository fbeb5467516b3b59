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
_MOST_ANSWERED = 50
_ID = re.compile(r"<([^<>\s]{1,500})>")


@dataclass(frozen=True)
class Headers:
    """People are `Name <address>`, or an address; `sent` is RFC 3339, or "".

    `answered` are the ids of the mails that it answers, from the first of the thread to the one it is a reply to.
    `automatic`: a program sent it (RFC 3834), or it is a mass mailing.
    """

    sender: str
    recipients: tuple[str, ...]
    subject: str
    message_id: str = ""
    sent: str = ""
    answered: tuple[str, ...] = ()
    automatic: bool = False


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
        answered = _answered(str(found.get("References", "")), str(found.get("In-Reply-To", "")))
        automatic = _automatic(str(found.get("Auto-Submitted", "no")), str(found.get("Precedence", "")))
    except (mail_errors.MessageError, ValueError, IndexError, AttributeError, TypeError):
        # The parser of the standard library fails on some broken headers; a model reads those.
        return None
    return Headers(
        senders[0],
        _people([*named["To"], *named["Cc"]])[:_MOST_RECIPIENTS],
        " ".join(subject.split()),
        message_id.strip().strip("<>"),
        sent,
        tuple(one for one in answered if one != message_id.strip().strip("<>")),
        automatic or "List-Unsubscribe" in found,
    )


def named(person: str) -> tuple[str, str]:
    """Name and address of one of `Headers`' people; either may be ""."""
    return utils.parseaddr(person)


def _people(values: list[str]) -> tuple[str, ...]:
    pairs = utils.getaddresses(values)
    found = (f"{name} <{address}>" if name and address else name or address for name, address in pairs)
    return tuple(dict.fromkeys(" ".join(one.split()) for one in found if one))


def _answered(references: str, in_reply_to: str) -> tuple[str, ...]:
    """Of a long thread the first and the latest; some programs write a sentence beside the id into In-Reply-To."""
    ids = list(dict.fromkeys(_ID.findall(references)))
    parent = _ID.search(in_reply_to)
    if parent is not None:
        ids = [*(one for one in ids if one != parent[1]), parent[1]]
    return tuple(ids if len(ids) <= _MOST_ANSWERED else [ids[0], *ids[1 - _MOST_ANSWERED :]])


def _automatic(submitted: str, precedence: str) -> bool:
    own = submitted.partition(";")[0].strip().casefold()
    return own not in ("", "no") or precedence.strip().casefold() in ("bulk", "list", "junk")


def _sent(value: str) -> str:
    try:
        return utils.parsedate_to_datetime(value).isoformat() if value else ""
    except ValueError:
        return ""
