"""A mail in the form of a task: its text, its URN, and the files that it holds. Pure.

The command line and the sources make tasks of mails; both must make the same one.
"""

from __future__ import annotations

import functools
import hashlib
import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import errors as mail_errors
from email import message_from_bytes
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage, MIMEPart
from email.policy import EmailPolicy
from typing import Any

from crds import pendingtask
from text import invitations, mail_headers

_HEADERS = ("From", "To", "Cc", "Date", "Message-ID", "In-Reply-To", "References", "Subject")
_HEADER_CHARS = 4096
_HEAD_CHARS = 1 << 20
"""Of all headers of a mail, those of its parts included."""
_LINES = 2_000_000
"""32 MiB of base64 are 450,000."""
_PARTS = 2000
_URN_CHARS = 900
UNKNOWN_TYPE = "application/octet-stream"
_TYPE = re.compile(r"^[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+$")
_NAME_CHARS = 255
_MOST_NAMED = 20
_MOST_CALENDARS = 4
_CALENDAR = "text/calendar"
_SIGNATURES = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_WORDS = frozenset({"text/plain", "text/html"})

_BROKEN = (
    mail_errors.MessageError, LookupError, ValueError, RecursionError, AttributeError, TypeError, AssertionError,
)  # fmt: skip
"""What the parser of the standard library raises for some headers and parts."""


_header_class = functools.lru_cache(128)(HeaderRegistry().__getitem__)
"""The registry makes a class for each header that it is asked for."""


def _header_object(name: str, value: str) -> Any:
    return _header_class(name.lower())(name, value)


class UnreadableError(ValueError):
    """These bytes are no mail, or it cannot be taken apart; the text says why."""


@dataclass(frozen=True)
class File:
    """`name` as it arrived, without folders; `media_type` an IANA media type."""

    name: str
    media_type: str
    body: bytes


@dataclass(frozen=True)
class Mail:
    """`message_id` without its brackets, "" when it has none; `title` the decoded subject.

    `text` is readable: headers decoded, then the plain text and the events of invitations. `body`: there is more than
    headers. `files` is all that the message holds beside its text; a task holds the first 32 of them, and the text
    names those that it does not.
    """

    message_id: str
    title: str
    text: str
    body: bool = True
    files: list[File] = field(default_factory=list)

    @property
    def urn(self) -> str:
        """`email::<messageId>` of seed 001; "" without a Message-ID. One that is too long for a URN is hashed."""
        if len(self.message_id) > _URN_CHARS:
            return f"email::{hashlib.sha256(self.message_id.encode()).hexdigest()}"
        return f"email::{self.message_id}" if self.message_id else ""


