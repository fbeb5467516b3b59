"""A mail server of a test's own on loopback: EHLO, STARTTLS, AUTH PLAIN, MAIL, RCPT, DATA (RFC 5321, 3207, 4954)."""

from __future__ import annotations

import asyncio
import base64
import email
import email.policy
import io
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage

from tests import httpserver


@dataclass
class Box:
    """Takes mail while `refuses` is empty; after it has taken one it answers `stall` seconds later, or, if it `drops`,
    never. `slow`: seconds before a recipient is answered; `full`: what a mail is refused with at its end. Once it is
    `released`, nothing is waited for any more. `connections`: how many it has taken."""

    context: ssl.SSLContext | None = None
    secure: bool = False
    """From the beginning."""
    port: int = 0
    login: tuple[str, str] | None = None
    refuses: str = ""
    stall: float = 0.0
    slow: float = 0.0
    full: str = ""
    drops: bool = False
    released: threading.Event = field(default_factory=threading.Event)
    connections: int = 0
    recipients: list[str] = field(default_factory=list)
    mails: list[EmailMessage] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    """Of each mail: whether it came over TLS."""
    raw: list[bytes] = field(default_factory=list)
    """Each mail as it came, dots taken away."""
    commands: list[str] = field(default_factory=list)
    offers: tuple[str, ...] = ()
    """Further lines of EHLO; AUTH in one of them is in place of AUTH PLAIN."""
    says: dict[str, str] = field(default_factory=dict)
    """What it answers instead, by the verb, `220` for the greeting, `.` for the end of a mail, `line` for what is no
    command; behind `!` it hangs up. Of a mail that is answered so, nothing is kept."""

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        secure, known = self.secure, False

        async def say(line: str) -> None:
            writer.write(f"{line}\r\n".encode())
            await writer.drain()

        async def odd(verb: str) -> bool:
            said = self.says.get(verb)
            if said is None:
                return False
            writer.write(said.removesuffix("!").encode("latin-1"))
            await writer.drain()
            if said.endswith("!"):
                raise ConnectionResetError
            return True

        if not await odd("220"):
            await say("220 mail of the test")
        while raw := await reader.readline():
            line = raw.decode().rstrip("\r\n")
            self.commands.append(line)
            verb, _, rest = line.partition(" ")
            if await odd(verb.upper() if verb.isalpha() and verb.isupper() else "line"):
                continue
            match verb.upper():
                case "EHLO":
                    more = [] if secure or self.context is None else ["STARTTLS"]
                    more += ["AUTH PLAIN"] if self.login and not any("AUTH" in one for one in self.offers) else []
                    more += self.offers
                    await say("\r\n".join(f"250-{word}" for word in ("mail of the test", *more)))
                    await say("250 8BITMIME")
                case "STARTTLS" if self.context is not None:
                    await say("220 go on")
                    await writer.start_tls(self.context)
                    secure = True
                case "AUTH":
                    mechanism, _, first = rest.partition(" ")
                    if mechanism == "LOGIN":
                        answers = []
                        for question in ("334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6"):
                            await say(question)
                            answers.append(base64.b64decode(await reader.readline()).decode())
                        user, password = answers
                    else:
                        _, user, password = base64.b64decode(first).decode().split("\0")
                    known = (user, password) == self.login
                    await say("235 welcome" if known else "535 wrong")
                case "MAIL":
                    await say("530 log in first" if self.login and not known else "250 ok")
                case "RCPT":
                    self.recipients.append(rest)
                    await asyncio.to_thread(self.released.wait, self.slow)
                    await say(self.refuses or "250 ok")
                case "DATA":
                    await say("354 go on")
                    whole = await reader.readuntil(b"\r\n.\r\n")
                    if await odd("."):
                        continue
                    mail = _mail(whole)
                    if not self.full:
                        self.encrypted.append(secure)
                        self.raw.append(_undotted(whole))
                        self.mails.append(mail)
                    await asyncio.to_thread(self.released.wait, self.stall)
                    if self.drops:
                        return
                    await say(self.full or "250 taken")
                case "QUIT":
                    await say("221 bye")
                    return
                case _:
                    await say("250 ok")


def _undotted(sent: bytes) -> bytes:
    lines = io.BytesIO(sent.removesuffix(b".\r\n"))
    return b"".join(line.removeprefix(b".") if line.startswith(b"..") else line for line in lines)


def _mail(sent: bytes) -> EmailMessage:
    mail = email.message_from_bytes(_undotted(sent), policy=email.policy.SMTP)
    assert isinstance(mail, EmailMessage)
    return mail


@contextmanager
def serving(context: ssl.SSLContext | None = None, *, at_once: bool = False) -> Iterator[Box]:
    """`context`: with TLS, on request or, `at_once`, from the beginning."""
    box = Box(context, at_once)
    with httpserver.in_thread(httpserver.tcp(box.converse, tls=context if at_once else None)) as box.port:
        try:
            yield box
        finally:
            box.released.set()
