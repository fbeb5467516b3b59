"""An invitation (iCalendar, RFC 5545; iTIP, RFC 5546) as text that people and models read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Any

import icalendar

MOST_BYTES = 256 << 10
"""A larger calendar stays an attachment: the parser takes long for it."""
_MOST_LINES = 2000
_MOST_EVENTS = 10
_MOST_PEOPLE = 50
_VALUE_CHARS = 500
_DESCRIPTION_CHARS = 8000
_NAMES = {"SUMMARY": "Event", "STATUS": "Status", "LOCATION": "Place"}


def read(raw: bytes) -> str:
    """The events of a calendar, "" where there is none that can be read: it is an attachment then."""
    if len(raw) > MOST_BYTES or raw.count(b"\n") > _MOST_LINES:
        return ""
    try:
        found = icalendar.Calendar.from_ical(raw)
        events = list(found.walk("VEVENT"))
        told = ["\n".join(_event(one, str(found.get("METHOD", "")))) for one in events[:_MOST_EVENTS]]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError):
        return ""
    if len(events) > _MOST_EVENTS:
        told.append(f"{len(events) - _MOST_EVENTS} more events are left out.")
    return "\n\n".join(told)


def _event(one: Any, method: str) -> Iterator[str]:
    """Raises what the library raises for values that are none."""
    if one.errors:
        raise ValueError(f"values that cannot be read: {one.errors}")
    yield f"Invitation ({method.upper() or 'PUBLISH'})"[:_VALUE_CHARS]
    for name, shown in _NAMES.items():
        if said := _line(one.get(name)):
            yield f"{shown}: {said}"
    for name, shown in (("DTSTART", "Start"), ("DTEND", "End"), ("RECURRENCE-ID", "Instead of")):
        if name in one:
            yield f"{shown}: {_time(one[name])}"
    if "DURATION" in one:
        yield f"Duration: {one['DURATION'].dt}"
    for rule in _each(one, "RRULE"):
        yield f"Repeats: {rule.to_ical().decode()[:_VALUE_CHARS]}"
    if "ORGANIZER" in one:
        yield f"Organizer: {_person(one['ORGANIZER'])}"
    people = _each(one, "ATTENDEE")
    if people:
        more = f" and {len(people) - _MOST_PEOPLE} more" if len(people) > _MOST_PEOPLE else ""
        yield f"Attendees: {', '.join(_person(each) for each in people[:_MOST_PEOPLE])}{more}"
    if description := str(one.get("DESCRIPTION", "")).strip():
        yield f"Description: {description[:_DESCRIPTION_CHARS]}"


def _each(one: Any, name: str) -> Sequence[Any]:
    found = one.get(name, [])
    return found if isinstance(found, list) else [found]


def _line(value: Any) -> str:
    return " ".join(str(value or "").split())[:_VALUE_CHARS]


def _time(value: Any) -> str:
    """With the name of its zone, as the sender wrote it; a day has none, and neither has a time of the place."""
    when: date | datetime = value.dt
    if not isinstance(when, datetime):
        return when.isoformat()
    zone = str(value.params.get("TZID", "")) or ("UTC" if when.tzinfo is not None else "")
    offset = when.strftime("%z") if when.tzinfo is not None and zone != "UTC" else ""
    return " ".join(part for part in (when.strftime("%Y-%m-%d %H:%M"), offset, zone[:100]) if part)


def _person(value: Any) -> str:
    address = _line(value)
    address = address[7:] if address.lower().startswith("mailto:") else address
    name = _line(value.params.get("CN", "")).strip('"')
    state = _line(value.params.get("PARTSTAT", "")).lower()
    shown = f"{name} <{address}>" if name and name != address else address
    return f"{shown} ({state})" if state and state != "needs-action" else shown
