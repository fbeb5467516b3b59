"""Mails as people send them, by number, and mails that are meant to break who reads them. Pure."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

_WORDS = (
    *("rack", "invoice", "valve", "meeting", "tomorrow", "storage", "replaced", "please", "confirm", "delivery"),
    *("pump", "schedule", "release", "branch", "customer", "answer", "question", "cable", "temperature", "report"),
    *("budget", "access", "garden", "Příloha", "zpráva", "Größe", "château"),
)


def ordinary(number: int, size: int) -> bytes:
    """About `size` bytes with LF: half plain text, four of ten text and HTML, one of ten with an attachment."""
    dice = random.Random(number)
    hops = "".join(
        f"Received: from relay{hop}.example.com (relay{hop}.example.com [192.0.2.{hop}])\n"
        f"\tby mx{hop}.example.org (Postfix) with ESMTPS id {dice.getrandbits(40):010X}\n"
        f"\tfor <infra@example.org>; Mon, 23 Nov 2026 08:00:0{hop} +0100 (CET)\n"
        for hop in range(3)
    )
    signed = base64.b64encode(dice.randbytes(192)).decode()
    head = (
        f"Return-Path: <petra@example.com>\n{hops}"
        f"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.com; s=mail;\n\tb={signed}\n"
        f"From: =?UTF-8?Q?Petra_Nov=C3=A1kov=C3=A1?= <petra@example.com>\n"
        f"To: Infra <infra@example.org>, Ada Lovelace <ada@example.org>\n"
        f"Subject: Mail {number}: {' '.join(dice.choices(_WORDS[:12], k=4))}\n"
        f"Message-ID: <{number}.{dice.getrandbits(32)}@example.com>\n"
        f"References: <{max(0, number - 1)}@example.com>\n"
        "Date: Mon, 23 Nov 2026 08:00:00 +0100\nMIME-Version: 1.0\n"
    )
    left = max(200, size - len(head) - 200)
    kind = number % 10
    if kind < 5:
        body = _text(dice, left)
        return f"{head}Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{body}".encode()
    edge = f"=_{dice.getrandbits(64):016x}"
    plain = _text(dice, left // 3 if kind < 9 else left // 2)
    first = f"--{edge}\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{plain}\n"
    if kind < 9:
        other = _text(dice, left // 2)
        second = f"--{edge}\nContent-Type: text/html; charset=utf-8\n\n<html><body><p>{other}</p></body></html>\n"
        return f'{head}Content-Type: multipart/alternative; boundary="{edge}"\n\n{first}{second}--{edge}--\n'.encode()
    file = base64.encodebytes(dice.randbytes(left // 3)).decode()
    second = (
        f'--{edge}\nContent-Type: application/pdf; name="f{number}.pdf"\nContent-Transfer-Encoding: base64\n'
        f'Content-Disposition: attachment; filename="f{number}.pdf"\n\n{file}'
    )
    return f'{head}Content-Type: multipart/mixed; boundary="{edge}"\n\n{first}{second}--{edge}--\n'.encode()


def _text(dice: random.Random, size: int) -> str:
    lines, length = list[str](), 0
    while length < size:
        lines.append(" ".join(dice.choices(_WORDS, k=10)))
        length += len(lines[-1].encode()) + 1
    return "\n".join(lines) + "\n"


def _nested(depth: int) -> bytes:
    opened = "".join(f"Content-Type: multipart/mixed; boundary=b{at}\n\n--b{at}\n" for at in range(depth))
    return f"Subject: nested\n{opened}Content-Type: text/plain\n\nThe end.\n".encode()


def _forwarded(depth: int) -> bytes:
    return b"Subject: forwarded\nContent-Type: message/rfc822\n\n" * depth + b"Subject: inner\n\nText.\n"


def _siblings(count: int) -> bytes:
    parts = "".join(f'--b\nContent-Type: text/plain; name="{at}.txt"\n\nText {at}.\n' for at in range(count))
    return f"Subject: parts\nContent-Type: multipart/mixed; boundary=b\n\n{parts}--b--\n".encode()


def _part(kind: str, body: bytes, encoding: str = "7bit", more: str = "") -> bytes:
    head = f"Subject: hostile\nContent-Type: {kind}\nContent-Transfer-Encoding: {encoding}\n{more}\n"
    return head.encode() + body


def _calendar(lines: str) -> bytes:
    head = "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\nBEGIN:VEVENT\nUID:1\nDTSTART:20261123T080000Z\n"
    return _part("text/calendar; charset=utf-8", f"{head}{lines}END:VEVENT\nEND:VCALENDAR\n".encode())


HOSTILE: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "no headers": lambda: b"\x00\xff" * 5000,
    "MIME without its end": lambda: _siblings(50)[:-20],
    "boundary that is not there": lambda: _part('multipart/mixed; boundary="none"', b"text\n" * 1000),
    "multipart in base64": lambda: _part("multipart/mixed; boundary=b", b"--b\n\nx\n--b--\n", "base64"),
    "boundary of 100,000 characters": lambda: _part(f'multipart/mixed; boundary="{"b" * 100_000}"', b"x\n"),
    "charset that does not exist": lambda: _part('text/plain; charset="klingon"', "žluťoučký".encode() * 100),
    "charset that lies": lambda: _part("text/plain; charset=us-ascii", bytes(range(128, 256)) * 1000, "8bit"),
    "UTF-16 of odd length": lambda: _part("text/plain; charset=utf-16", b"\xff\xfea\x00b", "8bit"),
    "UTF-7 with surrogates": lambda: _part("text/plain; charset=utf-7", b"+2AA- " * 10_000),
    "charset that is a codec of bytes": lambda: _part("text/plain; charset=zlib", b"x" * 1000),
    "base64 that breaks off": lambda: _part("application/pdf", b"QUJD" * 10_000 + b"Q", "base64"),
    "quoted-printable of nonsense": lambda: _part("text/plain", b"=ZZ=\n=4" * 50_000, "quoted-printable"),
    "uuencode without an end": lambda: _part("text/plain", b"begin 644 x\n" + b"M" * 100_000, "x-uuencode"),
    "multiparts, 10,000 deep": lambda: _nested(10_000),
    "forwarded, 10,000 deep": lambda: _forwarded(10_000),
    "parts, 10,000": lambda: _siblings(10_000),
    "headers, 100,000": lambda: b"".join(b"X-%d: y\n" % at for at in range(100_000)) + b"Subject: s\n\nT\n",
    "header of 10 MiB": lambda: b"Subject: " + b"a" * (10 << 20) + b"\n\nT\n",
    "header folded 100,000 times": lambda: b"Subject: a\n" + b" b\n" * 100_000 + b"\nT\n",
    "recipients, 100,000": lambda: b"Subject: s\nTo: " + b"a@b.example, " * 100_000 + b"\n\nT\n",
    "comments in brackets, 100,000 deep": lambda: b"Subject: s\nTo: " + b"(" * 100_000 + b"\n\nT\n",
    "encoded words, 50,000": lambda: b"Subject: " + b"=?utf-8?q?=C5=99?= " * 50_000 + b"\n\nT\n",
    "encoded words without an end": lambda: b"Subject: " + b"=?utf-8?q?" * 50_000 + b"\n\nT\n",
    "parameters, 10,000": lambda: _part(
        "text/plain" + "".join(f"; name*{at}*=utf-8''%C5" for at in range(10_000)), b"T\n"
    ),
    "groups and quotes that stay open": lambda: b'Subject: s\nFrom: "a\\"\nTo: x:' + b'<"@[' * 2000 + b"\n\nT\n",
    "line of 16 MiB": lambda: _part("text/plain", b"x" * (16 << 20)),
    "lines, 5,000,000": lambda: _part("text/plain", b"\n" * 5_000_000),
    "carriage returns, 5,000,000": lambda: _part("text/plain", b"\r" * 5_000_000),
    "HTML, 100,000 deep": lambda: _part("text/html", b"<div>" * 100_000 + b"text"),
    "HTML of open brackets": lambda: _part("text/html", b"<" * 1_000_000),
    "calendar that repeats every second": lambda: _calendar("RRULE:FREQ=SECONDLY\n"),
    "calendar, 100,000 attendees": lambda: _calendar("ATTENDEE:mailto:a@b.example\n" * 100_000),
    "calendar within the limit, 8,000 attendees": lambda: _calendar("ATTENDEE:mailto:a@b.example\n" * 8_000),
    "calendar, 5,000 events inside of one another": lambda: _calendar("BEGIN:VEVENT\n" * 5_000),
    "calendar, line folded 80,000 times": lambda: _calendar("SUMMARY:a\n" + " b\n" * 80_000),
    "calendar, year 99999": lambda: _calendar("DTEND:999991231T000000Z\nDURATION:P999999999D\n"),
    "calendars, 10,000": lambda: (
        b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n"
        + b"--b\nContent-Type: text/calendar\n\nBEGIN:VCALENDAR\nEND:VCALENDAR\n" * 10_000
    ),
    "attachment with a name of 1 MiB": lambda: _part(
        "application/pdf", b"x", more=f'Content-Disposition: attachment; filename="{"../" * 350_000}"\n'
    ),
}
"""By what is wrong with them; none of them is larger than a mail may be."""
