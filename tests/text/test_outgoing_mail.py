"""Mails as bytes: fields by their structure, and nothing in a value that ends a line."""

from __future__ import annotations

import email
import email.policy
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from email import header, utils
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests import thorough
from tests.text import header_fuzz
from text.outgoing_mail import File, Mail, Mailbox

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 11, 30, tzinfo=UTC)
OUTLOOK = "<DB9PR04MB8107B1C7D6E0F3D0AAF1D2F5F9AB9@DB9PR04MB8107.eurprd04.prod.outlook.com>"


def mail(**more: Any) -> Mail:
    known: dict[str, Any] = {
        "sender": Mailbox("team@example.com"), "to": [Mailbox("a@example.com")], "subject": "S", "text": "T",
        "date": NOW, "message_id": "<m@example.com>",
    }  # fmt: skip
    return Mail(**(known | more))


def read(made: Mail) -> EmailMessage:
    message = email.message_from_bytes(made.written(), policy=email.policy.SMTP)
    assert isinstance(message, EmailMessage)
    return message


def test_no_value_of_many_ends_a_line() -> None:
    figures = header_fuzz.run(3_000, seed=7)
    assert (figures["wrong"], figures["first"]) == (0, [])


@thorough.only
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_no_value_ends_a_line_in_any_python(version: str) -> None:
    program = (
        sys.executable
        if f"{sys.version_info[0]}.{sys.version_info[1]}" == version
        else shutil.which(f"python{version}")
    )
    if program is None or subprocess.run([program, "-V"], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {version} on the PATH")
    command = [program, "-m", "tests.text.header_fuzz", "--fields", "100000", "--seed", "11"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert orjson.loads(done.stdout)["wrong"] == 0, done.stdout[:2000]


@pytest.mark.parametrize(
    "subject",
    [
        "=?utf-8?q?Hi=0d=0aContent-Type:_text/html=0d=0a=0d=0a<b>x</b>?=", "Re: =?utf-8?q?a?= =?utf-8*en?q?=0aBcc:_b?=",
        "Zítra: schůzka", "a  b", " a ", "x" * 500, "ž" * 500, "日本語" * 60, "\N{PILE OF POO}" * 100, "%0D%0A",
        "a\xa0b",
    ],
)  # fmt: skip
def test_a_subject_arrives_as_the_text_that_it_is(subject: str) -> None:
    raw = mail(subject=subject).written()
    assert [line.partition(b":")[0] for line in raw.partition(b"\r\n\r\n")[0].split(b"\r\n") if line[:1].isalpha()] == [
        b"From", b"Subject", b"Date", b"To", b"Message-ID", b"Auto-Submitted", b"MIME-Version", b"Content-Type",
        b"Content-Transfer-Encoding",
    ]  # fmt: skip
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert str(read(mail(subject=subject))["Subject"]) == subject


def test_ids_are_never_encoded_and_folded_between_them() -> None:
    odd = "<a@=?utf-8?q?b=0d=0aReply-To:_x=40evil.example?=>"
    references = [OUTLOOK, odd, *(f"<{number}.{'x' * 60}@example.com>" for number in range(30))]
    raw = mail(in_reply_to=OUTLOOK, references=references).written()
    head = raw.partition(b"\r\n\r\n")[0].decode()
    assert f"In-Reply-To: {OUTLOOK}\r\n" in head
    folded = head.partition("References: ")[2].partition("\r\nAuto-Submitted")[0]
    assert folded.split("\r\n ") == [*references[1:], OUTLOOK]
    assert all(len(line) <= 100 for line in head.split("\r\n"))


@pytest.mark.parametrize(
    "name",
    [
        'Bob "Bobby"',
        "Svobodová, Petra",
        "a\\b",
        "(x)",
        "=?utf-8?q?A=0d=0aBcc:_b=40evil.example?=",
        "Ž" * 120,
        "a" * 120,
        "Al <x",
    ],
)
def test_the_name_of_a_person_arrives_as_it_is(name: str) -> None:
    to, cc = [Mailbox("a@example.com", name), Mailbox("b@example.com")], [Mailbox("c@example.com", name)]
    raw = mail(to=to, cc=cc).written()
    # By the older parser: the newer one keeps the space between encoded words of a phrase (RFC 2047 6.2 drops it).
    message = email.message_from_bytes(raw, policy=email.policy.compat32)
    boxes = utils.getaddresses([str(message[field]).replace("\r\n", "") for field in ("To", "Cc")])
    assert [(str(header.make_header(header.decode_header(shown))), address) for shown, address in boxes] == [
        (name, "a@example.com"), ("", "b@example.com"), (name, "c@example.com"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["Zpráva.pdf", "a b.pdf", 'a"b.pdf', "x" * 250, "ž" * 255, "=?utf-8?q?x=0d=0aA:_b?=.pdf", "50%.pdf", "日" * 90],
)
def test_the_name_of_a_file_arrives_as_it_is(name: str) -> None:
    raw = mail(files=[File(name, "application/pdf", b"\r\n--\r\n.\r\n")]).written()
    assert max(map(len, raw.split(b"\r\n"))) <= 100 or name == "x" * 250
    for policy in (email.policy.compat32, email.policy.SMTP):
        [_, _, part] = email.message_from_bytes(raw, policy=policy).walk()
        assert (part.get_filename(), part.get_content_type()) == (name, "application/pdf")
        assert part.get_payload(decode=True) == b"\r\n--\r\n.\r\n"
        assert part.keys() == ["Content-Type", "Content-Transfer-Encoding", "Content-Disposition"]


@pytest.mark.parametrize(
    "kind", ["message/rfc822", "multipart/mixed", "MESSAGE/rfc822", "text/plain\r\nX: y", "nothing"]
)
def test_a_file_that_would_be_parsed_travels_as_bytes(kind: str) -> None:
    [_, part] = read(mail(files=[File("a.eml", kind, b"Subject: x\r\n\r\n")])).iter_parts()
    assert part.get_content_type() == "application/octet-stream"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\rc\nd", "a\nb\nc\nd\n"), (".\n..\n", ".\n..\n"), ("x" * 3000, f"{'x' * 3000}\n"),
        ("end \t\n", "end \t\n"),
        ("\0\x1b[1m", "\0\x1b[1m\n"), ("ž\u2028", "ž\u2028\n"), ("From me\n\n", "From me\n\n"),
    ],
)  # fmt: skip
def test_a_text_arrives_as_it_was_written(text: str, shown: str) -> None:
    part = read(mail(text=text))
    raw = part.get_payload(decode=True)
    assert isinstance(raw, bytes)
    assert raw.decode().replace("\r\n", "\n") == shown


@pytest.mark.parametrize(
    "more",
    [
        {"to": [Mailbox("a@b.example>\r\nBcc: <x@y.example")]}, {"to": [Mailbox("ž@b.example")]},
        {"message_id": "<a b@c>"},
        {"in_reply_to": "<a@b>\r\nX: y"}, {"references": ["<ž@b>"]}, {"more": {"X:\r\nBcc": "y"}},
        {"message_id": f"<{'x' * 998}@b>"}, {"to": [Mailbox("a@b.example,c@d.example")]},
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"ASCII|line"):
        mail(**more).written()
