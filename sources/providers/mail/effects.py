"""sendMail: one mail by the server of `spec.smtp` (RFC 5321, 6409).

smtplib of the standard library in a thread, as the notices do: one mail at a time is enough. The conversation is led to
the answer 354 of DATA before the ledger says Sent, so that everything that a server refuses by then (login, sender, any
of the recipients) is certain not to have been sent. SMTP cannot be asked whether a mail was taken: what is lost after
that point stays Unknown. The Message-ID is made of the effect's key, so a person can look for it.
"""

from __future__ import annotations

import asyncio
import re
import smtplib
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from email import policy, utils
from email.message import EmailMessage
from urllib.parse import urlsplit

from crds import connection
from sources.core import host_address, hosts, port, rest
from sources.effects import effect_protocol, tools
from sources.effects.mail_arguments import Attachment, SendMail

_SECONDS = 20.0
"""Seconds of silence of the server."""


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
    """The Message-ID, which is the same for the same key."""
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


class Mail(effect_protocol.Effect):
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

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Evidence:
        """SMTP has no such question."""
        return effect_protocol.Evidence()

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


async def opened(request: tools.EffectRequest, means: tools.Means) -> Mail:
    """One mail of a Connection. Raises `port.Misconfigured`, and what loading its files raises."""
    asked = request.arguments
    assert isinstance(asked, SendMail)
    files = [await _file(number, attachment, request, means) for number, attachment in enumerate(asked.attachments)]
    return open_mail(
        request.target.spec,
        request.target.smtp,
        asked,
        files,
        mark=request.mark,
        now=means.wall(),
        tls=means.tls,
        plain=means.plain,
        reached=means.reached,
    )


async def _file(number: int, attachment: Attachment, request: tools.EffectRequest, means: tools.Means) -> bytes:
    body = await means.load(request.owner, attachment.content_ref.key)
    if len(body) != attachment.content_ref.bytes:
        raise port.Misconfigured(
            f"the stored content has {len(body)} bytes",
            field=f"arguments.attachments.{number}.contentRef",
            remedy="Give the contentRef as the knowledge base gave it.",
        )
    return body


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
    host_address.refuse_login(spec.smtp.url, "spec.smtp.url")
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
