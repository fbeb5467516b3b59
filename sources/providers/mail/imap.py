"""Mailboxes by IMAP (RFC 3501): every mail of the chosen folders once, by UIDVALIDITY and UID.

The cursor is `{"folders": {name: [uidvalidity, uid]}, "of": HASH}`: all mails up to that UID are taken. A folder whose
UIDVALIDITY changed is read from its beginning, and so are all of another mailbox (some servers give each folder the
UIDVALIDITY 1) or with another `since`. A mail is known by its Message-ID and its bytes: none becomes a second task.
Folders are opened read-only and bodies are fetched by PEEK: nothing in the mailbox changes.

UIDs only grow (RFC 3501 2.3.1.1), so a folder with the same UIDVALIDITY, UIDNEXT and number of mails has the same
mails: it is neither opened nor searched again where the server states the three with the list of folders (RFC 5819).

The library blocks, so each step runs in a thread; every call on the wire has a timeout.
"""

from __future__ import annotations

import asyncio
import hashlib
import imaplib
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import imapclient
import structlog
from imapclient import datetime_util, exceptions, response_parser

from crds import connection
from sources.core import host_address, hosts, limits, port
from sources.providers.mail import folder_state, mails
from sources.providers.mail.folder_state import Lists, Mark

log = structlog.get_logger("sources")

SECONDS = 60.0
"""The longest silence of a server."""
SIZES = 1000
"""Mails whose sizes are asked for at once."""
_STATUS = "STATUS (UIDVALIDITY UIDNEXT MESSAGES)"
_NEWS = frozenset({b"EXISTS", b"EXPUNGE", b"VANISHED"})
_EMPTY = 3
"""TLS alone makes a socket readable a few times; one that has ended always is."""


@dataclass(frozen=True, slots=True)
class Login:
    """Where and as whom. `tls` is the context for imaps:// and STARTTLS; `plain` allows imap:// without either.
    `access` is an access token in place of the password."""

    url: str
    username: str
    password: str
    tls: ssl.SSLContext
    plain: bool = False
    access: str = ""
    reached: hosts.Hosts = hosts.LOCAL

    @property
    def remedy(self) -> str:
        """When the server refuses it."""
        if self.access:
            return "Allow the mailbox for this client, with the scopes for mail: docs/connections.md, OAuth."
        return "Correct username and password in the Secret."


def login(
    spec: connection.Spec, credentials: Mapping[str, str], tls: ssl.SSLContext, *, plain: bool, reached: hosts.Hosts
) -> Login:
    """The login that the values of the Secret give. Raises `Misconfigured`."""
    host_address.refuse_login(spec.url)
    username, password = credentials.get("username", ""), credentials.get("password", "")
    access = credentials.get(port.ACCESS_KEY, "")
    if not username or not (password or access):
        raise port.Misconfigured(
            f"The Secret lacks {'username' if access else 'username or password'}.",
            field="spec.secretRef",
            remedy="Add the address of the mailbox." if access else "Add both keys to it.",
        )
    trusted = hosts.trusted(tls, credentials.get("ca.crt", ""))
    return Login(spec.url, username, password, trusted, plain, access, reached)


class _Client(imapclient.IMAPClient):  # type: ignore[misc]  # the library has no types
    """Its connections go to judged addresses."""

    def __init__(self, reached: hosts.Hosts, host: str, **more: Any) -> None:
        self._reached = reached
        super().__init__(host, **more)

    def _create_IMAP4(self) -> imaplib.IMAP4:  # noqa: N802  # the library's name
        return _Wire(self._reached, self.host, self.port, self.ssl_context if self.ssl else None)


class _Wire(imaplib.IMAP4):
    def __init__(self, reached: hosts.Hosts, host: str, number: int, tls: ssl.SSLContext | None) -> None:
        self._reached, self._tls = reached, tls
        super().__init__(host, number, timeout=SECONDS)

    def _create_socket(self, timeout: float | None = None) -> socket.socket:
        made = self._reached.connect(self.host, self.port, timeout)
        return made if self._tls is None else self._tls.wrap_socket(made, server_hostname=self.host)


