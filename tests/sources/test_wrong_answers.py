"""Servers of mailboxes that answer wrongly: what can be read is read, what cannot is named, and a list that is shorter
than what is counted is not believed."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.connectors import imapserver, pop3server
from sources.core import items, port
from sources.providers.mail import identity, mails
from tests.sources import dovecot, reading
from tests.sources.test_servers import by_pop3

ARRIVED = datetime(2026, 11, 23, 8, tzinfo=UTC)
EVERY_WAY = [("imap", how) for how in imapserver.BAD] + [("pop3", how) for how in pop3server.BAD]
Server = imapserver.Box | pop3server.Drop


@contextlib.asynccontextmanager
async def mailbox(kind: str, count: int) -> AsyncIterator[tuple[Any, Any]]:
    """A server with mails from 0 on, and what makes a poll of it."""
    server: Server = imapserver.Box(lists=True) if kind == "imap" else pop3server.Drop(locks=False)
    for number in range(count):
        put(server, number)
    async with server.serving():
        yield server, lambda: reading.mailbox(server.url, "u") if kind == "imap" else by_pop3(server.url, "u")


def put(server: Server, number: int, raw: bytes = b"", folder: str = "INBOX") -> None:
    """One more mail."""
    server.mails[number] = raw or dovecot.mail(number), ARRIVED
    if isinstance(server, imapserver.Box):
        server.folders[folder].put(number)
    else:
        server.put(number)


async def cut(source: port.Source, cursor: Mapping[str, Any]) -> tuple[list[port.Item], Mapping[str, Any], str]:
    """A poll that fails at its end: its items, its cursor, and why it failed."""
    items = list[port.Item]()
    try:
        async for batch in source.batches(cursor):
            items += batch.items
            cursor = batch.cursor
    except port.Unreachable as error:
        return items, cursor, error.message
    raise AssertionError("the poll did not fail")


def numbers(items: list[port.Item]) -> list[int]:
    return [int(item.title.removeprefix("Mail ")) for item in items]


@pytest.mark.parametrize(("kind", "how"), EVERY_WAY)
async def test_a_mail_that_is_not_given_is_one_failure_with_its_title(kind: str, how: str) -> None:
    async with mailbox(kind, 5) as (server, poll):
        server.bad = {2: how}
        items, [failure], cursor = await reading.read(poll())
        assert numbers(items) == [0, 1, 3, 4]
        assert failure.title == "Mail 2"
        assert failure.reason
        assert (await reading.read(poll(), cursor))[:2] == ([], []), "the cursor has passed it"
        assert failure.place in await reading.listed(poll()), "it is there, so no sweep takes it for gone"
        server.bad = {}
        [batch] = [batch async for batch in poll().fetch([failure.place])]
        assert numbers(batch.items) == [2]


@pytest.mark.parametrize(("kind", "how"), [("imap", "no"), ("imap", "absent"), ("pop3", "err"), ("pop3", "empty")])
async def test_a_server_that_gives_no_mail_at_all_is_no_mailbox_of_failures(kind: str, how: str) -> None:
    async with mailbox(kind, 25) as (server, poll):
        server.bad = dict.fromkeys(range(25), how)
        items, cursor, why = await cut(poll(), {})
        assert (items, cursor) == ([], {})
        assert "gives none of its mails" in why
        put(server, 25)
        items, failures, _ = await reading.read(poll())
        assert numbers(items) == [25], "it gives another one: the others are the cause"
        assert {failure.title for failure in failures} == {f"Mail {number}" for number in range(25)}


@pytest.mark.parametrize(("kind", "how"), [("imap", "hangup"), ("pop3", "hangup")])
async def test_a_server_that_hangs_up_at_every_mail_is_asked_a_few_times(kind: str, how: str) -> None:
    async with mailbox(kind, 30) as (server, poll):
        server.bad = dict.fromkeys(range(30), how)
        items, cursor, _ = await cut(poll(), {})
        assert (items, cursor) == ([], {})


async def test_a_mail_that_was_deleted_while_it_is_read_is_no_failure() -> None:
    async with mailbox("imap", 3) as (server, poll):
        server.meanwhile = lambda: server.take(1)
        items, failures, _ = await reading.read(poll())
        assert (numbers(items), failures) == ([0, 2], [])


async def test_a_search_that_is_short_hides_no_mail() -> None:
    async with mailbox("imap", 5) as (server, poll):
        _, _, cursor = await reading.read(poll())
        for number in (5, 6):
            put(server, number)
        put(server, 10, folder="Sent")
        server.hidden = {5}
        items, _, after = await reading.read(poll(), cursor)
        assert numbers(items) == [5, 6, 10], "FETCH lists what SEARCH does not"
        assert after["folders"]["INBOX"][1] == 7


@pytest.mark.parametrize("kind", ["imap", "pop3"])
async def test_a_list_that_is_shorter_than_what_is_counted_passes_nothing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By IMAP neither SEARCH nor FETCH names the mail."""
    mails_of = imapserver._Session._mails

    def some(self: imapserver._Session) -> dict[int, int]:
        return {uid: number for uid, number in mails_of(self).items() if number not in self._box.hidden}

    monkeypatch.setattr(imapserver._Session, "_mails", some)
    async with mailbox(kind, 4) as (server, poll):
        _, _, cursor = await reading.read(poll())
        for number in (4, 5):
            put(server, number)
        if kind == "imap":
            put(server, 10, folder="Sent")
        server.hidden = {4}
        items, after, why = await cut(poll(), cursor)
        assert numbers(items) == ([5, 10] if kind == "imap" else [5]), "what is listed is read, other folders too"
        assert "counts 6 mails" in why
        with pytest.raises(port.Unreachable, match="counts 6 mails"):
            await reading.listed(poll())
        server.hidden = set()
        items, _, _ = await reading.read(poll(), after)
        assert 4 in numbers(items)


