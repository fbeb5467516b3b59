"""An invitation (iCalendar, RFC 5545; iTIP, RFC 5546) as text that people and models read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import icalendar

MOST_BYTES = 256 << 10
"""A larger calendar stays an attachment: the parser takes long for it."""
_MOST_LINES = 2000
_MOST_EVENTS = 10
_MOST_PEOPLE = 50
_MOST_DATES = 50
_VALUE_CHARS = 500
_DESCRIPTION_CHARS = 8000
_NAMES = {"SUMMARY": "Event", "STATUS": "Status", "LOCATION": "Place", "URL": "Link"}
_BROKEN = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Event:
    """`uid` and `recurrence` are its identity (RFC 5546 2.1.4): the series, and the start of the one of it that is
    meant, "" for all. `method` as in REQUEST, CANCEL, REPLY; `organizer` an address."""

    text: str
    uid: str = ""
    recurrence: str = ""
    method: str = "PUBLISH"
    sequence: int = 0
    organizer: str = ""
    summary: str = ""


def read(raw: bytes) -> tuple[Event, ...]:
    """The events of a calendar; none where there is none that can be read: it is an attachment then."""
    if len(raw) > MOST_BYTES or raw.count(b"\n") + raw.count(b"\r") > 2 * _MOST_LINES:
        return ()
    try:
        calendar = icalendar.Calendar.from_ical(raw)
        method = _line(calendar.get("METHOD")).upper() or "PUBLISH"
        events = list(calendar.walk("VEVENT"))
        read = [_event(one, method) for one in events[:_MOST_EVENTS]]
    except _BROKEN:
        return ()
    if len(events) > _MOST_EVENTS:
        read.append(Event(f"{len(events) - _MOST_EVENTS} more events are left out."))
    return tuple(read)


def _event(one: Any, method: str) -> Event:
    sequence = str(one.get("SEQUENCE", "0"))
    return Event(
        "\n".join(_shown(one, method)),
        uid=_line(one.get("UID")),
        recurrence=_time(one["RECURRENCE-ID"]) if "RECURRENCE-ID" in one else "",
        method=method,
        sequence=int(sequence) if sequence.isdecimal() else 0,
        organizer=_address(one["ORGANIZER"]) if "ORGANIZER" in one else "",
        summary=_line(one.get("SUMMARY")),
    )


def _shown(one: Any, method: str) -> Iterator[str]:
    """Raises what the library raises for values that are none."""
    if one.errors:
        raise ValueError(f"values that cannot be read: {one.errors}")
    yield f"Invitation ({method})"[:_VALUE_CHARS]
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
    for name, shown in (("RDATE", "Also on"), ("EXDATE", "Not on")):
        if dates := [_time(date, listed) for listed in _each(one, name) for date in listed.dts]:
            more = f" and {len(dates) - _MOST_DATES} more" if len(dates) > _MOST_DATES else ""
            yield f"{shown}: {', '.join(dates[:_MOST_DATES])}{more}"
    if "ORGANIZER" in one:
        yield f"Organizer: {_person(one['ORGANIZER'])}"
    people = _each(one, "ATTENDEE")
    if people:
        more = f" and {len(people) - _MOST_PEOPLE} more" if len(people) > _MOST_PEOPLE else ""
        yield f"Attendees: {', '.join(_person(each) for each in people[:_MOST_PEOPLE])}{more}"
    for comment in _each(one, "COMMENT"):
        if said := _line(comment):
            yield f"Comment: {said}"
    if description := str(one.get("DESCRIPTION", "")).strip():
        yield f"Description: {description[:_DESCRIPTION_CHARS]}"
    sequence = _line(one.get("SEQUENCE"))
    if sequence not in ("", "0"):
        yield f"Version: {sequence}"
    if uid := _line(one.get("UID")):
        yield f"Event-ID: {uid}"


def _each(one: Any, name: str) -> Sequence[Any]:
    found = one.get(name, [])
    return found if isinstance(found, list) else [found]


def _line(value: Any) -> str:
    return " ".join(str(value or "").split())[:_VALUE_CHARS]


def _time(value: Any, listed: Any = None) -> str:
    """With the name of its zone, as the sender wrote it; a day has none, and neither has a time of the place. `listed`:
    the list of times that has the zone for all."""
    when: date | datetime = value.dt
    if not isinstance(when, datetime):
        return when.isoformat()
    zone = str((listed or value).params.get("TZID", "")) or ("UTC" if when.tzinfo is not None else "")
    offset = when.strftime("%z") if when.tzinfo is not None and zone != "UTC" else ""
    return " ".join(part for part in (when.strftime("%Y-%m-%d %H:%M"), offset, zone[:100]) if part)


def _address(value: Any) -> str:
    address = _line(value)
    return address[7:] if address.lower().startswith("mailto:") else address


def _person(value: Any) -> str:
    address = _address(value)
    name = _line(value.params.get("CN", "")).strip('"')
    state = _line(value.params.get("PARTSTAT", "")).lower()
    shown = f"{name} <{address}>" if name and name != address else address
    return f"{shown} ({state})" if state and state != "needs-action" else shown
