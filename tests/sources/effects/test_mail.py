"""sendMail: what the server gets, over which encryption, and what is refused before."""

from __future__ import annotations

import hashlib
import ssl
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from crds import connection
from hack.cluster import certificates
from sources.api import problems
from sources.core import limits, port, rest
from sources.effects import effect_protocol, tools, wire
from sources.providers import table
from sources.providers.mail import imap_session
from tests.controllers.notices import smtp
from tests.sources import dovecot
from tests.sources.api.serving import ACME, NOW
from tests.sources.effects.rig import running
from tests.sources.parts import refused

TEXT = ".Tečka\n..\nJak to jde?\n" + "x" * 3000
MAIL: dict[str, Any] = {"to": ["a@example.com"], "subject": "S", "text": "T"}
LOGIN = {"username": "bot", "password": "word"}
OUTLOOK = "<DB9PR04MB8107B1C7D6E0F3D0AAF1D2F5F9AB9@DB9PR04MB8107.eurprd04.prod.outlook.com>"
INJECTED = "=?utf-8?q?Hi=0d=0aBcc:_b=40evil.example=0d=0a=0d=0a<b>x</b>?="


def spec(box: smtp.Box, scheme: str = "smtp", host: str = "localhost") -> connection.Spec:
    return connection.Spec.model_validate(
        {
            "type": "Email", "clientId": "acme", "url": "imap://h", "secretRef": {"name": "login"},
            "smtp": {"url": f"{scheme}://{host}:{box.port}", "from": "team@example.com"},
        }
    )  # fmt: skip


async def send(
    box: smtp.Box,
    tls: ssl.SSLContext | None = None,
    *,
    scheme: str = "smtp",
    plain: bool = False,
    login: dict[str, str] | None = None,
    opens: Mapping[connection.Type, tools.Opens] | None = None,
    **arguments: Any,
) -> Any:
    async def load(*_: Any) -> bytes:
        raise AssertionError("nothing is attached")

    means = tools.Means(
        load=load, tls=tls or ssl.create_default_context(), plain=plain, wall=lambda: NOW, monotonic=lambda: 0.0
    )
    target = tools.Target("team-a", "mail", spec(box, scheme), {}, login or LOGIN, limits.Bucket(60, 1))
    request = tools.EffectRequest(tools.parse("sendMail", MAIL | arguments), target, ACME, "m" * 32)
    effect = await tools.opened(opens or table.effects(), "sendMail", request, means)
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
        ({"to": ["a@\u2100.example\u3002"]}, "arguments.to.0"),
        ({"to": ["a@-b-.example"]}, "arguments.to.0"),
        ({"to": ["a..b@example.com"]}, "arguments.to.0"),
        ({"inReplyTo": "<ž@b>"}, "arguments.inReplyTo"),
        ({"references": ["a@b"]}, "arguments.references.0"),
        ({"body": "x"}, "arguments.body"),
    ],
)
def test_what_is_no_mail_names_its_field(arguments: dict[str, Any], field: str) -> None:
    with refused(problems.Invalid, field=field):
        tools.parse("sendMail", MAIL | arguments)


async def test_what_looks_encoded_is_text_and_makes_no_field() -> None:
    odd = "<a@=?utf-8?q?b=0d=0aReply-To:_x=40evil.example?=>"
    with smtp.serving() as box:
        await send(
            box,
            plain=True,
            to=[f"{INJECTED[:40]}?= <a@example.com>"],
            subject=INJECTED,
            inReplyTo=odd,
            references=[OUTLOOK],
        )
    [raw], [mail] = box.raw, box.mails
    assert mail.keys() == [
        "From", "Subject", "Date", "To", "Message-ID", "In-Reply-To", "References", "Auto-Submitted", "MIME-Version",
        "Content-Type", "Content-Transfer-Encoding",
    ]  # fmt: skip
    assert (str(mail["Subject"]), mail["To"].addresses[0].addr_spec) == (INJECTED, "a@example.com")
    assert f"In-Reply-To: {odd}\r\nReferences: {OUTLOOK}\r\n {odd}\r\n".encode() in raw


