"""Signs of a text that may begin and end quotations, and what they are there. Pure.

An apostrophe between letters, and a sign for inches, is no quotation mark. A sign that may be either begins a quotation
only where a further sign closes it, and one that closes a quotation may turn out to have been inside of it.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

DOUBLE = {
    '"': '"',
    "＂": "＂",  # noqa: RUF001
    "″": "″",
    "〝": "〞〟",
    "“": "”",
    "”": "”",
    "‟": "”",
    "„": '“”‟"',
    "❝": "❞",
    "❮": "❯",  # noqa: RUF001
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
SINGLE = {"'": "'"}
UNSPACED = re.compile("[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u9fff\uf900-\ufaff\uff66-\uff9f]")
"""Letters of scripts that put no blanks between words; two of them count as a word."""
BLANKS = " \t\n\u00a0\u202f\u3000"
_CITED = re.compile(rf"[{BLANKS}.,;:!?()]{{0,3}}[\[【][0-9]")
"""Behind a sign that ends what a mark names."""
_OPENS_ALWAYS = "“‟„❝❮«‹‚「『《"  # noqa: RUF001
_APOSTROPHES = "'’‘"  # noqa: RUF001
_INCHES = '"＂″'  # noqa: RUF001
_LEADS = "([{:=*_>|/–—"  # noqa: RUF001
"""Behind them a sign that has a blank behind it may begin a quotation."""
_YEAR = re.compile(r"[0-9]{2}(?![0-9]|[.,:][0-9])")
"""Behind an apostrophe, as in '68 and '90s."""
_CUT_OFF = re.compile(r" (?:s|t|d|m|re|ve|ll) ")
"""The end of a word such as don't, with blanks around its apostrophe."""
AHEAD = 6
"""Characters behind a sign that may decide what it is."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign with what is around it. `behind`: the two characters before it, blanks where its part begins; `ahead`:
    `AHEAD` behind it, fewer at the end of the text. `before` and `after`: the characters beside it."""

    at: int
    sign: str
    behind: str
    before: str
    after: str
    ahead: str

    def doubtful(self) -> bool:
        """Whether it may be an apostrophe behind a word, or stand for inches, feet, minutes or seconds."""
        last = self.behind[0] if self.before in BLANKS else self.before
        if self.sign in _APOSTROPHES:
            return last in "sSxXzZ" or last.isdigit() or (last == "n" and self.behind[0] in _APOSTROPHES)
        return self.sign in _INCHES and last.isdigit()

    def cited(self) -> bool:
        """Whether a mark comes behind it."""
        return _CITED.match(self.ahead) is not None

    def amid(self) -> bool:
        """Whether the sentence goes on with a word behind it."""
        return self.after in BLANKS and self.after != "\n" and letter(self.ahead[1:2] or " ", unspaced=True)

    def elided(self) -> bool:
        """Whether it stands for the beginning of a word, as in rock 'n' roll."""
        return self.sign in _APOSTROPHES and self.after == "n" and self.ahead[1:2] in ("'", "’")  # noqa: RUF001

    def year(self) -> bool:
        """Whether it may be the apostrophe of a year with two digits."""
        return self.sign in _APOSTROPHES and _YEAR.match(self.ahead) is not None


