"""One contract for mailboxes, against Dovecot, Cyrus, Courier and GreenMail, by IMAP and by POP3."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from clients import tls_trust
from sources.core import limits, port
from sources.providers.mail import folder_state, imap_session, mails, pop3
from tests import waiting
from tests.sources import dovecot, reading, servers, wire
from tests.sources.reading import mailbox as by_imap

pytestmark = pytest.mark.services
NUMBERS = iter(servers.USERS[1:])
MAILBOX = "P&AVkA7Q-loha"  # "Příloha" in modified UTF-7


@pytest.fixture(scope="module", params=list(servers.STARTS))
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    global NUMBERS
    NUMBERS = iter(servers.USERS[1:])
    with servers.STARTS[request.param]() as place:
        yield place


@pytest.fixture
def user(server: servers.Server) -> str:
    """One whose mailbox is empty."""
    return next(NUMBERS)


def by_pop3(url: str, user: str, *, password: str = dovecot.PASSWORD) -> pop3.Maildrop:
    login = imap_session.Login(url, user, password, tls_trust.context(), True)
    return pop3.Maildrop(login, limits.Bucket(6000, 1000), monotonic=time.monotonic)


async def poll(box: port.Source, cursor: port.Cursor | None = None) -> tuple[list[port.Item], port.Cursor]:
    items, failures, last = await reading.read(box, cursor)
    assert failures == []
    return items, last


async def begun(box: port.Source) -> port.Batch:
    """The first batch of a poll that is cut behind it."""
    async with aclosing(box.batches({})) as batches:
        return await anext(batches)


async def listed(box: port.Source) -> list[str]:
    return sorted(await reading.listed(box))


def urns(items: list[port.Item]) -> list[str]:
    return [one.urn.removeprefix("email::").removesuffix("@example.com") for one in items]


def delete(server: servers.Server, user: str, number: str, *, folder: str = "INBOX", to: str = "") -> None:
    with server.mailbox(user) as client:
        client.select(folder)
        if to:
            assert client.copy(number, to)[0] == "OK"
        client.store(number, "+FLAGS", "\\Deleted")
        client.expunge()


async def test_imap_every_mail_once_and_nothing_changes(server: servers.Server, user: str) -> None:
    server.put(*(dovecot.mail(number) for number in range(60)), user=user)
    server.put(dovecot.mail(300), folder=f"{server.box}{MAILBOX}", user=user)
    box = by_imap(server.url, user)
    first = await begun(box)
    assert server.name != "dovecot" or len(first.items) == mails.BATCH
    items, cursor = await poll(box)
    assert sorted(map(int, urns(items))) == [*range(60), 300]
    rest, _ = await poll(box, first.cursor)
    assert [*first.items, *rest] == items, "a repeated batch has the same items"
    assert sorted(cursor["folders"]) == sorted(["INBOX", f"{server.box}Příloha"])
    assert (await poll(box, cursor))[0] == []
    assert await listed(box) == sorted(one.place for one in items)
    with server.mailbox(user) as client:
        client.select("INBOX", readonly=True)
        assert len(client.search(None, "UNSEEN")[1][0].split()) == 60, "nothing is marked as read"
    server.put(dovecot.mail(500), user=user)
    assert urns((await poll(box, cursor))[0]) == ["500"]


async def test_imap_what_is_deleted_or_moved(server: servers.Server, user: str) -> None:
    old = f"{server.box}Old"
    server.put(*(dovecot.mail(number) for number in range(5)), user=user)
    server.put(dovecot.mail(10), folder=old, user=user)
    lists = folder_state.Lists()
    box = by_imap(server.url, user, lists=lists)
    items, cursor = await poll(box)
    before = await listed(box)
    assert before == sorted(one.place for one in items)
    delete(server, user, "2")
    gone = next(one.place for one in items if one.urn == "email::1@example.com")
    assert await listed(box) == [place for place in before if place != gone]
    delete(server, user, "1", to=old)
    [again], cursor = await poll(box, cursor)
    known = next(one for one in items if one.urn == "email::0@example.com")
    assert (again.source_id, again.version) == (known.source_id, known.version)
    left = await listed(box)
    assert again.place in left
    assert known.place not in left
    assert len(left) == 5
    # One leaves and another comes: as many mails as before.
    delete(server, user, "1")
    server.put(dovecot.mail(77), user=user)
    [new], _ = await poll(box, cursor)
    after = await listed(box)
    assert new.place in after
    assert len(after) == 5
    assert after == await listed(by_imap(server.url, user)), "what is remembered is what the server says"


async def test_imap_a_folder_made_anew_is_read_from_its_beginning(server: servers.Server, user: str) -> None:
    if server.name == "greenmail":
        pytest.skip("GreenMail hangs up at DELETE")
    name = f"{server.box}Anew"
    server.put(dovecot.mail(1), dovecot.mail(2), folder=name, user=user)
    box = by_imap(server.url, user, include=(name,))
    items, cursor = await poll(box)
    assert urns(items) == ["1", "2"]
    before = await listed(box)
    with server.mailbox(user) as client:
        assert client.delete(name)[0] == "OK"
    await asyncio.sleep(1.1)  # UIDVALIDITY is made of seconds
    server.put(dovecot.mail(2), dovecot.mail(3), folder=name, user=user)
    again, after = await poll(box, cursor)
    assert urns(again) == ["2", "3"]
    assert (again[0].source_id, again[0].version) == (items[1].source_id, items[1].version)
    assert after["folders"][name][0] != cursor["folders"][name][0]
    now = await listed(box)
    assert now == sorted(one.place for one in again)
    assert not set(now) & set(before)


@pytest.mark.parametrize("read", [poll, listed])
async def test_imap_an_error_is_no_empty_mailbox(server: servers.Server, user: str, read: Any) -> None:
    with pytest.raises(port.Rejected):
        await read(by_imap(server.url, user, password="wrong"))
    with pytest.raises(port.Misconfigured):
        await read(by_imap(server.url, user, include=("INBOX", "Nowhere")))


async def test_imap_round_trips_of_a_mailbox_that_did_not_change(server: servers.Server, user: str) -> None:
    folders = ["INBOX", *(f"{server.box}F{number}" for number in range(5))]
    for number, name in enumerate(folders):
        server.put(dovecot.mail(number), folder=name, user=user)
    async with wire.relay("imap", server.port) as seen:
        box = by_imap(seen.url, user, lists=folder_state.Lists())
        _, cursor = await poll(box)
        before = await listed(box)
        seen.commands.clear()
        assert (await poll(box, cursor))[0] == []
        polled = [*seen.commands]
        seen.commands.clear()
        assert await listed(box) == before
        swept = [*seen.commands]
    selects, searches = [one.count("EXAMINE") for one in (polled, swept)], swept.count("SEARCH")
    if server.lists:
        assert (selects, searches) == ([0, 0], 0)
        assert len(polled) <= 5
        assert len(swept) <= 5
    else:
        assert selects == [6, 6]
        # Courier does not state UIDNEXT, so every folder is searched.
        assert searches == (6 if server.name == "courier" else 0)


async def test_imap_news_are_reported(server: servers.Server, user: str) -> None:
    server.put(dovecot.mail(1), user=user)
    async with wire.relay("imap", server.port) as seen:
        box = by_imap(seen.url, user)
        _, cursor = await poll(box)
        news = asyncio.create_task(box.news(cursor, 20))
        await waiting.done(seen.idles.wait())
        await asyncio.sleep(0.2)
        await asyncio.to_thread(server.put, dovecot.mail(2), user=user)
        assert await news is True
        if server.name != "courier":  # no UIDNEXT
            assert await box.news(cursor, 60) is True, "what came before is reported at once"
        _, cursor = await poll(box, cursor)
        assert await box.news(cursor, 0.3) is False


async def test_pop3_every_mail_once_and_nothing_changes(server: servers.Server, user: str) -> None:
    server.put(*(dovecot.mail(number) for number in range(60)), user=user)
    async with wire.relay("pop3", server.pop3) as seen:
        box = by_pop3(seen.url, user)
        first = await begun(box)
        items, cursor = await poll(box)
        assert sorted(map(int, urns(items))) == [*range(60)]
        rest, _ = await poll(box, first.cursor)
        assert [*first.items, *rest] == items
        seen.commands.clear()
        assert (await poll(box, cursor))[0] == []
        assert seen.commands == ["CAPA", "USER", "PASS", "STAT", "UIDL", "QUIT"]
        assert await listed(box) == sorted(one.place for one in items)
        await asyncio.to_thread(delete, server, user, "1:58")
        await asyncio.to_thread(server.put, dovecot.mail(500), user=user)
        again, after = await poll(box, cursor)
        assert urns(again) == ["500"]
        assert len(after["taken"]) == 3, "what is gone is not remembered"
        assert len(await listed(box)) == 3
        assert "DELE" not in seen.commands


@pytest.mark.parametrize("read", [poll, listed])
async def test_pop3_an_error_is_no_empty_mailbox(server: servers.Server, user: str, read: Any) -> None:
    with pytest.raises((port.Rejected, port.Unreachable)) as found:
        await read(by_pop3(server.pop3_url, user, password="wrong"))
    assert found.type is port.Rejected
    with pytest.raises(port.Unreachable):
        await read(by_pop3("pop3://127.0.0.1:9", user))


async def test_one_mail_is_the_same_item_by_both_protocols(server: servers.Server, user: str) -> None:
    server.put(dovecot.mail(1, ".a line that begins with a dot\r\n" + "long " * 5000), user=user)
    [first], _ = await poll(by_imap(server.url, user))
    [second], _ = await poll(by_pop3(server.pop3_url, user))
    assert (first.source_id, first.text) == (second.source_id, second.text)


async def test_lists_that_are_too_many_are_forgotten() -> None:
    lists = folder_state.Lists(most=5)
    one, two = folder_state.Mark(1, 4, 3), folder_state.Mark(1, 5, 4)
    lists.put(("m", "a"), one, [1, 2, 3])
    lists.put(("m", "b"), two, [1, 2, 3, 4])
    assert lists.get(("m", "a"), one) is None
    assert list(lists.get(("m", "b"), two) or ()) == [1, 2, 3, 4]
    assert lists.get(("m", "b"), folder_state.Mark(1, 5, 3)) is None
