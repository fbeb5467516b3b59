"""Quotations in a text that a model wrote, and where the evidence has them letter by letter. Pure.

A quotation is what stands between quotation marks, of four words and more: fewer are a name. A mark such as [2] behind
it, or else elsewhere in its sentence, says which piece of evidence it is from. A mark may name pages: [2, page 8].

    Supported       the evidence of its mark has it; without a mark, any evidence
    Misattributed   only evidence that its mark does not name has it
    Stitched        the evidence has its parts, and not as one text
    Absent          the evidence does not have it, or it has no end

The opening sign decides which sign closes a quotation: “ begins an English one and ends a German one. Which signs are
none, such as apostrophes, is decided in `text.quotation_marks`. `Scanner` reads a text in whatever pieces it comes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from text import quotation_marks

LEAST_WORDS = 4
_LEAST_PART = 3
"""Words of each part of a stitched quotation."""
_MOST_PARTS = 6
_STOPS, _WIDE_STOPS = ".!?。！？", "。！？"  # noqa: RUF001
_WORD = re.compile(r"[^\W_]+")
_PAGES = (
    r"(?:\s{0,2}[,;:(|])?\s{0,2}(?:[Pp]ages?|[Pp]{1,2}|[Ss]eiten?|[Ss]tran[ay]|[Ss]tr|[Ss])\.?\s{0,2}"
    r"\d{1,4}(?:\s?[-–]\s?\d{1,4})?\)?"  # noqa: RUF001
)
_NUMBER = re.compile(rf"(\d{{1,4}})(?:{_PAGES})?")
MARK = re.compile(
    rf"[\[【](\d{{1,4}}(?:{_PAGES})?(?:\s{{0,2}}[,;]\s{{0,2}}\d{{1,4}}(?:{_PAGES})?){{0,9}})(?:†[^\]】\n]{{0,30}})?[\]】]"
)
_DIRECTLY = re.compile(
    rf"[{quotation_marks.BLANKS}.!?(]{{0,3}}{MARK.pattern}(?:[{quotation_marks.BLANKS},;]{{0,3}}{MARK.pattern})*"
)
"""Marks behind a quotation."""
_SIGN = re.compile(
    f"[\\n{_STOPS}"
    f"{''.join({*quotation_marks.DOUBLE, *quotation_marks.SINGLE, *''.join(quotation_marks.DOUBLE.values())})}]"
)
"""Where a part or a quotation may begin or end."""
_MARK_CHARS = 400
"""More than a mark can have."""
_MOST_CHARS = 4000
_MOST_PLACES = 100
"""Of a source that are looked at, where a quotation stands with something cut."""
_GROUP = "\u00a0"
_IN_NUMBERS = f".,:/^'{_GROUP}"
"""Between digits they are part of a number."""
_OMISSION = re.compile(r"\s*(?:\[\s*(?:\.{3}|…)\s*\]|\.{3,}|…)\s*")
_GROUPED = re.compile("(?<=[0-9])[\u00a0\u2007\u2008\u2009\u202f](?=[0-9])")
"""Blanks in a number."""
_LAST_WORD = re.compile(r"(\d[ \u00a0]?)?([^\W\d_]+)\Z")
_ABBREVIATIONS = (
    " str nr no pp fig vgl bzw ca cca čl odst např tzv resp tj mr mrs dr prof st vs cf abb kap art sec vol ed al"
    " approx max min incl inkl evtl ggf usw etc sog tab obr kpt viz "
)
_SAME = str.maketrans(
    dict.fromkeys("’‘ʼ′", "'") | dict.fromkeys("“”„‟❝❞＂″", '"') | dict.fromkeys("‐‑‒–—―−", "-")  # noqa: RUF001
)
_UNSEEN = re.compile("\u00ad(?:[ \\t]{0,9}\\n\\s{0,9})?|[\u200b-\u200d\u2060\ufeff]")
"""Soft hyphens, and characters without width."""
_BROKEN = re.compile(r"([^\W_]+)- ([^\W_]+)")
"""A word that a line end may have cut, or two."""


class Verdict(StrEnum):
    """What the evidence says to a quotation."""

    SUPPORTED = "Supported"
    MISATTRIBUTED = "Misattributed"
    STITCHED = "Stitched"
    ABSENT = "Absent"


@dataclass(frozen=True, slots=True)
class Quotation:
    """`marks` are the numbers that it is attributed to; () where it has none. `whole`: it has an end."""

    text: str
    marks: tuple[int, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Judged:
    """`found` is the evidence that has it, the one that its mark names first; None where none has all of it."""

    quotation: Quotation
    verdict: Verdict
    found: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A text in quotation marks; `start` and `end` include them. One that is not `whole` ends where its part ends."""

    start: int
    end: int
    text: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """What of a text stands or falls together. `spans`: its quotations that are long enough for one, by position."""

    text: str
    spans: tuple[Span, ...] = ()

    def marks(self) -> tuple[int, ...]:
        """The numbers in its marks, each once; a mark inside a quotation belongs to what is quoted."""
        return _numbers(self.text, self._free())

    def quotations(self) -> list[Quotation]:
        """Each with the marks between it and the next one, or else with all of them. Where marks stand before the first
        one and none behind the last, each has those before it, unless some are directly behind it."""
        everywhere, free = self.marks(), self._free()
        led = bool(_numbers(self.text, free[:1])) and not _numbers(self.text, free[-1:])
        found: list[Quotation] = []
        start = 0
        for one, (_, before), (end, following) in zip(self.spans, free, free[1:], strict=False):
            own = _numbers(self.text, [(end, following)])
            marked = _DIRECTLY.match(self.text, end, following)
            if led and marked is None:
                own = _numbers(self.text, [(start, before)])
            start = end if marked is None else marked.end()
            found.append(Quotation(one.text, own or everywhere, one.whole))
        return found

    def without(self, unknown: Collection[int]) -> str:
        """Its text without marks of these numbers."""

        def kept(found: re.Match[str]) -> str:
            each = list(_NUMBER.finditer(found[1]))
            known = [one[0] for one in each if int(one[1]) not in unknown]
            return found[0] if len(known) == len(each) else f"[{', '.join(known)}]" if known else ""

        made, at = [], 0
        for start, end in self._free():
            made += [self.text[at:start], MARK.sub(kept, self.text[start:end])]
            at = end
        return "".join([*made, self.text[at:]])

    def _free(self) -> list[tuple[int, int]]:
        """Where the text is in no quotation."""
        edges = [0, *(edge for one in self.spans for edge in (one.start, one.end)), len(self.text)]
        return list(zip(edges[::2], edges[1::2], strict=True))


