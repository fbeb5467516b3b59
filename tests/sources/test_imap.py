"""The mailbox protocol against a real Dovecot: every mail once, and no error looks like an empty mailbox."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clients import tls_trust
from sources.core import port
from sources.providers.mail import imap_folder, imap_session, mails
from tests import effort, httpserver
from tests.sources import dovecot
from tests.sources.reading import listed, mailbox
from tests.sources.reading import read as poll
from text import mail

pytestmark = pytest.mark.services


async def test_every_mail_of_every_folder_once(mailserver: dovecot.Dovecot) -> None:
    mailserver.put(*(dovecot.mail(number) for number in range(120)), user="all")
    mailserver.put(dovecot.mail(200), folder="Project/Rack", user="all")
    mailserver.put(dovecot.mail(300), folder="P&AVkA7Q-loha", user="all")  # "Příloha" in modified UTF-7
    mailserver.put(dovecot.mail(400), folder="Trash", user="all")
    items, failures, cursor = await poll(mailbox(mailserver.url, user="all"))
    assert failures == []
    assert [one.urn for one in items] == [f"email::{number}@example.com" for number in (*range(120), 200, 300)]
    assert set(cursor["folders"]) == {"INBOX", "Project/Rack", "Příloha"}
    assert items[0].text.startswith("From: Petra <petra@example.com>\nTo: infra@example.org\n")
    assert (await poll(mailbox(mailserver.url, user="all"), cursor))[0] == []
    mailserver.put(dovecot.mail(500), user="all")
    again, _, _ = await poll(mailbox(mailserver.url, user="all"), cursor)
    assert [one.urn for one in again] == ["email::500@example.com"]
    with mailserver.mailbox("all") as client:
        client.select("INBOX", readonly=True)
        _, [unseen] = client.search(None, "UNSEEN")
        assert len(unseen.split()) == 121, "nothing is marked as read"


async def test_what_the_filter_leaves_out_is_asked_for_once(mailserver: dovecot.Dovecot) -> None:
    mailserver.put(dovecot.mail(1), user="since")
    box = mailbox(mailserver.url, user="since", since="2100-01-01T00:00:00Z")
    items, _, cursor = await poll(box)
    assert (items, cursor["folders"]["INBOX"][1]) == ([], 1)
    mailserver.put(dovecot.mail(9), folder="Spam", user="since")
    chosen, _, _ = await poll(mailbox(mailserver.url, user="since", exclude=("Spam",)))
    assert [one.urn for one in chosen] == ["email::1@example.com"]


async def test_the_cursor_of_another_mailbox_or_another_since_counts_for_nothing(
    mailserver: dovecot.Dovecot,
) -> None:
    mailserver.put(dovecot.mail(1), user="cursor")
    mailserver.put(dovecot.mail(2), dovecot.mail(3), user="moved")
    _, _, other = await poll(mailbox(mailserver.url, user="cursor"))
    items, _, cursor = await poll(mailbox(mailserver.url, user="moved"))
    assert len(items) == 2
    # A server may give the folders of all mailboxes one UIDVALIDITY.
    again, _, _ = await poll(mailbox(mailserver.url, user="moved"), {**other, "folders": cursor["folders"]})
    assert again == items
    none, _, late = await poll(mailbox(mailserver.url, user="moved", since="2100-01-01T00:00:00Z"), cursor)
    assert none == []
    earlier, _, _ = await poll(mailbox(mailserver.url, user="moved", since="2000-01-01T00:00:00Z"), late)
    assert earlier == items


async def test_a_folder_that_the_server_does_not_open_keeps_no_other_from_being_read(
    mailserver: dovecot.Dovecot,
) -> None:
    mailserver.put(dovecot.mail(1), folder="A", user="closed")
    mailserver.put(dovecot.mail(2), folder="B", user="closed")
    folder = mailserver.folder / "mail" / "closed" / ".A"
    folder.chmod(0)
    batches: list[port.Batch] = []

    async def read() -> None:
        async for batch in mailbox(mailserver.url, user="closed").batches({}):
            batches.append(batch)

    with pytest.raises(port.Misconfigured, match="does not open the folder 'A'"):
        await read()
    assert [one.urn for batch in batches for one in batch.items] == ["email::2@example.com"]
    folder.chmod(0o700)
    items, _, _ = await poll(mailbox(mailserver.url, user="closed"), batches[-1].cursor)
    assert [one.urn for one in items] == ["email::1@example.com"]


async def test_sizes_are_asked_for_as_far_as_a_poll_comes(
    mailserver: dovecot.Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailserver.put(*(dovecot.mail(number) for number in range(30)), user="sizes")
    asked: list[int] = []
    heads = imap_session.Session.heads

    def counted(self: imap_session.Session, uids: list[int]) -> Any:
        asked.append(len(uids))
        return heads(self, uids)

    monkeypatch.setattr(imap_session.Session, "heads", counted)
    monkeypatch.setattr(imap_folder, "SIZES", 10)
    async for batch in mailbox(mailserver.url, user="sizes").batches({}):
        assert len(batch.items) == 10
        break
    assert asked == [10]
    items, _, _ = await poll(mailbox(mailserver.url, user="sizes"))
    assert [one.urn for one in items] == [f"email::{number}@example.com" for number in range(30)]


async def test_a_mail_that_triggers_a_bug_is_a_failure(
    mailserver: dovecot.Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = mail.read

    def buggy(raw: bytes) -> mail.Mail:
        if raw.startswith(b"From: Petra") and b"Mail 1" in raw:
            raise ZeroDivisionError("not thought of")
        return read(raw)

    mailserver.put(dovecot.mail(1), dovecot.mail(2), user="bug")
    monkeypatch.setattr(mail, "read", buggy)
    items, [failure], _ = await poll(mailbox(mailserver.url, user="bug"))
    assert [one.urn for one in items] == ["email::2@example.com"]
    assert "not thought of" in failure.reason
    assert failure.title == "Mail 1"


@pytest.mark.parametrize(
    ("reads", "login", "error", "says"),
    [
        (poll, {"password": "wrong"}, port.Rejected, "refuses the login of 'errors'"),
        (poll, {"include": ("INBOX", "Nowhere")}, port.Misconfigured, "no folder 'Nowhere'"),
        (poll, {"url": "imap://127.0.0.1:9"}, port.Unreachable, "did not answer open"),
        (poll, {"plain": False}, port.Misconfigured, "offers no STARTTLS"),
        (listed, {"password": "wrong"}, port.Rejected, "refuses the login of 'errors'"),
        (listed, {"include": ("INBOX", "Nowhere")}, port.Misconfigured, "does not show every folder"),
        (listed, {"include": ("INBOX",), "exclude": ("INBOX",)}, port.Misconfigured, "does not show every folder"),
        (listed, {"url": "imap://127.0.0.1:9"}, port.Unreachable, "did not answer open"),
    ],
)
async def test_an_error_is_no_empty_mailbox_and_no_empty_list(
    mailserver: dovecot.Dovecot, reads: Any, login: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        await reads(mailbox(**{"url": mailserver.url, "user": "errors", **login}))


async def test_a_server_that_goes_away_in_the_middle(mailserver: dovecot.Dovecot) -> None:
    mailserver.put(*(dovecot.mail(number) for number in range(60)), user="middle")
    cursor: port.Cursor = {}
    ended: list[str] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards until the first batch is through, then hangs up."""
        upstream, out = await asyncio.open_connection("127.0.0.1", mailserver.port)

        async def down() -> None:
            while chunk := await upstream.read(65536):
                writer.write(chunk)

        pump = asyncio.create_task(down())
        try:
            while (line := await reader.readline()) and not (cursor and b"FETCH" in line):
                out.write(line)
            ended.append("hung up")
        finally:
            pump.cancel()
            out.transport.abort()
            writer.close()

    async with httpserver.tcp(relay) as port_:
        url = f"imap://127.0.0.1:{port_}"
        got: list[port.Item] = []
        try:
            async for batch in mailbox(url, user="middle").batches({}):
                cursor = batch.cursor
                got += batch.items
        except port.Unreachable:
            ended.append("said so")
    _, _, whole = await poll(mailbox(mailserver.url, user="middle"))
    rest, _, _ = await poll(mailbox(mailserver.url, user="middle"), {**whole, "folders": cursor["folders"]})
    assert (ended[0], ended[-1]) == ("hung up", "said so")
    assert len(ended) < 16, "it is not called for ever"
    assert len({one.source_id for one in [*got, *rest]}) == len([*got, *rest]) == 60


