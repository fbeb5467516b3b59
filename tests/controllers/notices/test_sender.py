"""Notices on their way: calls of a webhook, and mail, over TLS or not at all; what counts as taken."""

from __future__ import annotations

import hashlib
import hmac
import ssl
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
import pydantic
import pytest

from clients import http
from contracts.rules import notices
from controllers import settings
from controllers.notices import mailer, notice, sender
from hack.cluster import certificates
from tests.clients import servers
from tests.controllers.build import present
from tests.controllers.notices import smtp
from tests.controllers.notices.hook import Hook, hook
from tests.controllers.notices.test_notice import rule, waits

__all__ = ["hook"]


HERE = ("127.0.0.0/8",)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """Of webhooks on this machine."""
    async with http.client(tls=servers.TLS, find=sender.Judge(HERE).find) as made:
        yield made


async def called(url: str, resolve: http.Find, networks: Sequence[str] = ()) -> str:
    async with http.client(tls=servers.TLS, find=sender.Judge(networks, resolve).find) as client:
        return await sender.Sender(client).send(url, "n1", "Completed", "{}")


async def test_what_a_webhook_gets(hook: Hook, client: httpx.AsyncClient, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("of the test\n")
    calls = sender.Sender(client, secret=sender.key_file(str(key)))
    assert await calls.send(f"{hook.url}/a/b?c=d", "n1", "UserTask", '{"id": "n1"}') == ""
    [call] = hook.requests
    assert (call.path, call.body) == ("/a/b?c=d", b'{"id": "n1"}')
    assert call.headers["Host"] == hook.url.removeprefix("http://")
    assert (call.headers["Jervis-Event"], call.headers["Jervis-Delivery"]) == ("UserTask", "n1")
    expected = hmac.new(b"of the test", call.body, hashlib.sha256).hexdigest()
    assert call.headers["Jervis-Signature"] == f"sha256={expected}"
    key.write_text("renewed")
    await calls.send(hook.url, "n1", "UserTask", "{}")
    assert hook.requests[1].headers["Jervis-Signature"] == sender.signature(b"renewed", b"{}")
    for unreadable in ("", "gone"):
        key.write_text(" ")
        if unreadable:
            key.unlink()
        assert await calls.send(hook.url, "n1", "UserTask", "{}") != ""
    assert len(hook.requests) == 2, "nothing is sent unsigned"


async def test_without_a_key_nothing_is_signed(hook: Hook, client: httpx.AsyncClient) -> None:
    assert await sender.Sender(client).send(hook.url, "n1", "Completed", "{}") == ""
    assert "Jervis-Signature" not in hook.requests[0].headers


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 429, 500, 503])
async def test_what_is_not_taken_says_so(hook: Hook, client: httpx.AsyncClient, status: int) -> None:
    hook.status = status
    why = await sender.Sender(client).send(hook.url, "n1", "Completed", "{}")
    assert why == f"it answered HTTP {status}"
    assert [one.path for one in hook.requests] == ["/"], "a redirect is not followed"


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.8", "169.254.169.254", "192.168.1.1", "::1", "::ffff:10.0.0.8", "fd00::1"]
)
async def test_private_addresses_are_never_called(hook: Hook, client: httpx.AsyncClient, address: str) -> None:
    async def both(host: str, port: int) -> Sequence[str]:
        return ["93.184.216.34", address]

    url = hook.url.replace("127.0.0.1", "hooks.example.com")
    why = await called(url, both)
    assert f"'hooks.example.com' is at {address}" in why
    assert "noticeNetworks" in why
    assert hook.requests == []