def parts(text: str) -> list[Part]:
    """All of a text."""
    scanner = Scanner()
    return [*scanner.feed(text), *scanner.end()]


def quoted(text: str) -> list[str]:
    """The texts in quotation marks that are long enough for a quotation and have an end."""
    return [span.text for part in parts(text) for span in part.spans if span.whole]


def find(text: str) -> list[Quotation]:
    """The quotations of a text."""
    return [one for part in parts(text) for one in part.quotations()]


def marks(text: str) -> tuple[int, ...]:
    """The numbers in the marks of a text, each once, in their order."""
    return tuple(dict.fromkeys(number for part in parts(text) for number in part.marks()))


def unquoted(text: str, wrong: Collection[str] | None = None) -> str:
    """The text without the quotation marks around these texts and around quotations in them; None: around all."""
    made: list[str] = []
    for part in parts(text):
        at = 0
        for span in part.spans:
            if span.whole and (wrong is None or span.text in wrong):
                made += [part.text[at : span.start], unquoted(span.text)]
                at = span.end
        made.append(part.text[at:])
    return "".join(made)


def numbers(mark: re.Match[str]) -> list[int]:
    """Those in what `MARK` found, without pages."""
    return [int(one[1]) for one in _NUMBER.finditer(mark[1])]


def has_words(text: str) -> bool:
    """Whether a text has a letter or a digit of any script outside its marks. Small models also answer `),`."""
    return _WORD.search(MARK.sub("", text)) is not None