class Track:
    """The quotations that begin with some signs. At most one is open. `sure`: it takes those whose first sign can only
    be a quotation mark; `unsure`: those whose first sign may be an apostrophe or stand for inches, too. A quotation
    without an end is reported only by a track that takes no unsure ones."""

    def __init__(self, pairs: Mapping[str, str], *, sure: bool, unsure: bool) -> None:
        self._pairs = pairs
        self._sure = sure
        self._unsure = unsure
        self.open: tuple[int, str, bool] | None = None
        """Where it began, with which sign, and whether that is doubtful."""
        self._found: list[tuple[int, int, bool]] = []
        self._last = ""
        """The sign that may close the latest one once more: what closed it may have been an apostrophe or inches."""
        self._cited = False
        """A mark stands behind the latest one."""

    def is_open(self) -> bool:
        """Whether a quotation is open for which no doubt is left."""
        return self.open is not None and not self.open[2]

    def goes_on(self, at: int = sys.maxsize) -> bool:
        """Whether it may turn out that a quotation which began before this place has not ended yet."""
        if self._last and not self._cited:
            return self._found[-1][0] < at
        return self.open is not None and (self.open[2] or not self._sure) and self.open[0] < at

    def covers(self, at: int) -> bool:
        """Whether this place is in the latest quotation."""
        return bool(self._found) and self._found[-1][0] < at < self._found[-1][1]

    def closes(self, near: Sign, apart: bool) -> bool:
        """Whether the sign closes a quotation. `apart`: a sentence may have ended since the latest one."""
        doubtful = near.doubtful()
        if self.open is None:
            if near.sign != self._last or letter(near.after) or (doubtful and (apart or near.amid())):
                return False
            if near.before in BLANKS and (self._sure or near.after not in BLANKS):
                return False
            if near.before in _LEADS and not near.cited():
                return False
            self._found[-1] = (self._found[-1][0], near.at + 1, True)
        else:
            start, opening, unclear = self.open
            if near.sign not in self._pairs[opening] or self._begins(near):
                return False
            if near.sign in _APOSTROPHES and letter(near.after):
                return False
            if unclear and self._unclear(near, doubtful):
                return False
            self._found.append((start, near.at + 1, True))
            self.open = None
        self._last = near.sign if doubtful else ""
        self._cited = near.cited()
        return True

    def _unclear(self, near: Sign, doubtful: bool) -> bool:
        """Whether it does not close what began with a doubtful sign."""
        if doubtful and (near.sign in _INCHES or near.amid()):
            return True
        return near.before in BLANKS and near.after in BLANKS and not near.cited()

    def opens(self, near: Sign, apart: bool) -> None:
        """Open a quotation where the sign does; one of the same kind that is open has no end. `apart`: as above."""
        if near.sign not in self._pairs or (self.open is not None and near.sign != self.open[1]):
            return
        surely = self._surely(near)
        unclear = None if surely else self._maybe(near)
        if not surely and (unclear is None or not self._unsure):
            return
        if not surely and self.open is not None and not (self.open[2] and (apart or not unclear)):
            return
        if self.open is not None and not self._unsure:
            self._found.append((self.open[0], near.at, False))
        if surely and not self._sure:
            # It begins in the other track.
            self.open = None
        else:
            self.open = (near.at, near.sign, bool(unclear))
        self._last = ""

    def _surely(self, near: Sign) -> bool:
        if near.sign in _OPENS_ALWAYS and (near.after not in BLANKS or near.sign in "«‹"):  # noqa: RUF001
            return True
        if near.sign in _OPENS_ALWAYS and self.open is None and not near.cited():
            return near.before in BLANKS or near.before in _LEADS
        return self._begins(near)

    def _maybe(self, near: Sign) -> bool | None:
        """None where no quotation begins, else whether it is doubtful that one does."""
        if near.year():
            return True if near.before in BLANKS else None
        if near.elided():
            return None
        if near.after in BLANKS:
            spaced = near.before in BLANKS
            if not (spaced or near.before in _LEADS) or near.cited() or near.ahead[1:2] == "|":
                return None
            if near.sign in _APOSTROPHES and _CUT_OFF.match(near.ahead):
                return None
            return spaced and near.doubtful()
        if letter(near.before):
            said = near.sign in _INCHES and not near.before.isdigit() and letter(near.after, unspaced=True)
            return False if said else None
        return None if near.after in ".,;:!?)]}" or near.cited() else False

    def _begins(self, near: Sign) -> bool:
        """Whether the sign stands as one does that opens a quotation."""
        if near.after in BLANKS or near.year() or near.elided():
            return False
        if self.open is not None and near.sign != self.open[1]:
            return False
        spaced = near.before in BLANKS or near.before in "([{"
        if self.open is not None or not spaced:
            return (spaced or self.open is None) and not letter(near.before) and letter(near.after, unspaced=True)
        return True

    def taken(self, end: int) -> list[tuple[int, int, bool]]:
        """(start, end, whole) of those of a part, which ends here."""
        found, self._found = self._found, []
        if self.open is not None and not self._unsure:
            found.append((self.open[0], sys.maxsize, False))
        self.open, self._last = None, ""
        return [one for one in found if one[0] < end]

    def breaks(self) -> None:
        """A line ends, and with it what is open."""
        self.open, self._last = None, ""

    def move(self, by: int) -> None:
        """The text lost so many characters at its beginning."""
        self._found = [(start - by, end - by, whole) for start, end, whole in self._found]
        if self.open is not None:
            self.open = (self.open[0] - by, *self.open[1:])


def letter(sign: str, *, unspaced: bool = False) -> bool:
    """Whether it is part of a word, in a script that separates words."""
    return (sign.isalnum() or bool(unicodedata.combining(sign))) and (unspaced or not UNSPACED.match(sign))
