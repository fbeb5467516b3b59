"""Invitations and many attachments of a mail: what becomes text, what stays a file, and what is named as left out."""

from __future__ import annotations

import pytest

from crds import pendingtask
from kb.extract import mail as reading
from sources.providers.mail import mails
from tests import effort
from text import invitations, mail

EVENT = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
METHOD:REQUEST
BEGIN:VEVENT
UID:1@example.com
DTSTAMP:20261120T080000Z
SUMMARY:Rack B4 goes into
  service
DTSTART;TZID=Europe/Prague:20261201T100000
DTEND;TZID=Europe/Prague:20261201T113000
RRULE:FREQ=WEEKLY;COUNT=4
LOCATION:Room 2
ORGANIZER;CN=Petra Svobodová:mailto:petra@example.com
ATTENDEE;CN=Ada;PARTSTAT=ACCEPTED:mailto:ada@example.org
ATTENDEE:mailto:infra@example.org
DESCRIPTION:Bring the keys.\\nBoth.
END:VEVENT
END:VCALENDAR
"""
SHOWN = """Invitation (REQUEST)
Event: Rack B4 goes into service
Place: Room 2
Start: 2026-12-01 10:00 +0100 Europe/Prague
End: 2026-12-01 11:30 +0100 Europe/Prague
Repeats: FREQ=WEEKLY;COUNT=4
Organizer: Petra Svobodová <petra@example.com>
Attendees: Ada <ada@example.org> (accepted), infra@example.org
Description: Bring the keys.
Both.
Event-ID: 1@example.com"""


def message(*parts: tuple[str, str], kind: str = "mixed") -> bytes:
    head = "From: Petra <petra@example.com>\r\nMessage-ID: <1@example.com>\r\nSubject: Rack\r\nMIME-Version: 1.0\r\n"
    lines = [f"{head}Content-Type: multipart/{kind}; boundary=b\r\n"]
    lines += [f"--b\r\nContent-Type: {type_}\r\n\r\n{body}" for type_, body in parts]
    return "\r\n".join([*lines, "--b--\r\n"]).encode()


@pytest.mark.parametrize("kind", ["mixed", "alternative"])
def test_an_invitation_is_text(kind: str) -> None:
    calendar = "text/calendar; charset=utf-8; method=REQUEST"
    read = mail.read(message(("text/plain", "Please come."), (calendar, EVENT), (calendar, EVENT), kind=kind))
    assert read.text == (
        f"From: Petra <petra@example.com>\nMessage-ID: <1@example.com>\nSubject: Rack\n"
        f"Attachments: part-2.ics\n\nPlease come.\n\n{SHOWN}\n"
    )
    assert [(file.name, file.media_type, file.body.decode()) for file in read.files] == [
        ("part-2.ics", "text/calendar", EVENT)
    ]


def test_a_mail_that_is_an_invitation_has_a_text() -> None:
    read = mail.read(f"From: a@example.com\r\nContent-Type: text/calendar\r\n\r\n{EVENT}".encode())
    assert read.body
    assert "Event: Rack B4" in read.text


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        ("DTSTART;VALUE=DATE:20261201", "Start: 2026-12-01"),
        ("DTSTART:20261201T100000Z", "Start: 2026-12-01 10:00 UTC"),
        ("DTSTART:20261201T100000", "Start: 2026-12-01 10:00"),
        ("DTSTART;TZID=Nowhere/Known:20261201T100000", "Start: 2026-12-01 10:00 Nowhere/Known"),
    ],
)
def test_times_are_shown_with_their_zone(start: str, shown: str) -> None:
    event = f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\n{start}\nEND:VEVENT\nEND:VCALENDAR\n"
    assert invitations.read(event.encode())[0].text.split("\n")[-2] == shown


@pytest.mark.parametrize(
    "broken",
    [
        "no calendar at all",
        EVENT.replace("END:VEVENT", ""),
        EVENT.replace("20261201T100000", "tomorrow"),
        EVENT.replace("FREQ=WEEKLY", "FREQ=SOMETIMES"),
        "BEGIN:VCALENDAR\nEND:VCALENDAR\n",
        "BEGIN:VEVENT\n" * 4000,
        EVENT.replace("Room 2", "x" * (invitations.MOST_BYTES)),
        EVENT.replace("UID:1@example.com", "X-A:b\n" * 6000),
    ],
)
def test_a_calendar_that_cannot_be_read_stays_an_attachment(broken: str) -> None:
    with effort.counted() as spent:
        read = mail.read(message(("text/plain", "Come."), ("text/calendar", broken)))
    assert spent.loops < 200
    assert [file.media_type for file in read.files] == ["text/calendar"]
    assert "Invitation" not in read.text


def test_a_calendar_of_the_largest_size_takes_no_long_time() -> None:
    people = "".join(f"ATTENDEE;CN=Name {number}:mailto:a{number}@example.org\n" for number in range(1900))
    with effort.counted() as spent:
        [found] = invitations.read(EVENT.replace("ATTENDEE:mailto:infra@example.org\n", people).encode())
    assert spent.loops < 200
    assert " and 1851 more" in found.text
    assert len(found.text) < 20_000


def test_files_that_a_task_does_not_hold_are_named() -> None:
    some = [(f"application/pdf; name=f{number}.pdf", "x") for number in range(60)]
    item = mails.item("INBOX/1/1", message(("text/plain", "Files."), *some), None)
    names = [f"f{number}.pdf" for number in range(60)]
    assert [file.name for file in item.files] == names
    most = pendingtask.MOST_ATTACHMENTS
    assert f"\nAttachments: {', '.join(names[:most])}\n" in item.text
    said = f"{', '.join(names[most : most + 20])} and 8 more (a task holds at most 32)"
    assert f"\nAttachments-Not-Taken: {said}\n\nFiles." in item.text
    headers = reading.read(item.text)
    assert headers is not None
    assert headers.sender == "Petra <petra@example.com>"
