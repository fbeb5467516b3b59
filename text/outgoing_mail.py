"""A mail as the bytes that are sent (RFC 5322, 2045, 2047, 2183, 2231). Pure, and the same in every version of Python.

A field is written by its structure, never by a text that is parsed again: a value is decoded text, what looks like an
encoded word in it is text too, and no value can end its line.

    text, as in Subject    words of ASCII, folded between them; else encoded words
    mailboxes, as in To    a name as a quoted string or as encoded words, and its address
    ids, as in References  never encoded (RFC 2047 5), folded between them
    name of a file         a quoted string; else RFC 2231
    body, files            quoted-printable, Base64

So every byte is one of ASCII and no line has more than 998: no extension of a mail server is needed.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email import utils
from urllib.parse import quote

_LINE, _LONGEST = 78, 998
"""Characters of a line: what is aimed at, and the most (RFC 5322 2.1.1)."""
_PART = re.compile(r"[ -~]+")
_WORDS = re.compile(r"[!-~]+(?: [!-~]+)*")
_QUOTABLE = re.compile(r"[ -~]{1,60}")
_NAME = re.compile(r"[A-Za-z][A-Za-z-]*")
_TYPE = re.compile(r"[A-Za-z0-9.+_-]+/[A-Za-z0-9.+_-]+")
_LINE_END, _LAST_END = re.compile(r"\r\n|\r|\n"), re.compile(r"(?:\r\n|\r|\n)\Z")
_ENCODED_BYTES = 45
"""In Base64 and its frame they are 72 characters; an encoded word has at most 75 (RFC 2047 2)."""
_PIECE = re.compile(r"(?:%[0-9A-F]{2}|[^%]){1,20}")
_ATTRIBUTE = "!#$&+-.^_`|~"
"""Characters that RFC 2231 leaves as they are, beside letters and digits."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """`address` is of ASCII, `name` any text or none."""

    address: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """An attachment."""

    name: str
    media_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Mail:
    """Ids have their angle brackets. `more` are further fields of text."""

    sender: Mailbox
    to: Sequence[Mailbox]
    subject: str
    text: str
    date: datetime
    message_id: str
    cc: Sequence[Mailbox] = ()
    in_reply_to: str = ""
    references: Sequence[str] = ()
    files: Sequence[File] = ()
    more: Mapping[str, str] = field(default_factory=dict)

    def written(self) -> bytes:
        """The mail, whose last line is ended. Raises `ValueError` for an address, an id or a type that has other
        characters than it may have."""
        # What the mail answers is the last of them, whether or not it was given twice.
        thread = [one for one in self.references if one != self.in_reply_to]
        thread = list(dict.fromkeys([*thread, *([self.in_reply_to] if self.in_reply_to else [])]))
        fields = [
            _field("From", _mailboxes([self.sender])),
            _field("Subject", _text(self.subject)),
            _field("Date", [utils.format_datetime(self.date)]),
            *(_field(name, _mailboxes(boxes)) for name, boxes in (("To", self.to), ("Cc", self.cc)) if boxes),
            _field("Message-ID", _ids([self.message_id])),
            *([_field("In-Reply-To", _ids([self.in_reply_to]))] if self.in_reply_to else []),
            *([_field("References", _ids(thread))] if thread else []),
            # No vacation message answers it (RFC 3834).
            _field("Auto-Submitted", ["auto-generated"]),
            *(_field(name, _text(value)) for name, value in self.more.items()),
            _field("MIME-Version", ["1.0"]),
        ]
        text = _part(["text/plain;", "charset=utf-8"], "quoted-printable", [], _quoted(self.text))
        if not self.files:
            return b"".join([*fields, text])
        # Neither Base64 nor quoted-printable has "=_" (RFC 2045 6.7, 6.8).
        boundary = f"=_{utils.parseaddr(self.message_id)[1].partition('@')[0][:60]}"
        if not re.fullmatch(r"[A-Za-z0-9._=-]+", boundary):
            raise ValueError("the id of a mail with files has letters, digits and . _ - before its @")
        parts = [text, *(_file(one) for one in self.files)]
        return b"".join(
            [
                *fields,
                _field("Content-Type", ["multipart/mixed;", f'boundary="{boundary}"']),
                b"\r\n",
                *(b"--%b\r\n%b" % (boundary.encode(), part) for part in parts),
                b"--%b--\r\n" % boundary.encode(),
            ]
        )


def _field(name: str, parts: Sequence[str]) -> bytes:
    """A header field, folded between its parts. Every field is written here, and no part can end the line."""
    if not _NAME.fullmatch(name) or not all(_PART.fullmatch(part) for part in parts):
        raise ValueError(f"a part of the field {name[:40]!r} is not of printable ASCII")
    lines, line = list[str](), f"{name}: {parts[0]}"
    for part in parts[1:]:
        if len(line) + 1 + len(part) > _LINE:
            lines.append(line)
            line = ""
        line += f" {part}"
    lines.append(line)
    if max(map(len, lines)) > _LONGEST:
        raise ValueError(f"a part of the field {name!r} is longer than a line")
    return "".join(f"{one}\r\n" for one in lines).encode("ascii")


def _text(value: str) -> list[str]:
    return value.split(" ") if _WORDS.fullmatch(value) and "=?" not in value else list(_encoded(value))


def _encoded(value: str) -> Iterator[str]:
    """Encoded words, each of whole characters; readers join them without the spaces between."""
    raw = b""
    for letter in value:
        more = letter.encode("utf-8", "replace")
        if len(raw) + len(more) > _ENCODED_BYTES:
            yield _word(raw)
            raw = b""
        raw += more
    yield _word(raw)


def _word(raw: bytes) -> str:
    return f"=?utf-8?b?{base64.b64encode(raw).decode()}?="


def _mailboxes(boxes: Sequence[Mailbox]) -> list[str]:
    parts = list[str]()
    for box in boxes:
        if not re.fullmatch(r"[!-;=?-~]+@[A-Za-z0-9.-]+", box.address) or "," in box.address:
            raise ValueError("an address is not of ASCII")
        if not box.name:
            parts.append(f"{box.address},")
            continue
        plain = _QUOTABLE.fullmatch(box.name) and "=?" not in box.name
        parts += [_string(box.name)] if plain else _encoded(box.name)
        parts.append(f"<{box.address}>,")
    parts[-1] = parts[-1].removesuffix(",")
    return parts


def _string(value: str) -> str:
    """A quoted string."""
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return f'"{escaped}"'


def _ids(ids: Sequence[str]) -> Sequence[str]:
    if not all(re.fullmatch(r"<[!-;=?-~]+>", one) for one in ids):
        raise ValueError("an id of a mail is not of printable ASCII in angle brackets")
    return ids


def _file(file: File) -> bytes:
    kind = file.media_type
    # A part of another mail would be parsed: all of them travel as they are.
    if not _TYPE.fullmatch(kind) or kind.lower().startswith(("multipart/", "message/")):
        kind = "application/octet-stream"
    body = base64.encodebytes(file.body).replace(b"\n", b"\r\n")
    return _part([kind], "base64", _named(file.name), body)


def _named(name: str) -> list[str]:
    """The parameter of Content-Disposition."""
    # Readers disagree about escaped quotes in a name.
    if _QUOTABLE.fullmatch(name) and "=?" not in name and '"' not in name:
        return [f"filename={_string(name)}"]
    pieces = _PIECE.findall(quote(name.encode("utf-8", "replace"), safe=_ATTRIBUTE))
    if len(pieces) == 1:
        return [f"filename*=utf-8''{pieces[0]}"]
    numbered = [f"filename*{number}*={piece};" for number, piece in enumerate(pieces)]
    numbered[0] = numbered[0].replace("*=", "*=utf-8''", 1)
    return [*numbered[:-1], numbered[-1].removesuffix(";")]


def _part(kind: Sequence[str], encoding: str, named: Sequence[str], body: bytes) -> bytes:
    fields = [_field("Content-Type", kind), _field("Content-Transfer-Encoding", [encoding])]
    if named:
        fields.append(_field("Content-Disposition", ["attachment;", *named]))
    return b"".join([*fields, b"\r\n", body])


def _quoted(text: str) -> bytes:
    """Every end of a line, of whatever system, is one of a mail."""
    lines = _LINE_END.split(_LAST_END.sub("", text))
    return b"".join(
        binascii.b2a_qp(line.encode("utf-8", "replace"), istext=False).replace(b"\n", b"\r\n") + b"\r\n"
        for line in lines
    )
