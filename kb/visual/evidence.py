"""Where on a page the evidence is: rectangles of words, and the region that holds most of it. Pure.

Places are in 10,000ths of the page's sides, from the upper left corner.
"""

from __future__ import annotations

import bisect
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kb.files import pages
from kb.visual import model
from text import quotations, words

UNIT = 10_000
_MOST = 60
# More words of a page than these are not looked at when they match: it repeats what is asked for.
_MATCHES = 1_000
# A region is as high as this at least, and has this much around what it shows.
_WINDOW, _MARGIN = 2_000, 250
_GAP = 250
_BEGINNING = 20
"""Letters of a quotation by which its beginning is known."""
_GROUP_ENDS, _GROUP_BEGINS = re.compile(r"(?<![0-9])[0-9]{1,3}\Z"), re.compile("[0-9]{3}(?![0-9])")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-")
_PLACES = 100
"""Of a page that are looked at, where a quotation stands with something cut."""


@dataclass(frozen=True)
class Rectangle:
    """A place on a page, and the text in it, if that is known."""

    left: int
    top: int
    right: int
    bottom: int
    text: str = ""

    def over(self, other: Rectangle) -> Rectangle:
        """Both together, with the texts in their order."""
        return Rectangle(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
            f"{self.text} {other.text}".strip(),
        )


def matching(layout: Sequence[pages.Word], question: str) -> list[Rectangle]:
    """The words of a page that the question has in some form, neighbours of one line as one rectangle, `_MOST` at most;
    those of the region that has most of the question come first."""
    asked = {form: forms[0] for forms in words.content(question) for form in forms}
    if not asked:
        return []
    found: list[tuple[int, set[str], Rectangle]] = []
    matches = 0
    for at, word in enumerate(layout):
        meant = {asked[term] for term in words.vocabulary(word.text) if term in asked}
        if not meant:
            continue
        matches += 1
        if matches > _MATCHES:
            break
        box = Rectangle(word.left, word.top, word.right, word.bottom, word.text)
        if found and found[-1][0] == at - 1 and _beside(found[-1][2], box):
            _, before, known = found.pop()
            found.append((at, before | meant, known.over(box)))
        else:
            found.append((at, meant, box))
    if not found:
        return []
    top = _best([(meant, box) for _, meant, box in found])
    inside = [top <= box.top and box.bottom <= top + _WINDOW for _, _, box in found]
    best = [box for (_, _, box), within in zip(found, inside, strict=True) if within]
    rest = [box for (_, _, box), within in zip(found, inside, strict=True) if not within]
    return [*best, *rest][:_MOST]


def quoted(layout: Sequence[pages.Word], quotation: str) -> list[Rectangle]:
    """Where a quotation stands first, neighbours of one line as one rectangle, `_MOST` at most. Of one that goes on on
    the next page its beginning, where the page ends with that; none where the page has neither. No word and no number
    is cut."""
    said = [_letters(word.text) for word in layout]
    asked = [_letters(word) for word in quotations.bare(quotation).split()]
    at, fits = _stands(layout, said, asked)
    if not fits:
        # Where a line ends in a word, a reader of the page leaves its hyphen out, and so may who quotes it.
        said, asked = ([_HYPHEN.sub("", one) for one in each] for each in (said, asked))
        at, fits = _stands(layout, said, asked)
    if not fits:
        return []
    ends = list(itertools.accumulate(len(one) for one in said))
    found: list[Rectangle] = []
    for word in layout[bisect.bisect_right(ends, at) : bisect.bisect_left(ends, at + fits) + 1]:
        box = Rectangle(word.left, word.top, word.right, word.bottom, word.text)
        if found and _beside(found[-1], box):
            box = found.pop().over(box)
        found.append(box)
    return found[:_MOST]


def region(rectangles: Sequence[Rectangle]) -> Rectangle | None:
    """What to show of a page: the first rectangle and those near it, with some space around."""
    if not rectangles:
        return None
    first = rectangles[0]
    whole = first
    for one in rectangles[1:]:
        if one.bottom - first.top <= _WINDOW and one.top >= first.top - _MARGIN:
            whole = whole.over(one)
    return Rectangle(
        max(0, whole.left - 2 * _MARGIN),
        max(0, whole.top - _MARGIN),
        min(UNIT, whole.right + 2 * _MARGIN),
        min(UNIT, whole.bottom + _MARGIN),
    )


