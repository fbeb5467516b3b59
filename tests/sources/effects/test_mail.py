"""sendMail: what the server gets, over which encryption, and what is refused before."""

from __future__ import annotations

import hashlib
import ssl
from typing import Any

import pytest

from crds import connection
from hack.cluster import certificates
from sources.api import problems
from sources.core import limits, port, rest
from sources.effects import tools, wire
from sources.providers import table
from tests.controllers.notices import smtp
from tests.sources.api.serving import ACME, NOW
from tests.sources.effects.rig import running
from tests.sources.parts import refused

TEXT = ".Tečka\n..\nJak to jde?\n" + "x" * 3000
MAIL: dict[str, Any] = {"to": ["a@example.com"], "subject": "S", "text": "T"}


def spec(box: smtp.Box, scheme: str = "smtp", host: str = "localhost") -> connection.Spec:
    return connection.Spec.model_validate(
        {
            "type": "Email", "clientId": "acme", "url": "imap://h", "secretRef": {"name": "login"},
            "smtp": {"url": f"{scheme}://{host}:{box.port}", "from": "team@example.com"},
        }
    )  # fmt: skip


async def send(
    box: smtp.Box, tls: ssl.SSLContext | None = None, *, scheme: str = "smtp", plain: bool = False, **arguments: Any
) -> Any:
    async def load(*_: Any) -> bytes:
        raise AssertionError("nothing is attached")

    means = tools.Means(
        load=load, tls=tls or ssl.create_default_context(), plain=plain, wall=lambda: NOW, monotonic=lambda: 0.0
    )
    login = {"username": "bot", "password": "word"}
    target = tools.Target("team-a", "mail", spec(box, scheme), {}, login, limits.Bucket(60, 1))
    request = tools.EffectRequest(tools.parse("sendMail", MAIL | arguments), target, ACME, "m" * 32)
    effect = await tools.opened(table.effects(), "sendMail", request, means)
    try:
        return await effect.send(await effect.prepare())
    finally:
        await effect.close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server on localhost, and of a client that trusts it."""
    authority = certificates.Authority(tmp_path_factory.mktemp("authority"))
    pair = authority.issue("mail", "/CN=localhost", ("localhost",))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(pair.certificate, pair.key)
    return served, ssl.create_default_context(cafile=str(authority.pair.certificate))


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_the_mail_and_the_login_travel_encrypted(tls: tuple[ssl.SSLContext, ssl.SSLContext], scheme: str) -> None:
    served, trusting = tls
    with smtp.serving(served, at_once=scheme == "smtps") as box:
        box.login = ("bot", "word")
        await send(box, trusting, scheme=scheme)
        assert (len(box.mails), box.encrypted) == (1, [True])
        with pytest.raises(rest.Untouched):
            await send(box, scheme=scheme)  # its authority is unknown
        box.login = ("bot", "another")
        with refused(port.Rejected, field="spec.smtp.secretRef"):
            await send(box, trusting, scheme=scheme)
        assert len(box.mails) == 1


async def test_a_reply_arrives_as_it_was_written() -> None:
    with smtp.serving() as box:
        result = await send(
            box, plain=True, to=["Petra Svobodová <p@example.com>", "a@example.com"], cc=["c@example.com"],
            bcc=["hidden@example.com", "a@example.com"], subject="Zítra: schůzka", text=TEXT,
            inReplyTo="<2@example.com>", references=["<1@example.com>", "<2@example.com>"],
        )  # fmt: skip
    [found] = box.mails
    assert [one.partition("<")[2].partition(">")[0] for one in box.recipients] == [
        "p@example.com", "a@example.com", "c@example.com", "hidden@example.com",
    ]  # fmt: skip
    assert str(found["To"].addresses[0].display_name) == "Petra Svobodová"
    assert (found["Subject"], found["From"], found["Bcc"]) == ("Zítra: schůzka", "team@example.com", None)
    assert found.get_content().replace("\r\n", "\n") == TEXT + "\n"
    assert (found["In-Reply-To"], found["References"]) == ("<2@example.com>", "<1@example.com> <2@example.com>")
    assert result == {"messageId": found["Message-ID"]} == {"messageId": f"<jervis.{'m' * 32}@example.com>"}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"to": []}, "arguments"),
        ({"to": ["nobody"]}, "arguments.to.0"),
        ({"to": ["a@example.com, b@example.com"]}, "arguments.to.0"),
        ({"to": ["a@example.com\r\nBcc: b@example.com"]}, "arguments.to.0"),
        ({"to": ["a@example.com\nBcc: b@example.com"]}, "arguments.to.0"),
        ({"to": ["ä@example.com"]}, "arguments.to.0"),
        ({"to": ["a@example.com> RCPT TO:<b@example.com"]}, "arguments.to.0"),
        ({"to": [f"a{n}@example.com" for n in range(51)]}, "arguments.to"),
        ({"subject": "a\r\nBcc: b@example.com"}, "arguments.subject"),
        ({"subject": "a\u2028b"}, "arguments.subject"),
        ({"text": "x" * 262_145}, "arguments.text"),
        ({"inReplyTo": "<a@b>\r\nX: y"}, "arguments.inReplyTo"),
        ({"inReplyTo": "<a@=?utf-8?q?b=0d=0aReply-To:_x=40evil.example?=>"}, "arguments.inReplyTo"),
        ({"references": ["<a@=?utf-8?b?Yg0KQmNjOiB4QGV2aWwuZXhhbXBsZQ==?=>"]}, "arguments.references.0"),
        ({"subject": "=?utf-8?q?Hi=0d=0aContent-Type:_text/html=0d=0a=0d=0a<b>x</b>?="}, "arguments.subject"),
        ({"subject": "Re: =?utf-8?q?a?= =?utf-8*en?q?=0aBcc:_b=40evil.example?="}, "arguments.subject"),
        ({"to": ["=?utf-8?q?A=0d=0aBcc:_b=40evil.example?= <a@example.com>"]}, "arguments.to.0"),
        ({"references": ["a@b"]}, "arguments.references.0"),
        ({"body": "x"}, "arguments.body"),
    ],
)
def test_what_is_no_mail_names_its_field(arguments: dict[str, Any], field: str) -> None:
    with refused(problems.Invalid, field=field):
        tools.parse("sendMail", MAIL | arguments)


async def test_without_encryption_nothing_is_sent_unless_it_is_allowed() -> None:
    with smtp.serving() as box, refused(port.Misconfigured, field="spec.smtp.url"):
        await send(box)
    assert not box.mails


async def test_a_recipient_that_is_refused_is_named_and_nobody_gets_it() -> None:
    with smtp.serving() as box:
        box.refuses = "550 no such user"
        with pytest.raises(port.Misconfigured, match=r"a@example\.com") as caught:
            await send(box, plain=True)
    assert (caught.value.field, box.mails) == ("arguments.to", [])


@pytest.mark.services
async def test_stored_content_is_attached_once_it_is_what_it_says() -> None:
    async with running() as rig:
        with smtp.serving() as box:
            rig.world.mailbox(box.port)
            rig.world.contents["report"] = body = b"\x00%PDF\r\n.\r\n" * 100
            reference = {"key": "report", "sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}
            file = {"name": "Zpráva.pdf", "mediaType": "application/pdf", "contentRef": reference}
            with refused(port.Misconfigured, field="arguments.attachments.0.contentRef"):
                await rig.effect(
                    "sendMail", connection="mail", **MAIL, attachments=[file | {"contentRef": reference | {"bytes": 1}}]
                )
            found = await rig.effect("sendMail", key="k2", connection="mail", **MAIL, attachments=[file])
            assert found.state is wire.State.DONE
        [made] = box.mails
        [part] = list(made.iter_attachments())
        assert (part.get_filename(), part.get_content_type()) == ("Zpráva.pdf", "application/pdf")
        assert part.get_payload(decode=True) == body
