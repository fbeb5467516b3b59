"""The parts of a message (RFC 2045 to 2049), as far as they can be told apart. Pure; broken structure is no error.

`root` parses the bytes; `Part.children` gives what a multipart holds. What is broken is repaired as mail programs do: a
header with a blank before its colon or without its folding, lines that are no headers, a boundary that is missing or
not the one that the body has. A nested message is a part without children: `Part.body` has its bytes as they came.
What is signed (S/MIME, RFC 8551) is opened to the message within.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from email import policy
from email.message import Message
from email.parser import BytesParser
from email.utils import collapse_rfc2231_value
from typing import Any

from text import charsets, mail_words

HEAD_BYTES = 1 << 20
"""Of the headers of a mail; what is longer is cut there."""
_LINE_BYTES = 64 << 10
_PARAMETER_CHARS = 8 << 10
"""Of a header with parameters; the library's time grows with the square of the length."""
MOST_LINES = 2_000_000
"""Of a multipart; 32 MiB of base64 are 450,000."""
MOST_PARTS = 2000
MOST_UNPACKED = 64 << 20
"""Bytes of all compressed data of a mail (RFC 3274) together: 64 KiB of zlib hold as much."""
MOST_NESTED = 100
"""Multiparts of a mail; the parser's depth grows with them."""
TEXT, HTML, CALENDAR, MESSAGE, UNKNOWN = (
    "text/plain", "text/html", "text/calendar", "message/rfc822", "application/octet-stream",
)  # fmt: skip
_SIGNED = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_FIELD = re.compile(rb"[!-9;-~]+:")
_BLANK_BEFORE_COLON = re.compile(rb"([!-9;-~]+)[ \t]+:")
_USUAL = re.compile(
    rb"(?:from|to|cc|bcc|subject|date|message-id|mime-version|content-[a-z-]+|received|reply-to|in-reply-to|references"
    rb"|return-path|sender|list-[a-z-]+|x-[a-z-]+|dkim-signature|delivered-to)[ \t]*:",
    re.IGNORECASE,
)
"""Names of headers behind which a line that is none does not end the head."""
_WELL_FORMED = re.compile(rb"(?:[!-9;-~]+:[^\r\n]*(?:\r\n|\r|\n)(?:[ \t][^\r\n]*(?:\r\n|\r|\n))*)*")
_DELIMITER = re.compile(rb"^--([^\s-][^\r\n]{0,199}?|-+[^\s-][^\r\n]{0,199}?)[ \t]*\r?$", re.MULTILINE)
_HEADED = re.compile(rb"\s*content-[a-z-]+[ \t]*:", re.IGNORECASE)
_OF_PARTS = re.compile(rb"^content-type:\s*\"?multipart/", re.IGNORECASE | re.MULTILINE)
_PARAMETERS = frozenset({"content-type", "content-disposition"})
_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")


class TooManyPartsError(ValueError):
    """A multipart has more parts than are taken apart."""


class _Message(Message):
    """A message within a message is not parsed with it, so that its bytes stay as they are."""

    def get_content_type(self) -> str:
        kind = super().get_content_type()
        rules = self.policy
        deep = kind.startswith("multipart/") and isinstance(rules, _Lenient) and rules.deep()
        return TEXT if deep or kind.startswith("message/") else kind

    def get_content_maintype(self) -> str:
        return self.get_content_type().partition("/")[0]


class _Lenient(policy.Compat32):
    """Headers stay as they came. `made` counts the parts, `nested` the multiparts of one message; `left` are the bytes
    that compressed data of the mail may still become."""

    made: list[int] = []  # noqa: RUF012  # policies take their settings as class attributes
    nested: list[int] = []  # noqa: RUF012
    left: list[int] = []  # noqa: RUF012

    def message_factory(self, policy: _Lenient) -> _Message:  # type: ignore[override]  # the stub knows attributes
        """One more part. Raises `TooManyPartsError`."""
        self.made[0] += 1
        if self.made[0] > MOST_PARTS:
            raise TooManyPartsError
        return _Message(policy=policy)

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value[:_PARAMETER_CHARS] if name.lower() in _PARAMETERS else value

    def deep(self) -> bool:
        """Whether there are too many multiparts within one another to open one more."""
        return self.nested[0] > MOST_NESTED