async def test_mails_that_are_none_are_failures_and_hold_nothing_up(mailserver: dovecot.Dovecot) -> None:
    nested = (
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\nContent-Type: message/rfc822\r\n\r\n" * 3000
    )
    wrong = dovecot.mail(2, more="Content-Type: text/plain; charset=no-such-charset")
    mailserver.put(b"\r\n\r\nno headers\r\n", nested, wrong, dovecot.mail(3), user="odd")
    with effort.counted() as spent:
        items, failures, _ = await poll(mailbox(mailserver.url, user="odd"))
    assert spent.loops < 1200
    assert items[-1].urn == "email::3@example.com"
    assert len(items) + len(failures) == 4
    assert all(one.source_id.startswith("INBOX/") and one.reason for one in failures)


async def test_tls_is_verified() -> None:
    with dovecot.running(tls=True) as server:
        server.put(dovecot.mail(1))
        with pytest.raises(port.Unreachable, match="certificate"):
            await poll(mailbox(server.secure, user="ada"))
        trusted = tls_trust.context()
        trusted.load_verify_locations(server.authority)
        for url in (server.secure, server.url.replace("127.0.0.1", "localhost")):
            items, _, _ = await poll(mailbox(url, user="ada", tls=trusted, plain=False))
            assert [one.urn for one in items] == ["email::1@example.com"]


