"""What a mail program shows of a mail, and what it offers as files. Pure; a part that cannot be read stays a file.

    alternative   one form of the text: plain text, unless HTML alone says it; of HTML further links are kept
    related       its root; the rest are files
    mixed         every text that is not sent as a file, in order; a delivery report (RFC 3464) with all of its blocks
    message       a file; its text too where the mail says nothing itself
    calendar      its events as text; the file stays
    S/MIME, TNEF  opened where they can be; else files

`Shown` has all of it; `doubts` name what could not be understood, each with the place of its part.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from text import charsets, html_text, invitations, mail_parts, mail_words, tnef
from text.mail_parts import CALENDAR, HTML, MESSAGE, TEXT, UNKNOWN, Part

_REPORTS = frozenset({"message/delivery-status", "message/disposition-notification", "message/feedback-report",
                      "message/global-delivery-status", "message/global-disposition-notification"})  # fmt: skip
_MESSAGES = frozenset({MESSAGE, "message/global", "message/news"})
_SIGNATURES = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_TNEF = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
_FORMS = frozenset({TEXT, HTML})
_BY_CONTENT = frozenset({UNKNOWN, "binary/octet-stream", "application/binary", "application/force-download",
                         "application/download", "application/x-download", "application/unknown"})  # fmt: skip
"""Types that say nothing."""
_MAGIC = (b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1f\x8b")
"""How files begin that no text begins with; what they are, `puremagic` says."""
_IS_HTML = re.compile(r"\s*(?:<!doctype\s+html|<html[\s>])", re.IGNORECASE)
_MOST_CALENDARS = 4
_MOST_LINKS = 100
_LEAST_MORE = 400
"""Letters of HTML that a plain text four times as short does not say."""
_DEEPEST = 5
"""Messages within messages whose text is shown, S/MIME and TNEF within one another that are opened."""
_NAME_CHARS = 255


@dataclass(frozen=True)
class File:
    """`name` as it arrived, without folders; `media_type` an IANA media type."""

    name: str
    media_type: str
    body: bytes


@dataclass
class Shown:
    """The texts in order, the files, and the events of invitations."""

    texts: list[str] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    events: list[invitations.Event] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @property
    def body(self) -> str:
        """The texts as one."""
        return "\n\n".join(one for one in self.texts if one)

    def add(self, other: Shown) -> None:
        """What another part has."""
        self.texts += other.texts
        self.files += other.files
        self.events += other.events
        self.doubts += other.doubts


def read(root: Part) -> Shown:
    """All of a mail."""
    shown = _part(root, 0)
    if not shown.body.strip():
        if root.multipart and (around := root.around()):
            shown.texts.append(around)
        for one in shown.files:
            if one.media_type in _MESSAGES:
                shown.texts.append(_forwarded(one.body, root.left))
    # Programs send an invitation twice in one mail, for two kinds of readers.
    files: dict[tuple[bytes, str], File] = {}
    for one in shown.files:
        name = "" if one.media_type == CALENDAR else one.name
        files.setdefault((hashlib.sha256(one.body).digest(), name), one)
    shown.files = list(files.values())
    return shown


def _forwarded(raw: bytes, left: list[int]) -> str:
    """A message within a mail, as mail programs show one."""
    part, _, _ = mail_parts.root(raw, left)
    within = _part(part, 1)
    wanted = ("from", "date", "subject", "to")
    named = {name.lower(): value for name, value in reversed(part.fields)}
    lines = [f"{name.title()}: {mail_words.decoded(named[name])}" for name in wanted if name in named]
    return "\n".join(["---------- Forwarded message ----------", *lines, "", within.body]).rstrip()


def file_name(given: str, otherwise: str) -> str:
    """The last part of a path, on one line, without what steers a terminal; `otherwise` when nothing is left."""
    last = given.replace("\\", "/").rpartition("/")[2]
    plain = " ".join("".join(char if char.isprintable() else " " for char in last).split())
    return (plain or otherwise)[-_NAME_CHARS:]


def _part(part: Part, depth: int, *, first: bool = True) -> Shown:
    if part.multipart:
        children = part.children()
        if children:
            return _several(part.kind, children, part, depth)
        # Nothing separates its parts: it is one text, as its reader sees it.
        return _text(part, part.body, TEXT, depth)
    if mail_parts.signed(part) and depth < _DEEPEST and (within := mail_parts.opened(part)):
        root, _, doubts = mail_parts.root(within, part.left)
        shown = _part(root, depth + 1)
        shown.doubts += doubts
        return shown
    if part.kind in _TNEF or part.filename.lower() == "winmail.dat":
        return _outlook(part, first=first)
    raw = part.body
    if part.kind == CALENDAR:
        return _calendar(part, raw)
    if part.kind in _REPORTS:
        return _text(part, raw, TEXT, depth)
    kind = _kind(part, raw)
    inline = not part.attached and (first or not part.filename)
    if kind.startswith("text/") and kind not in ("text/rfc822-headers", "text/x-vcard", "text/vcard") and inline:
        return _text(part, raw, kind, depth)
    return Shown(files=_file(part, raw, kind))


def _several(kind: str, children: Sequence[Part], part: Part, depth: int) -> Shown:
    if kind == "multipart/alternative":
        return _alternative(children, depth)
    if kind == "multipart/related":
        wanted = part.parameter("start").strip("<>")
        root = next((one for one in children if wanted and one.content_id == wanted), children[0])
        shown = _part(root, depth)
        for one in children:
            if one is not root:
                other = _part(one, depth, first=False)
                # A text beside the root is a resource of it.
                texts = [] if one.multipart or other.files else _file(one, one.body, one.kind)
                shown.add(Shown(files=[*other.files, *texts], events=other.events, doubts=other.doubts))
        return shown
    shown, named = Shown(), False
    for one in children:
        if kind == "multipart/signed" and one.kind in _SIGNATURES:
            continue
        other = _part(one, depth, first=not named)
        named = named or bool(other.body.strip())
        shown.add(other)
    return shown


def _alternative(children: Sequence[Part], depth: int) -> Shown:
    """One form of the text; what is no form of it is kept of all."""
    plain = next(((one, shown) for one in children if one.kind == TEXT and (shown := _part(one, depth)).body), None)
    forms = list[tuple[Part, Shown]]()
    for one in children:
        if plain is not None and one is plain[0]:
            forms.append(plain)
        elif plain is not None and one.kind == HTML and not one.attached:
            # HTML beside plain text is read where that one does not say all.
            forms.append((one, Shown()))
        else:
            forms.append((one, _part(one, depth)))
    rich = next((pair for pair in reversed(forms) if pair[0].kind != TEXT and _is_form(pair[0])), None)
    chosen = plain
    if plain is None:
        spoken = [pair for pair in forms if pair[1].body.strip() and pair[0].kind != CALENDAR]
        chosen = next((pair for pair in reversed(spoken) if pair[0].kind != TEXT), spoken[0] if spoken else None)
    elif rich is not None and (html := _html(rich[0])):
        most = _LEAST_MORE + 4 * len(plain[1].body)
        if len(html) > most and html_text.words(html) > most:
            chosen = (rich[0], _part(rich[0], depth)) if rich[0].kind == HTML else rich
        else:
            plain[1].texts += _links_beside(html, plain[1].body)
    made = Shown(texts=list(chosen[1].texts) if chosen else [])
    for one, shown in forms:
        of_text = one.kind.startswith("text/") and one.kind != CALENDAR
        made.files += shown.files
        made.events += shown.events
        made.doubts += shown.doubts if chosen is None or one is chosen[0] or not of_text else []
        if chosen is not None and one is not chosen[0] and of_text and one.kind not in _FORMS and not shown.files:
            # Another form of the same text (AMP, a watch's) that is neither plain nor HTML stays a file.
            made.files += _file(one, one.body, one.kind)
    return made


def _is_form(part: Part) -> bool:
    return part.kind == HTML or part.multipart


def _html(part: Part) -> str:
    """The HTML of a form that is HTML, or holds some."""
    if part.multipart:
        return next((found for one in part.children() if (found := _html(one))), "")
    return charsets.decode(part.body, part.charset).text if part.kind == HTML else ""


def _links_beside(html: str, plain: str) -> list[str]:
    """The links that HTML alone has, for a text that says all else."""
    if not (urls := list(html_text.addresses(html))):
        return []
    joined = "".join(plain.split())
    if all("".join(one.split()) in joined for one in urls):
        return []
    lines = dict[str, str]()
    for one in html_text.render(html).links:
        if one.url not in joined:
            lines.setdefault(one.url, f"{one.words}: <{one.url}>" if one.words else f"<{one.url}>")
    more = len(lines) - _MOST_LINKS
    listed = [*list(lines.values())[:_MOST_LINKS], *([f"{more} more links are left out."] if more > 0 else [])]
    return ["\n".join(["Links:", *listed])] if lines else []


def _text(part: Part, raw: bytes, kind: str, depth: int) -> Shown:
    said = charsets.decode(raw, part.charset)
    text = _lines(said.text)
    if kind == HTML or (kind == TEXT and _IS_HTML.match(text)):
        text = html_text.render(text).text
    elif part.parameter("format").lower() == "flowed":
        text = _unflowed(text, joined=part.parameter("delsp").lower() == "yes")
    doubts = [f"{_place(part)}: {said.doubt}"] if said.doubt else []
    return Shown(texts=[text.strip("\n").rstrip()], doubts=doubts)


def _calendar(part: Part, raw: bytes) -> Shown:
    decoded = charsets.decode(raw, part.charset)
    found = invitations.read(decoded.text.encode())
    doubts = [] if found else [f"{_place(part)}: its events cannot be read"]
    doubts += [f"{_place(part)}: {decoded.doubt}"] if decoded.doubt else []
    return Shown(files=_file(part, raw, CALENDAR), events=list(found), doubts=doubts)


def _outlook(part: Part, *, first: bool) -> Shown:
    raw = part.body
    found = tnef.opened(raw)
    if found is None:
        doubts = [f"{_place(part)}: it cannot be opened"] if raw.strip() else []
        return Shown(files=_file(part, raw, "application/ms-tnef"), doubts=doubts)
    text = _lines(found.text) if found.text.strip() or not found.html else html_text.render(found.html).text
    files = [
        File(file_name(name, f"part-{part.path}{number}"), _guessed(body, name), body)
        for number, (name, body) in enumerate(found.files, start=1)
        if body
    ]
    # Beside a text of its own it repeats that one.
    return Shown(texts=[text.strip()] if first else [], files=files)


def _kind(part: Part, raw: bytes) -> str:
    """The type by the content where the one that is said says nothing, or where a text is none."""
    kind = part.kind
    if kind.startswith("text/") and _is_binary(raw, part.charset):
        return _guessed(raw, part.filename)
    return _guessed(raw, part.filename, kind) if kind in _BY_CONTENT else kind


def _is_binary(raw: bytes, charset: str) -> bool:
    head = raw[:1024]
    if head.startswith(
        (b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1f\x8b")
    ):
        return True
    wide = charset.lower().startswith(("utf-16", "utf16", "utf-32", "ucs")) or head[:2] in (b"\xff\xfe", b"\xfe\xff")
    return b"\0" in head and not wide


def _guessed(raw: bytes, name: str, otherwise: str = UNKNOWN) -> str:
    """The media type by the bytes, or by the name."""
    import puremagic  # its tables are read where a type is in doubt

    try:
        found = puremagic.from_string(raw[: 1 << 20] if not raw.startswith(b"PK") else raw, mime=True)
    except (puremagic.PureError, ValueError, OSError, KeyError, LookupError):
        found = ""
    found = found or mimetypes.guess_type(name)[0] or ""
    return found if mail_parts.is_type(found) else otherwise


def _file(part: Part, raw: bytes, kind: str) -> list[File]:
    """The part as a file; none without content, and none of a signature."""
    if kind in _SIGNATURES or not raw.strip():
        return []
    written = part.encoding not in ("base64", "x-uuencode", "uuencode", "x-uue", "uue", "binary")
    if kind in _MESSAGES or (written and (kind.startswith("text/") or raw.isascii())):
        # Lines are lines, whatever ends them on their way.
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if kind.startswith("text/"):
        said = charsets.decode(raw, part.charset)
        raw = raw if said.doubt else said.text.encode()
    place = part.path.rstrip(".").replace(".", "-") or "1"
    name = file_name(part.filename, f"part-{place}{mimetypes.guess_extension(kind) or ''}")
    return [File(name, kind if mail_parts.is_type(kind) else UNKNOWN, raw)]


def _place(part: Part) -> str:
    """How a doubt calls a part."""
    where = f"part {part.path.rstrip('.')}" if part.path else "the text"
    return f"{where} ({file_name(part.filename, '')})" if part.filename else where


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unflowed(text: str, *, joined: bool) -> str:
    """Paragraphs of `format=flowed` (RFC 3676) on one line each; `joined`: the blank at the end of a line is none."""
    return "\n".join(_paragraphs(text.split("\n"), joined))


def _paragraphs(lines: Sequence[str], joined: bool) -> Iterator[str]:
    held, depth = "", -1
    for line in lines:
        bare = line.lstrip(">")
        quotes = len(line) - len(bare)
        bare = bare.removeprefix(" ")
        if depth >= 0 and (quotes != depth or bare == "-- "):
            yield held.rstrip(" ")
            held, depth = "", -1
        if bare.endswith(" ") and bare != "-- ":
            held += bare[:-1] if joined else bare
            if depth < 0:
                held, depth = f"{'>' * quotes}{' ' if quotes else ''}{held}", quotes
            continue
        whole = held + bare if depth >= 0 else f"{'>' * quotes}{' ' if quotes and bare else ''}{bare}"
        yield whole
        held, depth = "", -1
    if depth >= 0:
        yield held.rstrip(" ")
