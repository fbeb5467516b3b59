"""Headers of mails as text, and as the facts that decide what is done with a mail. Pure; no header is an error.

`email`'s default policy splits a header into a tree of tokens, which takes more time than all else of a mail. `shown`
answers the same text for a form that it knows, and None for all others: `readable` then asks the library. Source: RFC
5322 3.2.3 (atoms), 3.4 (addresses), 3.6.4 (identification).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email import errors as mail_errors
from email import header, headerregistry, utils
from typing import Any

from text import mail_words

_ATOM = r"[A-Za-z0-9!#$%&'*+/=^_`{|}~-]++"  # without "?", which ends an encoded word
_DOTTED = rf"{_ATOM}(?:\.{_ATOM})*+"
_WORD = r"[A-Za-z0-9!#$%&'*+/=^_`{|}~.,:;@()-]++"
_QUOTED = rf'"{_WORD}(?: {_WORD})*+"'
_ENCODED = (
    r"=\?(?:utf-8|iso-8859-(?:1|2|15)|windows-125[0-9])\?(?:q\?(?:[A-Za-z0-9_.,!*+/-]|=[0-9A-F]{2})++"
    r"|b\?(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)\?="
)
_PLAIN = re.compile(r"[\t -~]*+")
_IDENTITY = re.compile(rf"<{_DOTTED}@{_DOTTED}>")
_MAILBOX = re.compile(
    rf"(?:(?:(?P<phrase>{_ATOM}(?: {_ATOM})*+)|(?P<quoted>{_QUOTED})|(?P<encoded>(?i:{_ENCODED}))) )?"
    rf"<(?P<user>{_DOTTED})@(?P<domain>{_DOTTED})>"
    rf"|(?P<bare>{_DOTTED})@(?P<at>{_DOTTED})"
)
_NEXT = re.compile(r",[ \t]*+")
_MESSAGE_ID = re.compile(r"<([^<>\s]{1,2000})>")
_URL = re.compile(r"<([^<>]{1,2000}+)>")
_MOST_IDS = 50
_PARSED_CHARS = 4096
"""Of a header that the library parses: its time grows faster than the header."""
_SPLIT_CHARS = 64 << 10
_VALUE_CHARS = 4000
_SPECIALS = re.compile(r'[()<>\[\]:;@\\,."]')
_BROKEN = (
    mail_errors.MessageError, LookupError, ValueError, RecursionError, AttributeError, TypeError, AssertionError,
)  # fmt: skip
"""What the parser of the standard library raises for some headers."""
_header_class = functools.lru_cache(64)(headerregistry.HeaderRegistry().__getitem__)
"""The registry makes a class for each header that it is asked for."""
_DECIDING = {
    "auto-submitted": "autoSubmitted", "precedence": "precedence", "x-auto-response-suppress": "autoResponseSuppress",
    "x-autoreply": "autoReply", "x-autorespond": "autoReply", "list-id": "listId", "return-path": "returnPath",
    "importance": "importance",
}  # fmt: skip


def shown(name: str, value: str) -> str | None:
    """The text of a header; `name` in small letters, `value` without line breaks. None: the library has to be asked."""
    form = _FORMS.get(name)
    return None if form is None else form(value)


def _unstructured(value: str) -> str | None:
    if not _PLAIN.fullmatch(value):
        return None
    return value if "=?" not in value else None


def _word(encoded: str) -> str | None:
    """An encoded word (RFC 2047) that is one line of text, with no space beside another or at an end."""
    [(raw, charset)] = header.decode_header(encoded)
    try:
        said = raw.decode(charset)
    except UnicodeDecodeError:
        return None
    return said if said.isprintable() and said == " ".join(said.split()) else None


def _identity(value: str) -> str | None:
    return value if _IDENTITY.fullmatch(value) else None


def _date(value: str) -> str | None:
    if not value or not _PLAIN.fullmatch(value):
        return None
    try:
        return utils.format_datetime(utils.parsedate_to_datetime(value))
    except ValueError:
        return None


def _addresses(value: str) -> str | None:
    found, at = list[str](), 0
    while (one := _MAILBOX.match(value, at)) is not None:
        name = _word(one["encoded"]) if one["encoded"] else one["phrase"] or (one["quoted"] or "")[1:-1]
        if name is None:
            return None
        found.append(str(headerregistry.Address(name, one["user"] or one["bare"], one["domain"] or one["at"])))
        if one.end() == len(value):
            return ", ".join(found)
        if (comma := _NEXT.match(value, one.end())) is None:
            return None
        at = comma.end()
    return None


_FORMS: Mapping[str, Callable[[str], str | None]] = {
    "from": _addresses,
    "to": _addresses,
    "cc": _addresses,
    "date": _date,
    "message-id": _identity,
    "in-reply-to": _unstructured,
    "references": _unstructured,
    "subject": _unstructured,
}


def readable(name: str, value: str) -> str:
    """The text of a header on one line, as its reader sees it; as it arrived where it has no form."""
    name, value = name.lower(), value.replace("\r", "").replace("\n", "")
    if name == "references":
        return references(value)
    known = shown(name, value)
    if known is not None:
        return " ".join(known.split())
    if name in _ADDRESSES:
        return _people(name, value)
    return " ".join(mail_words.decoded(value).split())


def references(value: str) -> str:
    """The Message-IDs of a header: of many the first, which names the thread, and the latest."""
    ids = list(dict.fromkeys(_MESSAGE_ID.findall(value)))
    kept = ids if len(ids) <= _MOST_IDS else [ids[0], *ids[1 - _MOST_IDS :]]
    return " ".join(f"<{one}>" for one in kept) or " ".join(value.split())[:_VALUE_CHARS]


_ADDRESSES = frozenset({"from", "to", "cc", "reply-to", "sender"})


def _people(name: str, value: str) -> str:
    if len(value) <= _PARSED_CHARS and value.isascii():
        try:
            text = " ".join(str(_header_class(name)(name, value)).split())
        except _BROKEN:
            text = ""
        if text and "\ufffd" not in text and "=?" not in text and text.count("@") >= value.count("@"):
            return text.encode("utf-8", "replace").decode()
    people = addresses(value)
    return ", ".join(map(_person, people)) or mail_words.decoded(value)[:_VALUE_CHARS]


def addresses(value: str) -> list[tuple[str, str]]:
    """Name and address of each mailbox; either may be ""."""
    value = value.replace("\r", "").replace("\n", "")
    if len(value) > _SPLIT_CHARS:
        value = value[:_SPLIT_CHARS].rpartition(",")[0] or value[:_SPLIT_CHARS]
    try:
        pairs = utils.getaddresses([value])
    except _BROKEN:
        return []
    return [(mail_words.decoded(name), mail_words.decoded(address)) for name, address in pairs if name or address]


def _person(pair: tuple[str, str]) -> str:
    name, address = pair
    if not name or not address:
        return name or address
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' if _SPECIALS.search(name) else name
    return f"{quoted} <{address}>"


def moment(value: str) -> datetime | None:
    """The time of a Date header, or behind the last semicolon of a Received header."""
    try:
        when = utils.parsedate_to_datetime(mail_words.plain(value).rpartition(";")[2].strip())
    except _BROKEN:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def deciding(fields: list[tuple[str, str]], received: datetime | None) -> dict[str, Any]:
    """What decides who answers a mail and whether a person wrote it, by the names of the node's properties.

    Source: RFC 3834 (Auto-Submitted), RFC 2919 and RFC 2369 (List-), RFC 8058 (one click), RFC 5322 3.6.2 and 3.6.7.
    `received` is the time that the server gives; without it that of the last hop.
    """
    told: dict[str, Any] = {}
    for name, value in fields:
        lower = name.lower()
        if (property_ := _DECIDING.get(lower)) is not None:
            told.setdefault(property_, mail_words.decoded(value).strip()[:_VALUE_CHARS])
        elif lower in ("list-unsubscribe", "list-post"):
            urls = [found[:_VALUE_CHARS] for found in _URL.findall("".join(mail_words.plain(value).split()))]
            told.setdefault("listUnsubscribe" if lower == "list-unsubscribe" else "listPost", urls[:20])
        elif lower == "reply-to":
            told.setdefault("replyTo", [_person(one) for one in addresses(value) if one[1]][:50])
        elif lower == "sender":
            told.setdefault("sender", next((_person(one) for one in addresses(value)), ""))
        elif lower == "received" and received is None:
            received = moment(value)
    if received is not None:
        told["receivedAt"] = received.astimezone(UTC).isoformat()
    return {name: value for name, value in told.items() if value not in ("", [])}
