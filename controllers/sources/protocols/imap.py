"""Mailboxes by IMAP (RFC 3501): every mail of the chosen folders once, by UIDVALIDITY and UID.

The cursor is `{"folders": {name: [uidvalidity, uid]}, "of": HASH}`: all mails up to that UID are taken. A folder whose
UIDVALIDITY changed is read from its beginning, and so are all of another mailbox (some servers give each folder the
UIDVALIDITY 1) or with another `since`. A mail is known by its Message-ID and its bytes: none becomes a second task.
Folders are opened read-only and bodies are fetched by PEEK: nothing in the mailbox changes.

The library blocks, so each step runs in a thread; every call on the wire has a timeout.
"""

from __future__ import annotations

import asyncio
import hashlib
import imaplib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import imapclient
import structlog
from imapclient import exceptions

from controllers.sources import limits, port
from crds import connection, mail, pendingtask

log = structlog.get_logger("sources")

SECONDS = 60.0
"""The longest silence of a server."""
BATCH = 50
BATCH_BYTES = 8 << 20
PAGE = 1000
"""Places of one page."""
SIZES = 1000
"""Mails whose sizes are asked for at once."""
LARGEST = 32 << 20
"""Bytes of a mail; a larger one is a failure that says so."""
# Special use (RFC 6154): copies of all mail, and mails that are no input.
_LEFT_OUT = frozenset({b"\\all", b"\\trash", b"\\junk", b"\\drafts", b"\\noselect", b"\\nonexistent"})
_ID_CHARS = 400
_FOLDER_CHARS = 200


@dataclass(frozen=True, slots=True)
class Login:
    """Where and as whom. `tls` is the context for imaps:// and STARTTLS; `plain` allows imap:// without either."""

    url: str
    username: str
    password: str
    tls: ssl.SSLContext
    plain: bool = False


