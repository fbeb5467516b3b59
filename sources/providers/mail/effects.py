"""sendMail: one mail by the server of `spec.smtp` (RFC 5321, 6409).

smtplib of the standard library in a thread, as the notices do: one mail at a time is enough. The conversation is led to
the answer 354 of DATA before the ledger says Sent, so that everything that a server refuses by then (login, sender, any
of the recipients) is certain not to have been sent. SMTP cannot be asked whether a mail was taken: what is lost after
that point stays Unknown. The Message-ID is made of the effect's key, so a person can look for it.
"""

from __future__ import annotations

import asyncio
import email
import re
import smtplib
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from email import errors as mail_errors
from email import policy, utils
from email.headerregistry import Address
from email.message import EmailMessage
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from crds import connection, values
from sources.core import hosts, port, rest
from sources.effects import effect_protocol

MOST_RECIPIENTS = 50
MOST_FILES = 32
FILES_BYTES = 20 << 20
"""Of all attachments of a mail: what servers commonly take, less the third that base64 adds."""
_SECONDS = 20.0
"""Of silence of the server."""


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


def message(asked: SendMail, files: Sequence[bytes], sender: str, mark: str, now: datetime) -> EmailMessage:
    """The mail; `files` are the bytes of its attachments."""
    made = EmailMessage(policy=policy.SMTP)
    made["From"], made["Subject"], made["Date"] = sender, asked.subject, utils.format_datetime(now)
    for name, addresses in (("To", asked.to), ("Cc", asked.cc)):
        if addresses:
            made[name] = ", ".join(addresses)
    made["Message-ID"] = message_id(mark, sender)
    if asked.in_reply_to:
        made["In-Reply-To"] = asked.in_reply_to
    if asked.references or asked.in_reply_to:
        chain = [*asked.references, *([asked.in_reply_to] if asked.in_reply_to else [])]
        made["References"] = " ".join(dict.fromkeys(chain))
    # No vacation message answers it (RFC 3834).
    made["Auto-Submitted"] = "auto-generated"
    made.set_content(asked.text, cte="quoted-printable")
    for one, body in zip(asked.attachments, files, strict=True):
        kind, _, subtype = one.media_type.partition("/")
        # A part of another mail would be parsed, and a text be decoded: all of them travel as they are.
        if kind in ("multipart", "message"):
            kind, subtype = "application", "octet-stream"
        made.add_attachment(body, maintype=kind, subtype=subtype, filename=one.name)
    return made


def message_id(mark: str, sender: str) -> str:
    """The same for the same key."""
    return f"<jervis.{mark}@{sender.rpartition('@')[2]}>"


@dataclass(frozen=True, slots=True)
class Server:
    """`plain`: smtp:// without STARTTLS is allowed. `access` is an access token in place of the password."""

    url: str
    username: str
    password: str
    tls: ssl.SSLContext
    plain: bool
    access: str = ""
    reached: hosts.Hosts = hosts.LOCAL


class _Smtp(smtplib.SMTP):
    def __init__(self, server: Server, host: str, number: int, named: str) -> None:
        self._server = server
        super().__init__(host, number, named, timeout=_SECONDS)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._server.reached.connect(host, port, timeout)


class _Encrypted(_Smtp):
    """TLS from the first byte on."""

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._server.tls.wrap_socket(super()._get_socket(host, port, timeout), server_hostname=host)


