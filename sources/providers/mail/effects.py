"""sendMail: one mail by the server of `spec.smtp` (RFC 5321, 6409).

The conversation is led to the dot that ends the mail before the ledger says Sent, so that everything that a server
refuses by then (login, sender, any of the recipients, the size, a part of the mail), and a connection that is lost, is
certain not to have been sent. SMTP cannot be asked whether a mail was taken: what is lost after the dot, and what the
server says that is no reply, stays Unknown. The Message-ID is made of the effect's key, so a person can look for it.

A copy goes to the folder of the mailbox for sent mails (RFC 6154), once the mail is Done; nothing depends on it.
Notices about deliveries (RFC 3461) are not asked for: without a wish a server reports failures, to `spec.smtp.from`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import structlog

from clients import smtp
from crds import errors
from sources.core import host_address, hosts, port, rest
from sources.effects import effect_protocol, mail_arguments, tools
from sources.effects.mail_arguments import Attachment, SendMail
from sources.providers.mail import imap_session
from text import outgoing_mail

log = structlog.get_logger("sources")

REFUSED_SECONDS = 600.0
"""For which a login that was refused is not tried again: with most servers a few failures lock the account."""
_MOST_REFUSED = 1000
_ALIVE_SECONDS = 0.5
_COPY_SECONDS = 60.0


def message(asked: SendMail, files: Sequence[bytes], sender: str, mark: str, now: datetime) -> outgoing_mail.Mail:
    """The mail; `files` are the bytes of its attachments."""
    return outgoing_mail.Mail(
        sender=outgoing_mail.Mailbox(sender),
        to=[mail_arguments.mailbox(one) for one in asked.to],
        cc=[mail_arguments.mailbox(one) for one in asked.cc],
        subject=asked.subject,
        text=asked.text,
        date=now,
        message_id=message_id(mark, sender),
        in_reply_to=asked.in_reply_to or "",
        references=asked.references,
        files=[
            outgoing_mail.File(attachment.name, attachment.media_type, body)
            for attachment, body in zip(asked.attachments, files, strict=True)
        ],
    )


def message_id(mark: str, sender: str) -> str:
    """The Message-ID, which is the same for the same key."""
    return f"<jervis.{mark}@{sender.rpartition('@')[2]}>"


class RefusedLogins:
    """Those that a server refused for good, and when. A Secret that is corrected is another login."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, tuple[float, str]] = OrderedDict()

    def check(self, server: smtp.Server, now: float) -> None:
        """Raises `port.Rejected` for one of the last minutes."""
        since, said = self._known.get(_digest(server), (now - REFUSED_SECONDS, ""))
        if now - since < REFUSED_SECONDS:
            raise _rejected(f"{said} (it is not tried again before the Secret changes or minutes have passed)")

    def keep(self, server: smtp.Server, said: str, now: float) -> None:
        """The server refused it."""
        self._known[_digest(server)] = now, said
        while len(self._known) > _MOST_REFUSED:
            self._known.popitem(last=False)


def _digest(server: smtp.Server) -> bytes:
    parts = (server.host, str(server.port), server.user, server.password, server.access)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).digest()


@dataclass(frozen=True, slots=True)
class Mailbox:
    """Where the copy goes."""

    login: imap_session.Login

    async def keep(self, mail: bytes, message_id: str, now: datetime) -> None:
        """Put the copy there. An error is logged."""
        try:
            async with asyncio.timeout(_COPY_SECONDS):
                folder = await asyncio.to_thread(imap_session.keep_sent, self.login, mail, message_id, now)
        except (errors.JervisError, TimeoutError) as error:
            log.warning("a mail that was sent has no copy in the mailbox", cause=str(error)[:300] or "took too long")
        else:
            log.info("copy of a mail kept", folder=folder)


