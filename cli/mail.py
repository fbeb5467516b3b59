"""A mail file: what its headers say about the task that it becomes, and its text as a task holds it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from email import errors as mail_errors
from email import message_from_bytes, policy
from email.message import EmailMessage

from cli import attached, errors

_HEADERS = ("From", "To", "Cc", "Date", "Message-ID", "Subject")


@dataclass(frozen=True)
class Mail:
    """`urn` identifies the message (seed 001: `email::<messageId>`), "" when it has no Message-ID.

    `text` is readable: headers decoded, then the plain text. `title` is the decoded subject. `files` is all that the
    message holds beside its text.
    """

    urn: str
    title: str
    text: str
    files: list[attached.File] = field(default_factory=list)


def read(raw: bytes) -> Mail:
    """Parse a message. Raises `Unusable` for something that is no mail or has no text."""
    try:
        message = message_from_bytes(raw, policy=policy.default)
        assert isinstance(message, EmailMessage)
        headers = {name: str(message[name]) for name in _HEADERS if message[name]}
        part = message.get_body(preferencelist=("plain", "html"))
        body = str(part.get_content()) if part is not None else ""
        files = attached.parts(message, part)
    except (mail_errors.MessageError, LookupError, ValueError) as error:
        raise _unusable(f"the message cannot be parsed ({error})") from error
    if not headers:
        raise _unusable("the file has none of the headers of a mail")
    if not body.strip():
        raise _unusable("the message has no text")
    lines = [f"{name}: {' '.join(value.split())}" for name, value in headers.items()]
    if files:
        lines.append(f"Attachments: {', '.join(file.name for file in files)}")
    identity = "".join(headers.get("Message-ID", "").split()).strip("<>")
    text = "\n".join([*lines, "", body.replace("\r\n", "\n").strip(), ""])
    return Mail(f"email::{identity}" if identity else "", " ".join(headers.get("Subject", "").split()), text, files)


def _unusable(why: str) -> errors.Unusable:
    return errors.Unusable(
        f"This is no usable mail: {why}.",
        field="FILE",
        remedy="Give an RFC 5322 message with a text part, or set --type to submit the file as it is.",
    )