class Mail(effect_protocol.Doing):
    """One mail on its way."""

    def __init__(self, server: Server, mail: EmailMessage, sender: str, recipients: Sequence[str]) -> None:
        self._server, self._mail, self._sender, self._recipients = server, mail, sender, recipients
        self._smtp: smtplib.SMTP | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="smtp")

    async def prepare(self) -> effect_protocol.Before:
        """Lead the conversation to the point where only the mail is missing."""
        await self._run(self._open)
        return {"messageId": str(self._mail["Message-ID"])}

    async def send(self, before: effect_protocol.Before) -> effect_protocol.Result:
        """Hand the mail over."""
        await self._run(self._hand_over)
        return {"messageId": str(before["messageId"])}

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Asked:
        """SMTP has no such question."""
        return effect_protocol.Asked()

    async def close(self) -> None:
        """Without an answer: the server has given its own, or has to forget the mail."""
        if self._smtp is not None:
            self._smtp.close()
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self) -> None:
        parts, where = urlsplit(self._server.url), "spec.smtp"
        host, secure = parts.hostname or "", parts.scheme == "smtps"
        named = self._sender.rpartition("@")[2]  # our own name would be looked up otherwise, which may take seconds
        try:
            smtp = (_Encrypted if secure else _Smtp)(self._server, host, parts.port or (465 if secure else 587), named)
            self._smtp = smtp
            smtp.ehlo_or_helo_if_needed()
            if not secure and smtp.has_extn("starttls"):
                smtp.starttls(context=self._server.tls)
                smtp.ehlo_or_helo_if_needed()
            elif not secure and not self._server.plain:
                raise port.Misconfigured(
                    f"{host} offers no STARTTLS.",
                    field="spec.smtp.url",
                    remedy="Use smtps://, or a server with STARTTLS.",
                )
            if smtp.has_extn("auth") and self._server.access:
                answer = f"user={self._server.username}\1auth=Bearer {self._server.access}\1\1"
                # A second question has the reason of a refusal, and is answered by nothing.
                smtp.auth("XOAUTH2", lambda challenge=None: "" if challenge else answer)
            elif smtp.has_extn("auth"):
                smtp.login(self._server.username, self._server.password)
            self._envelope(smtp)
        except smtplib.SMTPAuthenticationError as error:
            raise port.Rejected(
                f"{host} refuses the login: {_said(error.smtp_error)}",
                field=f"{where}.secretRef",
                remedy="Correct username and password in the Secret.",
            ) from error
        except smtplib.SMTPResponseException as error:
            raise _refusal(host, error.smtp_code, error.smtp_error, "spec.smtp") from error
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise rest.Untouched(f"{host} did not answer: {type(error).__name__} {str(error)[:200]}") from error

    def _envelope(self, smtp: smtplib.SMTP) -> None:
        host = str(urlsplit(self._server.url).hostname)
        code, said = smtp.mail(self._sender)
        if code != 250:
            raise _refusal(host, code, said, "spec.smtp.from")
        for one in self._recipients:
            code, said = smtp.rcpt(one)
            if code not in (250, 251):
                # All or none: a mail that reached some could not be sent again to the others under its key.
                raise _refusal(host, code, said, "arguments.to", of=one)
        code, said = smtp.docmd("DATA")
        if code != 354:
            raise _refusal(host, code, said, "arguments")

    def _hand_over(self) -> None:
        smtp, host = self._smtp, str(urlsplit(self._server.url).hostname)
        assert smtp is not None
        raw = self._mail.as_bytes()
        dotted = re.sub(rb"(?m)^\.", b"..", raw if raw.endswith(b"\r\n") else raw + b"\r\n")
        try:
            smtp.send(dotted + b".\r\n")
            code, said = smtp.getreply()
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise effect_protocol.Ambiguous(
                f"{host} was given the mail and did not answer: {type(error).__name__}"
            ) from error
        if code != 250:
            raise _refusal(host, code, said, "arguments")


def open_mail(
    spec: connection.Spec,
    credentials: Mapping[str, str],
    asked: SendMail,
    files: Sequence[bytes],
    *,
    mark: str,
    now: datetime,
    tls: ssl.SSLContext,
    plain: bool,
    reached: hosts.Hosts = hosts.LOCAL,
) -> Mail:
    """One mail of a Connection. `credentials` are the values of the Secret of spec.smtp, else of the Connection.
    Raises `port.Misconfigured`."""
    if spec.smtp is None:
        raise port.Misconfigured(
            "The Connection has no spec.smtp.", field="spec.smtp", remedy="Add the mail server that takes its mails."
        )
    username, password = credentials.get("username", ""), credentials.get("password", "")
    trusted = hosts.trusted(tls, credentials.get("ca.crt", ""))
    server = Server(spec.smtp.url, username, password, trusted, plain, credentials.get(port.ACCESS_KEY, ""), reached)
    sender = spec.smtp.from_
    return Mail(server, message(asked, files, sender, mark, now), sender, asked.recipients)


def _refusal(host: str, code: int, said: bytes | str, field: str, *, of: str = "") -> Exception:
    """5yz is for good, 4yz for now (RFC 5321, 4.2.1); in both cases the mail was not taken."""
    text = f"{host} answered {code}{f' for {of}' if of else ''}: {_said(said)}"
    if 400 <= code < 500 or code == -1:
        return rest.Untouched(text)
    return port.Misconfigured(text, field=field, remedy="Change what the server refuses, and ask again.")


def _said(text: bytes | str) -> str:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return " ".join(shown.split())[:300]
