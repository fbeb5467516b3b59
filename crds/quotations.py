"""Quotations in a text that a model wrote, and where the evidence has them letter by letter. Pure.

A quotation is what stands between quotation marks, of four words and more: fewer are a name. A mark such as [2] behind
it, or else elsewhere in its sentence, says which piece of evidence it is from.

    Supported       the evidence of its mark has it; without a mark, any evidence
    Misattributed   only evidence that its mark does not name has it
    Stitched        the evidence has its parts, and not as one text
    Absent          the evidence does not have it, or it has no end

The opening sign decides which sign closes a quotation: “ begins an English one and ends a German one. An apostrophe
between letters, and a sign for inches, is no quotation mark. `Scanner` reads a text once, in whatever pieces it comes.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

LEAST_WORDS = 4
_LEAST_PART = 3
"""Words of each part of a stitched quotation."""
_MOST_PARTS = 6
_DOUBLE = {
    '"': '"',
    "“": "”",
    "”": "”",
    "„": '“”"',
    "«": "»",
    "»": "«»",
    "‹": "›",  # noqa: RUF001
    "›": "‹›",  # noqa: RUF001
    "‘": "’",  # noqa: RUF001
    "‚": "‘’",  # noqa: RUF001
    "「": "」",
    "『": "』",
    "《": "》",
}
"""Sign that opens a quotation -> signs that close it."""
_SINGLE = {"'": "'"}
_STOPS, _WIDE_STOPS = ".!?。！？", "。！？"  # noqa: RUF001
_OPENS_ALWAYS = "“„«‹‚「『《"  # noqa: RUF001
_APOSTROPHES = "'’‘"  # noqa: RUF001
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u9fff\uf900-\ufaff\uff66-\uff9f]")
"""Letters of scripts that put no blanks between words; two of them count as a word."""
MARK = re.compile(r"[\[【](\d{1,4}(?:\s{0,2},\s{0,2}\d{1,4}){0,9})(?:†[^\]】\n]{0,30})?[\]】]")
_SIGN = re.compile(f"[\\n{_STOPS}{''.join({*_DOUBLE, *_SINGLE, *''.join(_DOUBLE.values())})}]")
"""Where a part or a quotation may begin or end."""
_MARK_CHARS = 120
"""More than a mark can have."""
_MOST_CHARS = 4000
_MOST_PLACES = 100
"""Of a source that are looked at, where a quotation stands with something cut."""
_IN_NUMBERS = ".,:'\u00a0"
"""Between digits they are part of a number."""
_OMISSION = re.compile(r"\s*(?:\[\s*(?:\.{3}|…)\s*\]|\.{3,}|…)\s*")
_BLANKS = " \t\n\u00a0\u202f\u3000"
_LAST_WORD = re.compile(r"(\d[ \u00a0]?)?([^\W\d_]+)\Z")
_ABBREVIATIONS = (
    " str nr no pp fig vgl bzw ca cca čl odst např tzv resp tj mr mrs dr prof st vs cf abb kap art sec vol ed al"
    " approx max min incl inkl evtl ggf usw etc sog tab obr kpt viz "
)
_SAME = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "„": '"'})  # noqa: RUF001


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
        """Each with the marks between it and the next one, or else with all of them."""
        everywhere, free = self.marks(), self._free()
        found: list[Quotation] = []
        for at, one in enumerate(self.spans):
            following = self.spans[at + 1].start if at + 1 < len(self.spans) else len(self.text)
            behind = _numbers(self.text, [span for span in free if one.end <= span[0] and span[1] <= following])
            found.append(Quotation(one.text, behind or everywhere, one.whole))
        return found

    def without(self, unknown: Collection[int]) -> str:
        """Its text without marks of these numbers."""

        def kept(found: re.Match[str]) -> str:
            numbers = [one.strip() for one in found[1].split(",") if int(one) not in unknown]
            all_known = len(numbers) == found[1].count(",") + 1
            return found[0] if all_known else f"[{', '.join(numbers)}]" if numbers else ""

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


def _numbers(text: str, where: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    found = (one for start, end in where for one in MARK.finditer(text, start, end))
    return tuple(dict.fromkeys(int(number) for one in found for number in one[1].split(",")))


def plain(text: str) -> str:
    """A text as quotations are compared: one blank between words, no case, one form of letters and of apostrophes."""
    folded = unicodedata.normalize("NFC", text).translate(_SAME).casefold()
    return " ".join(unicodedata.normalize("NFC", folded).split())


def within(quotation: str, sources: Iterable[str]) -> bool:
    """Whether one of the sources, each as `plain` gives it, has the quotation, with no word and no number cut."""
    wanted = bare(quotation)
    return any(_place(wanted, source) >= 0 for source in sources)


def place(quotation: str, source: str) -> int:
    """Where a source, as `plain` gives it, has the quotation first; -1 where it has it not."""
    return _place(bare(quotation), source)


def _place(wanted: str, source: str) -> int:
    at = source.find(wanted)
    for _ in range(_MOST_PLACES):
        if at < 0 or not (_cuts(source, at) or _cuts(source, at + len(wanted))):
            return at
        at = source.find(wanted, at + 1)
    return -1


def _cuts(text: str, at: int) -> bool:
    """Whether a word or a number goes on across this place."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if _letter(before) and _letter(after):
        return True
    if after.isdigit() and before in "-\u2212":
        # A sign of the number, not a hyphen.
        return not text[at - 2 : at - 1].isalnum()
    return (before in _IN_NUMBERS and text[at - 2 : at - 1].isdigit() and after.isdigit()) or (
        after in _IN_NUMBERS and before.isdigit() and text[at + 1 : at + 2].isdigit()
    )


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
    unspaced = len(_UNSPACED.findall(text))
    return len(_WORD.findall(_UNSPACED.sub(" ", text))) + unspaced // 2 >= LEAST_WORDS


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
        if _place(" ".join(words[:middle]), source) >= 0:
            fits = middle
        else:
            over = middle
    return fits