def _numbers(text: str, where: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    found = (one for start, end in where for one in MARK.finditer(text, start, end))
    return tuple(dict.fromkeys(number for one in found for number in numbers(one)))


def plain(text: str) -> str:
    """A text as quotations are compared: one blank between words, no case, one form of letters, of apostrophes, and of
    hyphens and dashes, and nothing that is not seen. A blank that holds the digits of a number together is U+00A0."""
    folded = unicodedata.normalize("NFC", _UNSEEN.sub("", text)).translate(_SAME).casefold()
    pieces = _GROUPED.split(unicodedata.normalize("NFC", folded))
    return _GROUP.join(" ".join(one.split()) for one in pieces)


def within(quotation: str, sources: Iterable[str]) -> bool:
    """Whether one of the sources, each as `plain` gives it, has the quotation, with no word and no number cut."""
    wanted = bare(quotation)
    return any(_place(wanted, source) >= 0 for source in sources)


def place(quotation: str, source: str) -> int:
    """How many `seen` characters a source, as `plain` gives it, has before the quotation; -1 where it has it not."""
    return _place(bare(quotation), source)


def seen(text: str) -> str:
    """A text, as `plain` gives it, without what differs where lines end: blanks and hyphens."""
    return text.replace(" ", "").replace(_GROUP, "").replace("-", "")


def _place(wanted: str, source: str) -> int:
    at = _find(wanted, source)
    if at < 0 and "- " in source and seen(wanted) in seen(source):
        source = _joined(source, wanted)
        at = _find(wanted, source)
    return at if at <= 0 else len(seen(source[:at]))


def _joined(source: str, wanted: str) -> str:
    """The source with words that line ends have cut in one piece, with a hyphen where the quotation has it."""

    def one(found: re.Match[str]) -> str:
        left, right = found.groups()
        if f"{left}-{right}" in wanted:
            return f"{left}-{right}"
        return left + right if left[-1].isalpha() and right[0].isalpha() and found[0] not in wanted else found[0]

    return _BROKEN.sub(one, source)


def _find(wanted: str, source: str) -> int:
    # Blanks in numbers are blanks for who quotes them.
    wanted, spaced = wanted.replace(_GROUP, " "), source.replace(_GROUP, " ")
    at = spaced.find(wanted)
    for _ in range(_MOST_PLACES):
        if at < 0 or not (cuts(source, at) or cuts(source, at + len(wanted))):
            return at
        at = spaced.find(wanted, at + 1)
    return -1


def cuts(text: str, at: int) -> bool:
    """Whether a word or a number of a text, as `plain` gives it, goes on across this place."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if quotation_marks.letter(before) and quotation_marks.letter(after):
        return True
    if after.isdigit() and before == "-":
        # A sign of the number, not a hyphen.
        return not text[at - 2 : at - 1].isalnum()
    return (before in _IN_NUMBERS and text[at - 2 : at - 1].isdigit() and _number(text, at)) or (
        after in _IN_NUMBERS and before.isdigit() and _number(text, at + 1)
    )


def _number(text: str, at: int) -> bool:
    """Whether digits begin here, with or without a sign."""
    return text[at : at + 2].removeprefix("-")[:1].isdigit()


def judge(one: Quotation, evidence: Mapping[int, Collection[str]]) -> Judged:
    """The verdict on a quotation. `evidence`: the texts under each number, each as `plain` gives it."""
    if not one.whole:
        return Judged(one, Verdict.ABSENT)
    holders = [number for number, texts in evidence.items() if within(one.text, texts)]
    named = [number for number in one.marks if number in holders]
    if named or (holders and not one.marks):
        return Judged(one, Verdict.SUPPORTED, (named or holders)[0])
    if holders:
        return Judged(one, Verdict.MISATTRIBUTED, holders[0])
    sources = [text for texts in evidence.values() for text in texts]
    return Judged(one, Verdict.STITCHED if _stitched(one.text, sources) else Verdict.ABSENT)


def bare(quotation: str) -> str:
    """A quotation as `plain` gives it, without what its writer may have put around it."""
    return plain(quotation).strip(" .,…。，")  # noqa: RUF001


def _long(text: str) -> bool:
    unspaced = len(quotation_marks.UNSPACED.findall(text))
    return len(_WORD.findall(quotation_marks.UNSPACED.sub(" ", text))) + unspaced // 2 >= LEAST_WORDS


def _stitched(text: str, sources: Collection[str]) -> bool:
    parts = 0
    for piece in _OMISSION.split(text):
        words = bare(piece).split()
        while words:
            length = max((_longest(words, source) for source in sources), default=0)
            if length < min(_LEAST_PART, len(words)) or parts == _MOST_PARTS:
                return False
            parts += 1
            words = words[length:]
    return parts > 1


def _longest(words: list[str], source: str) -> int:
    """How many of the words the source has in one text, from the first on."""
    fits, over = 0, len(words) + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        if _find(" ".join(words[:middle]), source) >= 0:
            fits = middle
        else:
            over = middle
    return fits


class Scanner:
    """Cuts a text into parts while it comes.

    A part ends behind a full stop, its quotation marks and its marks, or at the end of a line. It does not end inside
    a quotation, unless at an empty line or after 4,000 characters. Where it is open whether it would end inside one,
    the text behind it is read first, and then once more. What a sign is depends on the next `quotation_marks.AHEAD`
    characters, so the parts do not depend on the pieces.
    """

    def __init__(self) -> None:
        self._text = ""
        self._start = self._at = 0
        self._held: int | None = None
        """Where the part ends if no quotation goes on there."""
        self._stop = ""
        """The sign that ends a sentence, if only blanks and marks came after it; " " behind an abbreviation."""
        self._double = quotation_marks.Track(quotation_marks.DOUBLE, sure=True, unsure=False)
        self._single = quotation_marks.Track(quotation_marks.SINGLE, sure=True, unsure=True)
        self._unsure = quotation_marks.Track(quotation_marks.DOUBLE, sure=False, unsure=True)
        self._tracks = (self._double, self._single, self._unsure)

    def feed(self, piece: str) -> Iterator[Part]:
        """A further piece; the parts that are complete now."""
        if self._start:
            # Only behind a part: each quotation is moved once.
            self._text = self._text[self._start :]
            self._at -= self._start
            self._held = None if self._held is None else self._held - self._start
            for track in self._tracks:
                track.move(self._start)
            self._start = 0
        self._text += piece
        yield from self._scanned(final=False)

    def end(self) -> Iterator[Part]:
        """The rest."""
        yield from self._scanned(final=True)
        while self._start < len(self._text):
            yield self._part(len(self._text))
            yield from self._scanned(final=True)

    def _scanned(self, *, final: bool) -> Iterator[Part]:
        text, ahead = self._text, 0 if final else quotation_marks.AHEAD
        while self._at + ahead < len(text):
            at = self._at
            if not self._stop:
                found = _SIGN.search(text, at)
                at = self._at = min(found.start() if found else len(text), self._start + _MOST_CHARS)
                if at + ahead >= len(text):
                    return
            sign = text[at]
            if at - self._start >= _MOST_CHARS:
                yield self._part(at)
                continue
            near = self._near(at)
            if sign == "\n":
                self._at += 1
                if self._double.open is not None and near.after != "\n":
                    continue
                self._single.breaks()
                if near.after == "\n" or not (self._double.goes_on() or self._unsure.goes_on()):
                    yield self._part(at + 1)
                else:
                    self._hold(at + 1)
                    if not self._held_open():
                        yield self._part(at + 1)
                continue
            # Each looks at each sign.
            apart = self._held is not None
            # What is open is closed before what was closed is closed once more.
            first, second = self._double, self._unsure
            if first.open is None and second.open is not None:
                first, second = second, first
            closed = first.closes(near, apart) or second.closes(near, apart)
            closed = self._single.closes(near, apart) or closed
            if closed or sign in quotation_marks.BLANKS:
                if closed:
                    if self._stop in _WIDE_STOPS:
                        # What was quoted has ended, and the sentence goes on without a blank.
                        self._stop = ""
                    if self._held is not None and any(track.covers(self._held) for track in self._tracks):
                        self._held = None
                self._at += 1
                if not self._held_open():
                    yield self._part(at)
                continue
            if self._stop and sign in "[【":
                size = self._mark(final)
                if size is None:
                    return
                if size:
                    self._at += size
                    continue
            if self._ends(sign, near.before):
                if not any(track.goes_on() for track in self._tracks):
                    yield self._part(at)
                    continue
                self._hold(at)
            self._stop = self._stopped(at, sign) if sign in _STOPS else ""
            idle = self._double.open is None
            self._double.opens(near, apart)
            self._single.opens(near, apart)
            if idle:
                self._unsure.opens(near, apart)
            self._at += 1
            if not self._held_open():
                yield self._part(at)

    def _near(self, at: int) -> quotation_marks.Sign:
        behind = f"  {self._text[max(self._start, at - 2) : at]}"[-2:]
        ahead = self._text[at + 1 : at + 1 + quotation_marks.AHEAD] or " "
        return quotation_marks.Sign(at, self._text[at], behind, behind[1], ahead[0], ahead)

    def _hold(self, at: int) -> None:
        self._stop = ""
        if self._held is None:
            self._held = at

    def _held_open(self) -> bool:
        """False where the part ends at the place that is held: nothing that was open there can go on."""
        return self._held is None or any(track.goes_on(self._held) for track in self._tracks)

    def _ends(self, sign: str, before: str) -> bool:
        """Whether a part ends before this sign."""
        if not self._stop or sign in _STOPS or self._double.is_open() or self._single.is_open():
            return False
        return self._stop in _WIDE_STOPS or (
            self._stop != " " and before in quotation_marks.BLANKS and not sign.islower()
        )

    def _stopped(self, at: int, sign: str) -> str:
        word = _LAST_WORD.search(self._text[max(self._start, at - 10) : at]) if sign == "." else None
        if word is None:
            return sign
        # One letter is an abbreviation, and behind a number it is a unit.
        short = f" {word[2].casefold()} " in _ABBREVIATIONS or (len(word[2]) == 1 and word[1] is None)
        return " " if short else sign

    def _mark(self, final: bool) -> int | None:
        """The length of the mark that begins here, 0 where none does; None where more of the text decides it."""
        found = MARK.match(self._text, self._at)
        if found is not None:
            return 0 if "\n" in found[0] else len(found[0])
        rest = self._text[self._at : self._at + _MARK_CHARS]
        undecided = not final and len(rest) < _MARK_CHARS and not set(rest) & set("]】\n")
        return None if undecided else 0

    def _part(self, end: int) -> Part:
        """The part that ends at the place that is held, or else here. What is behind its end is read again."""
        end = end if self._held is None else self._held
        start, self._start = self._start, end
        self._at, self._held, self._stop = end, None, ""
        text = self._text[start:end]
        taken = [one for track in self._tracks for one in track.taken(end)]
        spans: list[Span] = []
        for opened, closes, whole in sorted(taken):
            closed = min(closes, end)
            inner = self._text[opened + 1 : closed - whole]
            # What stands in a quotation is part of that.
            if _long(inner) and (not spans or opened - start >= spans[-1].end):
                spans.append(Span(opened - start, closed - start, inner, whole))
        return Part(text, tuple(spans))