class Mailbox:
    """One poll. `bucket` and `monotonic` say when the next command may go; `sleep` waits for it. `lists` and `budget`
    are those of the process."""

    def __init__(
        self,
        login: Login,
        chosen: connection.Filter,
        bucket: limits.Bucket,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        lists: Lists | None = None,
        budget: limits.Budget | None = None,
    ) -> None:
        self._login, self._filter, self._bucket = login, chosen, bucket
        self._lists, self._budget = lists or Lists(), budget or limits.Budget(mails.IN_FLIGHT)
        self._monotonic, self._sleep = monotonic, sleep
        said = "\0".join((login.url, login.username, chosen.since.isoformat() if chosen.since else ""))
        self._of = hashlib.sha256(said.encode()).hexdigest()[:16]

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        session = _Session(self._login)
        known = cursor.get("folders", {}) if cursor.get("of") == self._of else {}
        places: dict[str, list[int]] = {name: list(at) for name, at in known.items()}
        try:
            await self._call(session.open)
            listed = await self._call(session.folders)
            folders, absent = folder_state.chosen(listed, self._filter)
            closed = []
            for name in folders:
                if folder_state.behind(places.get(name), listed[name][1]) == 0:
                    continue
                selected = await self._call(session.select, name)
                if selected is None:
                    closed.append(name)
                    continue
                async for batch in self._folder(session, name, selected, places):
                    yield batch
            if closed:
                raise port.Misconfigured(
                    f"The server does not open the folder {', '.join(map(repr, closed))[:400]}; all others are read.",
                    field="spec.filter.exclude",
                    remedy="Give the user the right to read it, or exclude it.",
                )
            if absent:
                raise port.Misconfigured(
                    f"The mailbox has no folder {', '.join(map(repr, absent))}.",
                    field="spec.filter.include",
                    remedy="Correct spec.filter.include, or leave it out to take all folders.",
                )
        finally:
            await asyncio.to_thread(session.close)

    async def ids(self) -> AsyncGenerator[port.Page]:
        """See `port.Source`. One SEARCH for a folder that changed: UIDs are asked for, no mail is."""
        session = _Session(self._login)
        try:
            await self._call(session.open)
            listed = await self._call(session.folders)
            folders, absent = folder_state.chosen(listed, self._filter)
            if absent or not folders:
                # INBOX is always there (RFC 3501 5.1): a list without any folder is a right that was lost.
                raise port.Misconfigured("The mailbox does not show every folder that is to be read.")
            for name in folders:
                mark, uids = await self._present(session, name, listed[name][1])
                for start in range(0, len(uids), mails.PAGE):
                    some = uids[start : start + mails.PAGE]
                    yield port.Page(tuple(folder_state.place(name, mark.validity, uid) for uid in some))
            yield port.Page((), last=True, moving=True)
        finally:
            await asyncio.to_thread(session.close)

    async def news(self, cursor: port.Cursor, seconds: float) -> bool | None:
        """Wait at most `seconds` for a mail that comes to INBOX, or to the first folder that is read, or that leaves
        it; at once for what came behind `cursor`. None: the server has no IDLE (RFC 2177). Raises as `batches`."""
        session = _Session(self._login)
        try:
            await self._call(session.open)
            if not await self._call(session.idles):
                return None
            folders, _ = folder_state.chosen(await self._call(session.folders), self._filter)
            name = next((one for one in folders if one.upper() == "INBOX"), next(iter(folders), ""))
            mark = await self._call(session.select, name) if name else None
            if mark is None:
                return None
            known = cursor.get("folders", {}).get(name) if cursor.get("of") == self._of else None
            if known is not None and folder_state.behind(known, mark):
                return True
            return await self._idle(session, seconds)
        finally:
            await asyncio.to_thread(session.close)

    async def _idle(self, session: _Session, seconds: float) -> bool:
        readable, loop = asyncio.Event(), asyncio.get_running_loop()
        await self._call(session.idle)
        number = session.fileno()
        loop.add_reader(number, readable.set)
        try:
            async with asyncio.timeout(seconds):
                empty = 0
                # The server also writes that it is still there, and flags.
                while not (heard := await self._call(session.heard)):
                    empty = 0 if heard is not None else empty + 1
                    if empty > _EMPTY:
                        raise port.Unreachable("The mailbox hung up while news were waited for.")
                    readable.clear()
                    await readable.wait()
                return True
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(number)

    async def _present(self, session: _Session, name: str, mark: Mark | None) -> tuple[Mark, Sequence[int]]:
        """The mark of a folder and its UIDs."""
        of = (self._of, name)
        uids = self._lists.get(of, mark)
        if mark is not None and uids is not None:
            return mark, uids
        selected: Mark | None = await self._call(session.select, name)
        if selected is None:
            raise port.Unreachable(f"The server does not open the folder {name!r}, so nothing is known of it.")
        uids = self._lists.get(of, selected)
        if uids is None:
            uids = await self._call(session.present, selected.mails, self._filter.since)
            self._lists.put(of, selected, uids)
        return selected, uids

    async def _folder(
        self, session: _Session, name: str, selected: Mark, places: dict[str, list[int]]
    ) -> AsyncGenerator[port.Batch]:
        validity, following = selected.validity, selected.next
        known = places.get(name)
        last = known[1] if known is not None and known[0] == validity else 0
        if folder_state.behind(known, selected) == 0:
            return
        uids = await self._call(session.behind, last, self._filter.since)
        # A poll is cut long before the end of a large folder: the sizes of what it does not reach are not asked for.
        for start in range(0, len(uids), SIZES):
            heads = await self._call(session.heads, name, validity, uids[start : start + SIZES])
            for some in mails.portions(heads):
                async with self._budget.hold(mails.weight(some)):
                    fetched = await self._call(session.fetch, some)
                    items, failures = await asyncio.to_thread(mails.read, fetched)
                    del fetched
                    places[name] = [validity, some[-1].number]
                    yield self._batch(places, items, failures)
        newest = max(last, following - 1)
        if newest > last and places.get(name) != [validity, newest]:
            # Mails that the filter leaves out, or that are gone: they are not asked about again.
            places[name] = [validity, newest]
            yield self._batch(places)

    def _batch(
        self,
        places: Mapping[str, Sequence[int]],
        items: tuple[port.Item, ...] = (),
        failures: tuple[port.Failure, ...] = (),
    ) -> port.Batch:
        return port.Batch({"folders": dict(places), "of": self._of}, folder_state.shown(places), items, failures)

    async def _call(self, step: Callable[..., Any], *arguments: Any) -> Any:
        pause = self._bucket.reserve(self._monotonic())
        if pause:
            await self._sleep(pause)
        try:
            return await asyncio.to_thread(step, *arguments)
        except exceptions.LoginError as error:
            raise port.Rejected(
                f"The mailbox refuses the login of {self._login.username!r}: {mails.said(error)}.",
                field="spec.secretRef",
                remedy=self._login.remedy,
            ) from error
        except (imaplib.IMAP4.error, OSError, ValueError, EOFError) as error:
            raise port.Unreachable(f"The mailbox did not answer {step.__name__}: {mails.said(error)}.") from error