async def test_a_domain_of_other_letters_is_written_as_idna() -> None:
    with smtp.serving() as box:
        await send(box, plain=True, to=["Jörg <j@Bücher.example>"], cc=["x@例え.テスト"])
    assert box.recipients == ["TO:<j@xn--bcher-kva.example>", "TO:<x@xn--r8jz45g.xn--zckzah>"]
    assert box.mails[0]["To"].addresses[0].addr_spec == "j@xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("says", "kind", "field"),
    [
        # What is no acceptance and no refusal: the server may have taken it.
        ({".": "OK queued\r\n"}, effect_protocol.Ambiguous, None),
        ({".": "\r\n"}, effect_protocol.Ambiguous, None),
        ({".": "354 go on\r\n"}, effect_protocol.Ambiguous, None),
        ({".": "!"}, effect_protocol.Ambiguous, None),
        ({".": "25\r\n"}, effect_protocol.Ambiguous, None),
        ({".": "250-a\r\n450 b\r\n"}, effect_protocol.Ambiguous, None),
        ({".": "150 wait\r\n"}, effect_protocol.Ambiguous, None),
        ({".": "2500 x\r\n"}, effect_protocol.Ambiguous, None),
        ({".": "451 later\r\n"}, rest.Untouched, None),
        ({".": "421 bye\r\n!"}, rest.Untouched, None),
        ({".": "554 no\r\n"}, port.Misconfigured, "arguments"),
        ({".": "552 5.3.4 large\r\n"}, port.Misconfigured, "arguments.attachments"),
        # Before the dot nothing was sent, whatever is said.
        ({"DATA": "OK\r\n"}, rest.Untouched, None),
        ({"DATA": "250 ok\r\n"}, rest.Untouched, None),
        ({"DATA": "!"}, rest.Untouched, None),
        ({"DATA": "354 go on\r\n552 large\r\n!"}, port.Misconfigured, "arguments.attachments"),
        ({"DATA": "554 no\r\n"}, port.Misconfigured, "arguments"),
        ({"RCPT": "450 4.2.0 greylisted\r\n"}, rest.Untouched, None),
        ({"RCPT": "550 no\r\n"}, port.Misconfigured, "arguments.to"),
        ({"MAIL": "530 5.7.0 login\r\n"}, port.Misconfigured, "spec.smtp.secretRef"),
        ({"MAIL": "552 5.3.4 large\r\n"}, port.Misconfigured, "arguments.attachments"),
        ({"MAIL": "550 5.7.1 not you\r\n"}, port.Misconfigured, "spec.smtp.from"),
        ({"MAIL": "452 full\r\n"}, rest.Untouched, None),
        ({"EHLO": "421 4.3.2 closing\r\n!"}, rest.Untouched, None),
        ({"220": "554 no service\r\n!"}, port.Misconfigured, "spec.smtp.url"),
        ({"220": "SSH-2.0-x\r\n"}, rest.Untouched, None),
        ({"220": "!"}, rest.Untouched, None),
    ],
)
async def test_what_a_server_says_decides(says: dict[str, str], kind: type[Exception], field: str | None) -> None:
    with smtp.serving() as box:
        box.says = says
        with pytest.raises(kind) as caught:
            await send(box, plain=True, text="x" * 200_000)
    assert type(caught.value) is kind
    assert getattr(caught.value, "field", None) == field
    assert not box.mails


@pytest.mark.parametrize(
    "says",
    [{".": "200 taken\r\n"}, {".": "251 taken\r\n"}, {".": "250\r\n"}, {"RCPT": "252 may be\r\n"}, {"MAIL": "200\r\n"}],
)
async def test_the_first_digit_of_a_code_is_what_counts(says: dict[str, str]) -> None:
    with smtp.serving() as box:
        box.says = says
        assert (await send(box, plain=True))["messageId"]


async def test_the_size_is_said_and_asked_before_anything_is_sent() -> None:
    with smtp.serving() as box:
        box.offers = ("SIZE 100000",)
        await send(box, plain=True)
        assert f"MAIL FROM:<team@example.com> SIZE={len(box.raw[0])}" in box.commands
        with refused(port.Misconfigured, field="arguments.attachments", match="100000"):
            await send(box, plain=True, text="x" * 100_000)
        assert box.commands.count("DATA") == 1
        for box.offers in (("SIZE 0",), ("SIZE",), ("SIZE a",)):
            await send(box, plain=True, text="x" * 100_000)
    assert len(box.mails) == 4


@pytest.mark.parametrize(
    ("says", "kind", "field"),
    [
        ("454 4.7.0 temporary failure\r\n", rest.Untouched, None),
        ("421 4.7.0 too many\r\n!", rest.Untouched, None),
        ("535 5.7.8 wrong\r\n!", port.Rejected, "spec.smtp.secretRef"),
        ("534 5.7.9 weak\r\n", port.Rejected, "spec.smtp.secretRef"),
        ("!", rest.Untouched, None),
    ],
)
async def test_a_login_is_tried_once(says: str, kind: type[Exception], field: str | None) -> None:
    opens = table.effects()
    with smtp.serving() as box:
        box.login, box.says, box.offers = ("bot", "word"), {"AUTH": says}, ("AUTH CRAM-MD5 LOGIN PLAIN",)
        with pytest.raises(kind) as caught:
            await send(box, plain=True, opens=opens)
        assert (type(caught.value), getattr(caught.value, "field", None)) == (kind, field)
        assert sum(one.startswith("AUTH") for one in box.commands) == 1


