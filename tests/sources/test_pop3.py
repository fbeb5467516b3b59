"""POP3 over TLS at a real Dovecot, and at servers that answer what they should not; and the bytes that polls share."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from clients import tls_trust
from crds import connection
from sources.core import limits, port
from sources.providers.mail import imap_session, mailboxes, mails, pop3
from tests import httpserver
from tests.sources import dovecot, reading
from tests.sources.test_servers import by_pop3, listed, poll

pytestmark = pytest.mark.services


@contextlib.asynccontextmanager
async def server(answers: dict[str, bytes]) -> AsyncIterator[str]:
    """A POP3 server that answers these, and +OK to all else; its URL. It hangs up where an answer has no line's end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"+OK\r\n")
        while line := await reader.readline():
            answer = answers.get(line.split()[0].decode(), b"+OK\r\n")
            writer.write(answer)
            if not answer.endswith(b"\n"):
                break

    async with httpserver.tcp(serve) as port_:
        yield f"pop3://127.0.0.1:{port_}"


ONE = {
    "CAPA": b"-ERR\r\n", "STAT": b"+OK 1 9\r\n", "UIDL": b"+OK\r\n1 a\r\n.\r\n", "LIST": b"+OK\r\n1 9\r\n.\r\n",
    "TOP": b"-ERR\r\n", "RETR": b"-ERR\r\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "error", "says"),
    [
        ({"UIDL": b"-ERR no\r\n"}, port.Misconfigured, "no UIDL"),
        ({"STAT": b"+OK 50001 9\r\n"}, port.Misconfigured, "at most 50000"),
        ({"UIDL": b"+OK\r\n.\r\n"}, port.Unreachable, "counts 1 mails and lists 0"),
        ({"UIDL": b"+OK\r\n1 a\r\n1 b\r\nnonsense\r\n.\r\n"}, port.Unreachable, "counts 1 mails and lists 2"),
        ({"PASS": b"-ERR [IN-USE] busy\r\n"}, port.Unreachable, "IN-USE"),
        ({"PASS": b"-ERR [AUTH] no\r\n"}, port.Rejected, "refuses the login"),
        ({"STAT": b"+OK one\r\n"}, port.Unreachable, "did not answer names"),
        ({"STAT": b"+OK\r\n"}, port.Unreachable, "did not answer names"),
        ({"STAT": b"+OK 1 9"}, port.Unreachable, "did not answer names: the server hung up"),
        ({"UIDL": b"-ERR [SYS/TEMP] not now\r\n"}, port.Unreachable, "SYS/TEMP"),
    ],
)
async def test_an_answer_that_is_no_list_is_no_empty_list(
    answers: dict[str, bytes], error: type[Exception], says: str
) -> None:
    async with server({**ONE, **answers}) as url:
        for read in (poll, listed):
            with pytest.raises(error, match=says):
                await read(by_pop3(url, "ada"))


async def test_a_line_may_be_long_and_an_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    long = dovecot.mail(1, "long " * 200_000)
    async with server({**ONE, "RETR": b"+OK\r\n" + long + b".\r\n"}) as url:
        [item], _ = await poll(by_pop3(url, "ada"))
        assert item.text.count("long") == 200_000
        monkeypatch.setattr(pop3._Bounded, "most", 500_000)
        _, [failure], _ = await reading.read(by_pop3(url, "ada"))
        assert "a line has more than 500000 bytes" in failure.reason
    many = b"+OK\r\n" + b"x\r\n" * 200_000 + b".\r\n"
    async with server({**ONE, "RETR": many}) as url:
        _, [failure], _ = await reading.read(by_pop3(url, "ada"))
        assert "an answer has more than 500000 bytes" in failure.reason


async def test_a_mail_that_is_too_large_is_not_fetched() -> None:
    sizes = f"+OK\r\n1 {mails.LARGEST + 1}\r\n.\r\n".encode()
    async with server({**ONE, "LIST": sizes, "RETR": b"-ERR it was asked for\r\n"}) as url:
        [batch] = [batch async for batch in by_pop3(url, "ada").batches({})]
    assert batch.items == ()
    assert [(one.source_id, "more than" in one.reason) for one in batch.failures] == [("pop3/a", True)]


async def test_without_tls_only_where_it_is_allowed() -> None:
    async with server(ONE) as url:
        box = pop3.Maildrop(
            imap_session.Login(url, "ada", "word", tls_trust.context()),
            limits.Bucket(6000, 100),
            monotonic=time.monotonic,
        )
        with pytest.raises(port.Misconfigured, match="offers no STLS"):
            await poll(box)


async def test_tls_is_verified_and_mails_come_by_lmtp() -> None:
    with dovecot.running(tls=True) as place:
        place.deliver(dovecot.mail(1), dovecot.mail(2))
        trusted = tls_trust.context()
        trusted.load_verify_locations(place.authority)
        for url in (f"pop3s://localhost:{place.pop3s}", f"pop3://localhost:{place.pop3}"):
            found = []
            for tls in (tls_trust.context(), trusted):
                opens = mailboxes.opened(False, tls, time.monotonic)
                spec = connection.Spec.model_validate({"type": "Email", "clientId": "acme", "url": url})
                found.append(opens(spec, {"username": "ada", "password": dovecot.PASSWORD}, limits.Bucket(6000, 100)))
            with pytest.raises(port.Unreachable, match="certificate"):
                await poll(found[0])
            items, _ = await poll(found[1])
            assert [one.urn for one in items] == ["email::1@example.com", "email::2@example.com"]


def test_a_filter_makes_no_sense() -> None:
    opens = mailboxes.opened(True, tls_trust.context(), time.monotonic)
    spec = connection.Spec.model_validate(
        {"type": "Email", "clientId": "acme", "url": "pop3s://h", "filter": {"include": ["INBOX"]}}
    )
    with pytest.raises(port.Misconfigured, match="no folders"):
        opens(spec, {"username": "a", "password": "b"}, limits.Bucket(1, 1))


async def test_polls_share_a_budget_of_bytes_in_order() -> None:
    budget, held, most, order = limits.Budget(100), 0, 0, list[int]()

    async def work(number: int, size: int) -> None:
        nonlocal held, most
        async with budget.hold(size):
            order.append(number)
            held += min(size, 100)
            most = max(most, held)
            await asyncio.sleep(0.001)
            held -= min(size, 100)

    sizes = [60, 60, 30, 500, 10, 90] * 5
    tasks = [asyncio.create_task(work(number, size)) for number, size in enumerate(sizes)]
    await asyncio.sleep(0)
    tasks[4].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [number for number in range(len(sizes)) if number != 4]
    assert most == 100
    assert held == 0
