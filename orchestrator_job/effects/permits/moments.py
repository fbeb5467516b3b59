"""Dates and times of the day that a text names, in English, German, Czech and Slovak, as far as code reads them. Pure.

An invitation has to be at the time that the user named. What is not read here is not named, so that a person decides.
A date without a year is the next one. "Monday" is the next Monday; "next Monday" may be two of them, so it is none.
A bare hour up to seven may be in the morning and in the afternoon; others are as they stand.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time, timedelta

from orchestrator_job.effects.permits import lexicon, words


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january januar januara janner jan ledna leden",
            "february februar februara feb unora unor",
            "march marz mar brezna brezen marca marec",
            "april aprila apr dubna duben",
            "may mai kvetna kveten maja maj",
            "june juni jun juna cervna cerven",
            "july juli jul jula cervence cervenec",
            "august augusta aug srpna srpen",
            "september septembra sept sep zari",
            "october oktober oktobra oct okt rijna rijen",
            "november novembra nov listopadu listopad",
            "december dezember decembra dec dez prosince prosinec",
        ),
        start=1,
    )
    for name in names.split()
}
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday montag pondeli pondelok",
            "tuesday dienstag utery utorok",
            "wednesday mittwoch stredu streda",
            "thursday donnerstag ctvrtek stvrtok",
            "friday freitag patek piatok",
            "saturday samstag sonnabend sobotu sobota",
            "sunday sonntag nedeli nedele nedelu nedela",
        )
    )
    for name in names.split()
}
_NEAR_DAYS = {
    "today": 0, "heute": 0, "dnes": 0, "dneska": 0, "tomorrow": 1, "morgen": 1, "zitra": 1, "zajtra": 1,
    "day after tomorrow": 2, "ubermorgen": 2, "pozitri": 2, "pozajtra": 2,
}  # fmt: skip
_HOURS = {
    name: number
    for number, names in enumerate(
        (
            "one eins ein jednu jedna jedne jednej",
            "two zwei dve druhe druhej",
            "three drei tri treti tretej",
            "four vier ctyri styri ctvrte stvrtej",
            "five funf pet pat pate piatej",
            "six sechs sest seste siestej",
            "seven sieben sedm sedem sedme siedmej",
            "eight acht osm osem osme osmej",
            "nine neun devet devat devate deviatej",
            "ten zehn deset desat desate desiatej",
            "eleven elf jedenact jedenast jedenacte jedenastej",
            "twelve zwolf dvanact dvanast dvanacte dvanastej",
        ),
        start=1,
    )
    for name in names.split()
}


def _any(names: Mapping[str, int]) -> str:
    return "|".join(sorted(names, key=len, reverse=True))


_MONTH = rf"(?:{_any(_MONTHS)})(?![^\W_])"
_DATE = re.compile(
    r"(?<!\d)(?P<iso>(?P<iy>\d{4})[-/.](?P<im>\d{1,2})[-/.](?P<id>\d{1,2}))(?!\d)"
    r"|(?<![\d/])(?P<slash>(?P<s1>\d{1,2})/(?P<s2>\d{1,2})/(?P<sy>\d{4}))(?![\d/])"
    r"|(?<![\d.])(?P<dot>(?P<dd>\d{1,2})\.\s?(?P<dm>\d{1,2})\.(?:\s?(?P<dy>\d{4})(?!\d)|(?!\s?\d)))"
    rf"|(?<![\d.:])(?P<day>(?P<nd>\d{{1,2}})(?:st|nd|rd|th|\.)?\s*(?:of\s+)?(?P<nm>{_MONTH})\.?"
    r"(?:,?\s+(?P<ny>\d{4})(?!\d))?)"
    rf"|(?<!\w)(?P<month>(?P<mm>{_MONTH})\.?\s+(?:the\s+)?(?P<md>\d{{1,2}})(?:st|nd|rd|th)?(?![\d.:]*\d)"
    r"(?:,?\s+(?P<my>\d{4})(?!\d))?)"
)
_RELATIVE = re.compile(
    rf"(?<!\w)(?:(?P<before>\w+)\s+)?(?P<said>{_any(_NEAR_DAYS)}|{_any(_WEEKDAYS)})(?:\s+(?:morgen|morning))?(?!\w)"
)
_VAGUE = _listed(
    "next last past following nachsten nachste nachster letzten letzte pristi minuly minulou minule buduci buducu kazdy"
    " kazdou every each jeden guten am"
)
"""Words before a weekday, or before "morgen", with which it is not one that code can tell."""
_UNIT = r"(?P<unit>hours?|stunden?|hodin[yua]?|minutes?|minuten?|minut[yu]?|mins?|h)(?!\w)"
_LONG = re.compile(
    rf"(?<!\w)(?:(?P<at>v|ve|o|od|do|um|at|from|to|until)\s+)?"
    rf"(?P<much>\d{{1,3}}(?:[.,]5)?|half an|half a|an|one|a|eine|einer|halbe|halben|pul|pol|jednu)?\s*-?\s*{_UNIT}"
)
_HALVES = frozenset(("half an", "half a", "halbe", "halben", "pul", "pol"))
_LATE = r"(?:\s*(?:in the\s+|in der\s+)?(?P<late>afternoon|evening|nachmittags?|abends?|odpoledne|vecer|popoludni))?"
_HALF_DAY = r"(?:\s*(?P<half>[ap])\.?m\b\.?)?"
_HOUR = rf"(?P<hour>\d{{1,2}}|{_any(_HOURS)})(?!\w)"
_AT = (
    r"(?:(?<!\w)(?:at|from|to|until|till|by|between|um|von|bis|gegen|ab|zwischen|v|ve|od|do|o|mezi|medzi)\s"
    r"|(?<=\d)[-–])"  # noqa: RUF001
)
_TIME = re.compile(
    rf"(?<![\d:.])(?P<clock>(?P<ch>[01]?\d|2[0-4]):(?P<cm>[0-5]\d)(?::[0-5]\d)?)(?!\d){_HALF_DAY}{_LATE}"
    r"|(?<![\d:.])(?P<noted>(?P<nh>\d{1,2})(?:[.:](?P<nmin>[0-5]\d))?\s*(?:uhr|hod(?:in[yua]?)?|o'?clock|h)(?!\w))"
    r"(?P<nlate>\s*(?:nachmittags?|abends?|odpoledne|vecer|popoludni))?"
    r"|(?<![\d:.])(?P<ap>(?P<ah>\d{1,2})(?:\.(?P<amin>[0-5]\d))?\s*(?P<ahalf>[ap])\.?m\b\.?)"
    rf"|(?<!\w)(?P<part>half past|quarter past|quarter to|halb|viertel nach|viertel vor|pul|pol)\s+"
    rf"(?P<ph>\d{{1,2}}|{_any(_HOURS)})(?!\w)"
    r"|(?<!\w)(?P<noon>noon|mittags?|poledne|poludnie|midnight|mitternacht|pulnoc|polnoc)(?!\w)"
    rf"|{_AT}\s*(?P<bare>{_HOUR})(?:\.(?P<bmin>[0-5]\d)(?!\d))?(?![\d:]|\.\d|\s*%){_LATE.replace('late', 'blate')}"
)
_PARTS = {"half past": 30, "quarter past": 15, "quarter to": -15, "viertel nach": 15, "viertel vor": -15}
_MORNING = 7
_TAKEN = "|"


@dataclass(frozen=True, slots=True)
class Mention:
    """A place of a text that names something, with its words as `words` has them. Of a day `day` is year (0: none is
    named), month and day; `near` days from today; `weekday` from 0, Monday. `times` are what it may be. `minutes` is
    a length. One with none of them is a date that code cannot tell."""

    said: tuple[str, ...]
    day: tuple[int, int, int] | None = None
    near: int | None = None
    weekday: int | None = None
    times: frozenset[time] = frozenset()
    minutes: int = 0

    @property
    def dated(self) -> bool:
        """Whether it is about a date, understood or not."""
        return not self.times and not self.minutes

    @property
    def explicit(self) -> bool:
        """Whether it names a date by its number."""
        return self.dated and self.near is None and self.weekday is None

    def falls(self, on: date, today: date | None) -> bool:
        """Whether it is that day. `today`: that of the run; without it only a date with its year is one."""
        if self.day is not None:
            year, month, day = self.day
            if (on.month, on.day) != (month, day):
                return False
            return on.year == year if year else today is not None and 0 <= (on - today).days < 366
        if today is None:
            return False
        if self.near is not None:
            return on == today + timedelta(days=self.near)
        # On a Monday "Monday" may be today or in a week.
        return self.weekday is not None and on.weekday() == self.weekday and 0 < (on - today).days < 7


def read(text: str) -> tuple[Mention, ...]:
    """What the text names."""
    # Blanks in a row would be looked through again from each of them.
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    flat = "".join(map(_bare, plain))
    found: list[Mention] = []
    # Each kind is taken out before the next is looked for: the 10 of "10 March" is no hour.
    for pattern, of in ((_DATE, _dates), (_RELATIVE, _relative), (_LONG, _lengths), (_TIME, _hours)):
        rest = list(flat)
        for match in pattern.finditer(flat):
            # The word before "tomorrow" is none of it.
            start = match.start("said") if "said" in match.re.groupindex else match.start()
            spoken = tuple(words.split(plain[start : match.end()]))
            mentions = list(of(match, spoken))
            found += mentions
            if mentions:
                rest[match.start() : match.end()] = _TAKEN * (match.end() - match.start())
        flat = "".join(rest)
    return tuple(found)


@functools.cache
def _bare(letter: str) -> str:
    """Without its mark, and of the same length."""
    plain = lexicon.bare(letter)
    return plain if len(plain) == 1 else letter


def _dates(match: re.Match[str], said: tuple[str, ...]) -> Iterator[Mention]:
    if match["iso"]:
        year, month, day = int(match["iy"]), int(match["im"]), int(match["id"])
    elif match["slash"]:
        first, second, year = int(match["s1"]), int(match["s2"]), int(match["sy"])
        if first != second and max(first, second) <= 12:
            yield Mention(said)
            return
        day, month = (first, second) if second <= 12 else (second, first)
    elif match["dot"]:
        year, month, day = int(match["dy"] or 0), int(match["dm"]), int(match["dd"])
    elif match["day"]:
        year, month, day = int(match["ny"] or 0), _MONTHS[match["nm"]], int(match["nd"])
    else:
        year, month, day = int(match["my"] or 0), _MONTHS[match["mm"]], int(match["md"])
    try:
        date(year or 2000, month, day)
    except ValueError:
        return
    yield Mention(said, day=(year, month, day))


def _relative(match: re.Match[str], said: tuple[str, ...]) -> Iterator[Mention]:
    name, before = match["said"], match["before"] or ""
    if name == "morgen" and (before in _VAGUE or before in _WEEKDAYS):
        if before in _WEEKDAYS:
            yield Mention(said, weekday=_WEEKDAYS[before])
        return
    if before in _VAGUE - {"am"}:
        yield Mention(said)
    elif name in _NEAR_DAYS:
        yield Mention(said, near=_NEAR_DAYS[name])
    else:
        yield Mention(said, weekday=_WEEKDAYS[name])


def _lengths(match: re.Match[str], said: tuple[str, ...]) -> Iterator[Mention]:
    unit, much = match["unit"], match["much"] or ""
    # "v 10 hodin", "at 15h": a time of the day.
    clock = unit.startswith("hodin") or unit == "h"
    if (clock and match["at"]) or not (much or unit == "hodinu") or (unit == "h" and not match["much"]):
        return
    each = 1 if unit.startswith("min") else 60
    if much in _HALVES:
        yield Mention(said, minutes=each // 2 or 1)
        return
    count = float(much.replace(",", ".")) if much[:1].isdigit() else 1.0
    yield Mention(said, minutes=int(count * each))


def _hours(match: re.Match[str], said: tuple[str, ...]) -> Iterator[Mention]:
    minute, exact, late, half = 0, False, False, ""
    if match["clock"]:
        hour, minute, exact = int(match["ch"]), int(match["cm"]), match["ch"].startswith("0")
        late, half = bool(match["late"]), match["half"] or ""
    elif match["noted"]:
        hour, minute, late = int(match["nh"]), int(match["nmin"] or 0), bool(match["nlate"])
    elif match["ap"]:
        hour, minute, half = int(match["ah"]), int(match["amin"] or 0), match["ahalf"]
    elif match["part"]:
        # "halb zehn" and "půl desáté" are half an hour before it.
        hour, minute = _hour(match["ph"]), _PARTS.get(match["part"], -30)
    elif match["noon"]:
        hour, exact = (12 if match["noon"][:3] in ("noo", "mit", "pol") else 0), True
        if match["noon"] in ("mitternacht", "polnoc"):
            hour = 0
    else:
        hour, minute, late = _hour(match["hour"]), int(match["bmin"] or 0), bool(match["blate"])
    if not 0 <= hour <= 24:
        return
    if half:
        hours = [hour % 12 + (12 if half == "p" else 0)]
    elif late and hour < 12:
        hours = [hour + 12]
    else:
        hours = [hour, hour + 12] if not exact and 0 < hour <= _MORNING else [hour]
    total = [(one * 60 + minute) % (24 * 60) for one in hours]
    yield Mention(said, times=frozenset(time(one // 60, one % 60) for one in total))


def _hour(name: str) -> int:
    return int(name) if name.isdigit() else _HOURS[name]