def test_a_second_mail_of_one_message_id_is_another_version() -> None:
    first, second = (mails.item("INBOX/1/1", dovecot.mail(7, text), None) for text in ("One.", "Two."))
    assert (first.source_id, first.editable) == (second.source_id, False)
    assert first.version != second.version


async def test_the_list_admits_what_the_poll_admits(
    mailserver: dovecot.Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mails, "PAGE", 50)
    mailserver.put(*(dovecot.mail(number) for number in range(120)), user="ids")
    mailserver.put(dovecot.mail(2000), b"\r\n\r\nno headers\r\n", folder="Project/Rack", user="ids")
    mailserver.put(dovecot.mail(3000), folder="Trash", user="ids")
    items, failures, _ = await poll(mailbox(mailserver.url, user="ids"))
    pages = [len(page.places) async for page in mailbox(mailserver.url, user="ids").ids()]
    assert pages == [50, 50, 20, 2, 0]
    assert sorted(await listed(mailbox(mailserver.url, user="ids"))) == sorted(
        [one.place for one in items] + [one.place for one in failures]
    )
    with mailserver.mailbox("ids") as client:
        client.select("INBOX")
        client.store("1:119", "+FLAGS", "\\Deleted")
        client.expunge()
        client.copy("1", "Project/Rack")
    left = await listed(mailbox(mailserver.url, user="ids", include=("INBOX",)))
    assert left == [items[119].place]
    assert len(await listed(mailbox(mailserver.url, user="ids"))) == 4
    assert await listed(mailbox(mailserver.url, user="ids", since="2100-01-01T00:00:00Z")) == []


@pytest.mark.parametrize(
    "more",
    [
        "Content-Type: text/plain; charset=utf-7\r\n\r\n+2AA-",
        "Content-Type: text/plain; charset=unicode_escape\r\n\r\n\\ud800",
        "Subject: =?utf-7?q?+2AA-?=",
    ],
)
def test_letters_that_utf_8_does_not_have_are_replaced(more: str) -> None:
    raw = f"From: a@example.com\r\nMessage-ID: <1@example.com>\r\n{more}\r\n\r\nText\r\n".encode()
    read = mails.item("INBOX/1/1", raw, None)
    assert "\ufffd" not in read.urn
    assert read.text.encode()
    assert read.title.encode().decode() == read.title


def test_long_headers_take_no_long_time() -> None:
    """The parser of the standard library needs minutes for one parameter list of a megabyte."""
    with effort.counted() as spent:
        with pytest.raises(mail.UnreadableError):
            mails.item("INBOX/1/1", dovecot.mail(1, more="Content-Type: text/plain; " + "a*0*=x; " * 100_000), None)
        to = ", ".join(f"a{number}@example.com" for number in range(40_000))
        read = mails.item("INBOX/1/1", dovecot.mail(1, more=f"Cc: {to}"), None)
        assert "\nCc: a0@example.com, a1@example.com" in read.text
        many = "\r\n".join(f"X-{number}: {'x' * 400}" for number in range(10_000))
        with pytest.raises(mail.UnreadableError, match="headers have more than"):
            mails.item("INBOX/1/1", dovecot.mail(1, more=many), None)
    assert spent.loops < 800


@pytest.mark.parametrize("to", ["<", "a@example.com, b@[1.2", 'a@example.com, "'])
def test_a_broken_header_costs_no_mail(to: str) -> None:
    """The parser of the standard library raises an IndexError or an AttributeError for these."""
    raw = f"From: a@example.com\r\nMessage-ID: <1@example.com>\r\nTo: {to}\r\n\r\nText\r\n".encode()
    assert mails.item("INBOX/1/1", raw, None).text.startswith(f"From: a@example.com\nTo: {to}\n")


def test_a_message_id_that_is_too_long_for_a_urn_is_hashed() -> None:
    first, second = (mails.item("INBOX/1/1", dovecot.mail(1, sent=f"{'a' * 2000}{at}"), None) for at in (1, 2))
    assert len(first.urn) < 200
    assert first.urn != second.urn
