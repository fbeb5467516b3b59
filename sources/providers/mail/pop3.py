"""Mailboxes by POP3 (RFC 1939): every mail of the maildrop once, by the name that UIDL gives it.

The cursor is `{"taken": [DIGEST, ...], "of": HASH}`, with a digest of each name that is taken and still there: POP3
promises no order of its mails. Nothing is deleted and no flag exists, so nothing in the mailbox changes. A session
locks the maildrop for others, so it lasts as long as one poll.

The library blocks, so each step runs in a thread; every call on the wire has a timeout.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import poplib
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from crds import connection
from sources.core import hosts, limits, port
from sources.providers.mail import imap, mails
from sources.providers.mail.imap import Login

SECONDS = 60.0
"""The longest silence of a server."""
MOST = 50_000
"""Mails of a maildrop; all their names are in the cursor."""
_LIST_BYTES = MOST * 100
_NAME_CHARS = 70  # RFC 1939, "UIDL"
_BUSY = ("[IN-USE]", "[LOGIN-DELAY]", "[SYS/TEMP]")
"""Answers that say nothing of the password or of what the server can do (RFC 2449, RFC 3206)."""


class Maildrop:
    """One poll. `bucket` and `monotonic` say when the next command may go; `sleep` waits for it; `budget` is that of
    the process."""

    def __init__(
        self,
        login: Login,
        bucket: limits.Bucket,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        budget: limits.Budget | None = None,
    ) -> None:
        self._login, self._bucket, self._budget = login, bucket, budget or limits.Budget(mails.IN_FLIGHT)
        self._monotonic, self._sleep = monotonic, sleep
        self._of = hashlib.sha256(f"{login.url}\0{login.username}".encode()).hexdigest()[:16]

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        session = _Session(self._login)
        try:
            await self._call(session.open)
            names = await self._call(session.names)
            digests = {number: _digest(name) for number, name in names.items()}
            known = set(cursor.get("taken", ())) if cursor.get("of") == self._of else set()
            taken = known & set(digests.values())
            new = [number for number, digest in digests.items() if digest not in taken]
            sizes = await self._call(session.sizes) if new else {}
            heads = [mails.Head(number, sizes.get(number, 0), _place(names[number])) for number in new]
            for some in mails.portions(heads):
                async with self._budget.hold(mails.weight(some)):
                    fetched = [(head, await self._fetched(session, head)) for head in some]
                    items, failures = await asyncio.to_thread(mails.read, fetched)
                    del fetched
                    taken |= {digests[head.number] for head in some}
                    shown = f"{len(taken)} of {len(names)} mails"
                    yield port.Batch({"taken": sorted(taken), "of": self._of}, shown, items, failures)
        finally:
            await asyncio.to_thread(session.close)

    async def ids(self) -> AsyncGenerator[port.Page]:
        """See `port.Source`. One UIDL."""
        session = _Session(self._login)
        try:
            await self._call(session.open)
            places = [_place(name) for name in (await self._call(session.names)).values()]
            for start in range(0, len(places), mails.PAGE):
                yield port.Page(tuple(places[start : start + mails.PAGE]))
            yield port.Page((), last=True, moving=True)
        finally:
            await asyncio.to_thread(session.close)

    async def _fetched(self, session: _Session, head: mails.Head) -> bytes | None:
        raw: bytes | None = await self._call(session.fetch, head.number) if head.size <= mails.LARGEST else None
        return raw

    async def _call(self, step: Callable[..., Any], *arguments: Any) -> Any:
        pause = self._bucket.reserve(self._monotonic())
        if pause:
            await self._sleep(pause)
        try:
            return await asyncio.to_thread(step, *arguments)
        except (poplib.error_proto, OSError, ValueError, EOFError, IndexError) as error:
            raise port.Unreachable(f"The mailbox did not answer {step.__name__}: {mails.said(error)}.") from error


class _Bounded(poplib.POP3):
    """The client of the standard library, with lines as long as a mail and answers that end: it takes none above 2,048
    bytes, which mails of some programs have, and any number of them."""

    most = mails.LARGEST + (1 << 20)

    def __init__(self, reached: hosts.Hosts, host: str, number: int, timeout: float) -> None:
        self._reached = reached
        super().__init__(host, number, timeout)

    def _create_socket(self, timeout: float) -> socket.socket:
        return self._reached.connect(self.host, self.port, timeout)

    def bearer(self, username: str, access: str) -> None:
        """AUTH XOAUTH2. Raises `poplib.error_proto`."""
        said = self._shortcmd("AUTH XOAUTH2")  # type: ignore[attr-defined]  # the stub has no private methods
        answer = base64.b64encode(f"user={username}\1auth=Bearer {access}\1\1".encode()).decode()
        for _ in range(2):
            if not said.startswith(b"+OK"):
                # What a server sends after the answer is a reason, which has to be acknowledged.
                said, answer = self._shortcmd(answer), ""  # type: ignore[attr-defined]
        if not said.startswith(b"+OK"):
            raise poplib.error_proto(said)

    def _getline(self) -> tuple[bytes, int]:
        line = self.file.readline(self.most + 1)
        if len(line) > self.most:
            raise ValueError(f"a line has more than {self.most} bytes")
        if not line.endswith(b"\n"):
            raise EOFError("the server hung up")
        return line.rstrip(b"\r\n"), len(line)

    def _getlongresp(self) -> tuple[bytes, list[bytes], int]:
        answer = self._getresp()  # type: ignore[attr-defined]  # the stub has no private methods
        lines, octets = [], 0
        while (said := self._getline())[0] != b".":
            line, size = said
            octets += size
            if octets > self.most:
                raise ValueError(f"an answer has more than {self.most} bytes")
            lines.append(line[1:] if line.startswith(b".") else line)
        return answer, lines, octets


class _Encrypted(_Bounded):
    """TLS from the first byte on."""

    def __init__(self, reached: hosts.Hosts, host: str, number: int, timeout: float, tls: ssl.SSLContext) -> None:
        self._tls = tls
        super().__init__(reached, host, number, timeout)

    def _create_socket(self, timeout: float) -> socket.socket:
        return self._tls.wrap_socket(super()._create_socket(timeout), server_hostname=self.host)


class _Session:
    """The blocking part. Raises what poplib, ssl and socket raise."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._client: _Bounded | None = None

    @property
    def _open(self) -> _Bounded:
        assert self._client is not None
        return self._client

    def open(self) -> None:
        """Connect, encrypt, log in."""
        parts, login = urlsplit(self._login.url), self._login
        host = parts.hostname or ""
        if parts.scheme == "pop3s":
            self._client = _Encrypted(login.reached, host, parts.port or poplib.POP3_SSL_PORT, SECONDS, login.tls)
        else:
            self._client = _Bounded(login.reached, host, parts.port or poplib.POP3_PORT, SECONDS)
            if "STLS" in self._capabilities():
                self._client.stls(login.tls)
            elif not login.plain:
                raise port.Misconfigured(
                    "The server offers no STLS: the password would travel readable.",
                    field="spec.url",
                    remedy="Use pop3s://, or allow it with sources.settings.plaintext of the chart.",
                )
        try:
            if login.access:
                self._client.bearer(login.username, login.access)
            else:
                self._client.user(login.username)
                self._client.pass_(login.password)
        except poplib.error_proto as error:
            if _busy(error):
                raise
            raise port.Rejected(
                f"The mailbox refuses the login of {login.username!r}: {mails.said(error)}.",
                field="spec.secretRef",
                remedy=login.remedy,
            ) from error

    def _capabilities(self) -> Mapping[str, Sequence[str]]:
        try:
            return self._open.capa()
        except poplib.error_proto:
            return {}  # RFC 2449 is younger than many servers

    def names(self) -> dict[int, str]:
        """The name of each mail by its number. Raises `port.Misconfigured` where the server gives none."""
        count, _ = self._open.stat()
        try:
            lines = self._open.uidl()[1]
        except poplib.error_proto as error:
            if _busy(error):
                raise
            raise port.Misconfigured(
                f"The server has no UIDL, so mails cannot be told apart: {mails.said(error)}.",
                field="spec.url",
                remedy="Use IMAP (imaps://), if the server has it.",
            ) from error
        if count > MOST:
            raise port.Misconfigured(
                f"The mailbox has {count} mails; by POP3 at most {MOST} are read.",
                field="spec.url",
                remedy="Use IMAP (imaps://), or move older mails elsewhere.",
            )
        found = {
            int(number): name for number, _, name in (line.decode("utf-8", "replace").partition(" ") for line in lines)
        }
        if len(found) != count:
            raise ValueError(f"it counts {count} mails and lists {len(found)}")
        return found

    def sizes(self) -> dict[int, int]:
        """Bytes of each mail by its number."""
        return {int(number): int(size) for number, size, *_ in (line.split() for line in self._open.list()[1])}

    def fetch(self, number: int) -> bytes:
        """The bytes of a mail."""
        return b"\r\n".join([*self._open.retr(number)[1], b""])

    def close(self) -> None:
        """Log out if the server still listens: a session that ends without it deletes nothing either."""
        if self._client is not None:
            try:
                self._client.quit()
            except (poplib.error_proto, OSError, EOFError, ValueError):
                with suppress(OSError):  # a handshake that failed took the socket along
                    self._client.close()


