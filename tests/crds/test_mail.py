"""What reading a mail costs: each header is parsed once, one in a usual form not by the library; parts and lines are
bounded."""

from __future__ import annotations

from collections import Counter
from email.policy import EmailPolicy
from typing import Any

import pytest

from crds import mail


def test_each_header_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: Counter[tuple[str, str]] = Counter()
    real = EmailPolicy.header_fetch_parse

    def counting(self: Any, name: str, value: str) -> Any:
        parsed[name, value] += 1
        return real(self, name, value)

    monkeypatch.setattr(EmailPolicy, "header_fetch_parse", counting)
    head = b'From: a@b.example (c)\nSubject: =?utf-8?q?s?=\nContent-Type: multipart/mixed; boundary=b; x="y z"\n\n'
    part = b'--b\nContent-Type: application/pdf; name="a %d.pdf"\n\nText\n'
    found = mail.read(head + b"".join(part % number for number in range(5)) + b"--b--\n")
    assert len(found.files) == 5
    assert max(parsed.values()) == 1
    assert len(parsed) >= 8
    parsed.clear()
    usual = mail.read(b"From: A <a@b.example>\nSubject: s\nContent-Type: text/plain; charset=utf-8\n\nText\n")
    assert (usual.title, usual.text) == ("s", "From: A <a@b.example>\nSubject: s\n\nText\n")
    assert not parsed


def test_two_headers_with_one_value_are_two_headers() -> None:
    found = mail.read(b"From: a@b.example\nTo: a@b.example\nSubject: a@b.example\n\nText\n")
    assert found.title == "a@b.example"
    assert found.text.startswith("From: a@b.example\nTo: a@b.example\nSubject: a@b.example\n")


@pytest.mark.parametrize(("count", "fits"), [(1999, True), (2000, False)])
def test_a_mail_has_at_most_2000_parts(count: int, fits: bool) -> None:
    """The mail itself is one of them."""
    raw = b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * count + b"--b--\n"
    if fits:
        assert len(mail.read(raw).files) == count - 1
    else:
        with pytest.raises(mail.UnreadableError, match="more than 2000 parts"):
            mail.read(raw)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_mail_has_at_most_two_million_lines(end: bytes) -> None:
    with pytest.raises(mail.UnreadableError, match="more than 2000000 lines"):
        mail.read(b"Subject: s" + end * 2_000_001)
