"""Notices by mail: what a person gets, over TLS or not at all, and what counts as taken."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import Any

import httpx
import orjson
import pydantic
import pytest

from controllers import settings
from controllers.notices import mailer, notice, sender
from crds import notices
from hack.cluster import certificates
from tests.controllers.notices import smtp
from tests.controllers.notices.test_notice import rule, waits

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
FROM = "Jervis <jervis@example.com>"


def made(line: str = "mailto:team@example.com") -> notice.Notice:
    found = notice.happened(waits())
    assert found is not None
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
    assert mail["Bcc"] is None
    assert mail["Subject"] == "[Jervis] UserTask: mail-1 Bcc: x@evil.test (acme)"
    with smtp.serving() as box:
        server = mailer.Server("127.0.0.1", box.port, mailer.Security.NONE, FROM)
        assert (
            await send(server, notice.Notice("n1", "u", "UserTask", "mailto:a@b.example", orjson.dumps(said).decode()))
            == ""
        )
    [came] = box.mails
    assert came["Bcc"] is None
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
    assert "refused" in (await send(server, made())).lower()
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