def root(raw: bytes, left: list[int] | None = None) -> tuple[Part, bytes, list[str]]:
    """The message as a part, what of its bytes was not taken apart, and what is in doubt. `left`: `Part.left` of the
    one that it was within."""
    raw, doubts = _plain_start(raw), list[str]()
    head, body = _head(raw)
    if len(head) > HEAD_BYTES:
        lines = b"\n".join(line[:_LINE_BYTES] for line in head.split(b"\n"))
        head = lines[:HEAD_BYTES].rpartition(b"\n")[0] + b"\n"
        doubts.append(f"its headers have more than {HEAD_BYTES} bytes, and were cut there")
    if not _WELL_FORMED.fullmatch(head):
        head, end = _repaired(head, doubts)
        body = raw[end:] if end else body
    left = [MOST_UNPACKED] if left is None else left
    rules = _Lenient(made=[0], nested=[0], left=left)  # type: ignore[call-arg]  # its stub has no fields of ours
    if not _OF_PARTS.search(head):
        message = BytesParser(policy=rules).parsebytes(head + b"\n", headersonly=True)
        message.set_payload(body.decode("ascii", "surrogateescape"))
        return Part(message, rules), b"", doubts
    if body.count(b"\n") > MOST_LINES:
        doubts.append(f"it has more than {MOST_LINES} lines, and was not taken apart")
        return Part(BytesParser(policy=rules).parsebytes(head + b"\n", headersonly=True), rules), body, doubts
    for most in (MOST_PARTS, MOST_PARTS // 2, 0):
        # The parser has no way to stop: at the first part too many it begins anew with fewer bytes.
        end = _behind(body, most) if rules.made[0] > MOST_PARTS or most != MOST_PARTS else len(body)
        try:
            rules.made[0] = rules.nested[0] = 0
            found = BytesParser(policy=rules).parsebytes(head + b"\n" + body[:end])
        except (TooManyPartsError, RecursionError):
            continue
        if end < len(body):
            doubts.append(f"it has more parts than the {MOST_PARTS} that are taken apart")
        return Part(found, rules), body[end:], doubts
    rules.made[0] = 0
    message = BytesParser(policy=rules).parsebytes(head + b"\n", headersonly=True)
    return Part(message, rules), body, [*doubts, "its parts could not be taken apart"]


class Part:
    """A part with its headers. `path` counts its place: 2.1 is the first part of the second one."""

    def __init__(self, message: Any, rules: _Lenient, path: str = "") -> None:
        self._message, self._rules, self.path = message, rules, path
        declared = mail_words.plain(str(message.get("content-type") or "")).partition(";")[0].strip().lower()
        self.declared = declared
        """The type as it is written; "" without one."""
        default = MESSAGE if message.get_default_type() == MESSAGE else TEXT
        self.kind = declared if _TYPE.fullmatch(declared) else UNKNOWN if declared else default
        self.encoding = str(message.get("content-transfer-encoding") or "").strip().lower()

    @property
    def left(self) -> list[int]:
        """How many bytes compressed data of the mail may still become, for all of its parts."""
        return self._rules.left

    @property
    def multipart(self) -> bool:
        """Whether it holds parts, or is said to."""
        return self.kind.startswith("multipart/") or bool(self._message.is_multipart())

    @property
    def fields(self) -> list[tuple[str, str]]:
        """All headers in order, as they came; bytes beyond ASCII are escaped as surrogates."""
        return list(self._message.items())

    @property
    def charset(self) -> str:
        """As it is written; "" without one."""
        return self.parameter("charset")

    @property
    def attached(self) -> bool:
        """Whether its sender wants it to be a file."""
        disposition = str(self._message.get("content-disposition") or "")
        return disposition.partition(";")[0].strip().lower() == "attachment"

    @property
    def filename(self) -> str:
        """Decoded; "" without one."""
        for header, name in (("content-disposition", "filename"), ("content-type", "name")):
            if said := self.parameter(name, header):
                return mail_words.decoded(said)
        return ""

    @property
    def content_id(self) -> str:
        """Without its brackets."""
        return str(self._message.get("content-id") or "").strip().strip("<>")

    def parameter(self, name: str, header: str = "content-type") -> str:
        """A parameter of a header (RFC 2045, RFC 2231), "" without it."""
        if name not in str(self._message.get(header) or "").lower():
            return ""
        try:
            found = self._message.get_param(name, "", header)
        except (ValueError, LookupError, TypeError, AttributeError):
            return ""
        if isinstance(found, tuple):
            charset, _, said = found
            raw = said.encode("latin-1", "replace") if _latin(said) else said.encode("utf-8", "surrogateescape")
            return charsets.decode(raw, charset or "").text
        return mail_words.eight_bit(collapse_rfc2231_value(found).strip())

    @property
    def body(self) -> bytes:
        """The bytes without their transfer encoding; of a message within as it came."""
        if self._message.is_multipart():
            return b""
        payload: object = None
        try:
            payload = self._message.get_payload(decode=True)
        except (ValueError, LookupError, TypeError, AssertionError):
            payload = self._message.get_payload()
        return payload if isinstance(payload, bytes) else str(payload or "").encode("utf-8", "surrogateescape")

    def children(self) -> list[Part]:
        """Those of a multipart; found by their delimiters where the boundary is not the one that is said."""
        payload = self._message.get_payload() if self._message.is_multipart() else None
        if not isinstance(payload, list) or not payload:
            payload = self._recovered()
        return [Part(one, self._rules, f"{self.path}{number}.") for number, one in enumerate(payload, start=1)]

    def around(self) -> str:
        """What stands before its first part and behind its last one."""
        both = (self._message.preamble or "", self._message.epilogue or "")
        return "\n\n".join(mail_words.eight_bit(one.replace("\r\n", "\n")).strip() for one in both if one.strip())

    def _recovered(self) -> Sequence[Any]:
        body = self.body
        if self._rules.deep():
            return ()
        self._rules.nested[0] += 1
        for boundary in _boundaries(body):
            # In place of the one that is there: the parser takes some characters off the ends of a boundary.
            name = f"=_recovered_{self._rules.nested[0]}".encode()
            split = re.sub(rb"^--" + re.escape(boundary), b"--" + name, body, flags=re.MULTILINE)
            head = b'Content-Type: multipart/mixed; boundary="' + name + b'"\n\n'
            try:
                found = BytesParser(policy=self._rules).parsebytes(head + split)
            except (TooManyPartsError, RecursionError):
                return ()
            if found.is_multipart():
                return [one for one in found.get_payload() if isinstance(one, Message)]
        return ()


def opened(part: Part) -> bytes:
    """The message within S/MIME signed or compressed data; b"" where there is none, where it is encrypted, or where the
    compressed data of the mail become more than `MOST_UNPACKED` bytes."""
    from asn1crypto import cms  # few mails are signed so

    try:
        info = cms.ContentInfo.load(part.body)
        match info["content_type"].native:
            case "signed_data":
                content = info["content"]["encap_content_info"]["content"]
            case "compressed_data":
                return _unpacked(info["content"]["encap_content_info"]["content"].native, part.left)
            case _:
                return b""
        found = content.native if content is not None else b""
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, zlib.error):
        return b""
    return found if isinstance(found, bytes) else b""