class Scanner:
    """Cuts a text into parts while it comes.

    A part ends behind a full stop, its quotation marks and its marks, or at the end of a line. It does not end inside
    a quotation, unless at an empty line or after 4,000 characters. Each character is read once, when the next one is
    known, so the parts do not depend on the pieces.
    """

    def __init__(self) -> None:
        self._text = ""
        self._start = self._at = 0
        self._stop = ""
        """The sign that ends a sentence, if only blanks and marks came after it; " " behind an abbreviation."""
        self._double, self._single = _Track(_DOUBLE), _Track(_SINGLE)

    def feed(self, piece: str) -> Iterator[Part]:
        """A further piece; the parts that are complete now."""
        if self._start:
            # Only behind a part: each quotation is moved once.
            self._text = self._text[self._start :]
            self._at -= self._start
            self._double.move(self._start)
            self._single.move(self._start)
            self._start = 0
        self._text += piece
        yield from self._scanned(final=False)

    def end(self) -> Iterator[Part]:
        """The rest."""
        yield from self._scanned(final=True)
        if self._start < len(self._text):
            yield self._part(len(self._text))

    def _scanned(self, *, final: bool) -> Iterator[Part]:
        text = self._text
        while self._at + (not final) < len(text):
            at = self._at
            if not self._stop:
                found = _SIGN.search(text, at)
                at = self._at = min(found.start() if found else len(text), self._start + _MOST_CHARS)
                if at + (not final) >= len(text):
                    return
            sign = text[at]
            if at - self._start >= _MOST_CHARS:
                yield self._part(at)
                continue
            near = (at, sign, text[at - 1] if at > self._start else " ", text[at + 1] if at + 1 < len(text) else " ")
            if sign == "\n":
                self._at += 1
                if self._double.open is None or near[3] == "\n":
                    yield self._part(at + 1)
                continue
            # Both look at each sign.
            closed = [self._double.closes(*near), self._single.closes(*near)]
            if any(closed) or sign in _BLANKS:
                if any(closed) and self._stop in _WIDE_STOPS:
                    # What was quoted has ended, and the sentence goes on without a blank.
                    self._stop = ""
                self._at += 1
                continue
            if self._stop and sign in "[【":
                size = self._mark(final)
                if size is None:
                    return
                if size:
                    self._at += size
                    continue
            if self._ends(sign, near[2]):
                yield self._part(at)
                continue
            self._stop = self._stopped(at, sign) if sign in _STOPS else ""
            self._double.opens(*near)
            self._single.opens(*near)
            self._at += 1

    def _ends(self, sign: str, before: str) -> bool:
        """Whether a part ends before this sign."""
        if not self._stop or sign in _STOPS or self._double.open is not None or self._single.open is not None:
            return False
        return self._stop in _WIDE_STOPS or (self._stop != " " and before in _BLANKS and not sign.islower())

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
            return len(found[0])
        rest = self._text[self._at : self._at + _MARK_CHARS]
        undecided = not final and len(rest) < _MARK_CHARS and not set(rest) & set("]】\n")
        return None if undecided else 0

    def _part(self, end: int) -> Part:
        start, self._start = self._start, end
        self._at = max(self._at, end)
        self._stop = ""
        text = self._text[start:end]
        taken = [*self._double.taken(whole_only=False), *self._single.taken(whole_only=True)]
        spans: list[Span] = []
        for opened, closes, whole in sorted(taken):
            closed = min(closes, end)
            inner = self._text[opened + 1 : closed - whole]
            # What stands in a quotation is part of that.
            if _long(inner) and (not spans or opened - start >= spans[-1].end):
                spans.append(Span(opened - start, closed - start, inner, whole))
        return Part(text, tuple(spans))