async def test_the_connection_goes_to_the_address_that_was_judged(hook: Hook, client: httpx.AsyncClient) -> None:
    async def here(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    url = hook.url.replace("127.0.0.1", "no-such-name.invalid")
    assert await called(url, here, HERE) == ""
    assert hook.requests[0].headers["Host"].startswith("no-such-name.invalid:")


async def test_a_server_that_is_slow_or_gone(hook: Hook, client: httpx.AsyncClient) -> None:
    hook.stall = 600.0
    why = await sender.Sender(client, timeout=0.2).send(hook.url, "n1", "Completed", "{}")
    assert "0.2 seconds" in why
    gone = await sender.Sender(client).send("http://127.0.0.1:1/", "n1", "Completed", "{}")
    assert "ConnectError" in gone

    async def nowhere(host: str, port: int) -> Sequence[str]:
        return []

    assert "no address" in await called("http://h.test/", nowhere)


NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
FROM = "Jervis <jervis@example.com>"


def made(line: str = "mailto:team@example.com") -> notice.Notice:
    found = present(notice.happened(waits()))
    [one] = notice.of(found, [rule(f"enforce: notify {line} on UserTask")])
    return one


async def send(
    server: mailer.Server, one: notice.Notice, trusted: ssl.SSLContext | None = None, *, seconds: float = 30
) -> str:
    """Through a mailer of its own, which waits `seconds` for each answer."""
    mails = mailer.Mailer(
        server, wall=lambda: NOW, context=lambda: trusted or ssl.create_default_context(), seconds=seconds
    )
    async with httpx.AsyncClient(trust_env=False) as http:
        return await sender.Sender(http, mail=mails).send(one.url, one.id, one.event, one.body)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The server's side, and that of a client that trusts it."""
    authority = certificates.Authority(tmp_path_factory.mktemp("authority"))
    pair = authority.issue("server", "/CN=localhost", ("localhost",))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(pair.certificate, pair.key)
    return served, ssl.create_default_context(cafile=str(authority.pair.certificate))


async def test_what_a_person_gets() -> None:
    with smtp.serving() as box:
        server = mailer.Server("127.0.0.1", box.port, mailer.Security.NONE, FROM)
        one = made()
        assert await send(server, one) == ""
        assert await send(server, one) == ""
    first, again = box.mails
    assert first["From"] == FROM
    assert first["To"] == "team@example.com"
    assert first["Subject"] == "[Jervis] UserTask: mail-1 (acme)"
    assert first["Message-ID"] == again["Message-ID"] == f"<{one.id}@example.com>"
    assert (first["Auto-Submitted"], first["Jervis-Event"]) == ("auto-generated", "UserTask")
    text = first.get_content()
    assert "Who pays?" in text
    assert "Task: default/mail-1 (EmailProcessing)" in text
    assert "Scope: client acme" in text
    assert "kubectl jervis get mail-1 -n default" in text
    assert "hello" not in text, "no content of the task"


async def test_text_of_a_task_makes_no_header_and_keeps_its_letters() -> None:
    said = orjson.loads(made().body)
    said["message"] = "Zaplatit?\r\n\r\n.\r\nMAIL FROM:<x@evil.test>\nBcc: x@evil.test \u017elu\u0165ou\u010dk\u00fd"
    said["task"]["name"] = "mail-1\r\nBcc: x@evil.test"
    mail = mailer.message(FROM, "team@example.com", "n1", "UserTask", said, NOW)
    assert mail.subject == "[Jervis] UserTask: mail-1 Bcc: x@evil.test (acme)"
    with smtp.serving() as box:
        server = mailer.Server("127.0.0.1", box.port, mailer.Security.NONE, FROM)
        assert (
            await send(server, notice.Notice("n1", "u", "UserTask", "mailto:a@b.example", orjson.dumps(said).decode()))
            == ""
        )
    [came] = box.mails
    assert (came["Bcc"], came["Subject"]) == (None, mail.subject)
    assert "\u017elu\u0165ou\u010dk\u00fd" in came.get_content()
    assert "\n.\n" in came.get_content().replace("\r", "")


@pytest.mark.parametrize("security", [mailer.Security.STARTTLS, mailer.Security.TLS])
async def test_a_login_goes_over_tls_to_a_server_that_is_trusted(
    security: mailer.Security, tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    served, trusted = tls
    with smtp.serving(served, at_once=security is mailer.Security.TLS) as box:
        box.login = ("jervis", "secret")
        server = mailer.Server("localhost", box.port, security, FROM, "jervis", "secret")
        assert await send(server, made(), trusted) == ""
        assert box.encrypted == [True]
        assert "certificate verify failed" in await send(server, made())
        wrong = mailer.Server("localhost", box.port, security, FROM, "jervis", "other")
        assert "535" in await send(wrong, made(), trusted)
    assert len(box.mails) == 1


async def test_what_counts_as_not_taken() -> None:
    with smtp.serving() as box:
        server = mailer.Server("127.0.0.1", box.port, mailer.Security.NONE, FROM)
        box.refuses = "450 later"
        assert "450" in await send(server, made())
        plain = mailer.Server("127.0.0.1", box.port, mailer.Security.STARTTLS, FROM)
        assert "STARTTLS" in await send(plain, made()), "nothing goes unencrypted instead"
        box.refuses, box.stall = "", 600.0
        assert "timed out" in await send(server, made(), seconds=0.5)
    assert "did not answer" in await send(server, made())
    assert "noticeMailServer" in await send(mailer.Server(), made())


async def test_a_server_that_is_away_costs_one_attempt() -> None:
    with smtp.serving() as box:
        box.stall = 600.0
        server = mailer.Server("127.0.0.1", box.port, mailer.Security.NONE, FROM)
        mails = mailer.Mailer(server, wall=lambda: NOW, seconds=0.5)
        one = made()
        for word in ("timed out", "asked again", "asked again", "asked again"):
            assert word in await mails.send("a@b.example", one.id, one.event, one.body)
        box.released.set()
        assert await send(server, one) == ""
        assert box.connections == 2, "that of one attempt, and that of the other mailer"


@pytest.mark.parametrize(
    "address",
    [
        "mailto:team",
        "mailto:a@b@c.example",
        "mailto:a@b.example,c@d.example",
        "mailto:a@b.example?bcc=c@d.example",
        "mailto:a b@c.example",
        "mailto:\u017e@b.example",
        "mailto:a@localhost",
        "mailto:",
        f"mailto:{'a' * 250}@b.example",
    ],
)
def test_what_is_no_mail_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"mailto:team@example\.com"):
        notices.parse(f"{address} on UserTask")


def test_settings_that_could_not_send_are_refused() -> None:
    refused: tuple[dict[str, Any], ...] = (
        {"notice_mail_server": "mail.example.com"},
        {"notice_mail_server": "m", "notice_mail_from": FROM, "notice_mail_user": "u", "notice_mail_security": "none"},
    )
    for given in refused:
        with pytest.raises(pydantic.ValidationError, match=r"notice_mail_from|over TLS only"):
            settings.Settings(_env_file=None, **given)