class _Bounded(EmailPolicy):
    """The default policy with headers of a bounded length: `email` parses them in time that grows faster than they do,
    and again each time that it looks at one. `seen` has the characters of those that were read until now, `parsed`
    the headers of this mail, `parts` how many it has."""

    seen: list[int] = []  # noqa: RUF012  # policies take their settings as class attributes
    parsed: dict[tuple[str, str], Any] = {}  # noqa: RUF012
    parts: list[int] = []  # noqa: RUF012

    def message_factory(self, policy: _Bounded) -> EmailMessage:  # type: ignore[override]  # the stub knows attributes
        """One more part. Raises `UnreadableError` once there are too many: the time for each is a tenth of a
        millisecond or more, and a mail of 32 MiB has room for a million."""
        self.parts[0] += 1
        if self.parts[0] > _PARTS:
            raise UnreadableError(f"it has more than {_PARTS} parts")
        return EmailMessage(policy=policy)

    def header_fetch_parse(self, name: str, value: str) -> Any:
        """As `EmailPolicy`, once for each value; the text alone of a header in a usual form."""
        at = name, value
        found = self.parsed.get(at)
        if found is None:
            found = mail_headers.shown(name.lower(), value.replace("\r", "").replace("\n", ""))
            if found is None:
                found = super().header_fetch_parse(name, value)
            self.parsed[at] = found
        return found

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Raises `UnreadableError` once there are too many."""
        name, value = super().header_source_parse(sourcelines)
        self.seen[0] += len(value)
        if self.seen[0] > _HEAD_CHARS:
            raise UnreadableError(f"its headers have more than {_HEAD_CHARS} characters")
        return name, value[:_HEADER_CHARS]


def read(raw: bytes) -> Mail:
    """Parse a message (RFC 5322, RFC 2045). Raises `UnreadableError`."""
    if raw.count(b"\n") + raw.count(b"\r") - raw.count(b"\r\n") > _LINES:
        raise UnreadableError(f"it has more than {_LINES} lines")
    try:
        rules = _Bounded(header_factory=_header_object, seen=[0], parsed={}, parts=[0])  # type: ignore[call-overload]  # its stub has no fields of ours
        message = message_from_bytes(raw, policy=rules)
        assert isinstance(message, EmailMessage)
        raw_headers = dict(reversed([(name.lower(), (name, value)) for name, value in message.raw_items()]))
        shown = {name: said for name in _HEADERS if (said := _header(rules, raw_headers.get(name.lower())))}
        part = message.get_body(preferencelist=("plain", "html"))
        body = _text(str(part.get_content())) if part is not None else ""
        files = parts(message, part)
        calendars = [file for file in files if file.media_type == _CALENDAR][:_MOST_CALENDARS]
        events = {id(file): event for file in calendars if (event := invitations.read(file.body))}
    except UnreadableError:
        raise
    except _BROKEN as error:
        raise UnreadableError(f"the message cannot be parsed ({error})") from error
    if not shown:
        raise UnreadableError("it has none of the headers of a mail")
    lines = [f"{name}: {' '.join(value.split())}" for name, value in shown.items()]
    files = [file for file in files if id(file) not in events]
    taken, left = files[: pendingtask.MOST_ATTACHMENTS], files[pendingtask.MOST_ATTACHMENTS :]
    if taken:
        lines.append(f"Attachments: {', '.join(file.name for file in taken)}")
    if left:
        more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
        names = ", ".join(file.name for file in left[:_MOST_NAMED])
        lines.append(f"Attachments-Not-Taken: {names}{more} (a task holds at most {len(taken)})")
    # Programs send an invitation twice in one mail, for two kinds of readers.
    body = "\n\n".join([body.replace("\r\n", "\n").strip(), *dict.fromkeys(map(_text, events.values()))]).strip()
    text = "\n".join([*lines, "", body, ""])
    identity = "".join(shown.get("Message-ID", "").split()).strip("<>")
    return Mail(identity, " ".join(shown.get("Subject", "").split()), text, bool(body.strip()), files)


def parts(message: EmailMessage, body: MIMEPart | None) -> list[File]:
    """What a mail holds beside `body`, its text: attachments, inline images, forwarded mails, further texts.

    Left out are the other forms of the same text, signatures, and parts without content. Raises what `email` raises.
    """
    found = []
    for number, part in enumerate(_leaves(message), start=1):
        kind = part.get_content_type()
        if part is body or kind in _SIGNATURES:
            continue
        raw = _bytes(part)
        if raw.strip():
            unnamed = f"part-{number}{mimetypes.guess_extension(kind) or ''}"
            name = file_name(part.get_filename() or "", unnamed)
            found.append(File(name, kind if _TYPE.match(kind) else UNKNOWN_TYPE, raw))
    return found


def file_name(given: str, otherwise: str) -> str:
    """The last part of a path, on one line, without what steers a terminal; `otherwise` when nothing is left."""
    last = given.replace("\\", "/").rpartition("/")[2]
    plain = " ".join("".join(char if char.isprintable() else " " for char in last).split())
    return (plain or otherwise)[-_NAME_CHARS:]


def is_type(text: str) -> bool:
    """Whether it has the form of a media type."""
    return _TYPE.match(text) is not None


def _leaves(part: EmailMessage, *, alternative: bool = False) -> Iterator[EmailMessage]:
    """In order. A forwarded mail is one leaf; of alternatives those that are the text in another form are none."""
    if part.get_content_maintype() != "multipart":
        if not (alternative and part.get_content_type() in _WORDS and not part.is_attachment()):
            yield part
        return
    for one in part.iter_parts():
        assert isinstance(one, EmailMessage)
        yield from _leaves(one, alternative=part.get_content_type() == "multipart/alternative")


def _header(rules: _Bounded, raw: tuple[str, str] | None) -> str:
    """Decoded; as it arrived where the parser fails on it, as on `To: <`."""
    if raw is None:
        return ""
    try:
        said = str(rules.header_fetch_parse(*raw) or "")
    except _BROKEN:
        said = str(raw[1])
    return _text(said)[:_HEADER_CHARS].strip()


def _text(said: str) -> str:
    """Letters that UTF-8 does not have are replaced: some charsets (UTF-7) spell them."""
    return said.encode("utf-8", "replace").decode()


def _bytes(part: EmailMessage) -> bytes:
    content = part.get_content()
    if isinstance(content, str):
        return content.encode("utf-8", "replace")
    return content if isinstance(content, bytes) else bytes(content)
