"""What reading a mail costs: each header is parsed once, one in a usual form not by the library; parts and lines are
bounded. Usual forms of headers say the same with and without the library's parser."""

from __future__ import annotations

from collections import Counter
from email import charset, headerregistry
from email.policy import default
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.connectors import mails
from crds import pendingtask
from text import mail, mail_headers


def test_usual_headers_are_not_parsed_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: Counter[str] = Counter()
    real = headerregistry.HeaderRegistry.__call__

    def counting(self: Any, name: str, value: str) -> Any:
        parsed[name] += 1
        return real(self, name, value)

    monkeypatch.setattr(headerregistry.HeaderRegistry, "__call__", counting)
    usual = mail.read(b"From: A <a@b.example>\nSubject: s\nContent-Type: text/plain; charset=utf-8\n\nText\n")
    assert (usual.title, usual.text) == ("s", "From: A <a@b.example>\nSubject: s\n\nText\n")
    assert not parsed


def test_two_headers_with_one_value_are_two_headers() -> None:
    found = mail.read(b"From: a@b.example\nTo: a@b.example\nSubject: a@b.example\n\nText\n")
    assert found.title == "a@b.example"
    assert found.text.startswith("From: a@b.example\nTo: a@b.example\nSubject: a@b.example\n")


def test_parts_beyond_2000_stay_together_as_a_file() -> None:
    """The mail itself is one of them."""
    raw = b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nText.\n" + b"".join(
        b"--b\nContent-Type: text/plain; name=%d.txt\n\n%d\n" % (number, number) for number in range(2500)
    )
    found = mail.read(raw + b"--b--\n")
    rest = found.files[pendingtask.MOST_ATTACHMENTS - 1]
    assert rest.name == "further-parts.mime"
    whole = b"".join(file.body + b"\n" for file in found.files if file is not rest) + rest.body
    assert all(b"%d\n" % number in whole for number in range(2500))
    assert found.text.endswith("\n\nText.\n")
    assert found.doubts[0] == "it has more parts than the 2000 that are taken apart"


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_two_million_lines_of_parts_stay_a_file(end: bytes) -> None:
    found = mail.read(
        b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b".replace(b"\n", end) + end * 2_000_001
    )
    assert found.title == "s"
    assert "more than 2000000 lines" in found.text


NAMES = ("from", "to", "cc", "date", "message-id", "in-reply-to", "references", "subject")
ADDRESSES = ("from", "to", "cc")
PIECES = (
    *("a", "B", "0", "ada", "Ada", "example.org", "text", "plain", "utf-8", "UTF-8", "charset", "name", "boundary"),
    *("@", ".", ",", ";", ":", "<", ">", "(", ")", "[", "]", '"', "\\", "=", "=?", "?=", "?", "*", "%", "'", "/", "-"),
    *(" ", "  ", "\t", ", ", "; ", "=?utf-8?q?A?=", "=?utf-8?b?xZk=?=", "ř", "\udcc5", "\x00", "\x7f", "\xa0", "+0100"),
    *("Mon", "23 Nov 2026", "08:00:00", "-0000", "GMT", "99", "7bit", "base64", "8BIT", "mailto", "undisclosed", "*0"),
)


def library(name: str, value: str) -> str:
    return str(default.header_fetch_parse(name, value))


def agree(name: str, value: str) -> bool:
    """Whether the form is a usual one; then both say the same."""
    said = mail_headers.shown(name, value)
    assert said is None or said == library(name, value), (name, value)
    return said is not None


