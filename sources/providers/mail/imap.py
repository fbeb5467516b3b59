"""Mailboxes by IMAP (RFC 3501): every mail of the chosen folders once, by UIDVALIDITY and UID.

The cursor is `{"folders": {name: [uidvalidity, uid]}, "of": HASH}`: all mails up to that UID are stored or are failures
with their titles. A folder whose UIDVALIDITY changed is read from its beginning, and so are all of another mailbox
(some servers give each folder the UIDVALIDITY 1) or with another `since`. A mail is known by its Message-ID or by what
its author wrote (`identity`): none becomes a second task. Folders are opened read-only and bodies are fetched by PEEK:
nothing in the mailbox changes.

UIDs only grow (RFC 3501 2.3.1.1), so a folder with the same UIDVALIDITY, UIDNEXT and number of mails has the same
mails: it is neither opened nor searched again where the server states the three with the list of folders (RFC 5819).
A folder that fails keeps its place and holds up no other one.

In Gmail folders are labels of one store. Archiving takes the label INBOX away, so the folder of all mails is read in
their place (RFC 6154 `\\All`), with the labels of each mail by X-GM-LABELS.

The library blocks, so each step runs in a thread; every call on the wire has a timeout.
"""

from __future__ import annotations

import asyncio
import hashlib
import imaplib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC
from typing import Any
from urllib.parse import unquote, urlsplit

import imapclient
from imapclient import datetime_util, exceptions

from crds import connection
from sources.core import hosts, limits, port
from sources.providers.mail import folder_state, imap_session, mails
from sources.providers.mail.folder_state import Folders, Lists, Mark
from sources.providers.mail.imap_folder import Declined, Folder, Hangup
from sources.providers.mail.imap_session import Login, Session

_EMPTY = 3
"""TLS alone makes a socket readable a few times; one that has ended always is."""
_LABELS = {b"\\sent": "\\Sent", b"\\flagged": "\\Starred", b"\\important": "\\Important"}
"""By the special use of a folder of Gmail the label that its mails have; others have its name."""


