"""Which parts of a mail were written before: quoted answers and forwarded messages. Pure.

    Quoted     lines with ">"; what follows "On ... wrote:", "-----Original Message-----" or the header block of Outlook
    Forwarded  what follows "---------- Forwarded message", or such a block in a mail whose subject begins with Fwd:

By structure first: a line with a date or an address that ends with a colon before lines with ">", and labelled lines of
which one has the subject of the mail itself. Where that says nothing, by the words of `kb.extract.quote_words`.

Line by line, without a pattern that can backtrack over a text: time grows with the length. `mail-parser-reply` 1.36
was tried: it takes over 8 seconds for 60 kB of "On On On" and misses the Czech line of Gmail. What no line marks is not
found, and an answer that is written into an unmarked quote counts as part of it. Encoded parts are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kb.extract import mail, quote_words


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
_VERBS = tuple(verb for verbs in quote_words.WROTE.values() for verb in verbs)
_BEGINNINGS = tuple({one for ones in quote_words.BEFORE.values() for one in ones})
_FROM = frozenset(quote_words.FROM.values())
_BESIDE = frozenset(one for ones in quote_words.BESIDE.values() for one in ones)
_LABEL = re.compile(r"\*?([^\W\d_][^:：\n\d]{0,24}?)\*?\s?[:：]\*?(?:\s+|$)(.*)")  # noqa: RUF001
_PREFIX = re.compile(r"^(?:[^\W\d_]{1,6}(?:\[\d{1,3}\])?\s?[:：]\s*)+")  # noqa: RUF001
_LONG_RULE = re.compile(r"_{20,}")
_BLOCK_LINES = 8
_MOST_INTRODUCING = 3
_INTRODUCING_CHARS = 300
_TIMED = re.compile(r"@|\d{1,2}[:.]\d{2}|\d{4}")
_DATED = re.compile(r"[\d@]")
_CLOCKED = re.compile(r"@|\d{1,2}[:.h]\d{2}")
_RULE_CHARS = 4
_SHOWN_CHARS = 2000


def parts(text: str) -> list[Part]:
    """The parts in their order; they do not overlap."""
    spans = [found.span() for found in _LINE.finditer(text)]
    lines = [text[start:end].strip(" \t\r\n*\ufeff\u200b") for start, end in spans]
    begin, subject = _body(text, spans)
    rest = Kind.FORWARDED if subject.casefold().lstrip().startswith(quote_words.FORWARDING) else Kind.QUOTED
    topic = _topic(subject)
    found: list[Part] = []
    at = begin
    while at < len(lines):
        kind, until = _starts(lines, at, rest, topic)
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
        headed = _label(bare)[0] in _FROM | _BESIDE and len(bare) < _INTRODUCING_CHARS
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


def _starts(lines: Sequence[str], at: int, rest: Kind, topic: str) -> tuple[Kind | None, int]:
    """The kind of the part that begins with that line, and the line after it; no kind: the next line to look at."""
    line = lines[at]
    if line.startswith(">"):
        return Kind.QUOTED, _quoted(lines, at)
    if (kind := _ruled(line, rest)) is not None:
        return kind, len(lines)
    begins = at == 0 or not lines[at - 1] or _LONG_RULE.fullmatch(lines[at - 1]) is not None
    if _block(lines, at, topic if begins else ""):
        return rest, len(lines)
    if _LONG_RULE.fullmatch(line) and _block(lines, at + 1, topic, labels=2):
        return rest, len(lines)
    if (introduced := _introduced(lines, at)) is not None:
        said = " ".join(lines[at:introduced])
        following = next((number for number in range(introduced, len(lines)) if lines[number]), len(lines))
        if following < len(lines) and lines[following].startswith(">") and (_CLOCKED.search(said) or _wrote(said)):
            return Kind.QUOTED, _quoted(lines, following)
        if _TIMED.search(said) and following < len(lines) and _wrote(said):
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
    if said in quote_words.FORWARDED and (ruled or line.endswith(":")):
        return Kind.FORWARDED
    return rest if said in quote_words.ORIGINAL and ruled else None


def _block(lines: Sequence[str], at: int, topic: str, labels: int = 0) -> bool:
    """Whether headers stand here as Outlook writes them into a mail: by the words of a language, or because one of
    three labelled lines has the `topic` of the mail itself. `labels`: so many of any words are enough."""
    read = list[tuple[str, str]]()
    for line in lines[at : at + _BLOCK_LINES]:
        if not line:
            if read:
                break
            continue
        if (found := _label(line))[0]:
            read.append(found)
        elif not read:
            return False
    known = [name for name, _ in read]
    if known and known[0] in _FROM and sum(name in _BESIDE for name in known[1:]) >= 2:
        return True
    if labels:
        return len(read) >= labels and known[0] not in ("http", "https")
    about = bool(topic) and any(_topic(value) == topic for _, value in read[1:])
    return about and len(read) >= 3 and any(_TIMED.search(value) for _, value in read)


def _label(line: str) -> tuple[str, str]:
    """The label and the value of a line such as `Sent: Monday`; "" for another one."""
    found = _LABEL.match(line[:_INTRODUCING_CHARS])
    return (" ".join(found[1].casefold().split()), found[2].strip()) if found else ("", "")


def _topic(subject: str) -> str:
    """A subject without what answers and forwarded mails put before it."""
    return " ".join(_PREFIX.sub("", subject.strip()).casefold().split())


def _introduced(lines: Sequence[str], at: int) -> int | None:
    """The line after one to three that may say who wrote what follows; None if they do not."""
    said = ""
    for number in range(at, min(at + _MOST_INTRODUCING, len(lines))):
        # The writer's own words before it are none of it: it begins with a date, an address, or as its language has it.
        own = number == at and not (_DATED.search(lines[at]) or lines[at].casefold().startswith(_BEGINNINGS))
        if not lines[number] or lines[number].startswith(">") or own:
            return None
        said = f"{said} {lines[number]}".strip()
        if len(said) > _INTRODUCING_CHARS:
            return None
        if said.endswith((":", "：")):  # noqa: RUF001
            return number + 1 if any(one.isdigit() or one == "@" for one in said) else None
    return None


def _wrote(said: str) -> bool:
    """Whether a line says in a language that is known who wrote what follows."""
    said = said.casefold().rstrip(" :：")  # noqa: RUF001
    verb = next((verb for verb in _VERBS if verb in said), "")
    if not verb:
        return False
    dated = said[:1].isdigit() or said.startswith(_BEGINNINGS) or "@" in said
    return dated or (said.endswith(verb) and verb not in quote_words.WROTE["en"]) or f"{verb} am " in said