class _Session:
    """The blocking part. Raises what imapclient, ssl and socket raise."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._client: Any = None
        self._idling = False

    def open(self) -> None:
        """Connect, encrypt, log in."""
        parts = urlsplit(self._login.url)
        encrypted = parts.scheme == "imaps"
        client = _Client(
            self._login.reached,
            parts.hostname or "",
            port=parts.port,
            ssl=encrypted,
            ssl_context=self._login.tls if encrypted else None,
            timeout=SECONDS,
        )
        self._client = client
        client.normalise_times = False
        if not encrypted:
            if client.has_capability("STARTTLS"):
                client.starttls(self._login.tls)
            elif not self._login.plain:
                raise port.Misconfigured(
                    "The server offers no STARTTLS: the password would travel readable.",
                    field="spec.url",
                    remedy="Use imaps://, or allow it with sources.settings.plaintext of the chart.",
                )
        if not self._login.access:
            client.login(self._login.username, self._login.password)
        elif client.has_capability("AUTH=OAUTHBEARER") and not client.has_capability("AUTH=XOAUTH2"):
            client.oauthbearer_login(self._login.username, self._login.access)
        else:
            client.oauth2_login(self._login.username, self._login.access)

    def folders(self) -> folder_state.Folders:
        """Flags in small letters and marks by name, the marks only of servers that state them in the list."""
        client = self._client
        if not client.has_capability("LIST-STATUS"):
            return {name: (_flags(flags), None) for flags, _, name in client.list_folders()}
        use = "SPECIAL-USE " if client.has_capability("SPECIAL-USE") else ""
        wire = client._imap  # the library has no extended LIST
        answer, data = wire._simple_command("LIST", '""', '"*"', f"RETURN ({use}{_STATUS})")
        if answer != "OK":
            raise imaplib.IMAP4.error(f"LIST: {data!r}")
        listed = client._proc_folder_list(wire._untagged_response(answer, data, "LIST")[1])
        states = [one for one in wire._untagged_response(answer, data, "STATUS")[1] if one]
        parsed = response_parser.parse_response(states) if states else ()
        marks = {}
        for name, pairs in zip(parsed[::2], parsed[1::2], strict=True):
            state = dict(zip(pairs[::2], pairs[1::2], strict=True))
            name = imapclient.imap_utf7.decode(name) if isinstance(name, bytes) else str(name)
            marks[name] = Mark(int(state[b"UIDVALIDITY"]), int(state.get(b"UIDNEXT", 0)), int(state[b"MESSAGES"]))
        return {name: (_flags(flags), marks.get(name)) for flags, _, name in listed}

    def select(self, name: str) -> Mark | None:
        """None for a folder that the server does not open."""
        try:
            found = self._client.select_folder(name, readonly=True)
        except imaplib.IMAP4.abort:
            raise
        except imaplib.IMAP4.error as error:
            log.info("folder not opened", folder=name, reason=mails.said(error))
            return None
        return Mark(int(found[b"UIDVALIDITY"]), int(found.get(b"UIDNEXT", 0)), int(found.get(b"EXISTS", 0)))

    def idles(self) -> bool:
        """Whether the server reports news by itself."""
        return bool(self._client.has_capability("IDLE"))

    def idle(self) -> None:
        """From now on only `heard` and `close` may follow."""
        self._client.idle()
        self._idling = True

    def fileno(self) -> int:
        """Of the socket."""
        return int(self._client.socket().fileno())

    def heard(self) -> bool | None:
        """Whether a mail came or left since the last call; None: nothing was to be read."""
        said = self._client.idle_check(timeout=0)
        return any(part in _NEWS for one in said for part in one) if said else None

    def behind(self, last: int, since: datetime | None) -> list[int]:
        """UIDs larger than `last` of mails that arrived on the day of `since` or later."""
        criteria = ["UID", f"{last + 1}:*"]
        if since is not None:
            criteria += ["SINCE", datetime_util.format_criteria_date(since.astimezone(UTC)).decode()]
        # Not by the library: of 100,000 UIDs it takes 20 MiB.
        answer, data = self._client._imap.uid("SEARCH", *criteria)
        if answer != "OK":
            raise imaplib.IMAP4.error(f"SEARCH: {data!r}")
        # n:* always has the last mail, also when that is before n (RFC 3501 6.4.8).
        return sorted(uid for line in data if line for uid in map(int, line.split()) if uid > last)

    def present(self, count: int, since: datetime | None) -> list[int]:
        """UIDs of all mails of the folder that arrived on the day of `since` or later. Raises `ValueError` where the
        server lists fewer than it counted."""
        uids = self.behind(0, since)
        if since is None and len(uids) < count:
            raise ValueError(f"it counts {count} mails and lists {len(uids)}")
        return uids

    def heads(self, name: str, validity: int, uids: Sequence[int]) -> list[mails.Head]:
        """In order; one that was deleted meanwhile is left out."""
        found = self._client.fetch(uids, ["RFC822.SIZE", "INTERNALDATE"])
        return [
            mails.Head(
                uid,
                int(found[uid][b"RFC822.SIZE"]),
                folder_state.place(name, validity, uid),
                found[uid].get(b"INTERNALDATE"),
            )
            for uid in uids
            if uid in found
        ]

    def fetch(self, heads: Sequence[mails.Head]) -> list[tuple[mails.Head, bytes | None]]:
        """The bytes of each mail, None for one that is too large. One that was deleted meanwhile is left out."""
        wanted = [head.number for head in heads if head.size <= mails.LARGEST]
        found: Mapping[int, Any] = self._client.fetch(wanted, ["BODY.PEEK[]"]) if wanted else {}
        return [
            (head, None if head.size > mails.LARGEST else bytes(found[head.number][b"BODY[]"]))
            for head in heads
            if head.size > mails.LARGEST or found.get(head.number, {}).get(b"BODY[]") is not None
        ]

    def keep(self, folder: str, mail: bytes, message_id: str, at: datetime) -> None:
        """Append a mail that was read, unless the server has put it there by itself."""
        self._client.select_folder(folder, readonly=True)
        if not self._client.search(["HEADER", "Message-ID", message_id]):
            self._client.append(folder, mail, (imapclient.SEEN,), at)

    def close(self) -> None:
        """Log out if the server still listens."""
        if self._client is not None:
            try:
                if self._idling:
                    self._client.idle_done()
                self._client.logout()
            except (imaplib.IMAP4.error, OSError, EOFError):
                with suppress(OSError):  # a handshake that failed took the socket along
                    self._client.shutdown()


def _flags(flags: Sequence[bytes]) -> frozenset[bytes]:
    return frozenset(flag.lower() for flag in flags)


def opened(
    plain: bool,
    tls: ssl.SSLContext,
    monotonic: Callable[[], float],
    budget: limits.Budget,
    reached: hosts.Hosts = hosts.LOCAL,
) -> Callable[[connection.Spec, Mapping[str, str], limits.Bucket], Mailbox]:
    """What opens the mailbox of a Connection. It raises `Misconfigured`."""
    lists = Lists()

    def opens(spec: connection.Spec, credentials: Mapping[str, str], bucket: limits.Bucket) -> Mailbox:
        parts = urlsplit(spec.url)
        if parts.scheme not in ("imap", "imaps"):
            raise port.Misconfigured(
                f"{parts.scheme}:// mailboxes are not polled by this version.", field="spec.url", remedy="Use imaps://."
            )
        as_whom = login(spec, credentials, tls, plain=plain, reached=reached)
        chosen = spec.filter or connection.Filter()
        path = unquote(parts.path.strip("/"))
        if path and not chosen.include:
            chosen = chosen.model_copy(update={"include": (path,)})
        return Mailbox(as_whom, chosen, bucket, monotonic=monotonic, lists=lists, budget=budget)

    return opens


def keep_sent(login: Login, mail: bytes, message_id: str, at: datetime) -> str:
    """Put a copy of a mail into the folder for sent mails (RFC 6154), whose name is returned; "" where the server names
    none. Blocks. Raises `port.Misconfigured`, `port.Unreachable`."""
    session = _Session(login)
    try:
        session.open()
        folder = next((name for name, (flags, _) in session.folders().items() if b"\\sent" in flags), "")
        if folder:
            session.keep(folder, mail, message_id, at)
        return folder
    except (imaplib.IMAP4.error, OSError, ValueError, EOFError) as error:
        raise port.Unreachable(f"The mailbox takes no copy: {mails.said(error)}.") from error
    finally:
        session.close()
