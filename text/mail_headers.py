"""Headers of mails in their usual forms, as `email`'s default policy shows them. Pure.

That policy splits a header into a tree of tokens, which takes more time than all else of a mail. `shown` answers the
same text for a form that it knows, and None for all others: the caller then asks the library. Source: RFC 5322 3.2.3
(atoms), 3.4 (addresses), 3.6.4 (identification); RFC 2045 5.1 (parameters).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from email import header, headerregistry, utils

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
_NAME = r"[A-Za-z0-9!#$&+.^_`{|}~-]++"  # without "*", "%" and "'", which RFC 2231 gives a meaning
_TYPE = re.compile(rf"{_NAME}/{_NAME}")
_PARAMETER = re.compile(rf';[ \t]*+(?P<name>{_NAME})=(?:(?P<token>{_NAME})|"(?P<quoted>[A-Za-z0-9=_.:/+-]++)")')
_ENCODINGS = frozenset({"7bit", "8bit", "binary", "base64", "quoted-printable"})


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


def _content_type(value: str) -> str | None:
    kind = _TYPE.match(value)
    if kind is None:
        return None
    found, at = dict[str, str](), kind.end()
    while at < len(value):
        one = _PARAMETER.match(value, at)
        if one is None or one["name"].lower() in found:
            return None
        found[one["name"].lower()] = f'{one["name"]}="{one["token"] or one["quoted"]}"'
        at = one.end()
    return f"{kind[0]}; {'; '.join(found.values())}" if found else kind[0]


def _encoding(value: str) -> str | None:
    return value if value.lower() in _ENCODINGS else None


_FORMS: Mapping[str, Callable[[str], str | None]] = {
    "from": _addresses,
    "to": _addresses,
    "cc": _addresses,
    "date": _date,
    "message-id": _identity,
    "in-reply-to": _unstructured,
    "references": _unstructured,
    "subject": _unstructured,
    "content-type": _content_type,
    "content-transfer-encoding": _encoding,
}