async def test_a_login_that_was_refused_is_not_repeated_until_the_secret_changes() -> None:
    opens = table.effects()
    with smtp.serving() as box:
        box.login = ("bot", "new")
        for _ in range(5):
            with refused(port.Rejected, field="spec.smtp.secretRef", match="535"):
                await send(box, plain=True, opens=opens)
        assert sum(one.startswith("AUTH") for one in box.commands) == 1
        await send(box, plain=True, opens=opens, login={"username": "bot", "password": "new"})
    assert len(box.mails) == 1


@pytest.mark.parametrize("mechanisms", ["PLAIN", "LOGIN", "LOGIN PLAIN GSSAPI", "=PLAIN LOGIN"])
async def test_a_password_of_any_letters_logs_in(mechanisms: str) -> None:
    login = {"username": "bot@bücher.example", "password": "pä\u1e9ešß 日\u00a0'\""}
    with smtp.serving() as box:
        box.login, box.offers = (login["username"], login["password"]), (f"AUTH {mechanisms}".replace(" =", "="),)
        await send(box, plain=True, login=login)
        box.login = ("bot", "other")
        with pytest.raises(port.Rejected) as caught:
            await send(box, plain=True, login=login)
    assert len(box.mails) == 1
    assert not any(letter in str(caught.value) for letter in "äšß日")


async def test_a_server_without_a_mechanism_of_ours_says_which_it_has() -> None:
    with smtp.serving() as box:
        box.offers = ("AUTH GSSAPI NTLM",)
        with refused(port.Misconfigured, field="spec.smtp.url", match="GSSAPI, NTLM"):
            await send(box, plain=True)


@pytest.mark.parametrize("verb", ["220", "EHLO", "MAIL", "RCPT", "DATA"])
async def test_a_reply_without_an_end_costs_no_memory(verb: str) -> None:
    with smtp.serving() as box:
        for said in ("250-" + "x" * 2_000_000, "250-x\r\n" * 200_000):
            box.says = {verb: said}
            tracemalloc.start()
            with pytest.raises(rest.Untouched):
                await send(box, plain=True)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 16 << 20


async def test_what_a_server_says_steers_no_terminal() -> None:
    with smtp.serving() as box:
        box.says = {"RCPT": "550 \x1b]0;x\x07\x1b[2Jno \xe2\x80\xaeuser\r\n"}
        with pytest.raises(port.Misconfigured) as caught:
            await send(box, plain=True)
    assert "no" in str(caught.value)
    assert str(caught.value).isprintable()


async def test_more_behind_the_answer_to_starttls_is_not_believed(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    served, trusting = tls
    with smtp.serving(served) as box:
        box.says = {"STARTTLS": "220 go on\r\n250-x\r\n250 AUTH PLAIN\r\n"}
        with pytest.raises(rest.Untouched, match="behind"):
            await send(box, trusting)


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


@pytest.mark.services
async def test_a_copy_is_kept_where_the_mailbox_has_a_folder_for_it(mailserver: dovecot.Dovecot) -> None:
    user = "copies"
    async with running() as rig:
        with smtp.serving() as box:
            rig.world.secrets["login"] = {"username": user, "password": dovecot.PASSWORD}
            rig.world.mailbox(box.port)
            rig.world.connections["mail"]["spec"]["url"] = mailserver.url
            outcome = await rig.effect("sendMail", connection="mail", **MAIL)
            assert await rig.effect("sendMail", connection="mail", **MAIL) == outcome
            [raw] = box.raw
            with mailserver.mailbox(user) as client:
                assert client.select("Sent", readonly=True)[1] == [b"1"]
                answer: Any = client.fetch("1", "(FLAGS BODY.PEEK[])")[1]
                [(head, copy), *_] = answer
            assert (copy, b"\\Seen" in head) == (raw, True)
            # A mailbox that takes none: the mail is sent all the same.
            rig.world.secrets["login"] = {"username": user, "password": "wrong"}
            assert (await rig.effect("sendMail", key="k2", connection="mail", **MAIL)).state is wire.State.DONE
            assert len(box.raw) == 2


@pytest.mark.services
def test_a_copy_that_the_server_has_kept_by_itself_is_kept_once(mailserver: dovecot.Dovecot) -> None:
    user, raw = "own-copies", dovecot.mail(7)
    login = imap_session.Login(mailserver.url, user, dovecot.PASSWORD, ssl.create_default_context(), plain=True)
    for _ in range(2):
        assert imap_session.keep_sent(login, raw, "<7@example.com>", NOW) == "Sent"
    with mailserver.mailbox(user) as client:
        assert client.select("Sent", readonly=True)[1] == [b"1"]