@given(st.sampled_from(NAMES), st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_pieces_in_any_order(name: str, value: str) -> None:
    agree(name, value)


@given(st.sampled_from(NAMES), st.text(max_size=40))
def test_any_text(name: str, value: str) -> None:
    agree(name, value.replace("\r", "").replace("\n", ""))


def encoded(said: tuple[str, str, int]) -> str:
    """An encoded word by the library: (charset, text, form)."""
    written = charset.Charset(said[0])
    written.header_encoding = said[2]
    return str(written.header_encode(said[1]))


WORD = st.text("abzAZ09!#$%&'*+-/=^_`{|}~", min_size=1, max_size=6)
DOTTED = st.lists(WORD, min_size=1, max_size=3).map(".".join)
ADDRESS = st.tuples(DOTTED, DOTTED).map("@".join)
PHRASE = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
QUOTED = st.lists(st.text("abz09.,:;@()'=-", min_size=1, max_size=6), min_size=1, max_size=3).map(" ".join)
LETTERS = st.text("aAzŘřßé.,@()", min_size=1, max_size=6)
ENCODED = st.tuples(
    st.sampled_from(("utf-8", "iso-8859-2", "windows-1250", "UTF-8")),
    st.lists(LETTERS, min_size=1, max_size=3).map(" ".join),
    st.sampled_from((charset.QP, charset.BASE64)),
).map(encoded)
MAILBOX = st.one_of(
    st.tuples(ENCODED, ADDRESS).map(lambda two: f"{two[0]} <{two[1]}>"),
    ADDRESS,
    ADDRESS.map("<{}>".format),
    st.tuples(PHRASE, ADDRESS).map(lambda two: f"{two[0]} <{two[1]}>"),
    st.tuples(QUOTED, ADDRESS).map(lambda two: f'"{two[0]}" <{two[1]}>'),
)


@given(
    st.sampled_from(ADDRESSES), st.lists(MAILBOX, min_size=1, max_size=4), st.sampled_from((",", ", ", ",\t", ",  "))
)
def test_lists_of_mailboxes_are_usual(name: str, mailboxes: list[str], between: str) -> None:
    assert agree(name, between.join(mailboxes))


@given(ADDRESS)
def test_identities_are_usual(address: str) -> None:
    assert agree("message-id", f"<{address}>")


@pytest.mark.parametrize("value", [
    "Mon, 23 Nov 2026 08:00:00 +0100", "23 Nov 2026 08:00 -0000", "Mon, 23 Nov 26 08:00:00 GMT",
    "Mon, 23 Nov 2026 08:00:00 +0100 (CET)",
])  # fmt: skip
def test_dates_are_usual(value: str) -> None:
    assert agree("date", value)


@pytest.mark.parametrize(("name", "value"), [
    ("date", ""), ("date", "tomorrow"), ("date", "Mon, 99 Nov 2026 08:00:00 +0100"), ("date", "1 Jan 2026 00:00 +9999"),
    ("from", ""), ("from", "Ada"), ("from", "a@b.example,"), ("from", ",a@b.example"), ("from", "group: a@b.example;"),
    ("from", "Ada (comment) <a@b.example>"), ("from", '"a  b" <a@b.example>'), ("from", '" a" <a@b.example>'),
    ("from", '"=?utf-8?q?A?=" <a@b.example>'), ("from", "=?utf-8?q?=C5?= <a@b.example>"),
    ("from", "=?utf-8?q?A?= =?utf-8?q?B?= <a@b.example>"), ("from", "=?utf-8?q?_A?= <a@b.example>"),
    ("from", "=?utf-8?b?QQ=?= <a@b.example>"), ("from", "=?utf-7?q?A?= <a@b.example>"), ("from", "a.@b.example"),
    ("subject", "=?utf-8?q?A?= b"), ("subject", "ř"), ("subject", "=?"), ("message-id", "<a@b> c"),
    ("message-id", "<a@[192.0.2.1]>"),
    ("content-type", 'text/plain; a="b c"'), ("content-type", "text/plain; a=b; A=c"), ("content-type", "text"),
    ("content-type", "text/plain; name*=utf-8''%C5%99"), ("content-type", 'text/plain; name=""'),
    ("content-transfer-encoding", "8bit (comment)"), ("content-transfer-encoding", "x-uuencode"),
    ("content-disposition", "attachment"), ("x-mailer", "one"),
])  # fmt: skip
def test_other_forms_are_left_to_the_library(name: str, value: str) -> None:
    assert mail_headers.shown(name, value) is None


def test_all_headers_of_ordinary_mails_are_usual() -> None:
    for number in range(50):
        head = mails.ordinary(number, 1024).decode().partition("\n\n")[0].replace("\n\t", "\t").splitlines()
        found = {name.lower(): value.lstrip() for name, _, value in (line.partition(":") for line in head)}
        assert all(agree(name, found[name]) for name in NAMES if name in found)
