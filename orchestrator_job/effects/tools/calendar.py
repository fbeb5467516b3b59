"""Calendar events as iCalendar (RFC 5545): drafts, and invitations by mail (RFC 5546, METHOD REQUEST).

The library writes and escapes all values; texts of one line may have no control characters, so that no property can be
added. An event's UID follows from the key of the call, so that one sent again is the same event.
"""

from __future__ import annotations

import hashlib
import zoneinfo
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from orchestrator_job.effects.tools import connections, drafts, knowledge, port
from orchestrator_job.effects.tools.connections import Line

MEDIA_TYPE = "text/calendar"
_LONGEST = timedelta(days=366)


def _zone(name: str) -> str:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError("must be a time zone as in Europe/Prague") from error
    return name


def _naive(moment: datetime) -> datetime:
    if moment.tzinfo is not None or not 1970 <= moment.year <= 2200:
        raise ValueError("must be a local time as in 2026-03-13T09:30:00; its time zone is in timeZone")
    return moment.replace(microsecond=0)


_Local = Annotated[datetime, AfterValidator(_naive)]


class Event(port.Arguments):
    """`start` and `end` are local times in `timeZone`, as in 2026-03-13T09:30:00 in Europe/Prague."""

    summary: Annotated[str, Field(min_length=1, max_length=500), Line]
    start: _Local
    end: _Local
    time_zone: Annotated[str, Field(max_length=64), AfterValidator(_zone)]
    location: Annotated[str, Field(max_length=500), Line] = ""
    description: Annotated[str, Field(max_length=20_000)] = ""
    organizer: connections.Address | None = None
    attendees: connections.Addresses = ()

    @model_validator(mode="after")
    def _forward(self) -> Event:
        if not self.start < self.end <= self.start + _LONGEST:
            raise ValueError("end must be after start, by a year at most")
        return self


class SendInvitation(connections.SendMail):
    """The mail goes to `to`, `cc` and `bcc`; each attendee of the event must be among them."""

    event: Event

    @model_validator(mode="after")
    def _invited(self) -> SendInvitation:
        reached = {one.casefold() for one in (*self.to, *self.cc, *self.bcc)}
        missing = [one for one in self.event.attendees if one.casefold() not in reached]
        if missing:
            raise ValueError(f"attendees that the mail does not go to: {', '.join(missing)}")
        if not self.event.attendees or self.event.organizer is None:
            raise ValueError("an invitation has an organizer and attendees")
        return self


def write(event: Event, uid: str, stamp: datetime, *, request: bool = False) -> bytes:
    """The event as iCalendar with its time zone. `request`: an invitation."""
    # Imported here: it takes a tenth of a second, and few runs make events.
    import icalendar

    zone = zoneinfo.ZoneInfo(event.time_zone)
    calendar, made = icalendar.Calendar(), icalendar.Event()
    calendar.add("prodid", "-//Jervis//EN")
    calendar.add("version", "2.0")
    if request:
        calendar.add("method", "REQUEST")
    made.add("uid", f"{uid}@jervis")
    made.add("dtstamp", stamp.astimezone(UTC).replace(microsecond=0))
    made.add("summary", event.summary)
    made.add("dtstart", event.start.replace(tzinfo=zone))
    made.add("dtend", event.end.replace(tzinfo=zone))
    for name, text in (("location", event.location), ("description", _lines(event.description))):
        if text:
            made.add(name, text)
    if event.organizer is not None:
        made.add("organizer", icalendar.vCalAddress(f"mailto:{event.organizer}"))
    for address in event.attendees:
        invited = icalendar.vCalAddress(f"mailto:{address}")
        invited.params.update({"ROLE": "REQ-PARTICIPANT", "PARTSTAT": "NEEDS-ACTION", "RSVP": "TRUE"})
        made.add("attendee", invited, encode=False)
    calendar.add_component(made)
    calendar.add_missing_timezones(first_date=event.start.date(), last_date=(event.end + _LONGEST).date())
    return bytes(calendar.to_ical())


def _lines(text: str) -> str:
    """With line breaks, without other control characters."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(letter for letter in unified if letter == "\n" or (ord(letter) >= 32 and ord(letter) != 127))


def uid(task_uid: str, key: str) -> str:
    """Of the event that a call makes."""
    return hashlib.sha256(f"{task_uid}/{key}".encode()).hexdigest()[:32]


class Draft:
    """An event that is stored and sent nowhere."""

    name = "draft_event"
    description = "Store a calendar event as an iCalendar file. It is sent nowhere."
    arguments = Event

    def __init__(self, means: knowledge.Means, now: Callable[[], datetime]) -> None:
        self._means, self._now = means, now

    async def read(self, given: Event, place: port.Place) -> port.Result:
        """Its key. Raises `kb_client.Unavailable`."""
        raw = write(given, uid(self._means.task_uid, place.key), self._now())
        return await drafts.save(self._means, "event.ics", MEDIA_TYPE, raw)


class Invitation(connections.AtConnection):
    """A mail with the event as its attachment."""

    name, asks, usual = "send_invitation", "sendMail", "mail_connection"
    description = "Invite people to a calendar event by mail."
    arguments = SendInvitation

    def __init__(self, means: connections.Means, task_uid: str, now: Callable[[], datetime]) -> None:
        super().__init__(means)
        self._task_uid, self._now = task_uid, now

    def aimed(self, given: SendInvitation) -> dict[str, str]:
        """The recipients; all attendees are among them."""
        return connections.to(self._means.allowed, self.name, given)

    def targets(self, given: SendInvitation) -> tuple[str, ...]:
        """The recipients; an organizer gets the answers."""
        organizer = (given.event.organizer,) if given.event.organizer else ()
        return tuple(dict.fromkeys((*connections.recipients(given), *organizer)))

    async def built(self, given: SendInvitation, place: port.Place) -> Mapping[str, Any]:
        """The mail. Raises `kb_client.Unavailable`, `port.Misused`."""
        raw = write(given.event, uid(self._task_uid, place.key), self._now(), request=True)
        ref = await connections.store(self._means, raw, MEDIA_TYPE)
        sent = given.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"connection", "event"})
        own = {"name": "invitation.ics", "mediaType": MEDIA_TYPE, "contentRef": ref.wire()}
        return {**sent, "attachments": [*await connections.files(self._means, given.attachments), own]}


def all_of(means: knowledge.Means, outside: connections.Means | None, now: Callable[[], datetime]) -> list[port.Tool]:
    """The tools of this module; invitations only where mails can be sent."""
    found: list[port.Tool] = [Draft(means, now)]
    return found if outside is None else [*found, Invitation(outside, means.task_uid, now)]
