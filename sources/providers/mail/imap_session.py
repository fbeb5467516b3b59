"""One connection to an IMAP server (RFC 3501): what is asked on the wire, each command by itself. It blocks.

Raises what imapclient, ssl and socket raise: `imaplib.IMAP4.abort`, `OSError` and `EOFError` where the connection is
lost, other `imaplib.IMAP4.error` and `ValueError` where the server refuses a command or answers nonsense.
"""

from __future__ import annotations

import imaplib
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import imapclient
import structlog
from imapclient import response_parser

from crds import connection
from sources.core import host_address, hosts, port
from sources.providers.mail import mails
from sources.providers.mail.folder_state import Folders, Mark

log = structlog.get_logger("sources")

LOST = (imaplib.IMAP4.abort, OSError, EOFError)
"""The connection is gone; every other error of this module is an answer to one command."""
SECONDS = 60.0
"""The longest silence of a server."""
_UID = re.compile(rb"\bUID (\d+)")
_STATUS = "STATUS (UIDVALIDITY UIDNEXT MESSAGES)"
_NEWS = frozenset({b"EXISTS", b"EXPUNGE", b"VANISHED"})


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


class Session:
    """Use it from one thread at a time."""

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

    def reopen(self) -> None:
        """The same on a new connection; the old one is gone."""
        with suppress(OSError, AttributeError):
            self._client.shutdown()
        self.open()

    def labels(self) -> bool:
        """Whether folders are labels of one store, as in Gmail (X-GM-EXT-1)."""
        return bool(self._client.has_capability("X-GM-EXT-1"))

    def folders(self) -> Folders:
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
            state = self._client.select_folder(name, readonly=True)
        except imaplib.IMAP4.abort:
            raise
        except imaplib.IMAP4.error as error:
            log.info("folder not opened", folder=name, reason=mails.said(error))
            return None
        return Mark(int(state[b"UIDVALIDITY"]), int(state.get(b"UIDNEXT", 0)), int(state.get(b"EXISTS", 0)))

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
        answers = self._client.idle_check(timeout=0)
        return any(part in _NEWS for answer in answers for part in answer) if answers else None

    def search(self, last: int, criteria: Sequence[str] = ()) -> list[int]:
        """UIDs larger than `last` that meet all criteria (RFC 3501 6.4.4)."""
        # Not by the library: of 100,000 UIDs it takes 20 MiB.
        answer, data = self._client._imap.uid("SEARCH", "UID", f"{last + 1}:*", *criteria)
        if answer != "OK":
            raise imaplib.IMAP4.error(f"SEARCH: {data!r}")
        # n:* always has the last mail, also when that is before n (RFC 3501 6.4.8).
        return sorted(uid for line in data if line for uid in map(int, line.split()) if uid > last)

    def numbered(self, last: int) -> list[int]:
        """UIDs larger than `last` as FETCH lists them, which reads no index of a search."""
        return sorted(uid for uid in _uids(self._client._imap.uid("FETCH", f"{last + 1}:*", "(UID)")) if uid > last)

    def named(self, uids: str) -> list[int]:
        """Those of these UIDs that FETCH lists."""
        return _uids(self._client._imap.uid("FETCH", uids, "(UID)"))

    def uid_at(self, place: int) -> int | None:
        """The UID of the mail with this sequence number, None where there is none."""
        return next(iter(_uids(self._client._imap.fetch(str(place), "(UID)"))), None)

    def heads(self, uids: Sequence[int]) -> dict[int, tuple[int, datetime | None]]:
        """(bytes, time of arrival) of those that the server answers for."""
        answer = self._client.fetch(uids, ["RFC822.SIZE", "INTERNALDATE"])
        return {
            uid: (int(answer[uid][b"RFC822.SIZE"]), answer[uid].get(b"INTERNALDATE"))
            for uid in uids
            if answer.get(uid, {}).get(b"RFC822.SIZE") is not None
        }

    def bodies(self, uids: Sequence[int], most: int = 0) -> dict[int, bytes]:
        """The bytes of those that the server answers for with some; at most `most` of each."""
        wanted = f"BODY.PEEK[]<0.{most}>" if most else "BODY.PEEK[]"
        answer = self._client.fetch(uids, [wanted])
        return {uid: raw for uid in uids if (raw := _bytes(answer.get(uid, {}), b"BODY[]"))}

    def header(self, uid: int) -> bytes:
        """The header of a mail."""
        return _bytes(self._client.fetch([uid], ["BODY.PEEK[HEADER]"]).get(uid, {}), b"BODY[HEADER]")

    def subject(self, uid: int) -> bytes:
        """The field of the subject, as the server has read it before."""
        envelope = self._client.fetch([uid], ["ENVELOPE"]).get(uid, {}).get(b"ENVELOPE")
        return b"Subject: " + bytes(envelope.subject or b"") + b"\r\n" if envelope is not None else b""

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


def _bytes(fields: Mapping[bytes, Any], name: bytes) -> bytes:
    """What an answer has under a name, which a range may follow (`BODY[]<0>`); b"" for NIL."""
    raw = next((value for key, value in fields.items() if key.partition(b"<")[0] == name), None)
    return bytes(raw) if raw is not None else b""


def _uids(answered: tuple[str, Sequence[Any]]) -> list[int]:
    """Those that an answer to FETCH names. The library reads no open range, and takes 20 MiB for 100,000."""
    answer, data = answered
    if answer != "OK":
        raise imaplib.IMAP4.error(f"FETCH: {data!r}")
    return [int(named[1]) for line in data if isinstance(line, bytes) and (named := _UID.search(line))]


def _flags(flags: Sequence[bytes]) -> frozenset[bytes]:
    return frozenset(flag.lower() for flag in flags)


def keep_sent(login: Login, mail: bytes, message_id: str, at: datetime) -> str:
    """Put a copy of a mail into the folder for sent mails (RFC 6154), whose name is returned; "" where the server names
    none. Blocks. Raises `port.Misconfigured`, `port.Unreachable`."""
    session = Session(login)
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
