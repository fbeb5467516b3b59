"""Mailboxes by POP3 (RFC 1939): every mail of the maildrop once, by the name that UIDL gives it.

The cursor is `{"taken": [DIGEST, ...], "of": HASH}`, with a digest of each name that is stored, or a failure with its
title, and still there: POP3 promises no order of its mails. A mail that the server does not give holds up no other one.
Nothing is deleted and no flag exists, so nothing in the mailbox changes. A session locks the maildrop for others, so it
lasts as long as one poll.

The library blocks, so each step runs in a thread; every call on the wire has a timeout.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import poplib
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from crds import connection
from sources.core import hosts, limits, port
from sources.providers.mail import imap_session, mails
from sources.providers.mail.imap_session import Login

SECONDS = 60.0
"""The longest silence of a server."""
MOST = 50_000
"""Mails of a maildrop; all their names are in the cursor."""
_LIST_BYTES = MOST * 100
_NAME_CHARS = 70  # RFC 1939, "UIDL"
_BUSY = ("[IN-USE]", "[LOGIN-DELAY]", "[SYS/TEMP]")
"""Answers that say nothing of the password or of what the server can do (RFC 2449, RFC 3206)."""


class Declined(port.Unreachable):
    """The server refuses one command or answers nonsense to it; it may answer the next one."""


class Hangup(port.Unreachable):
    """The connection is lost."""


class Maildrop:
    """One poll. `bucket` and `monotonic` say when the next command may go; `sleep` waits for it; `budget` is that of
    the process."""

    tells = False

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
        self._hangups = 0
        """Mails in a row for which the server hung up, twice each."""

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        async with self._session() as session:
            counted, names = await self._listed(session)
            known = set(cursor.get("taken", ())) if cursor.get("of") == self._of else set()
            # While the list is short, a mail that it lacks is not gone.
            taken = known & {_digest(name) for name in names} if counted == len(names) else known
            new = [name for name in names if _digest(name) not in taken]
            async with aclosing(self._read(session, names, new)) as portions:
                async for some, fetched in portions:
                    items, failures = await asyncio.to_thread(mails.read, fetched)
                    del fetched
                    taken |= {_digest(name) for name in some}
                    shown = f"{len(taken)} of {len(names)} mails"
                    yield port.Batch({"taken": sorted(taken), "of": self._of}, shown, items, failures)
            self._complete(counted, names)

    async def ids(self) -> AsyncGenerator[port.Page]:
        """See `port.Source`. One UIDL."""
        async with self._session() as session:
            counted, names = await self._listed(session)
            self._complete(counted, names)
            places = [_place(name) for name in names]
            for start in range(0, len(places), mails.PAGE):
                yield port.Page(tuple(places[start : start + mails.PAGE]))
            yield port.Page((), last=True, moving=True)

    async def fetch(self, places: Sequence[str]) -> AsyncGenerator[port.Batch]:
        """See `port.Fetching`."""
        async with self._session() as session:
            _, names = await self._listed(session)
            wanted = set(places)
            some = [name for name in names if _place(name) in wanted]
            async with aclosing(self._read(session, names, some)) as portions:
                async for _, fetched in portions:
                    items, failures = await asyncio.to_thread(mails.read, fetched)
                    yield port.Batch({}, "", items, failures)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[_Session]:
        session = _Session(self._login)
        try:
            await self._call(session.open)
            yield session
        finally:
            await asyncio.to_thread(session.close)

    async def _listed(self, session: _Session) -> tuple[int, dict[str, int]]:
        """(how many mails the server counts, the number of each by its name)."""
        listed: tuple[int, dict[str, int]] = await self._call(session.names)
        return listed

    def _complete(self, counted: int, names: Mapping[str, int]) -> None:
        if counted != len(names):
            raise port.Unreachable(f"The mailbox counts {counted} mails and lists {len(names)}; these are read.")

    async def _read(
        self, session: _Session, names: Mapping[str, int], new: Sequence[str]
    ) -> AsyncGenerator[tuple[Sequence[str], list[mails.Fetched]]]:
        """Portions of these mails with their names."""
        sizes: Mapping[int, int] = await self._sizes(session) if new else {}
        heads = [mails.Head(names[name], sizes.get(names[name], 0), _place(name)) for name in new]
        by_place = {_place(name): name for name in new}
        bad = 0
        for some in mails.portions(heads):
            async with self._budget.hold(mails.weight(some)):
                fetched = list[mails.Fetched]()
                for head in some:
                    fetched.append(await self._fetched(session, by_place[head.place], head))
                    unread = fetched[-1].raw is None and not mails.too_large(head)
                    bad = bad + 1 if unread else 0
                if bad > mails.MOST_BAD and bad >= len(some) and not await self._answers(session, names, new):
                    raise Declined(f"The mailbox gives none of its mails: {fetched[-1].reason}")
                yield [by_place[head.place] for head in some], fetched

    async def _sizes(self, session: _Session) -> Mapping[int, int]:
        """By number; what the server does not say is not known."""
        try:
            sizes: Mapping[int, int] = await self._call(session.sizes)
        except Declined:
            return {}
        return sizes

    async def _fetched(self, session: _Session, name: str, head: mails.Head) -> mails.Fetched:
        if reason := mails.too_large(head):
            return mails.Fetched(head, reason=reason, title=await self._title(session, name))
        for again in (False, True):
            try:
                if raw := await self._call(session.fetch, name):
                    self._hangups = 0
                    return mails.Fetched(head, raw)
                reason = "The server answers without the mail."
            except Declined as error:
                reason = error.message
            except Hangup as error:
                # The first time the network may be the cause: then the server gives it to the next session.
                reason, self._hangups = error.message, self._hangups + again
                if self._hangups > mails.MOST_BAD:
                    raise
                await self._call(session.reopen)
                await self._call(session.names)
                if not again:
                    continue
            break
        return mails.Fetched(head, reason=reason, title=await self._title(session, name))

    async def _title(self, session: _Session, name: str) -> str:
        try:
            return mails.title(await self._call(session.header, name))
        except Declined:
            return ""  # TOP is optional (RFC 1939 7)
        except Hangup:
            await self._call(session.reopen)
            await self._call(session.names)
            return ""

    async def _answers(self, session: _Session, names: Mapping[str, int], but: Collection[str]) -> bool:
        """Whether the server gives a mail that is none of these."""
        others = [name for name in names if name not in but]
        try:
            return bool(others) and bool(await self._call(session.fetch, others[-1]))
        except Declined:
            return False

    async def _call(self, step: Callable[..., Any], *arguments: Any) -> Any:
        pause = self._bucket.reserve(self._monotonic())
        if pause:
            await self._sleep(pause)
        try:
            return await asyncio.to_thread(step, *arguments)
        except (OSError, EOFError) as error:
            raise Hangup(f"The mailbox did not answer {step.__name__}: {mails.said(error)}.") from error
        except (poplib.error_proto, ValueError, LookupError) as error:
            busy = isinstance(error, poplib.error_proto) and _busy(error)
            kind = port.Unreachable if busy else Declined
            raise kind(f"The mailbox did not answer {step.__name__}: {mails.said(error)}.") from error


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
            raise EOFError(f"a line has more than {self.most} bytes")  # the rest of it is not read
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
                raise EOFError(f"an answer has more than {self.most} bytes")
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
        self._numbers: dict[str, int] = {}
        """Of this session, by name."""

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

    def reopen(self) -> None:
        """The same on a new connection; the old one is gone."""
        with suppress(OSError, AttributeError):
            self._open.close()
        self.open()

    def names(self) -> tuple[int, dict[str, int]]:
        """(how many mails there are, the number of each by its name). A name that the server gives twice is told apart
        by its order. Raises `port.Misconfigured` where the server gives none."""
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
        self._numbers, given = {}, Counter[str]()
        for line in lines:
            number, _, name = line.decode("utf-8", "replace").partition(" ")
            if not number.isdigit() or not name:
                continue  # it counts as a mail that is not listed
            self._numbers[f"{name}\0{given[name]}" if given[name] else name] = int(number)
            given[name] += 1
        return count, dict(self._numbers)

    def sizes(self) -> dict[int, int]:
        """Bytes of each mail by its number."""
        return {
            int(parts[0]): int(parts[1])
            for line in self._open.list()[1]
            if len(parts := line.split()) > 1 and parts[0].isdigit() and parts[1].isdigit()
        }

    def fetch(self, name: str) -> bytes:
        """The bytes of a mail."""
        lines = self._open.retr(self._numbers[name])[1]
        return b"\r\n".join([*lines, b""]) if any(lines) else b""

    def header(self, name: str) -> bytes:
        """The header of a mail."""
        return b"\r\n".join([*self._open.top(self._numbers[name], 0)[1], b""])

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
        login = imap_session.login(spec, credentials, tls, plain=plain, reached=reached)
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
    name, _, again = name.partition("\0")
    name = f"{name}~{again}" if again else name
    return f"pop3/{name}" if len(name) <= _NAME_CHARS else f"pop3/{hashlib.sha256(name.encode()).hexdigest()}"
