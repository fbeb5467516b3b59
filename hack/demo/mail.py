"""An RFC 822 message as the text that a mail connection hands to a task: headers decoded, plain text."""

from __future__ import annotations

from dataclasses import dataclass
from email import message_from_bytes, policy

_HEADERS = ("From", "To", "Cc", "Date", "Subject")


@dataclass(frozen=True)
class Mail:
    """`urn` identifies the message (seed 001: `email::<messageId>`)."""

    urn: str
    text: str


def read(raw: bytes) -> Mail:
    """Parse a message. Raises ValueError for one without a Message-ID or without a readable text part."""
    message = message_from_bytes(raw, policy=policy.default)
    identity = str(message.get("Message-ID", "")).strip().strip("<>")
    if not identity:
        raise ValueError("the message has no Message-ID")
    body = message.get_body(preferencelist=("plain",))
    if body is None:
        raise ValueError("the message has no text/plain part")
    headers = [f"{name}: {message[name]}" for name in _HEADERS if message[name]]
    names = [part.get_filename() for part in message.iter_attachments()]
    attached = [f"Attachments: {', '.join(name for name in names if name)}"] if any(names) else []
    text = str(body.get_content()).replace("\r\n", "\n").strip()
    return Mail(f"email::{identity}", "\n".join([*headers, *attached, "", text, ""]))