class Mail(effect_protocol.Effect):
    """One mail on its way. `alive` is called as long as the conversation goes on."""

    def __init__(
        self,
        server: smtp.Server,
        mail: outgoing_mail.Mail,
        recipients: Sequence[str],
        logins: RefusedLogins,
        *,
        monotonic: Callable[[], float],
        alive: tools.Alive = tools.unbounded,
        copies: Mailbox | None = None,
    ) -> None:
        self._server, self._mail, self._recipients, self._logins = server, mail, recipients, logins
        self._monotonic, self._alive, self._copies = monotonic, alive, copies
        self._client: smtp.Client | None = None
        self._raw = b""

    async def prepare(self) -> effect_protocol.Before:
        """Lead the conversation to the point where only the dot is missing."""
        self._logins.check(self._server, self._monotonic())
        try:
            await self._patiently(self._upload())
        except smtp.Failure as error:
            if isinstance(error, smtp.Refused) and error.step is smtp.Step.LOGIN and error.permanent:
                self._logins.keep(self._server, str(error), self._monotonic())
            raise _not_sent(error) from error
        return {"messageId": self._mail.message_id}

    async def send(self, before: effect_protocol.Before) -> effect_protocol.Result:
        """The dot."""
        assert self._client is not None
        try:
            await self._patiently(self._client.finish())
        except smtp.Refused as error:
            raise _not_sent(error) from error
        except smtp.Failure as error:
            raise effect_protocol.Ambiguous(f"The mail was handed over, and then: {error}") from error
        return {"messageId": str(before["messageId"])}

    async def settled(self) -> None:
        """Keep a copy."""
        if self._copies is not None:
            await self._copies.keep(self._raw, self._mail.message_id, self._mail.date)

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Evidence:
        """SMTP has no such question."""
        return effect_protocol.Evidence()

    async def close(self) -> None:
        """Hang up: the server has given its answer, or has to forget the mail."""
        if self._client is not None:
            await self._client.close()

    async def _upload(self) -> None:
        self._raw = await asyncio.to_thread(self._mail.written)
        self._client = await smtp.Client.open(self._server)
        await self._client.envelope(self._mail.sender.address, self._recipients, len(self._raw))
        await self._client.upload(self._raw)

    async def _patiently(self, conversation: Coroutine[Any, Any, None]) -> None:
        """The conversation bounds each of its steps itself."""
        task = asyncio.ensure_future(conversation)
        try:
            while not (await asyncio.wait([task], timeout=_ALIVE_SECONDS))[0]:
                await self._alive()
            await task
        finally:
            task.cancel()


def opens() -> tools.Opens:
    """What opens the mails of a process. Raises `port.Misconfigured`, and what loading the files of a mail raises."""
    logins = RefusedLogins()

    async def opened(request: tools.EffectRequest, means: tools.Means) -> Mail:
        asked, target = request.arguments, request.target
        assert isinstance(asked, SendMail)
        files = [await _file(number, one, request, means) for number, one in enumerate(asked.attachments)]
        server, sender = _server(target, means)
        mail = message(asked, files, sender, request.mark, means.wall())
        return Mail(
            server, mail, asked.recipients, logins,
            monotonic=means.monotonic, alive=request.alive, copies=_copies(target, means),
        )  # fmt: skip

    return opened


async def _file(number: int, attachment: Attachment, request: tools.EffectRequest, means: tools.Means) -> bytes:
    body = await means.load(request.owner, attachment.content_ref.key)
    if len(body) != attachment.content_ref.bytes:
        raise port.Misconfigured(
            f"the stored content has {len(body)} bytes",
            field=f"arguments.attachments.{number}.contentRef",
            remedy="Give the contentRef as the knowledge base gave it.",
        )
    return body


