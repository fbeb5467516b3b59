"""A notice as a mail: its text, and its way to the mail server of the installation.

A notice that is sent again has the same Message-ID, by which mail servers and readers know it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email import utils
from enum import StrEnum
from typing import Any

import orjson

from clients import smtp, tls_trust
from text import outgoing_mail

_SUBJECT_CHARS = 200
_SECONDS = 30.0
_AWAY = 15.0
"""Seconds for which a server that could not be reached is not asked: the webhooks of a round do not wait for it."""


class Security(StrEnum):
    """How the connection is encrypted: on request (port 587), from its beginning (port 465), or not at all."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Server:
    """`sender` is the From line; without a `host` no mail is sent; without a `user` there is no login."""

    host: str = ""
    port: int = 587
    security: Security = Security.STARTTLS
    sender: str = ""
    user: str = ""
    password: str = field(default="", repr=False)


class Mailer:
    """`context` makes the TLS context of a connection; `seconds` bounds each answer of the server."""

    def __init__(
        self,
        server: Server,
        *,
        wall: Callable[[], datetime],
        context: Callable[[], ssl.SSLContext] = tls_trust.context,
        seconds: float = 10.0,
    ) -> None:
        self._server, self._wall, self._context, self._seconds = server, wall, context, seconds
        self._away_until = float("-inf")
        self._slots = asyncio.Semaphore(2)

    async def send(self, address: str, notice_id: str, event: str, body: str) -> str:
        """Why the server did not take the mail, "" when it did. Never raises for what a server or network can do."""
        if not self._server.host:
            return "no mail server is set (operator.settings.noticeMailServer)"
        loop = asyncio.get_running_loop()
        if loop.time() < self._away_until:
            return f"{self._server.host} could not be reached, and is asked again in a few seconds"
        mail = message(self._server.sender, address, notice_id, event, orjson.loads(body), self._wall())
        try:
            async with asyncio.timeout(_SECONDS), self._slots:
                await self._hand_over(mail)
        except (smtp.Failure, TimeoutError, ValueError) as error:
            # What the server says of one mail says nothing of the next one.
            if not isinstance(error, smtp.Refused | ValueError):
                self._away_until = loop.time() + _AWAY
            return (str(error) or type(error).__name__)[:200]
        return ""

    async def _hand_over(self, mail: outgoing_mail.Mail) -> None:
        raw, server = mail.written(), self._server
        client = await smtp.Client.open(
            smtp.Server(
                server.host,
                server.port,
                # Its own name would be looked up otherwise, which may take seconds.
                name=_domain(server.sender),
                tls=self._context(),
                encryption=_ENCRYPTION[server.security],
                user=server.user,
                password=server.password,
                seconds=self._seconds,
                last_seconds=self._seconds,
            )
        )
        try:
            await client.envelope(mail.sender.address, [box.address for box in mail.to], len(raw))
            await client.upload(raw)
            await client.finish()
        finally:
            await client.close()


_ENCRYPTION = {
    Security.STARTTLS: smtp.Encryption.REQUIRED,
    Security.TLS: smtp.Encryption.AT_ONCE,
    Security.NONE: smtp.Encryption.NEVER,
}


def message(
    sender: str, to: str, notice_id: str, event: str, notice: Mapping[str, Any], now: datetime
) -> outgoing_mail.Mail:
    """The mail about a notice (`controllers.notices.notice`): what is asked or said, of which task, what to do."""
    task = notice["task"]
    scope = ", ".join(
        f"{what} {task[name]}"
        for what, name in (("client", "clientId"), ("group", "groupId"), ("project", "projectId"))
        if task[name]
    )
    lines = [notice["message"], "", f"Task: {task['namespace']}/{task['name']} ({task['type']})", f"Scope: {scope}"]
    lines += [f"Question {one['id']}: {one['text']}" for one in notice["questions"]]
    if notice["phase"] == "UserTask":
        lines += ["", f"See kubectl jervis get {task['name']} -n {task['namespace']} for what it waits for."]
    # A name may come from a mail: one line, and no longer than a list of mails shows.
    subject = " ".join(f"[Jervis] {event}: {task['name']} ({task['clientId']})".split())[:_SUBJECT_CHARS]
    return outgoing_mail.Mail(
        sender=_mailbox(sender),
        to=[_mailbox(to)],
        subject=subject,
        text="\n".join(lines),
        date=now,
        message_id=f"<{notice_id}@{_domain(sender)}>",
        more={"Jervis-Event": event, "Jervis-Delivery": notice_id},
    )


def _mailbox(text: str) -> outgoing_mail.Mailbox:
    name, address = utils.parseaddr(text)
    return outgoing_mail.Mailbox(address, name)


def _domain(sender: str) -> str:
    return utils.parseaddr(sender)[1].rpartition("@")[2] or "localhost"
