"""The arguments of sendMail. Every value is decoded text, which `text.outgoing_mail` encodes once."""

from __future__ import annotations

import re
from typing import Annotated

import idna
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from crds import values
from text.outgoing_mail import Mailbox

MOST_RECIPIENTS = 50
MOST_FILES = 32
FILES_BYTES = 20 << 20
"""Bytes of all attachments of a mail: what servers commonly take, less the third that base64 adds."""


_ADDRESS = re.compile(r"(?P<name>[^<>]*)<(?P<in>[^<>]+)>|(?P<plain>[^<>]+)")
_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_DOMAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LOCAL_CHARS = 64


def mailbox(text: str) -> Mailbox:
    """One address of a dot-atom and a domain (RFC 5321 4.1.2), with a name or without; a domain of other letters gets
    its form in ASCII (IDNA 2008, by the rules of UTS 46). Raises `ValueError`."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        raise ValueError("is no mail address as in name@example.com")
    local, at, domain = (match["in"] or match["plain"]).strip().rpartition("@")
    if not at or not _LOCAL.fullmatch(local) or len(local) > _LOCAL_CHARS:
        raise ValueError("is no mail address whose part before the @ is of ASCII, as in name@example.com")
    if not domain.isascii():
        try:
            domain = idna.encode(domain, uts46=True).decode("ascii")
        except idna.IDNAError as error:
            raise ValueError("is no mail address: there can be no such domain") from error
    if not _DOMAIN.fullmatch(domain) or ".." in domain:
        raise ValueError("is no mail address: there can be no such domain")
    name = (match["name"] or "").strip()
    quoted = _QUOTED.fullmatch(name)
    return Mailbox(f"{local}@{domain}", re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else name)


def _address(text: str) -> str:
    mailbox(text)
    return text.strip()


def _line(text: str) -> str:
    if any(ord(letter) < 32 or ord(letter) == 127 or letter in "\x85\u2028\u2029" for letter in text):
        raise ValueError("must be one line without control characters")
    return text


_Line = AfterValidator(_line)
_Address = Annotated[str, Field(min_length=3, max_length=998), _Line, AfterValidator(_address)]
_Addresses = Annotated[tuple[_Address, ...], Field(max_length=MOST_RECIPIENTS)]
_MessageId = Annotated[str, Field(max_length=500, pattern=r"^<[!-;=?-~]+@[!-;=?-~]+>$"), _Line]


class _Arguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Attachment(_Arguments):
    """A file that the knowledge base stores, visible to the run."""

    name: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^/\\]+$"), _Line]
    media_type: Annotated[str, Field(max_length=127, pattern=r"^[a-z0-9.+-]+/[A-Za-z0-9.+_-]+$")]
    content_ref: values.ContentRef


class SendMail(_Arguments):
    """A mail of plain text. Values are text as a reader sees it, not encoded words; `inReplyTo` and `references` are
    Message-IDs with their angle brackets."""

    to: _Addresses
    cc: _Addresses = ()
    bcc: _Addresses = ()
    subject: Annotated[str, Field(min_length=1, max_length=500), _Line]
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
        return tuple(dict.fromkeys(mailbox(one).address for one in (*self.to, *self.cc, *self.bcc)))
