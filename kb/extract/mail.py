"""What the headers of a mail say of it, without a model (RFC 5322)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email import errors as mail_errors
from email import utils
from email.header import decode_header
from email.parser import HeaderParser
from typing import Any

# A header is short; what comes behind that is not read here.
_HEAD_CHARS = 65_536
_LINE = re.compile(r"^(?:[!-9;-~]+:|[ \t])")
_MOST_RECIPIENTS = 200
_MOST_ANSWERED = 50
_ID = re.compile(r"<([^<>\s]{1,500})>")
_NAME_CHARS, _ADDRESS_CHARS, _SUBJECT_CHARS, _ID_CHARS = 200, 320, 1000, 998
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


@dataclass(frozen=True)
class Headers:
    """People are `Name <address>`, or an address; `sent` is RFC 3339, or "". Of the `recipients` those `copied` are in
    Cc alone.

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
    copied: tuple[str, ...] = ()


def read(text: str) -> Headers | None:
    """None for a text that does not begin with the headers of a mail, of which From is one, or Sender or Return-Path in
    its place. Time grows with the length
    of the head alone, which the typed headers of `email.policy` do not keep to."""
    head = text[:_HEAD_CHARS]
    if len(text) > _HEAD_CHARS:
        head = head.rpartition("\n")[0]
    head = head.replace("\r\n", "\n").lstrip("\n").partition("\n\n")[0]
    if not all(_LINE.match(line) for line in head.splitlines()):
        return None
    try:
        found = HeaderParser().parsestr(f"{head}\n\n")
        headers = {name: [str(one) for one in found.get_all(name, [])] for name in ("From", "To", "Cc")}
        senders = _people(headers["From"])
        recipients = _people([*headers["To"], *headers["Cc"]])
        to = {named(one)[1].casefold() for one in _people(headers["To"])}
        sent = _sent(str(found.get("Date", "")))
        answered = _answered(str(found.get("References", "")), str(found.get("In-Reply-To", "")))
        automatic = _automatic(str(found.get("Auto-Submitted", "no")), str(found.get("Precedence", "")))
    except (mail_errors.MessageError, ValueError, IndexError, AttributeError, TypeError, RecursionError):
        # The parser of the standard library fails on some broken headers; a model reads those.
        return None
    if not senders:
        # A mail that answers itself names no sender (`From: <>`), and some name only whom it goes back to.
        senders = _people([str(found.get("Sender", "")), str(found.get("Return-Path", ""))]) or ("",)
        if senders == ("",) and "<>" not in "".join(headers["From"]):
            return None
    named_as = _decoded(str(found.get("Message-ID", ""))).strip("<>")
    return Headers(
        senders[0],
        recipients[:_MOST_RECIPIENTS],
        _decoded(str(found.get("Subject", "")))[:_SUBJECT_CHARS],
        named_as[:_ID_CHARS],
        sent,
        tuple(one for one in answered if one != named_as),
        automatic or "List-Unsubscribe" in found,
        tuple(one for one in recipients[:_MOST_RECIPIENTS] if named(one)[1].casefold() not in to),
    )


def is_automatic(headers: Headers, stated: Mapping[str, Any]) -> bool:
    """Whether a program sent it: by the headers in its text, or by those that its source `stated` as fields."""
    told = {name: str(stated.get(name, "")) for name in ("autoSubmitted", "precedence", "returnPath", "autoReply")}
    program = _automatic(told["autoSubmitted"], told["precedence"]) or told["returnPath"].strip() == "<>"
    return headers.automatic or program or bool(told["autoReply"] or stated.get("listUnsubscribe"))


def named(person: str) -> tuple[str, str]:
    """Name and address of one of `Headers`' people; either may be ""."""
    name, opened, address = person.rpartition("<")
    if opened and address.endswith(">"):
        return name.strip(' "'), address[:-1].strip()
    return utils.parseaddr(person[:_ADDRESS_CHARS])


def _people(values: list[str]) -> tuple[str, ...]:
    """Addresses are taken apart before names are decoded: a name may hold a comma then."""
    pairs = ((_decoded(name)[:_NAME_CHARS], _decoded(address)) for name, address in utils.getaddresses(values))
    found = (
        f"{name} <{address}>" if name and address else name or address
        for name, address in pairs
        if len(address) <= _ADDRESS_CHARS
    )
    return tuple(dict.fromkeys(one for one in found if one))


def _decoded(value: str) -> str:
    """On one line, without control characters; letters that its charset does not have are replaced (RFC 2047)."""
    value = " ".join(value.split())
    try:
        pieces = [_letters(said, charset) for said, charset in decode_header(value)]
    except (mail_errors.MessageError, ValueError):
        pieces = [value]
    return " ".join(_CONTROL.sub("", "".join(pieces)).encode("utf-8", "replace").decode().split())


def _letters(said: str | bytes, charset: str | None) -> str:
    if isinstance(said, str):
        return said
    try:
        # What stands between encoded words is given in this form by the parser.
        return said.decode(charset or "raw-unicode-escape", "replace")
    except (LookupError, ValueError):
        return said.decode("utf-8", "replace")


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
        when = utils.parsedate_to_datetime(value) if value else None
    except ValueError:
        return ""
    return "" if when is None else (when if when.tzinfo else when.replace(tzinfo=UTC)).isoformat()