class Mailbox:
    """One poll. `bucket` and `monotonic` say when the next command may go; `sleep` waits for it."""

    def __init__(
        self,
        login: Login,
        chosen: connection.Filter,
        bucket: limits.Bucket,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._login, self._filter, self._bucket = login, chosen, bucket
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
            folders, absent = _chosen(await self._call(session.folders), self._filter)
            closed = []
            for name in folders:
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
        """See `port.Source`. One SEARCH a folder: UIDs are asked for, no mail is."""
        session = _Session(self._login)
        try:
            await self._call(session.open)
            folders, absent = _chosen(await self._call(session.folders), self._filter)
            if absent or not folders:
                # INBOX is always there (RFC 3501 5.1): a list without any folder is a right that was lost.
                raise port.Misconfigured("The mailbox does not show every folder that is to be read.")
            for name in folders:
                selected = await self._call(session.select, name)
                if selected is None:
                    raise port.Unreachable(f"The server does not open the folder {name!r}, so nothing is known of it.")
                uids = await self._call(session.present, self._filter.since)
                for start in range(0, len(uids), PAGE):
                    yield port.Page(tuple(_place(name, selected[0], uid) for uid in uids[start : start + PAGE]))
            yield port.Page((), last=True)
        finally:
            await asyncio.to_thread(session.close)

    async def _folder(
        self, session: _Session, name: str, selected: tuple[int, int], places: dict[str, list[int]]
    ) -> AsyncGenerator[port.Batch]:
        validity, following = selected
        known = places.get(name)
        last = known[1] if known is not None and known[0] == validity else 0
        if following and last + 1 >= following:
            return
        uids = await self._call(session.behind, last, self._filter.since)
        # A poll is cut long before the end of a large folder: the sizes of what it does not reach are not asked for.
        for start in range(0, len(uids), SIZES):
            for some in await self._call(session.portions, uids[start : start + SIZES]):
                fetched = await self._call(session.fetch, some)
                items, failures = await asyncio.to_thread(_read, name, validity, fetched)
                places[name] = [validity, some[-1].uid]
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
        return port.Batch({"folders": dict(places), "of": self._of}, _shown(places), items, failures)

    async def _call(self, step: Callable[..., Any], *arguments: Any) -> Any:
        pause = self._bucket.reserve(self._monotonic())
        if pause:
            await self._sleep(pause)
        try:
            return await asyncio.to_thread(step, *arguments)
        except exceptions.LoginError as error:
            raise port.Rejected(
                f"The mailbox refuses the login of {self._login.username!r}: {_said(error)}.",
                field="spec.secretRef",
                remedy="Correct username and password in the Secret.",
            ) from error
        except (imaplib.IMAP4.error, OSError, ValueError, EOFError) as error:
            raise port.Unreachable(f"The mailbox did not answer {step.__name__}: {_said(error)}.") from error


@dataclass(frozen=True, slots=True)
class _Head:
    uid: int
    size: int
    received: datetime | None


class _Session:
    """The blocking part. Raises what imapclient, ssl and socket raise."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._client: Any = None
        self._exists = 0

    def open(self) -> None:
        """Connect, encrypt, log in."""
        parts = urlsplit(self._login.url)
        encrypted = parts.scheme == "imaps"
        client = imapclient.IMAPClient(
            parts.hostname,
            parts.port,
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
        client.login(self._login.username, self._login.password)

    def folders(self) -> list[tuple[frozenset[bytes], str]]:
        """(flags in small letters, name)."""
        return [(frozenset(flag.lower() for flag in flags), name) for flags, _, name in self._client.list_folders()]

    def select(self, name: str) -> tuple[int, int] | None:
        """(UIDVALIDITY, UIDNEXT; 0 where the server does not say); None for a folder that the server does not open."""
        try:
            found = self._client.select_folder(name, readonly=True)
        except imaplib.IMAP4.abort:
            raise
        except imaplib.IMAP4.error as error:
            log.info("folder not opened", folder=name, reason=_said(error))
            return None
        self._exists = int(found.get(b"EXISTS", 0))
        return int(found[b"UIDVALIDITY"]), int(found.get(b"UIDNEXT", 0))

    def behind(self, last: int, since: datetime | None) -> list[int]:
        """UIDs larger than `last` of mails that arrived on the day of `since` or later."""
        criteria: list[Any] = ["UID", f"{last + 1}:*"]
        if since is not None:
            criteria += ["SINCE", since.astimezone(UTC).date()]
        # n:* always has the last mail, also when that is before n (RFC 3501 6.4.8).
        return sorted(uid for uid in self._client.search(criteria) if uid > last)

    def present(self, since: datetime | None) -> list[int]:
        """UIDs of all mails of the folder that arrived on the day of `since` or later. Raises `ValueError` where the
        server lists fewer than it counts."""
        uids = self.behind(0, since)
        if since is None and len(uids) < self._exists:
            raise ValueError(f"it counts {self._exists} mails and lists {len(uids)}")
        return uids

    def portions(self, uids: Sequence[int]) -> list[list[_Head]]:
        """In order, BATCH mails and about BATCH_BYTES each."""
        portions: list[list[_Head]] = []
        some: list[_Head] = []
        size = 0
        found = self._client.fetch(uids, ["RFC822.SIZE", "INTERNALDATE"])
        for uid in uids:
            if uid not in found:
                continue  # deleted meanwhile
            head = _Head(uid, int(found[uid][b"RFC822.SIZE"]), found[uid].get(b"INTERNALDATE"))
            if some and (len(some) >= BATCH or size + head.size > BATCH_BYTES):
                portions.append(some)
                some, size = [], 0
            some.append(head)
            size += min(head.size, LARGEST)
        return [*portions, some] if some else portions

    def fetch(self, heads: Sequence[_Head]) -> list[tuple[_Head, bytes | None]]:
        """The bytes of each mail, None for one that is too large. One that was deleted meanwhile is left out."""
        wanted = [head.uid for head in heads if head.size <= LARGEST]
        found: Mapping[int, Any] = self._client.fetch(wanted, ["BODY.PEEK[]"]) if wanted else {}
        return [
            (head, None if head.size > LARGEST else bytes(found[head.uid][b"BODY[]"]))
            for head in heads
            if head.size > LARGEST or found.get(head.uid, {}).get(b"BODY[]") is not None
        ]

    def close(self) -> None:
        """Log out if the server still listens."""
        if self._client is not None:
            try:
                self._client.logout()
            except (imaplib.IMAP4.error, OSError, EOFError):
                self._client.shutdown()


def _chosen(listed: Sequence[tuple[frozenset[bytes], str]], chosen: connection.Filter) -> tuple[list[str], list[str]]:
    """(folders to read, names of the filter that are no folder). INBOX has no case (RFC 3501 5.1)."""
    names = {name: flags for flags, name in listed}
    by_case = {("INBOX" if name.upper() == "INBOX" else name): name for name in names}
    wanted = [("INBOX" if name.upper() == "INBOX" else name) for name in chosen.include]
    excluded = {("INBOX" if name.upper() == "INBOX" else name) for name in chosen.exclude}
    if wanted:
        there = [by_case[name] for name in wanted if name in by_case and name not in excluded]
        return list(dict.fromkeys(there)), [name for name in wanted if name not in by_case]
    return sorted(real for name, real in by_case.items() if name not in excluded and not names[real] & _LEFT_OUT), []


def _read(
    folder: str, validity: int, fetched: Sequence[tuple[_Head, bytes | None]]
) -> tuple[tuple[port.Item, ...], tuple[port.Failure, ...]]:
    items, failures = [], []
    for head, raw in fetched:
        place = _place(folder, validity, head.uid)
        if raw is None:
            why = f"The mail has {head.size} bytes, more than {LARGEST}."
            failures.append(port.Failure(place, "", why, place))
            continue
        try:
            items.append(item(place, raw, head.received))
        except mail.UnreadableError as error:
            failures.append(port.Failure(place, "", f"This is no usable mail: {error}.", place))
        except Exception as error:
            # One mail that triggers a bug of ours must not stop the others.
            log.exception("mail not read", place=place)
            failures.append(port.Failure(place, "", f"This mail cannot be read: {error!r}.", place))
    return tuple(items), tuple(failures)


def _place(folder: str, validity: int, uid: int) -> str:
    """Where a mail is. The names of two long folders may begin alike."""
    name = (
        folder if len(folder) <= _FOLDER_CHARS else f"{folder[:168]}{hashlib.sha256(folder.encode()).hexdigest()[:32]}"
    )
    return f"{name}/{validity}/{uid}"


def item(place: str, raw: bytes, received: datetime | None) -> port.Item:
    """A mail as an item; `place` names one without a Message-ID. Raises `crds.mail.UnreadableError`."""
    found = mail.read(raw)
    digest = hashlib.sha256(raw).hexdigest()
    source_id = found.message_id[:_ID_CHARS] or place
    return port.Item(
        source_id=source_id,
        version=digest,
        type=pendingtask.Type.EMAIL,
        urn=found.urn or f"email::{digest[:32]}",
        title=found.title[:200],
        text=found.text,
        files=tuple(found.files),
        observed_at=received,
        editable=False,
        place=place,
    )


def opened(
    plain: bool, tls: ssl.SSLContext, monotonic: Callable[[], float]
) -> Callable[[connection.Spec, Mapping[str, str], limits.Bucket], Mailbox]:
    """What opens the mailbox of a Connection. It raises `Misconfigured`."""

    def opens(spec: connection.Spec, credentials: Mapping[str, str], bucket: limits.Bucket) -> Mailbox:
        parts = urlsplit(spec.url)
        if parts.scheme not in ("imap", "imaps"):
            raise port.Misconfigured(
                f"{parts.scheme}:// mailboxes are not polled by this version.", field="spec.url", remedy="Use imaps://."
            )
        username, password = credentials.get("username", ""), credentials.get("password", "")
        if not username or not password:
            raise port.Misconfigured(
                "The Secret lacks username or password.", field="spec.secretRef", remedy="Add both keys to it."
            )
        chosen = spec.filter or connection.Filter()
        path = unquote(parts.path.strip("/"))
        if path and not chosen.include:
            chosen = chosen.model_copy(update={"include": (path,)})
        login = Login(spec.url, username, password, tls, plain)
        return Mailbox(login, chosen, bucket, monotonic=monotonic)

    return opens


def _shown(places: Mapping[str, Sequence[int]]) -> str:
    return "; ".join(f"{name}: UID {uid} of {validity}" for name, (validity, uid) in sorted(places.items()))


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
