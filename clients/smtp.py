"""SMTP to mail servers of others: one conversation for one mail (RFC 5321, 3207, 4954, 1870).

A mail is handed over in two steps. `upload` sends all of it but the dot that ends it: until then nothing was sent, and
a server whose connection ends forgets it (RFC 5321 3.8). `finish` sends the dot: from then on only the server knows.

What a server sends is bounded before it means anything:

    reply      64 KiB in lines of 8 KiB; its first line begins with a code, and all its lines with the same one; the
               first digit of the code decides (RFC 5321 4.2.1), so 200 is as good as 250
    time       `seconds` for each reply and for each 64 KiB of the mail, `last_seconds` for the reply to the dot
    text       without what steers a terminal

The connection is one of httpcore, as those of `clients.http`. Source of the choice: docs/decisions/0205.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

import httpcore

from clients import http
from crds import errors
from text import printable

SECONDS = 60.0
LAST_SECONDS = 600.0
"""RFC 5321 4.5.3.2.6: a client that gives up earlier makes mails double."""
_LINE, _REPLY = 8 << 10, 64 << 10
_PIECE = 64 << 10
_FIRST = re.compile(rb"([2-5][0-9]{2})(?:(-)|[ \t]|\Z)(.*)", re.DOTALL)
_COMMAND = re.compile(r"[ -~]*")
_SHOWN_CHARS = 300
_LOST = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError)


class Encryption(StrEnum):
    """When a connection becomes one of TLS."""

    AT_ONCE = "from its beginning"
    REQUIRED = "by STARTTLS"
    OFFERED = "by STARTTLS, where the server has it"
    NEVER = "never"


class Step(StrEnum):
    """What a server refuses."""

    SERVICE = "service"
    ENCRYPTION = "encryption"
    LOGIN = "login"
    SENDER = "sender"
    RECIPIENT = "recipient"
    MAIL = "mail"


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply; `lines` are what stands behind its codes."""

    code: int
    lines: tuple[bytes, ...]

    @property
    def text(self) -> str:
        """For people."""
        return printable.line(b" ".join(self.lines).decode("utf-8", "replace"), _SHOWN_CHARS)

    @property
    def positive(self) -> bool:
        """2yz."""
        return self.code // 100 == 2


class Failure(errors.JervisError):
    """The mail was not taken; of `Client.finish`, see there."""


class Unanswered(Failure):
    """The server was not reached, is silent, hung up, or says what is no reply."""


class Refused(Failure):
    """A reply that refuses `step`, of 4yz for now, else for good. `of`: which recipient."""

    def __init__(self, host: str, step: Step, reply: Reply, of: str = "") -> None:
        super().__init__(f"{host} answered {reply.code}{f' for {of}' if of else ''}: {reply.text}")
        self.step, self.reply, self.of = step, reply, of

    @property
    def permanent(self) -> bool:
        """Whether asking again cannot help."""
        return self.reply.code // 100 != 4


class Unencrypted(Failure):
    """The server offers no STARTTLS."""


class NoMechanism(Failure):
    """The server offers no mechanism of login that is spoken here."""


class TooLarge(Failure):
    """The server takes mails of at most `most` bytes (RFC 1870)."""

    def __init__(self, host: str, size: int, most: int) -> None:
        super().__init__(f"{host} takes mails of at most {most} bytes, this one has {size}")
        self.most = most


@dataclass(frozen=True, slots=True)
class Server:
    """`name` is what the client calls itself. Without `user` there is no login; `access` is an access token in place of
    the password. `find` has the addresses of the host, those of the system by default."""

    host: str
    port: int
    name: str
    tls: ssl.SSLContext
    encryption: Encryption
    user: str = ""
    password: str = field(default="", repr=False)
    access: str = field(default="", repr=False)
    find: http.Find = http.resolve
    seconds: float = SECONDS
    last_seconds: float = LAST_SECONDS
    """For the reply to the dot."""


