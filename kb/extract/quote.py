"""Which parts of a mail were written before: quoted answers and forwarded messages, in English, Czech and German. Pure.

    Quoted     lines with ">"; what follows "On ... wrote:", "-----Original Message-----" or the header block of Outlook
    Forwarded  what follows "---------- Forwarded message", or such a block in a mail whose subject begins with Fwd:

Line by line, without a pattern that can backtrack over a text: time grows with the length. `mail-parser-reply` 1.36
was tried: it takes over 8 seconds for 60 kB of "On On On" and misses the Czech line of Gmail. What no line marks is not
found, and an answer that is written into an unmarked quote counts as part of it. Encoded parts are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kb.extract import mail


class Kind(StrEnum):
    """What a sender did with words that were written before."""

    QUOTED = "quoted"
    FORWARDED = "forwarded"


@dataclass(frozen=True)
class Part:
    """`text[start:end]` was written before, its introducing lines included."""

    kind: Kind
    start: int
    end: int


_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_RULE = "-_=* \t:"
_FORWARDED = (
    "forwarded message", "begin forwarded message", "weitergeleitete nachricht", "weitergeleitete e-mail",
    "anfang der weitergeleiteten nachricht", "anfang der weitergeleiteten e-mail", "přeposlaná zpráva",
    "přeposlaný e-mail", "začátek přeposílané zprávy", "začátek přeposlané zprávy",
)  # fmt: skip
_ORIGINAL = (
    "original message", "original email", "original appointment", "ursprüngliche nachricht", "originalnachricht",
    "ursprüngliche e-mail", "původní zpráva", "původní e-mail", "původní email",
)  # fmt: skip
_FORWARDING = ("fwd:", "fw:", "wg:", "wtr:", "weitergeleitet:", "přeposláno:", "fwd.:")
_FROM = ("from:", "von:", "od:")
_BESIDE = (
    "sent:", "date:", "to:", "cc:", "subject:", "gesendet:", "datum:", "an:", "betreff:", "odesláno:", "komu:",
    "kopie:", "předmět:",
)  # fmt: skip
_BLOCK_LINES = 8
_MOST_INTRODUCING = 3
_INTRODUCING_CHARS = 300
_TIMED = re.compile(r"@|\d{1,2}[:.]\d{2}|\d{4}")
_RULE_CHARS = 4
_SHOWN_CHARS = 2000


def parts(text: str) -> list[Part]:
    """The parts in their order; they do not overlap."""
    spans = [found.span() for found in _LINE.finditer(text)]
    lines = [text[start:end].strip(" \t\r\n*\ufeff\u200b") for start, end in spans]
    begin, subject = _body(text, spans)
    rest = Kind.FORWARDED if subject.casefold().lstrip().startswith(_FORWARDING) else Kind.QUOTED
    found: list[Part] = []
    at = begin
    while at < len(lines):
        kind, until = _starts(lines, at, rest)
        if kind is None:
            at = until
            continue
        found.append(Part(kind, spans[at][0], spans[until - 1][1]))
        at = until
    return found


def new(text: str) -> str:
    """What the writer says himself, without the headers of the mail, and what he hands on."""
    begin, _ = _body(text, spans := [found.span() for found in _LINE.finditer(text)])
    at = spans[begin][0] if begin < len(spans) else len(text)
    said = []
    for one in parts(text):
        if one.kind is Kind.QUOTED:
            said.append(text[at : one.start])
            at = one.end
    return "\n".join(one.strip() for one in [*said, text[at:]] if one.strip())


def introduced(text: str) -> str:
    """Without the lines that say who wrote what is forwarded: rules, and the header blocks that follow them."""
    kept = []
    for line in text.splitlines():
        bare = line.strip(" \t>*").casefold()
        ruled = _ruled(line.strip(" \t>*"), Kind.FORWARDED) is not None
        headed = bare.startswith((*_FROM, *_BESIDE)) and len(bare) < _INTRODUCING_CHARS
        if not ruled and not headed and not (bare and not bare.strip(_RULE)):
            kept.append(line.lstrip("> "))
    return "\n".join(kept)


def marked(text: str, *, most: int = _SHOWN_CHARS) -> str:
    """For a model: the text with marks around these parts, of which it sees `most` characters of a quoted one.

    A text that has such marks itself has them with a blank: no sender marks his own words so.
    """
    shown, at = [], 0
    for one in parts(text):
        said = _unmarked(text[one.start : one.end]).rstrip()
        if one.kind is Kind.QUOTED and len(said) > most:
            said = f"{said[:most]}\n[...]"
        shown += [_unmarked(text[at : one.start]), f"[{one.kind}]\n{said}\n[end of {one.kind}]\n"]
        at = one.end
    return "".join([*shown, _unmarked(text[at:])])


_MARK = re.compile(r"\[(?=(?:end of )?(?:quoted|forwarded)\])", re.IGNORECASE)


def _unmarked(text: str) -> str:
    return _MARK.sub("[ ", text)


def _body(text: str, spans: Sequence[tuple[int, int]]) -> tuple[int, str]:
    """The number of the first line after the headers of a mail, and its subject."""
    headers = mail.read(text)
    if headers is None:
        return 0, ""
    blank = [number for number, (start, end) in enumerate(spans) if not text[start:end].strip()]
    first = next((number for number, (start, end) in enumerate(spans) if text[start:end].strip()), 0)
    return next((number for number in blank if number > first), len(spans)), headers.subject


def _starts(lines: Sequence[str], at: int, rest: Kind) -> tuple[Kind | None, int]:
    """The kind of the part that begins with that line, and the line after it; no kind: the next line to look at."""
    line = lines[at]
    if line.startswith(">"):
        return Kind.QUOTED, _quoted(lines, at)
    if (kind := _ruled(line, rest)) is not None:
        return kind, len(lines)
    if line[:5].casefold().startswith(_FROM) and _block(lines, at):
        return rest, len(lines)
    if (introduced := _introduced(lines, at)) is not None:
        following = next((number for number in range(introduced, len(lines)) if lines[number]), len(lines))
        if following < len(lines) and lines[following].startswith(">"):
            return Kind.QUOTED, _quoted(lines, following)
        if _TIMED.search(" ".join(lines[at:introduced])) and following < len(lines):
            return rest, len(lines)
    return None, at + 1


def _quoted(lines: Sequence[str], at: int) -> int:
    """The line after a run of quoted ones; blank lines between them belong to it."""
    last = at
    for number in range(at, len(lines)):
        if lines[number].startswith(">"):
            last = number
        elif lines[number]:
            break
    return last + 1


def _ruled(line: str, rest: Kind) -> Kind | None:
    """Of a line such as `-----Original Message-----` or `Begin forwarded message:`."""
    if len(line) > _INTRODUCING_CHARS:
        return None
    bare = line.strip(_RULE)
    said, ruled = " ".join(bare.casefold().split()), len(line) - len(bare) >= _RULE_CHARS and line[:2] == "--"
    if said in _FORWARDED and (ruled or line.endswith(":")):
        return Kind.FORWARDED
    return rest if said in _ORIGINAL and ruled else None


def _block(lines: Sequence[str], at: int) -> bool:
    """Whether the lines that follow are headers as Outlook writes them into a mail."""
    beside = 0
    for line in lines[at + 1 : at + _BLOCK_LINES]:
        if not line and beside:
            break
        beside += line[:12].casefold().startswith(_BESIDE)
    return beside >= 2


def _introduced(lines: Sequence[str], at: int) -> int | None:
    """The line after one to three that say who wrote what follows; None if they do not."""
    said = ""
    for number in range(at, min(at + _MOST_INTRODUCING, len(lines))):
        if not lines[number]:
            return None
        said = f"{said} {lines[number]}".strip()
        if len(said) > _INTRODUCING_CHARS:
            return None
        if said.endswith(":"):
            return number + 1 if _introduces(said.casefold()) else None
    return None


def _introduces(said: str) -> bool:
    if not any(one.isdigit() or one == "@" for one in said):
        return False
    return any(_ways(said))


def _ways(said: str) -> Iterator[bool]:
    yield said.endswith(" wrote:") and (said.startswith("on ") or "@" in said)
    yield said.startswith("am ") and " schrieb" in said
    yield " schrieb am " in said
    yield " napsal" in said and (said.startswith("dne ") or "odesílatel" in said or "@" in said)