async def test_a_folder_that_fails_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = imapserver._Session._answer

    def failing(self: imapserver._Session, command: bytes, words: list[bytes]) -> bytes:
        if self._name == "INBOX" and command in (b"UID SEARCH", b"UID FETCH"):
            raise imapserver._RefusedError
        return answer(self, command, words)

    async with mailbox("imap", 3) as (server, poll):
        put(server, 10, folder="Sent")
        with monkeypatch.context() as patched:
            patched.setattr(imapserver._Session, "_answer", failing)
            items, cursor, why = await cut(poll(), {})
        assert numbers(items) == [10]
        assert "All other folders are read" in why
        items, _, _ = await reading.read(poll(), cursor)
        assert numbers(items) == [0, 1, 2]


ANONYMOUS = b"From: a@example.com\r\nDate: Mon, 23 Nov 2026 08:00:00 +0100\r\nSubject: Mail 7\r\n\r\nText\r\n"


async def test_a_mail_without_a_message_id_is_the_same_wherever_it_is() -> None:
    async with mailbox("imap", 0) as (server, poll):
        put(server, 7, ANONYMOUS)
        [first], _, cursor = await reading.read(poll())
        server.folders["Sent"].put(7)
        server.take(7, but="Sent")
        server.rename("Sent", "Old")
        [moved], _, _ = await reading.read(poll(), cursor)
        server.renumber("Old")
        [anew], _, _ = await reading.read(poll(), cursor)
    same = {(item.source_id, item.version, item.urn) for item in (first, moved, anew)}
    assert same == {(f"mail:{identity.digest(ANONYMOUS)}", identity.digest(ANONYMOUS), first.urn)}
    assert len({item.place for item in (first, moved, anew)}) == 3


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (ANONYMOUS.replace(b"\r\n", b"\n"), True),
        (ANONYMOUS + b"\r\n", True),
        (b"Bcc: c@example.com\r\n" + ANONYMOUS, True),
        (b"Return-Path: <a@example.com>\r\nReceived: from x by y\r\n\tfor z\r\n" + ANONYMOUS, True),
        (ANONYMOUS.replace(b"Subject: Mail 7", b"Status: RO\r\nSubject:\r\n Mail  7"), True),
        (ANONYMOUS.replace(b"Text", b"Other text"), False),
        (ANONYMOUS.replace(b"a@example.com", b"b@example.com"), False),
        (ANONYMOUS.replace(b"08:00:00", b"08:00:01"), False),
    ],
)
def test_what_a_mail_is_known_by_is_what_its_author_wrote(other: bytes, same: bool) -> None:
    assert (identity.digest(other) == identity.digest(ANONYMOUS)) is same


