"""Days named in a text: ISO, English, Czech and German forms, and relative ones counted from a given today."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from tests.fakes.ollama.rules import pattern

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_CZECH = (
    "ledna", "února", "března", "dubna", "května", "června",
    "července", "srpna", "září", "října", "listopadu", "prosince",
)  # fmt: skip
_GERMAN = (
    "januar", "februar", "märz", "april", "mai", "juni",
    "juli", "august", "september", "oktober", "november", "dezember",
)  # fmt: skip
_WORDS_TOO = {"may", "march", "mar"}  # in small letters and without a year they are verbs as a rule
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH = "(?P<month>" + "|".join(f"{month}|{month[:3]}" for month in _MONTHS) + r"|sept)\.?"
_TIME = r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        r"\b(?P<year>\d{4})-(?P<number>\d{2})-(?P<day>\d{2})" + _TIME + r"(?![\d-])",
        r"\b(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:\s+of)?\s+" + _MONTH + r"(?:,?\s+(?P<year>\d{4}))?\b",
        r"\b" + _MONTH + r"\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?\b(?!:)(?:,?\s+(?P<year>\d{4})\b)?",
        r"\b(?P<day>\d{1,2})\.\s?(?P<number>\d{1,2})\.\s?(?P<year>\d{4})\b",
        r"\b(?P<number>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})\b",
        r"\b(?P<day>\d{1,2})\.\s?(?P<named>" + "|".join((*_CZECH, *_GERMAN)) + r")\b(?:\s+(?P<year>\d{4}))?",
        # With the blank: `2.3.` at the end of a sentence is a version.
        r"\b(?P<day>\d{1,2})\.\s(?P<number>\d{1,2})\.(?!\s?\d)(?P<year>(?!))?",
    )
)
_OTHER_WEEKDAYS = {
    **dict.fromkeys(("pondělí", "pondělka", "montag"), 0),
    **dict.fromkeys(("úterý", "úterka", "dienstag"), 1),
    **dict.fromkeys(("středa", "středy", "středu", "mittwoch"), 2),
    **dict.fromkeys(("čtvrtek", "čtvrtka", "čtvrtku", "donnerstag"), 3),
    **dict.fromkeys(("pátek", "pátku", "freitag"), 4),
    **dict.fromkeys(("sobota", "soboty", "sobotu", "samstag", "sonnabend"), 5),
    **dict.fromkeys(("neděle", "neděli", "sonntag"), 6),
}
_WEEKDAY = re.compile(
    r"\b(?P<next>(?:next|příští(?:ho)?|nächste[nmr]?)\s+)?(?P<name>"
    + "|".join((*_WEEKDAYS, *_OTHER_WEEKDAYS))
    + r")\b",
    re.IGNORECASE,
)
_RELATIVE = pattern.phrases(
    r"(?P<today>today|tonight|end of (?:the )?day|eod|cob|dnes|dneška|heute)",
    r"(?P<tomorrow>tomorrow|zítra|zítřka|(?<!guten )morgen)",
    r"(?P<week>end of (?:the |this )?week|eow|konce (?:tohoto )?týdne|Ende (?:der|dieser) Woche)",
    r"(?P<next_week>(?:end of )?next week|(?:konce )?příští(?:ho|m)? týd(?:en|ne|nu)|"
    r"(?:Ende )?(?:der )?nächste[rn]? Woche)",
    r"(?P<month>end of (?:the |this )?month|eom|konce (?:tohoto )?měsíce|Ende (?:des|dieses) Monats|Monatsende)",
    r"(?:in|within|do|během|innerhalb von|binnen)\s+(?:the next\s+)?"
    r"(?P<count>\d{1,3}|two|three|four|five|six|seven|ten|dvou|tří|čtyř|zwei|drei|vier)\s+"
    r"(?P<unit>days?|weeks?|months?|dn[íů]|týdnů|měsíců|Tagen?|Wochen?|Monaten?)",
)
_CUE = re.compile(
    r"(?:\b(?:by|until|till|before|(?:no|not) later than|at the latest|due(?: date| on| by)?|"
    r"do|před|nejpozději(?: do)?|bis(?: zum| spätestens| einschließlich)?|spätestens(?: am| bis| zum)?|vor dem|"
    r"deadline(?: is| of| for \w+)?|latest|on or before|up to|expires?(?: on)?|ends? on)\b"
    r"[\s:,*]*(?:the |this |on |is )*(?:end of )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,? |"
    rf"(?:{'|'.join(_OTHER_WEEKDAYS)}),? )?)$",
    re.IGNORECASE,
)
_COUNTS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10,
    "dvou": 2, "tří": 3, "čtyř": 4, "zwei": 2, "drei": 3, "vier": 4,
}  # fmt: skip
_UNITS = {"d": 1, "w": 7, "m": 30, "t": 1}
_FRIDAY = 4


@dataclass(frozen=True)
class Found:
    """A day and where it stands in the text."""

    day: date
    start: int
    end: int
    relative: bool = False


def find(text: str, today: date | None) -> list[Found]:
    """Every day named, in order of appearance. Days without a year and relative ones need `today`, else they are
    left out.

    A day without a year is the next one from `today` on.
    """
    found: list[Found] = []
    taken: list[tuple[int, int]] = []
    for form in _FORMS:
        for match in form.finditer(text):
            day = _absolute(match, today)
            if day is not None and not any(match.start() < end and start < match.end() for start, end in taken):
                found.append(Found(day, match.start(), match.end()))
                taken.append(match.span())
    if today is not None:
        for match in (*_WEEKDAY.finditer(text), *_RELATIVE.finditer(text)):
            beside = any(
                (start - 6 <= match.end() <= start + 1) or (match.start() < end and start < match.end())
                for start, end in taken
            )
            if not beside:  # "Friday, 15 January" is one day, not two
                found.append(Found(_relative(match, today), match.start(), match.end(), relative=True))
    return sorted(found, key=lambda one: one.start)


def is_due(before: str) -> bool:
    """Whether the words right in front of a day make it a deadline: `by`, `until the end of`, `no later than` ..."""
    return _CUE.search(before) is not None


def _absolute(match: re.Match[str], today: date | None) -> date | None:
    parts = match.groupdict()
    if parts.get("number"):
        month = int(parts["number"])
    elif parts.get("named"):
        name = parts["named"].lower()
        month = 1 + (_CZECH.index(name) if name in _CZECH else _GERMAN.index(name))
    else:
        month = next(i for i, name in enumerate(_MONTHS, start=1) if name.startswith(parts["month"].lower()[:3]))
    try:
        if parts["year"]:
            return date(int(parts["year"]), month, int(parts["day"]))
        if today is None or parts.get("month") in _WORDS_TOO:
            return None
        this_year = date(today.year, month, int(parts["day"]))
        return this_year if this_year >= today else date(today.year + 1, month, int(parts["day"]))
    except ValueError:  # 31 February, or a number that only looks like a date
        return None


def _relative(match: re.Match[str], today: date) -> date:
    parts = match.groupdict()
    if parts.get("name"):
        name = parts["name"].lower()
        number = _OTHER_WEEKDAYS[name] if name in _OTHER_WEEKDAYS else _WEEKDAYS.index(name)
        ahead = (number - today.weekday()) % 7
        return today + timedelta(days=ahead + (7 if parts["next"] and ahead < 7 - today.weekday() else 0))
    if parts["today"]:
        return today
    if parts["tomorrow"]:
        return today + timedelta(days=1)
    if parts["week"]:
        return today + timedelta(days=(_FRIDAY - today.weekday()) % 7)
    if parts["next_week"]:
        return today + timedelta(days=7 - today.weekday() + _FRIDAY)
    if parts["month"]:
        return (today.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
    count = _COUNTS.get(parts["count"].lower()) or int(parts["count"])
    unit = 7 if parts["unit"].lower() == "týdnů" else _UNITS[parts["unit"][0].lower()]
    return today + timedelta(days=count * unit)