class Mailbox:
    """One poll. `bucket` and `monotonic` say when the next command may go; `sleep` waits for it. `lists` and `budget`
    are those of the process."""

    tells = False

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
        session = Session(self._login)
        known = cursor.get("folders", {}) if cursor.get("of") == self._of else {}
        places: dict[str, list[int]] = {name: list(at) for name, at in known.items()}
        try:
            listed, folders, absent, criteria = await self._opened(session)
            closed, failed = list[str](), list[str]()
            for name in folders:
                if folder_state.behind(places.get(name), listed[name][1]) == 0:
                    continue
                try:
                    selected = await self._call(session.select, name)
                    if selected is None:
                        closed.append(name)
                        continue
                    folder = Folder(self._call, session, name, selected, folder_state.prefix(name), criteria)
                    async with aclosing(self._read(folder, places)) as batches:
                        async for batch in batches:
                            yield batch
                except Declined as error:
                    failed.append(error.message)
                except Hangup as error:
                    failed.append(error.message)
                    await self._call(session.reopen)
            if failed:
                others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
                raise port.Unreachable(f"{failed[0]}{others} All other folders are read.")
            self._complain(closed, absent)
        finally:
            await asyncio.to_thread(session.close)

    def _complain(self, closed: Sequence[str], absent: Sequence[str]) -> None:
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

    async def ids(self) -> AsyncGenerator[port.Page]:
        """See `port.Source`. One SEARCH for a folder that changed: UIDs are asked for, no mail is."""
        session = Session(self._login)
        try:
            listed, folders, absent, criteria = await self._opened(session)
            if absent or not folders:
                # INBOX is always there (RFC 3501 5.1): a list without any folder is a right that was lost.
                raise port.Misconfigured("The mailbox does not show every folder that is to be read.")
            for name in folders:
                mark, uids = await self._present(session, name, listed[name][1], criteria)
                for start in range(0, len(uids), mails.PAGE):
                    some = uids[start : start + mails.PAGE]
                    yield port.Page(tuple(f"{folder_state.prefix(name)}/{mark.validity}/{uid}" for uid in some))
            yield port.Page((), last=True, moving=True)
        finally:
            await asyncio.to_thread(session.close)

    async def fetch(self, places: Sequence[str]) -> AsyncGenerator[port.Batch]:
        """See `port.Fetching`. Places of another UIDVALIDITY are nowhere."""
        wanted: dict[str, list[int]] = {}
        for place in places:
            prefix, _, uid = place.rpartition("/")
            wanted.setdefault(prefix, []).append(int(uid))
        session = Session(self._login)
        try:
            _, folders, _, criteria = await self._opened(session)
            begun = {place.rpartition("/")[0] for place in wanted}
            for name in [name for name in folders if folder_state.prefix(name) in begun]:
                selected = await self._call(session.select, name)
                if selected is None:
                    continue
                folder = Folder(self._call, session, name, selected, folder_state.prefix(name), criteria)
                uids = await folder.there(wanted.get(f"{folder_state.prefix(name)}/{selected.validity}", ()))
                async with aclosing(folder.read(uids, self._budget)) as portions:
                    async for fetched, _ in portions:
                        items, failures = await asyncio.to_thread(mails.read, fetched)
                        yield port.Batch({}, "", items, failures)
        finally:
            await asyncio.to_thread(session.close)

    async def news(self, cursor: port.Cursor, seconds: float) -> bool | None:
        """Wait at most `seconds` for a mail that comes to INBOX, or to the first folder that is read, or that leaves
        it; at once for what came behind `cursor`. None: the server has no IDLE (RFC 2177). Raises as `batches`."""
        session = Session(self._login)
        try:
            await self._call(session.open)
            if not await self._call(session.idles):
                return None
            folders, _ = folder_state.chosen(
                await self._call(session.folders), self._filter, await self._call(session.labels)
            )
            name = next((name for name in folders if name.upper() == "INBOX"), next(iter(folders), ""))
            mark = await self._call(session.select, name) if name else None
            if mark is None:
                return None
            known = cursor.get("folders", {}).get(name) if cursor.get("of") == self._of else None
            if known is not None and folder_state.behind(known, mark):
                return True
            return await self._idle(session, seconds)
        finally:
            await asyncio.to_thread(session.close)

    async def _idle(self, session: Session, seconds: float) -> bool:
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

    async def _opened(self, session: Session) -> tuple[Folders, list[str], list[str], list[str]]:
        """(all folders, those to read, names of the filter that are no folder, criteria of the mails to read)."""
        await self._call(session.open)
        listed: Folders = await self._call(session.folders)
        labels = await self._call(session.labels)
        folders, absent = folder_state.chosen(listed, self._filter, labels)
        criteria = []
        if self._filter.since is not None:
            day = datetime_util.format_criteria_date(self._filter.since.astimezone(UTC)).decode()
            criteria.append(f"SINCE {day}")
        if any(folder_state.ALL in listed[name][0] for name in folders) and labels and not self._filter.include:
            criteria.append("UNDRAFT")
            criteria += [f"NOT X-GM-LABELS {_label(name, listed)}" for name in self._filter.exclude]
        return listed, folders, absent, criteria

    async def _present(
        self, session: Session, name: str, mark: Mark | None, criteria: Sequence[str]
    ) -> tuple[Mark, Sequence[int]]:
        """The mark of a folder and its UIDs. Raises `port.Unreachable` where they may not be all."""
        of = (" ".join([self._of, *criteria]), name)
        uids = self._lists.get(of, mark)
        if mark is not None and uids is not None:
            return mark, uids
        selected: Mark | None = await self._call(session.select, name)
        if selected is None:
            raise port.Unreachable(f"The server does not open the folder {name!r}, so nothing is known of it.")
        uids = self._lists.get(of, selected)
        if uids is None:
            folder = Folder(self._call, session, name, selected, folder_state.prefix(name), criteria)
            listed = await folder.listed(0)
            if not listed.complete:
                raise port.Unreachable(_short(folder))
            uids, selected = listed.uids, folder.mark
            self._lists.put(of, selected, uids)
        return selected, uids

    async def _read(self, folder: Folder, places: dict[str, list[int]]) -> AsyncGenerator[port.Batch]:
        """What is new in a folder, whose place in `places` moves on. Raises `port.Unreachable`."""
        name, selected = folder.name, folder.mark
        known = places.get(name)
        last = known[1] if known is not None and known[0] == selected.validity else 0
        if folder_state.behind(known, selected) == 0:
            return
        listed = await folder.listed(last)
        async with aclosing(folder.read(listed.uids, self._budget)) as portions:
            async for fetched, reached in portions:
                items, failures = await asyncio.to_thread(mails.read, fetched)
                del fetched
                if listed.complete:
                    places[name] = [selected.validity, reached]
                yield self._batch(places, items, failures)
        if not listed.complete:
            raise Declined(_short(folder))
        newest = max(last, selected.next - 1)
        if newest > last and places.get(name) != [selected.validity, newest]:
            # Mails that the filter leaves out, or that are gone: they are not asked about again.
            places[name] = [selected.validity, newest]
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
        except imap_session.LOST as error:
            raise Hangup(f"The mailbox did not answer {step.__name__}: {mails.said(error)}.") from error
        except (imaplib.IMAP4.error, ValueError, LookupError, TypeError) as error:
            raise Declined(f"The mailbox did not answer {step.__name__}: {mails.said(error)}.") from error


def _label(name: str, listed: Folders) -> str:
    """What mails of a folder of Gmail are labelled with, quoted."""
    if folder_state.cased(name) == "INBOX":
        return '"\\\\Inbox"'
    flags = listed.get(name, (frozenset[bytes](), None))[0]
    label = next((label for flag, label in _LABELS.items() if flag in flags), "")
    written = label or imapclient.imap_utf7.encode(name).decode("ascii")
    return '"' + written.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _short(folder: Folder) -> str:
    return f"The folder {folder.name!r} counts {folder.mark.mails} mails and lists fewer: its place is kept."


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
        as_whom = imap_session.login(spec, credentials, tls, plain=plain, reached=reached)
        chosen = spec.filter or connection.Filter()
        path = unquote(parts.path.strip("/"))
        if path and not chosen.include:
            chosen = chosen.model_copy(update={"include": (path,)})
        return Mailbox(as_whom, chosen, bucket, monotonic=monotonic, lists=lists, budget=budget)

    return opens
