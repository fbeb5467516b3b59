"""Events as iCalendar: what is written is what was given, and nothing beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import icalendar
import pytest

from orchestrator_job.effects.tools import calendar

STAMP = datetime(2026, 3, 1, 8, tzinfo=UTC)
GIVEN: dict[str, Any] = {
    "summary": "Release", "start": "2026-03-13T09:30:00", "end": "2026-03-13T10:00:00", "timeZone": "Europe/Prague",
    "organizer": "ann@acme.example", "attendees": ["bob@acme.example", "eve@acme.example"],
}  # fmt: skip


def test_an_event_has_its_time_zone_and_its_people() -> None:
    raw = calendar.write(calendar.Event.model_validate(GIVEN), "u1", STAMP, request=True)
    read: Any = icalendar.Calendar.from_ical(raw)
    [event] = read.walk("VEVENT")
    assert event["DTSTART"].dt.utcoffset().total_seconds() == 3600
    assert event.decoded("DTSTART").astimezone(UTC) == datetime(2026, 3, 13, 8, 30, tzinfo=UTC)
    assert [str(one) for one in event["ATTENDEE"]] == ["mailto:bob@acme.example", "mailto:eve@acme.example"]
    assert (str(read["METHOD"]), str(event["UID"]), len(read.walk("VTIMEZONE"))) == ("REQUEST", "u1@jervis", 1)
    assert raw == calendar.write(calendar.Event.model_validate(GIVEN), "u1", STAMP, request=True)


@pytest.mark.parametrize("field", ["summary", "location", "organizer", "timeZone"])
@pytest.mark.parametrize("end", ["\nATTENDEE:mailto:x@evil.example", "\r\nX-A:1", "\x85X:1", "\x00"])
def test_no_line_break_comes_into_a_field_of_one_line(field: str, end: str) -> None:
    with pytest.raises(ValueError, match=field):
        calendar.Event.model_validate({**GIVEN, field: f"{GIVEN.get(field, 'x')}{end}"})


def test_a_description_is_escaped_and_adds_no_property() -> None:
    hostile = 'One;two,three\\n\r\nATTENDEE:mailto:x@evil.example\rEND:VEVENT\nBEGIN:VALARM\x00 "quoted"\u2028end'
    event = calendar.Event.model_validate({**GIVEN, "description": hostile})
    read: Any = icalendar.Calendar.from_ical(calendar.write(event, "u1", STAMP))
    [made] = read.walk("VEVENT")
    assert len(made["ATTENDEE"]) == 2
    assert read.walk("VALARM") == []
    assert "ATTENDEE:mailto:x@evil.example\nEND:VEVENT\nBEGIN:VALARM" in str(made["DESCRIPTION"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"end": "2026-03-13T09:30:00"},
        {"end": "2028-03-13T09:30:00"},
        {"start": "2026-03-13T09:30:00Z"},
        {"timeZone": "../../etc/passwd"},
        {"timeZone": "Mars/Base"},
        {"attendees": ["bob@acme.example, eve@acme.example"]},
        {"attendees": ["Bob <bob@acme.example>"]},
        {"unknown": 1},
    ],
)
def test_what_is_no_event_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        calendar.Event.model_validate({**GIVEN, **wrong})


def test_an_invitation_goes_to_all_whom_it_invites() -> None:
    mail = {"to": ["bob@acme.example"], "subject": "S", "text": "T", "event": GIVEN}
    with pytest.raises(ValueError, match=r"eve@acme\.example"):
        calendar.SendInvitation.model_validate(mail)
    assert calendar.SendInvitation.model_validate({**mail, "cc": ["EVE@acme.example"]})
    with pytest.raises(ValueError, match="organizer"):
        calendar.SendInvitation.model_validate({**mail, "event": {**GIVEN, "attendees": []}})