class Client:
    """The conversation. Each method raises `Failure`, and what `Server.find` raises."""

    def __init__(self, server: Server, stream: httpcore.AsyncNetworkStream) -> None:
        self._server, self._stream = server, stream
        self._buffer = bytearray()
        self._extensions: Mapping[str, str] = {}
        self._encrypted = self._settled = False

    @classmethod
    async def open(cls, server: Server) -> Client:
        """Connect, encrypt, log in."""
        try:
            stream = await http.Judged(server.find).connect_tcp(server.host, server.port, server.seconds)
        except _LOST as error:
            raise _unanswered(server.host, error) from error
        client = cls(server, stream)
        try:
            await client._begin()
        except BaseException:
            await client.close()
            raise
        return client

    async def envelope(self, sender: str, recipients: Sequence[str], size: int) -> None:
        """Sender and recipients, all of whom the server has to take: a mail that reached some could not be sent again
        to the others. `size`: bytes of the mail."""
        declared = ""
        if "SIZE" in self._extensions:
            most = self._extensions["SIZE"].strip()
            if most.isascii() and most.isdigit() and 0 < int(most[:20]) < size:
                raise TooLarge(self._server.host, size, int(most[:20]))
            declared = f" SIZE={size}"
        self._positive(await self._ask(f"MAIL FROM:<{sender}>{declared}"), Step.SENDER)
        for one in recipients:
            self._positive(await self._ask(f"RCPT TO:<{one}>"), Step.RECIPIENT, one)

    async def upload(self, mail: bytes) -> None:
        """All of the mail but its end. Its last line is ended."""
        reply = await self._ask("DATA")
        self._negative(reply)
        if reply.code // 100 != 3:
            raise Unanswered(f"{self._server.host} answered {reply.code} to DATA: {reply.text}")
        dotted = await asyncio.to_thread(_dotted, mail)
        try:
            for start in range(0, len(dotted), _PIECE):
                await self._write(dotted[start : start + _PIECE])
        except Unanswered:
            # A server that takes no more of it says so before it hangs up.
            self._negative(await self._reply())
            raise

    async def finish(self) -> None:
        """The dot. Returns where the server took the mail; raises `Refused` where it says that it did not, and any
        other `Failure` where nothing says what it did."""
        await self._write(b".\r\n")
        reply = await self._reply(self._server.last_seconds)
        if reply.code // 100 == 3:
            raise Unanswered(f"{self._server.host} answered {reply.code} to the end of the mail: {reply.text}")
        self._settled = True
        self._positive(reply, Step.MAIL)

    async def close(self) -> None:
        """Hang up, also in the middle of anything; a server that answered the dot is told good-bye."""
        with suppress(Failure, *_LOST):
            if self._settled:
                async with asyncio.timeout(1.0):
                    await self._stream.write(b"QUIT\r\n", 1.0)
        with suppress(*_LOST):
            await self._stream.aclose()

    # -- beginning -----------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        how = self._server.encryption
        if how is Encryption.AT_ONCE:
            await self._encrypt()
        self._positive(await self._reply(), Step.SERVICE)
        await self._hello()
        if how in (Encryption.REQUIRED, Encryption.OFFERED):
            if "STARTTLS" in self._extensions:
                self._positive(await self._ask("STARTTLS"), Step.ENCRYPTION)
                if self._buffer:
                    # Another may have put it there; behind the handshake it would count as the server's.
                    raise Unanswered(f"{self._server.host} sends more behind its answer to STARTTLS")
                await self._encrypt()
                await self._hello()
            elif how is Encryption.REQUIRED:
                raise Unencrypted(f"{self._server.host} offers no STARTTLS.")
        if self._server.user and "AUTH" in self._extensions:
            await self._login()

    async def _encrypt(self) -> None:
        server = self._server
        try:
            self._stream = await self._stream.start_tls(server.tls, server.host.rstrip("."), server.seconds)
        except (*_LOST, ValueError) as error:
            raise _unanswered(server.host, error) from error
        self._encrypted = True

    async def _hello(self) -> None:
        reply = await self._ask(f"EHLO {self._server.name}")
        if reply.code // 100 == 5:  # a server of RFC 821
            self._positive(await self._ask(f"HELO {self._server.name}"), Step.SERVICE)
            reply = Reply(250, ())
        self._positive(reply, Step.SERVICE)
        lines = [line.decode("ascii", "replace").strip() for line in reply.lines[1:]]
        # "AUTH=PLAIN" is how servers wrote it before RFC 2554.
        words = [re.sub(r"^AUTH=", "AUTH ", line, flags=re.IGNORECASE).partition(" ") for line in lines]
        self._extensions = {name.upper(): parameters for name, _, parameters in words}

    async def _login(self) -> None:
        """By one mechanism: each further one with a wrong password is one more failed login."""
        server, offered = self._server, self._extensions["AUTH"].upper().split()
        if server.access:
            known = ["XOAUTH2", "OAUTHBEARER"]
        else:
            known = ["PLAIN", "LOGIN", "CRAM-MD5"] if self._encrypted else ["CRAM-MD5", "PLAIN", "LOGIN"]
        mechanism = next((one for one in known if one in offered), None)
        if mechanism is None:
            raise NoMechanism(
                f"{server.host} offers logins by {printable.line(', '.join(offered), 100)}, none of {', '.join(known)}."
            )
        user, password = server.user.encode(), server.password.encode("utf-8", "replace")
        # What those of OAuth ask after the token is the reason of a refusal, behind whose answer that follows.
        answers = {
            "PLAIN": [b"\0%b\0%b" % (user, password)],  # RFC 4616
            "LOGIN": [user, password],
            "XOAUTH2": [b"user=%b\1auth=Bearer %b\1\1" % (user, server.access.encode()), b""],
            # RFC 7628
            "OAUTHBEARER": [b"n,a=%b,\1auth=Bearer %b\1\1" % (_saslname(user), server.access.encode()), b"\1"],
        }
        left = answers.get(mechanism, [])
        first = f" {_base64(left.pop(0))}" if mechanism in _AT_ONCE else ""
        reply = await self._ask(f"AUTH {mechanism}{first}")
        if mechanism == "CRAM-MD5" and reply.code == 334:
            left = [_digest(user, password, reply)]
        for turn in (*map(_base64, left), "*"):  # which gives up (RFC 4954 4)
            if reply.code == 334:
                reply = await self._ask(turn)
        self._positive(reply, Step.LOGIN)

    # -- the wire ------------------------------------------------------------------------------------------------------

    def _positive(self, reply: Reply, step: Step, of: str = "") -> None:
        if not reply.positive:
            raise Refused(self._server.host, step, reply, of)

    def _negative(self, reply: Reply) -> None:
        if reply.code // 100 in (4, 5):
            raise Refused(self._server.host, Step.MAIL, reply)

    async def _ask(self, command: str) -> Reply:
        if not _COMMAND.fullmatch(command):
            raise ValueError("a command of SMTP is of printable ASCII")
        if self._buffer:
            raise Unanswered(f"{self._server.host} answers what it was not asked")
        await self._write(f"{command}\r\n".encode("ascii"))
        return await self._reply()

    async def _write(self, raw: bytes) -> None:
        try:
            await self._stream.write(raw, self._server.seconds)
        except _LOST as error:
            raise _unanswered(self._server.host, error) from error

    async def _reply(self, seconds: float | None = None) -> Reply:
        host, code, size, lines = self._server.host, b"", 0, list[bytes]()
        try:
            async with asyncio.timeout(seconds or self._server.seconds):
                while True:
                    line = await self._line()
                    size += len(line)
                    match = _FIRST.fullmatch(line)
                    if match is None or match[1] != (code or match[1]) or size > _REPLY:
                        said = printable.line(line[:_SHOWN_CHARS].decode("utf-8", "replace"))
                        raise Unanswered(f"{host} answered what is no reply of SMTP: {said!r}")
                    code = match[1]
                    lines.append(match[3].strip())
                    if match[2] is None:
                        return Reply(int(code), tuple(lines))
        except _LOST as error:
            raise _unanswered(host, error) from error

    async def _line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _LINE:
                raise Unanswered(f"{self._server.host} answered a line of more than {_LINE} bytes")
            piece = await self._stream.read(_LINE)
            if not piece:
                raise Unanswered(f"{self._server.host} hung up")
            self._buffer += piece
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line.removesuffix(b"\r")


_AT_ONCE = frozenset({"PLAIN", "XOAUTH2", "OAUTHBEARER"})
"""Mechanisms that say the first answer with the command."""


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _digest(user: bytes, password: bytes, reply: Reply) -> bytes:
    """RFC 2195."""
    try:
        challenge = base64.b64decode(b"".join(reply.lines[:1]))
    except ValueError as error:
        raise Unanswered("the challenge of CRAM-MD5 is no Base64") from error
    return user + b" " + hmac.new(password, challenge, "md5").hexdigest().encode()


def _saslname(user: bytes) -> bytes:
    """RFC 5801 4."""
    return user.replace(b"=", b"=3D").replace(b",", b"=2C")


def _dotted(mail: bytes) -> bytes:
    """RFC 5321 4.5.2."""
    return (b"." if mail.startswith(b".") else b"") + mail.replace(b"\r\n.", b"\r\n..")


def _unanswered(host: str, error: Exception) -> Unanswered:
    said = "timed out" if isinstance(error, TimeoutError | httpcore.TimeoutException) else str(error)
    return Unanswered(f"{host} did not answer: {printable.line(said or type(error).__name__, 200)}")
