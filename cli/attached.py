"""Files that go along with a task: parts of a mail, and files that were named with --attach."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage, MIMEPart
from pathlib import Path

from cli import errors, printable

_UNKNOWN = "application/octet-stream"
_TYPE = re.compile(r"^[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+$")
_NAME_CHARS = 255
_SIGNATURES = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_WORDS = frozenset({"text/plain", "text/html"})


@dataclass(frozen=True)
class File:
    """`name` as it arrived, without folders; `media_type` an IANA media type."""

    name: str
    media_type: str
    body: bytes


def named(path: str) -> File:
    """A file of the disk. Raises `Unusable`."""
    try:
        body = Path(path).read_bytes()
    except OSError as error:
        raise errors.Unusable(
            f"{path!r} cannot be read: {error.strerror}.", field="--attach", remedy="Name a readable file."
        ) from error
    if not body:
        raise errors.Unusable(f"{path!r} is empty.", field="--attach", remedy="Leave it out.")
    return File(_name(path, "attachment"), mimetypes.guess_type(path)[0] or _UNKNOWN, body)


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
            found.append(File(_name(part.get_filename() or "", unnamed), kind if _TYPE.match(kind) else _UNKNOWN, raw))
    return found


def _leaves(part: EmailMessage, *, alternative: bool = False) -> Iterator[EmailMessage]:
    """In order. A forwarded mail is one leaf; of alternatives those that are the text in another form are none."""
    if part.get_content_maintype() != "multipart":
        if not (alternative and part.get_content_type() in _WORDS and not part.is_attachment()):
            yield part
        return
    for one in part.iter_parts():
        assert isinstance(one, EmailMessage)
        yield from _leaves(one, alternative=part.get_content_type() == "multipart/alternative")


def _bytes(part: EmailMessage) -> bytes:
    content = part.get_content()
    if isinstance(content, str):
        return content.encode("utf-8", "replace")
    return content if isinstance(content, bytes) else bytes(content)


def _name(given: str, otherwise: str) -> str:
    plain = printable.line(given.replace("\\", "/").rpartition("/")[2])
    return (plain or otherwise)[-_NAME_CHARS:]
