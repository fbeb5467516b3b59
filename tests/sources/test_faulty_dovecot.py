"""A real Dovecot one of whose mails cannot be read, and mails without a Message-ID that move in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sources.core import port
from tests.sources import dovecot, reading
from tests.sources.reading import listed, mailbox, read
from tests.sources.test_servers import by_pop3

pytestmark = pytest.mark.services


def files(server: dovecot.Dovecot, user: str) -> list[Path]:
    """Those of the mails in INBOX, in their order."""
    there = [path for part in ("cur", "new") for path in (server.folder / "mail" / user / part).iterdir()]
    return sorted(there, key=lambda path: path.read_bytes())


def polled(server: dovecot.Dovecot, kind: str, user: str) -> port.Source:
    return mailbox(server.url, user) if kind == "imap" else by_pop3(f"pop3://127.0.0.1:{server.pop3}", user)


@pytest.mark.parametrize("kind", ["imap", "pop3"])
async def test_a_mail_whose_file_cannot_be_opened_is_one_failure(mailserver: dovecot.Dovecot, kind: str) -> None:
    user = f"closed-{kind}"
    mailserver.put(*(dovecot.mail(number) for number in range(10, 15)), user=user)
    mailserver.put(dovecot.mail(20), folder="Other", user=user)
    source: Any = polled(mailserver, kind, user)
    bad = files(mailserver, user)[2]
    bad.chmod(0)
    items, [failure], cursor = await read(source)
    others = ["10", "11", "13", "14", *(["20"] if kind == "imap" else [])]
    assert [item.urn for item in items] == [f"email::{number}@example.com" for number in others]
    assert failure.reason
    assert failure.place in await listed(source)
    assert (await read(source, cursor))[0] == []
    bad.chmod(0o600)
    batches = [batch async for batch in source.fetch([failure.place])]
    assert [item.urn for batch in batches for item in batch.items] == ["email::12@example.com"]


def anonymous(number: int) -> bytes:
    return dovecot.mail(number).replace(f"Message-ID: <{number}@example.com>\r\n".encode(), b"")


async def test_mails_without_a_message_id_are_the_same_wherever_they_lie(mailserver: dovecot.Dovecot) -> None:
    user = "anonymous"
    mailserver.put(*(anonymous(number) for number in range(20)), folder="Work", user=user)
    source = mailbox(mailserver.url, user)
    items, _, cursor = await read(source)
    known = {(item.source_id, item.version, item.urn) for item in items}
    assert len(known) == 20
    places = [item.place for item in items]

    async def again() -> None:
        nonlocal cursor
        moved, failures, cursor = await read(source, cursor)
        assert failures == []
        assert {(item.source_id, item.version, item.urn) for item in moved} == known
        places.extend(item.place for item in moved)

    with mailserver.mailbox(user) as client:
        assert client.rename("Work", "Done")[0] == "OK"
    await again()
    with mailserver.mailbox(user) as client:
        client.select("Done")
        assert client.copy("1:*", "INBOX")[0] == "OK"
    await again()
    with mailserver.mailbox(user) as client:
        client.select("Done")
        client.create("Archive")
        client.copy("1:*", "Archive")
        client.store("1:*", "+FLAGS", "\\Deleted")
        client.expunge()
    await again()
    await asyncio.sleep(1.1)  # UIDVALIDITY is made of seconds
    with mailserver.mailbox(user) as client:
        client.rename("Archive", "Kept")
        client.create("Archive")
        client.select("Kept")
        client.copy("1:*", "Archive")
        client.delete("Kept")
    await again()
    assert len(set(places)) == 100
    by_post = by_pop3(f"pop3://127.0.0.1:{mailserver.pop3}", user)
    items, _, _ = await reading.read(by_post)
    assert {(item.source_id, item.version, item.urn) for item in items} == known
