"""The arguments of sendMail: addresses, header fields and attachments that can be written into a mail as they are."""

from __future__ import annotations

import email
import re
from collections.abc import Callable
from email import errors as mail_errors
from email import policy, utils
from email.headerregistry import Address
from email.message import EmailMessage
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from crds import values

MOST_RECIPIENTS = 50
MOST_FILES = 32
FILES_BYTES = 20 << 20
"""Bytes of all attachments of a mail: what servers commonly take, less the third that base64 adds."""


_ADDRESS = re.compile(r"(?:(?P<name>[^<>]*)<(?P<in>[^<>]+)>|(?P<plain>[^<>]+))")
_PLAIN = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")


def _address(text: str) -> str:
    """One address, of a dot-atom and a domain (RFC 5321, 4.1.2), with a name or without."""
    found = _ADDRESS.fullmatch(text.strip())
    plain = ((found["in"] or found["plain"]) if found else "").strip()
    if found is None or not _PLAIN.fullmatch(plain):
        raise ValueError("is no mail address of ASCII characters as in name@example.com")
    try:
        return str(Address((found["name"] or "").strip().strip('"'), addr_spec=plain))
    except (mail_errors.MessageError, ValueError, IndexError) as error:
        raise ValueError("is no mail address") from error


def _line(text: str) -> str:
    if any(ord(letter) < 32 or ord(letter) == 127 or letter in "\x85\u2028\u2029" for letter in text):
        raise ValueError("must be one line without control characters")
    return text


def _written(field: str) -> Callable[[str], str]:
    """A value that is one header field when it is written: an encoded word may say the end of a line (RFC 2047), which
    some versions of Python decode into one."""

    def check(text: str) -> str:
        made = EmailMessage(policy=policy.SMTP)
        try:
            if field == "filename":
                made.add_attachment(b"", maintype="application", subtype="octet-stream", filename=text)
                [made] = made.iter_attachments()
            else:
                made[field] = text
            raw = made.as_bytes()
        except (mail_errors.MessageError, ValueError, LookupError, IndexError) as error:
            raise ValueError("cannot be written into the head of a mail") from error
        read = email.message_from_bytes(raw)
        if read.keys() != made.keys() or str(read.get_payload()).strip():
            raise ValueError("holds an encoded word with the end of a line")
        return text

    return check


_Line = AfterValidator(_line)
_Address = Annotated[
    str, Field(min_length=3, max_length=998), _Line, AfterValidator(_address), AfterValidator(_written("To"))
]
_Addresses = Annotated[tuple[_Address, ...], Field(max_length=MOST_RECIPIENTS)]
_MessageId = Annotated[
    str, Field(max_length=500, pattern=r"^<[^<>\s]+@[^<>\s]+>$"), _Line, AfterValidator(_written("In-Reply-To"))
]


class _Arguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Attachment(_Arguments):
    """A file that the knowledge base stores, visible to the run."""

    name: Annotated[
        str, Field(min_length=1, max_length=255, pattern=r"^[^/\\]+$"), _Line, AfterValidator(_written("filename"))
    ]
    media_type: Annotated[str, Field(max_length=127, pattern=r"^[a-z0-9.+-]+/[A-Za-z0-9.+_-]+$")]
    content_ref: values.ContentRef


class SendMail(_Arguments):
    """A mail of plain text. `inReplyTo` and `references` are Message-IDs with their angle brackets."""

    to: _Addresses
    cc: _Addresses = ()
    bcc: _Addresses = ()
    subject: Annotated[str, Field(min_length=1, max_length=500), _Line, AfterValidator(_written("Subject"))]
    text: Annotated[str, Field(min_length=1, max_length=262_144)]
    attachments: Annotated[tuple[Attachment, ...], Field(max_length=MOST_FILES)] = ()
    in_reply_to: _MessageId | None = None
    references: Annotated[tuple[_MessageId, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _some(self) -> SendMail:
        count = len(self.to) + len(self.cc) + len(self.bcc)
        if not 1 <= count <= MOST_RECIPIENTS:
            raise ValueError(f"to, cc and bcc name {count} recipients, 1 to {MOST_RECIPIENTS} are taken")
        if sum(one.content_ref.bytes for one in self.attachments) > FILES_BYTES:
            raise ValueError(f"attachments have more than {FILES_BYTES} bytes together")
        return self

    @property
    def recipients(self) -> tuple[str, ...]:
        """The plain addresses, each once."""
        return tuple(dict.fromkeys(utils.parseaddr(one)[1] for one in (*self.to, *self.cc, *self.bcc)))
