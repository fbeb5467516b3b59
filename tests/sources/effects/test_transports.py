"""Mails through the transports that most mails meet: Postfix, Exim, OpenSMTPD."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from crds import connection
from sources.core import limits, port
from sources.effects import tools
from sources.providers import table
from tests import thorough, waiting
from tests.sources import dovecot, transports
from tests.sources.api.serving import ACME, NOW
from tests.sources.parts import refused

pytestmark = [pytest.mark.services, thorough.only]
INJECTED = "=?utf-8?q?Hi=0d=0aReply-To:_x=40evil.example=0d=0a=0d=0ax?="
ODD = "<a@=?utf-8?q?b=0d=0aReply-To:_x=40evil.example?=>"
OUTLOOK = "<DB9PR04MB8107B1C7D6E0F3D0AAF1D2F5F9AB9@DB9PR04MB8107.eurprd04.prod.outlook.com>"
TEXT = ".Te\u010dka\n..\n\nFrom here\n" + "x" * 3000 + "\n"
Transport = tuple[str, int, dovecot.Dovecot]


@pytest.fixture(scope="module", params=sorted(transports.SCRIPTS))
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    with transports.running(request.param) as (number, kept):
        yield request.param, number, kept


async def send(
    transport: Transport, mark: str, password: str = dovecot.PASSWORD, files: int = 0, **arguments: Any
) -> None:
    async def load(*_: Any) -> bytes:
        return b"\r\n.\r\n" * (files // 5)

    smtp = {"url": f"smtp://127.0.0.1:{transport[1]}", "from": "team@example.com"}
    spec = connection.Spec.model_validate(
        {"type": "Email", "clientId": "acme", "url": "pop3://h", "secretRef": {"name": "login"}, "smtp": smtp}
    )
    means = tools.Means(
        load=load, tls=ssl.create_default_context(), plain=True, wall=lambda: NOW, monotonic=lambda: 0.0
    )
    asked: dict[str, Any] = {"to": ["a@example.com"], "subject": "S", "text": "T", **arguments}
    if files:
        reference = {"key": "k", "sha256": "0" * 64, "bytes": files // 5 * 5}
        asked["attachments"] = [{"name": "Zpr\u00e1va.bin", "mediaType": "text/plain", "contentRef": reference}]
    login = {"username": "team", "password": password}
    target = tools.Target("team-a", "mail", spec, {}, login, limits.Bucket(60, 1))
    request = tools.EffectRequest(tools.parse("sendMail", asked), target, ACME, mark)
    effect = await tools.opened(table.effects(), "sendMail", request, means)
    try:
        await effect.send(await effect.prepare())
    finally:
        await effect.close()


def arrived(kept: dovecot.Dovecot, user: str, mark: str) -> bytes:
    """The one mail with this mark."""

    def found() -> bytes:
        with kept.mailbox(user) as client:
            client.select("INBOX", readonly=True)
            numbers = client.search(None, "HEADER", "Message-ID", f'"jervis.{mark}@"')[1][0].split()
            if not numbers:
                return b""
            assert len(numbers) == 1
            answer: Any = client.fetch(numbers[0].decode(), "(BODY.PEEK[])")[1]
            return bytes(answer[0][1])

    raw: bytes = waiting.until(found)
    return raw


async def test_a_mail_arrives_with_its_own_fields_and_no_others(transport: Transport) -> None:
    await send(
        transport, "1" * 32, subject=INJECTED, text=TEXT, inReplyTo=ODD, references=[OUTLOOK], files=50,
        to=["Bob \"Bobby\" <a@example.com>"], cc=["c@B\u00fccher.example"],
    )  # fmt: skip
    for user in ("a@example.com", "c@xn--bcher-kva.example"):
        raw = arrived(transport[2], user, "1" * 32)
        head = raw.partition(b"\r\n\r\n")[0].decode()
        assert "Reply-To: x" not in head.replace(ODD, "")
        assert "\r\nReply-To" not in head
        assert f"In-Reply-To: {ODD}\r\nReferences: {OUTLOOK}\r\n {ODD}\r\n" in head
        assert b"filename*=utf-8''Zpr%C3%A1va.bin" in raw


async def test_a_large_mail_arrives_and_a_larger_one_is_refused_before_it_is_uploaded(transport: Transport) -> None:
    await send(transport, "2" * 32, files=5_000_000)
    assert len(arrived(transport[2], "a@example.com", "2" * 32)) > 6_600_000
    with refused(port.Misconfigured, field="arguments.attachments", match="10000000"):
        await send(transport, "3" * 32, files=9_000_000)


async def test_a_recipient_or_a_login_that_is_refused_is_named(transport: Transport) -> None:
    with refused(port.Misconfigured, field="arguments.to", match="absent@example.com"):
        await send(transport, "4" * 32, to=["a@example.com", "absent@example.com"])
    if transport[0] != "opensmtpd":  # without TLS it offers no login
        with refused(port.Rejected, field="spec.smtp.secretRef", match="535"):
            await send(transport, "5" * 32, password="wrong")