def _server(target: tools.Target, means: tools.Means) -> tuple[smtp.Server, str]:
    """Where a Connection sends, and as whom. Raises `port.Misconfigured`."""
    spec, secret = target.spec.smtp, target.smtp
    if spec is None:
        raise port.Misconfigured(
            "The Connection has no spec.smtp.", field="spec.smtp", remedy="Add the mail server that takes its mails."
        )
    host_address.refuse_login(spec.url, "spec.smtp.url")
    try:
        sender = mail_arguments.mailbox(spec.from_)
    except ValueError as error:
        raise port.Misconfigured(
            f"spec.smtp.from {error}.", field="spec.smtp.from", remedy="Give one address without a name."
        ) from error
    username, password = secret.get("username", ""), secret.get("password", "")
    if "\0" in username + password:
        raise port.Misconfigured(
            "A login by SMTP cannot have the character 0 (RFC 4616).",
            field="spec.smtp.secretRef",
            remedy="Correct username and password in the Secret.",
        )
    parts = urlsplit(spec.url)
    at_once = parts.scheme == "smtps"
    by_request = smtp.Encryption.OFFERED if means.plain else smtp.Encryption.REQUIRED
    server = smtp.Server(
        host=parts.hostname or "",
        port=parts.port or (465 if at_once else 587),
        name=sender.address.rpartition("@")[2],  # our own name would have to be looked up, which may take seconds
        tls=hosts.trusted(means.tls, secret.get("ca.crt", "")),
        encryption=smtp.Encryption.AT_ONCE if at_once else by_request,
        user=username,
        password=password,
        access=secret.get(port.ACCESS_KEY, ""),
        find=means.reached.called,
    )
    return server, sender.address


def _copies(target: tools.Target, means: tools.Means) -> Mailbox | None:
    """The mailbox of the Connection, where it is one of IMAP that can be opened."""
    if not target.spec.url.startswith("imap"):
        return None
    with suppress(port.Misconfigured):
        return Mailbox(
            imap_session.login(target.spec, target.credentials, means.tls, plain=means.plain, reached=means.reached)
        )
    return None


def _not_sent(error: smtp.Failure) -> errors.JervisError:
    """5yz is for good, 4yz and silence for now (RFC 5321 4.2.1); the mail was not taken."""
    text = str(error)
    match error:
        case smtp.Unencrypted():
            remedy = "Use smtps://, or a server with STARTTLS."
            return port.Misconfigured(text, field="spec.smtp.url", remedy=remedy)
        case smtp.NoMechanism():
            remedy = "Name a server that takes passwords, or one with OAuth (docs/connections.md)."
            return port.Misconfigured(text, field="spec.smtp.url", remedy=remedy)
        case smtp.TooLarge():
            return port.Misconfigured(text, field="arguments.attachments", remedy=_SMALLER)
        case smtp.Refused() if error.permanent:
            return _refused(error, text)
        case smtp.Refused(step=smtp.Step.LOGIN):
            return rest.Untouched(text, retry_after=_LOGIN_PAUSE)
        case _:
            return rest.Untouched(text)


def _refused(error: smtp.Refused, text: str) -> errors.JervisError:
    code, said = error.reply.code, error.reply.text
    if error.step is smtp.Step.LOGIN:
        return _rejected(text)
    if error.step is smtp.Step.SENDER and code == 530:
        remedy = "Add username and password to the Secret: the server asks for a login."
        return port.Misconfigured(text, field="spec.smtp.secretRef", remedy=remedy)
    # RFC 5321 4.2.3, RFC 3463 3.3 and 3.4: the mail is larger than the server or the mailbox takes.
    if error.step in (smtp.Step.SENDER, smtp.Step.MAIL) and (code == 552 or said.startswith(("5.3.4", "5.2.3"))):
        return port.Misconfigured(text, field="arguments.attachments", remedy=_SMALLER)
    remedy = "Change what the server refuses, and ask again."
    return port.Misconfigured(text, field=_FIELDS[error.step], remedy=remedy)


_LOGIN_PAUSE = 60.0
"""Seconds after a login that failed for now."""
_SMALLER = "Send less: fewer or smaller attachments."
_FIELDS: Mapping[smtp.Step, str] = {
    smtp.Step.SERVICE: "spec.smtp.url",
    smtp.Step.ENCRYPTION: "spec.smtp.url",
    smtp.Step.LOGIN: "spec.smtp.secretRef",
    smtp.Step.SENDER: "spec.smtp.from",
    smtp.Step.RECIPIENT: "arguments.to",
    smtp.Step.MAIL: "arguments",
}


def _rejected(text: str) -> port.Rejected:
    return port.Rejected(text, field="spec.smtp.secretRef", remedy="Correct username and password in the Secret.")