def opened(
    plain: bool,
    tls: ssl.SSLContext,
    monotonic: Callable[[], float],
    budget: limits.Budget,
    reached: hosts.Hosts = hosts.LOCAL,
) -> Callable[[connection.Spec, Mapping[str, str], limits.Bucket], Maildrop]:
    """What opens the maildrop of a Connection. It raises `Misconfigured`."""

    def opens(spec: connection.Spec, credentials: Mapping[str, str], bucket: limits.Bucket) -> Maildrop:
        login = imap.login(spec, credentials, tls, plain=plain, reached=reached)
        if spec.filter is not None and (spec.filter.include or spec.filter.exclude or spec.filter.since):
            raise port.Misconfigured(
                "POP3 has no folders and no times of arrival.",
                field="spec.filter",
                remedy="Leave spec.filter out, or use IMAP (imaps://).",
            )
        return Maildrop(login, bucket, monotonic=monotonic, budget=budget)

    return opens


def _busy(error: poplib.error_proto) -> bool:
    return any(code in str(error).upper() for code in _BUSY)


def _digest(name: str) -> str:
    """66 bits: names of 50,000 mails differ in them but for one case in 10 to the tenth."""
    return base64.b64encode(hashlib.sha256(name.encode()).digest())[:11].decode()


def _place(name: str) -> str:
    """Where a mail is; servers that give longer names than they may are told apart all the same."""
    return f"pop3/{name}" if len(name) <= _NAME_CHARS else f"pop3/{hashlib.sha256(name.encode()).hexdigest()}"
