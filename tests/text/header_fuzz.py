"""Header fields of random values, and what of them arrives: nothing but the fields, and the values as they were.

    python3.13 -m tests.text.header_fuzz --fields 100000 --seed 1

It needs nothing but a Python, so each supported version can run it. Values are made of what parsers of headers know:
encoded words that say ends of lines in all charsets and forms, percent signs, quotes, comments, names of fields.
"""

from __future__ import annotations

import argparse
import email
import email.policy
import json
import random
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from email import header, utils

from text import outgoing_mail

_ENDS = ("=0d=0a", "=0D=0A", "=0a", "=0d", "=0D=0A=0D=0A", "=00", "=0b", "=0c", "=1c", "=85", "=E2=80=A8")
_CHARSETS = ("utf-8", "us-ascii", "iso-8859-1", "utf-7", "utf-16", "utf-8*en", "x", "", "unknown-8bit", "idna", "rot13")
_WORDS = (
    "Reply-To:_x=40evil.example", "Bcc:_x@evil.example", "Content-Type:_text/html", "+AA0ACg-Bcc:+ACA-x",
    "DQpCY2M6IHg=",
)  # fmt: skip
_PIECES = (
    "=?utf-8?q?", "=?utf-8?b?", "?=", "=?", "=", "?", "%0D%0A", "%0d%0aBcc: x", "utf-8''", "'", "*0*=", ";", '"', "\\",
    "(", ")", "<", ">", "@", ",", ":", " ", "  ", "a", "Bcc: x", "Zpráva", "日本語", "\N{PILE OF POO}", "e\u0301",
    "\xa0", "\u202e", "\u2060", "\ufeff", "x" * 70, "ž" * 70, "\t",
)  # fmt: skip
_NAMES = [
    "From",
    "Subject",
    "Date",
    "To",
    "Cc",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Auto-Submitted",
    "Jervis-Event",
]
_NAMES += ["MIME-Version", "Content-Type"]
_FIELD = re.compile(rb"([A-Za-z-]+): [!-~][ -~]*(?:\r\n [!-~][ -~]*)*\r\n")


def value(chance: random.Random) -> str:
    """Text without control characters, as the arguments of sendMail admit it."""
    pieces = []
    for _ in range(chance.randint(1, 8)):
        if chance.random() < 0.4:
            text = "".join(chance.choice((*_ENDS, *_WORDS)) for _ in range(chance.randint(1, 4)))
            pieces.append(f"=?{chance.choice(_CHARSETS)}?{chance.choice('qQbBx')}?{text}?=")
        elif chance.random() < 0.2:
            pieces.append(
                "".join(chr(chance.choice((chance.randint(32, 126), chance.randint(160, 0x2FFF)))) for _ in "abc")
            )
        else:
            pieces.append(chance.choice(_PIECES))
    text = "".join(pieces)[:400]
    return "".join(" " if ord(one) < 32 or one in "\x7f\x85\u2028\u2029" else one for one in text)


def identity(chance: random.Random) -> str:
    """A Message-ID, as the arguments admit it."""
    inner = re.sub(r"[^!-;=?-~]", "", value(chance).replace("@", ""))[:200] or "a"
    return f"<{inner}@{inner[:90] or 'b'}>"


def one(chance: random.Random) -> tuple[outgoing_mail.Mail, int]:
    """A mail, and how many of its fields hold such values."""
    name = re.sub(r"[/\\]", "", value(chance)).strip() or "f"
    boxes = [outgoing_mail.Mailbox(f"a{number}@example.com", value(chance).strip()) for number in range(3)]
    mail = outgoing_mail.Mail(
        sender=outgoing_mail.Mailbox("team@example.com", value(chance).strip()),
        to=boxes[:2],
        cc=boxes[2:],
        subject=value(chance),
        text=f"body {value(chance)}",
        date=datetime(2026, 11, 30, tzinfo=UTC),
        message_id="<jervis.m@example.com>",
        in_reply_to=identity(chance),
        references=[identity(chance) for _ in range(chance.randint(0, 3))],
        files=[outgoing_mail.File(name, "text/plain", b"\r\n.\r\nBcc: x\r\n")],
        more={"Jervis-Event": value(chance)},
    )
    return mail, 9


def faults(mail: outgoing_mail.Mail) -> Iterator[str]:
    """What is wrong with the bytes of a mail, by their grammar and by this Python's parser."""
    raw = mail.written()
    head, _, body = raw.partition(b"\r\n\r\n")
    head += b"\r\n"
    if _heads(head) != _NAMES:
        yield f"fields {_heads(head)}"
    boundary = b"\r\n--" + head.partition(b'boundary="')[2].partition(b'"')[0]
    parts = (b"\r\n" + body).split(boundary)
    if len(parts) != 4 or parts[3] != b"--\r\n":
        yield f"{len(parts)} parts"
    else:
        text, file = (_heads(part.removeprefix(b"\r\n").partition(b"\r\n\r\n")[0] + b"\r\n") for part in parts[1:3])
        if text != ["Content-Type", "Content-Transfer-Encoding"] or file != [*text, "Content-Disposition"]:
            yield f"fields of parts {text} {file}"
    if re.search(rb"(?<!\r)\n|\r(?!\n)|[^\r\n -~]", raw) or max(map(len, raw.split(b"\r\n"))) > 998:
        yield "a line"
    for policy in (email.policy.compat32, email.policy.SMTP):
        read = email.message_from_bytes(raw, policy=policy)
        if read.keys() != _NAMES or read.defects or len(read.get_payload()) != 2:
            yield f"read as {read.keys()}, {read.defects}"
    read = email.message_from_bytes(raw, policy=email.policy.compat32)
    ids = [read["In-Reply-To"], *read["References"].split()]
    if ids[0] != mail.in_reply_to or set(ids) != {mail.in_reply_to, *mail.references}:
        yield f"ids {ids}"
    boxes = utils.getaddresses([re.sub(r"\r\n", "", read["To"])])
    shown = [str(header.make_header(header.decode_header(name))) for name, _ in boxes]
    if [address for _, address in boxes] != [box.address for box in mail.to] or shown != [box.name for box in mail.to]:
        yield f"mailboxes {boxes}, {shown}"
    subject = str(header.make_header(header.decode_header(re.sub(r"\r\n", "", read["Subject"]))))
    if subject != mail.subject:
        yield f"subject {subject!r}"
    name = [part.get_filename() for part in read.walk()][-1]
    if name != mail.files[0].name:
        yield f"file {name!r}"


def _heads(head: bytes) -> list[str]:
    """The names of the fields, "" for what is none."""
    names, at = list[str](), 0
    while at < len(head):
        match = _FIELD.match(head, at)
        if match is None:
            return [*names, ""]
        names.append(match[1].decode())
        at = match.end()
    return names


def run(fields: int, seed: int) -> dict[str, object]:
    """The figures, and the first faults with their values."""
    chance, count, mails, wrong = random.Random(seed), 0, 0, list[str]()
    while count < fields:
        mail, more = one(chance)
        count, mails = count + more, mails + 1
        wrong += [f"{fault}: {mail!r}"[:400] for fault in faults(mail)]
    return {
        "python": sys.version.split()[0],
        "seed": seed,
        "fields": count,
        "mails": mails,
        "wrong": len(wrong),
        "first": wrong[:3],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fields", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = run(options.fields, options.seed)
    print(json.dumps(found, indent=2))
    sys.exit(bool(found["wrong"]))
