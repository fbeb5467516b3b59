"""A notice as a mail: its text, and its way to the mail server of the installation.

smtplib of the standard library in two threads, because one mail at a time is enough: aiosmtplib would be one more
dependency. A notice that is sent again has the same Message-ID, by which mail servers and readers know it.
"""

from __future__ import annotations

import asyncio
import functools
import smtplib
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from email import policy, utils
from email.message import EmailMessage
from enum import StrEnum
from typing import Any

import orjson

from clients import tls_trust

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
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mail")

    async def send(self, address: str, notice_id: str, event: str, body: str) -> str:
        """Why the server did not take the mail, "" when it did. Never raises for what a server or network can do."""
        if not self._server.host:
            return "no mail server is set (operator.settings.noticeMailServer)"
        loop = asyncio.get_running_loop()
        if loop.time() < self._away_until:
            return f"{self._server.host} could not be reached, and is asked again in a few seconds"
        mail = message(self._server.sender, address, notice_id, event, orjson.loads(body), self._wall())
        work = functools.partial(self._hand_over, mail)
        try:
            async with asyncio.timeout(_SECONDS):
                await loop.run_in_executor(self._threads, work)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            # What the server says of one mail says nothing of the next one.
            if not isinstance(error, smtplib.SMTPResponseException | smtplib.SMTPRecipientsRefused | ValueError):
                self._away_until = loop.time() + _AWAY
            return f"{type(error).__name__}: {error}"[:200]
        return ""

    def _hand_over(self, mail: EmailMessage) -> None:
        server = self._server
        # Its own name would be looked up otherwise, which may take seconds.
        named = _domain(server.sender)
        if server.security is Security.TLS:
            connection: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, named, timeout=self._seconds, context=self._context()
            )
        else:
            connection = smtplib.SMTP(server.host, server.port, named, timeout=self._seconds)
        with connection:
            if server.security is Security.STARTTLS:
                connection.starttls(context=self._context())
            if server.user:
                connection.login(server.user, server.password)
            connection.send_message(mail)


def message(sender: str, to: str, notice_id: str, event: str, notice: Mapping[str, Any], now: datetime) -> EmailMessage:
    """The mail about a notice (`controllers.notices.notice`): what is asked or said, of which task, what to do."""
    task = notice["task"]
    made = EmailMessage(policy=policy.SMTP)
    made["From"], made["To"] = sender, to
    # A name may come from a mail: one line, and no longer than a list of mails shows.
    made["Subject"] = " ".join(f"[Jervis] {event}: {task['name']} ({task['clientId']})".split())[:_SUBJECT_CHARS]
    made["Date"] = utils.format_datetime(now)
    made["Message-ID"] = f"<{notice_id}@{_domain(sender)}>"
    # No vacation message answers it (RFC 3834).
    made["Auto-Submitted"] = "auto-generated"
    made["Jervis-Event"], made["Jervis-Delivery"] = event, notice_id
    scope = ", ".join(
        f"{what} {task[name]}"
        for what, name in (("client", "clientId"), ("group", "groupId"), ("project", "projectId"))
        if task[name]
    )
    lines = [notice["message"], "", f"Task: {task['namespace']}/{task['name']} ({task['type']})", f"Scope: {scope}"]
    lines += [f"Question {one['id']}: {one['text']}" for one in notice["questions"]]
    if notice["phase"] == "UserTask":
        lines += ["", f"See kubectl jervis get {task['name']} -n {task['namespace']} for what it waits for."]
    made.set_content("\n".join(lines), cte="quoted-printable")
    return made


def _domain(sender: str) -> str:
    return utils.parseaddr(sender)[1].rpartition("@")[2] or "localhost"
