"""Time zones as people and rules name them: by the IANA database, or as an offset of ISO 8601. Pure.

enforce: time-zone Europe/Prague    days and hours of this scope's tasks are those of this zone
"""

from __future__ import annotations

import functools
import re
import zoneinfo
from datetime import UTC, datetime, timedelta, timezone, tzinfo

VERB = "time-zone"
_OFFSET = r"[+-](?:0\d|1[0-4]):?[0-5]\d"
_STAMP = re.compile(
    rf"(?<!\d)\d{{4}}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?(Z|{_OFFSET})(?!\d)", re.IGNORECASE
)
"""A moment with its offset (ISO 8601, RFC 3339)."""
_NAME = re.compile(r"(?<![\w/+.-])(?:(?:UTC|GMT)(?![\w/+-])|[A-Za-z]{2,14}(?:/[A-Za-z0-9_+-]{2,20}){1,2})(?![\w/])")
_FIXED = re.compile(_OFFSET)
_READ = 20_000
"""Characters of a text that are looked at."""


def parse(words: str) -> str:
    """The zone's name. Raises ValueError for one that the IANA database does not have."""
    if words not in _known():
        raise ValueError(f"{words[:64]!r} is no time zone; give its name in the IANA database, such as Europe/Prague")
    return words


def zone(name: str) -> tzinfo:
    """The zone of a name, or of an offset such as +09:00; UTC for ""."""
    if not name or name == "Z":
        return UTC
    if _FIXED.fullmatch(name):
        digits = name[1:].replace(":", "")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        return timezone(-offset if name[0] == "-" else offset)
    return zoneinfo.ZoneInfo(name)


def written(text: str) -> str:
    """The one zone that a text names, as a name of the IANA database or as the offset of a moment; "" where it names
    none or several."""
    text = text[:_READ]
    names = {match[0] for match in _NAME.finditer(text)} & _known()
    offsets = {"UTC" if match[1] in "Zz" else match[1] for match in _STAMP.finditer(text)}
    found = names or offsets
    return found.pop() if len(found) == 1 else ""


def today(now: datetime, name: str) -> str:
    """The line of a prompt that says what day and hour it is for the user."""
    local = now.astimezone(zone(name))
    offset = local.strftime("%z")
    named = f"{name}, " if "/" in name else ""
    return f"Today: {local:%Y-%m-%d}, {local:%A}, {local:%H:%M} ({named}UTC{offset[:3]}:{offset[3:5]})"


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