def _unpacked(packed: bytes, left: list[int]) -> bytes:
    """All of it or nothing. Raises `zlib.error`."""
    if left[0] <= 0:
        return b""
    stream = zlib.decompressobj()
    whole = stream.decompress(packed, left[0])
    left[0] -= len(whole)
    return whole if stream.eof else b""


def signed(part: Part) -> bool:
    """Whether it is a message within S/MIME."""
    return part.kind in _SIGNED or (part.kind == UNKNOWN and part.filename.lower().endswith((".p7m", ".p7s.p7m")))


def is_type(text: str) -> bool:
    """Whether it has the form of a media type."""
    return _TYPE.fullmatch(text.lower()) is not None


def _latin(said: str) -> bool:
    return all(ord(letter) < 256 for letter in said)


def _plain_start(raw: bytes) -> bytes:
    """Without a byte order mark and blank lines before the headers, and with line feeds if it has returns alone."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in raw and b"\n" not in raw:
        raw = raw.replace(b"\r", b"\n")
    return raw.lstrip(b"\r\n") if raw[:1] in b"\r\n" and _FIELD.match(raw.lstrip(b"\r\n")) else raw


def _head(raw: bytes) -> tuple[bytes, bytes]:
    """The lines before the first blank one, and what stands behind that."""
    ends = [(at, mark) for mark in (b"\n\n", b"\n\r\n", b"\r\r\n\r\r\n") if (at := raw.find(mark)) >= 0]
    if raw[:1] in b"\r\n":
        return b"", raw.lstrip(b"\r\n")
    if not ends:
        return raw + (b"" if raw.endswith(b"\n") else b"\n"), b""
    at, mark = min(ends)
    return raw[: at + 1], raw[at + len(mark) :]


def _repaired(head: bytes, doubts: list[str]) -> tuple[bytes, int]:
    """With headers alone, and where the text begins if no blank line is before it; 0: behind the head. A line without a
    colon behind which headers go on belongs to the header before it where that is not at its end; any other one is left
    out, and named."""
    kept, at, lines = list[bytes](), 0, head.splitlines(keepends=True)
    for line, headed in zip(lines, _headed(lines), strict=True):
        at, start, bare = at + len(line), at, line.rstrip(b"\r\n")
        if _FIELD.match(bare) or (bare[:1] in (b" ", b"\t") and kept):
            kept.append(bare)
        elif (spaced := _BLANK_BEFORE_COLON.match(bare)) is not None:
            kept.append(spaced[1] + bare[spaced.end() - 1 :])
        elif kept and kept[-1].rstrip().endswith((b";", b",")):
            kept.append(b" " + bare)
        elif bare.startswith(b"--") or not headed:
            return b"".join(one + b"\n" for one in kept), start or len(head)
        elif start and not bare.startswith((b"From ", b">From ")):
            shown = charsets.decode(bare[:100]).text
            doubts.append(f"a line between its headers is none: {' '.join(shown.split())}")
    return b"".join(one + b"\n" for one in kept), 0


def _headed(lines: Sequence[bytes]) -> list[bool]:
    """Of each line whether headers stand behind it, before a delimiter of parts does."""
    headed, behind = list[bool](), False
    for line in reversed(lines):
        headed.append(behind)
        behind = not line.startswith(b"--") and (behind or _USUAL.match(line) is not None)
    return headed[::-1]


def _behind(body: bytes, most: int) -> int:
    """Where the line begins that may be the delimiter of one part too many."""
    at = -1
    for _ in range(most):
        at = body.find(b"\n--", at + 1)
        if at < 0:
            return len(body)
    return at + 1


def _boundaries(body: bytes) -> Iterator[bytes]:
    """What may separate its parts: delimiters that end somewhere, or behind which headers stand."""
    tried = set[bytes]()
    for found in _DELIMITER.finditer(body[:HEAD_BYTES]):
        name = found[1]
        if name in tried or name.endswith(b"--"):
            continue
        tried.add(name)
        if _HEADED.match(body, found.end()) or b"\n--" + name + b"--" in body:
            yield name
        if len(tried) > 20:
            return
