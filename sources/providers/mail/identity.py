"""What makes a mail the same mail wherever it is found: what its author wrote. Pure.

A mail without a Message-ID has no other name. Its place is none: a folder is renamed, a mail moves, a server gives
other UIDs. Its bytes are none: each delivery adds its trace (Received, Return-Path), a server its own fields (Status,
X-UID), and POP3 ends lines in its own way. So it is the fields of RFC 5322 that an author fills in (3.6.1 to 3.6.5)
but Bcc, which the copy in Sent has and what arrives has not (3.6.3), those of MIME that say how its body is to be read
(RFC 2045 3), and its body.
"""

from __future__ import annotations

import hashlib
import re

_AUTHORED = frozenset(
    b"date from sender reply-to to cc message-id in-reply-to references subject comments keywords".split()
)
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_FOLD = re.compile(rb"(?:\r\n|\r|\n)(?=[ \t])")
_LINE = re.compile(rb"\r\n|\r|\n")


def digest(raw: bytes) -> str:
    """64 hexadecimal digits, the same for two mails whose author wrote the same."""
    end = _END.search(raw)
    head, body = (raw[: end.start()], raw[end.end() :]) if end else (raw, b"")
    made = hashlib.sha256()
    for line in sorted(_authored(head)):
        made.update(line + b"\n")
    made.update(b"\n")
    made.update(body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip(b"\n"))
    return made.hexdigest()


def _authored(head: bytes) -> list[bytes]:
    """`name:value` of the fields of the author, in small letters and on one line; of a header without any of them all
    its lines."""
    lines = [line for line in _LINE.split(_FOLD.sub(b" ", head)) if line.strip()]
    fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        name = name.strip().lower()
        if colon and (name in _AUTHORED or name.startswith(b"content-")):
            fields.append(name + b":" + b" ".join(value.split()))
    return fields or lines