class _Track:
    """The quotations that begin with some signs. At most one is open."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self._pairs = pairs
        self.open: tuple[int, str] | None = None
        """Where it began, and with which sign."""
        self._found: list[tuple[int, int, bool]] = []
        self._last = ""
        """The sign that may close the latest one once more: what closed it may have been an apostrophe or inches."""

    def closes(self, at: int, sign: str, before: str, after: str) -> bool:
        """Whether the sign closes a quotation."""
        if self.open is None:
            if sign == self._last and before not in _BLANKS and not _letter(after):
                self._found[-1] = (self._found[-1][0], at + 1, True)
                return True
            return False
        start, opening = self.open
        if sign not in self._pairs[opening] or self._begins(sign, before, after):
            return False
        if sign in _APOSTROPHES and _letter(after):
            return False
        self._found.append((start, at + 1, True))
        self.open = None
        doubtful = (sign in _APOSTROPHES and before in "sSxXzZ") or (sign == '"' and before.isdigit())
        self._last = sign if doubtful else ""
        return True

    def opens(self, at: int, sign: str, before: str, after: str) -> None:
        """Open a quotation where the sign does; one of the same kind that is open has no end."""
        if sign not in self._pairs or (self.open is not None and sign != self.open[1]):
            return
        always = sign in _OPENS_ALWAYS and (after not in _BLANKS or sign in "«‹")  # noqa: RUF001
        if not always and not self._begins(sign, before, after):
            return
        if self.open is not None:
            self._found.append((self.open[0], at, False))
        self.open, self._last = (at, sign), ""

    def _begins(self, sign: str, before: str, after: str) -> bool:
        """Whether the sign stands as one does that opens a quotation."""
        if after in _BLANKS or (sign in _APOSTROPHES and after.isdigit()):
            return False
        if self.open is not None and sign != self.open[1]:
            return False
        spaced = before in _BLANKS or before in "([{"
        if self.open is not None or not spaced:
            return (spaced or self.open is None) and not _letter(before) and _letter(after, unspaced=True)
        return True

    def taken(self, *, whole_only: bool) -> list[tuple[int, int, bool]]:
        """(start, end, whole) of those of a part, which ends here."""
        found, self._found = self._found, []
        if self.open is not None:
            found.append((self.open[0], sys.maxsize, False))
        self.open, self._last = None, ""
        return [one for one in found if one[2] or not whole_only]

    def move(self, by: int) -> None:
        """The text lost so many characters at its beginning."""
        self._found = [(start - by, end - by, whole) for start, end, whole in self._found]
        if self.open is not None:
            self.open = (self.open[0] - by, self.open[1])


def _letter(sign: str, *, unspaced: bool = False) -> bool:
    """Whether it is part of a word, in a script that separates words."""
    return (sign.isalnum() or bool(unicodedata.combining(sign))) and (unspaced or not _UNSPACED.match(sign))