def test_bytes_without_a_header_are_known_by_all_of_them() -> None:
    assert identity.digest(b"\x00\x01") != identity.digest(b"\x00\x02")
    assert identity.digest(b"") == hashlib.sha256(b"\n").hexdigest()


def test_the_subject_of_what_is_no_mail_is_its_title() -> None:
    assert (
        mails.title(b"X: y\r\nsubject: =?utf-8?q?P=C5=99=C3=ADloha?=\r\n of all\r\n\r\nText")
        == "P\u0159\u00edloha of all"
    )
    assert mails.title(b"X: y\r\n\r\nText") == ""


class Gmail(imapserver._Session):
    """All folders are labels, and the folder of all mails has every mail."""

    def _answer(self, command: bytes, words: list[bytes]) -> bytes:
        if command == b"CAPABILITY":
            return b"* CAPABILITY IMAP4rev1 X-GM-EXT-1\r\n"
        if command == b"LIST":
            flags = {"[Gmail]/All Mail": b"\\All", "[Gmail]/Trash": b"\\Trash"}
            shown = ((flags.get(name, b"\\HasNoChildren"), name.encode()) for name in self._box.folders)
            return b"".join(b'* LIST (%s) "/" "%s"\r\n' % pair for pair in shown)
        if command == b"UID SEARCH" and b"X-GM-LABELS" in words:
            label = words[words.index(b"X-GM-LABELS") + 1].decode()
            excluded = words[words.index(b"X-GM-LABELS") - 2 : words.index(b"X-GM-LABELS")] != [b"NOT", b"NOT"]
            labelled = set(self._box.folders[label].mails.values())
            uids = [uid for uid, number in sorted(self._mails().items()) if (number in labelled) is not excluded]
            return b"* SEARCH%s\r\n" % b"".join(b" %d" % uid for uid in uids)
        if command == b"UID SEARCH" and words[-2:] == [b"NOT", b"UNDRAFT"]:
            return b"* SEARCH\r\n"
        return super()._answer(command, words)


async def test_archiving_in_gmail_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imapserver, "_Session", Gmail)
    async with mailbox("imap", 0) as (server, _):
        everything = imapserver.Folder(9)
        server.folders = {
            "INBOX": server.folders["INBOX"],
            "News": imapserver.Folder(8),
            "[Gmail]/All Mail": everything,
        }
        for number in range(4):
            put(server, number)
            everything.put(number)
        server.folders["News"].put(3)
        box = reading.mailbox(server.url, "u")
        items, _, cursor = await reading.read(box)
        assert numbers(items) == [0, 1, 2, 3]
        assert list(cursor["folders"]) == ["[Gmail]/All Mail"]
        server.folders["INBOX"].mails.clear()  # archived
        assert await reading.listed(box) == [item.place for item in items]
        chosen = reading.mailbox(server.url, "u", exclude=("News",))
        assert numbers((await reading.read(chosen))[0]) == [0, 1, 2]
        assert len(await reading.listed(chosen)) == 3


def test_what_is_left_out_of_a_mail_is_said() -> None:
    parts = "".join(f'--b\r\nContent-Type: image/png; name="{number}.png"\r\n\r\nx\r\n' for number in range(34))
    raw = dovecot.mail(1, f"--b\r\n\r\nText\r\n{parts}--b--", more="Content-Type: multipart/mixed; boundary=b")
    left_out = mails.item("INBOX/1/1", raw, ARRIVED).left_out
    assert [said for said in left_out if "at most" in said] == [
        f"{number}.png: a task holds at most 32 attachments" for number in (32, 33)
    ]


def test_a_mail_that_arrives_twice_at_other_times_is_no_other_mail() -> None:
    first, second = (mails.item("INBOX/1/1", dovecot.mail(1), at) for at in (ARRIVED, ARRIVED + timedelta(hours=1)))
    assert first.facts != second.facts
    names = items.Names({})
    names.take(first)
    assert not names.another(second)
    assert names.another(mails.item("INBOX/1/1", dovecot.mail(1, "Another text"), ARRIVED))