def of_patches(grid: model.Grid, found: Sequence[Sequence[tuple[int, int, float]]]) -> list[Rectangle]:
    """The best patch of each token as a rectangle, the most alike first."""
    best = sorted((one[0] for one in found if one), key=lambda patch: -patch[2])
    seen = dict.fromkeys((row, column) for row, column, _ in best)
    high, wide = UNIT / grid.rows, UNIT / grid.columns
    return [
        Rectangle(int(column * wide), int(row * high), int((column + 1) * wide), int((row + 1) * high))
        for row, column in seen
    ][:_MOST]


def excerpt(layout: Sequence[pages.Word], where: Rectangle, most: int = 1000) -> str:
    """The words of a page whose middle is in a region."""
    inside = (
        one.text
        for one in layout
        if where.left <= (one.left + one.right) // 2 <= where.right
        and where.top <= (one.top + one.bottom) // 2 <= where.bottom
    )
    return " ".join(inside)[:most]


def _stands(layout: Sequence[pages.Word], said: Sequence[str], asked: Sequence[str]) -> tuple[int, int]:
    """Where the words of a page, as `said` and without blanks between them, have those of a quotation, and how many
    letters of them; (0, 0) where they do not."""
    page, wanted = "".join(said), "".join(asked)
    ends = list(itertools.accumulate(len(one) for one in said))

    def cut(at: int) -> bool:
        number = bisect.bisect_right(ends, at)
        if number == len(said):
            return False
        inside = at - ends[number] + len(said[number])
        if inside:
            return quotations.cuts(said[number], inside)
        # A blank in a number separates words here.
        return number > 0 and _grouped(said[number - 1], said[number]) and _beside(layout[number - 1], layout[number])

    at = page.find(wanted) if wanted else -1
    for _ in range(_PLACES):
        if at < 0:
            break
        if not (cut(at) or cut(at + len(wanted))):
            return at, len(wanted)
        at = page.find(wanted, at + 1)
    for fits in reversed(list(itertools.accumulate(len(one) for one in asked[:-1]))):
        if fits < _BEGINNING:
            break
        if page.endswith(wanted[:fits]) and not cut(len(page) - fits):
            return len(page) - fits, fits
    return 0, 0


def _grouped(left: str, right: str) -> bool:
    """Whether two words may be groups of the digits of one number, as in 10 500."""
    return _GROUP_ENDS.search(left) is not None and _GROUP_BEGINS.match(right) is not None


def _letters(text: str) -> str:
    """A text as two readers of a page have it in common: without blanks, and without ligatures."""
    return "".join(unicodedata.normalize("NFKC", quotations.plain(text)).split())


def _beside(left: Rectangle | pages.Word, right: Rectangle | pages.Word) -> bool:
    middle = (right.top + right.bottom) // 2
    return left.top <= middle <= left.bottom and -_GAP <= right.left - left.right <= _GAP


def _best(found: Sequence[tuple[set[str], Rectangle]]) -> int:
    """Where the window begins that has most letters of the question; the uppermost of equals. A window moves down the
    page once: a place comes into it by its lower edge and leaves it by its upper one."""
    fit = [one for one in found if one[1].bottom - one[1].top <= _WINDOW]
    coming = sorted(fit, key=lambda one: one[1].bottom)
    leaving = sorted(fit, key=lambda one: one[1].top)
    inside: Counter[str] = Counter()
    worth, best, top = 0, -1, 0
    came = left = 0
    for start in sorted({box.top for _, box in found}):
        while came < len(coming) and coming[came][1].bottom <= start + _WINDOW:
            worth += sum(len(form) for form in coming[came][0] if not inside[form])
            inside.update(coming[came][0])
            came += 1
        while left < len(leaving) and leaving[left][1].top < start:
            inside.subtract(leaving[left][0])
            worth -= sum(len(form) for form in leaving[left][0] if not inside[form])
            left += 1
        if worth > best:
            best, top = worth, start
    return top
