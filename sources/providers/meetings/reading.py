"""Transcribed meetings as the items of a Connection of type Meeting: nothing is fetched, they are in MongoDB.

A poll yields all that have no task yet, so it needs no cursor: an item that is known makes no second task. A meeting
that is deleted is missing in `ids`, and a sweep removes its document. Source: seed 001 "MeetingContinuousIndexer".
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Sequence

import structlog

from contracts.api import meeting
from contracts.api.meeting import State
from crds import pendingtask, scope
from sources.core import assignments, port
from sources.providers.meetings import store

log = structlog.get_logger("sources")

PAGE = 20
IDS = 500
_URN_CHARS = 1024


class Meetings:
    """One poll of one Connection."""

    def __init__(self, stored: store.Meetings, claim: assignments.Claim) -> None:
        spec = claim.spec
        owner = scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id)
        self._stored, self._of = stored, store.Place(claim.uid, claim.namespace, claim.name, owner)

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """Transcribed meetings without a task. Raises `mongo.Unavailable`."""
        after, count = "", 0
        while True:
            rows = await self._stored.ready(self._of, after, PAGE)
            items, failures = list[port.Item](), list[port.Failure]()
            for row in rows:
                try:
                    told = await self._stored.told(row["_id"])
                    if told is not None:
                        items.append(item(store.shown(row), told))
                        continue
                    reason = "Its transcript is not there."
                except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                    # One meeting that was stored in an unforeseen way must not stop the others.
                    log.exception("meeting not read", meeting=row["_id"])
                    reason = f"This meeting cannot be read: {error!r}."
                failures.append(port.Failure(row["_id"], str(row.get("title") or "")[:200], reason, row["_id"]))
            count += len(items)
            if items or failures:
                yield port.Batch({}, f"{count} transcribed meetings", tuple(items), tuple(failures))
            if len(rows) < PAGE:
                return
            after = rows[-1]["_id"]

    async def ids(self) -> AsyncGenerator[port.Page]:
        """The ids of all transcribed meetings. Raises `mongo.Unavailable`."""
        after = ""
        while True:
            found = await self._stored.ids(self._of, (State.TRANSCRIBED, State.INDEXED), after, IDS)
            last = len(found) < IDS
            yield port.Page(tuple(found), last=last)
            if last:
                return
            after = found[-1]


def item(one: meeting.Meeting, told: meeting.Told) -> port.Item:
    """The item of a meeting: its URN names id and title, its text is Markdown."""
    text = markdown(one, told)
    return port.Item(
        source_id=one.id,
        version=hashlib.sha256(text.encode()).hexdigest()[:32],
        type=pendingtask.Type.MEETING,
        urn=f"meeting::id:{one.id},title:{_line(one.title)}"[:_URN_CHARS],
        title=one.title,
        text=text,
        observed_at=one.date or one.created_at,
        place=one.id,
    )


def markdown(one: meeting.Meeting, told: meeting.Told) -> str:
    """Title, date, duration, type, participants, and the transcript with times and speakers."""
    heard = told.transcript
    seconds = one.duration_seconds or round(heard.duration_seconds)
    facts = {
        "Date": one.date.strftime("%Y-%m-%d %H:%M UTC") if one.date else "",
        "Duration": clock(seconds) if seconds else "",
        "Type": one.type,
        "Participants": ", ".join(one.participants),
        "Language": one.language or heard.language,
        "Transcribed by": f"{heard.engine} {heard.model}".strip() + (" (simulated)" if heard.simulated else ""),
        "Corrected words": str(len(told.changes)) if told.changes else "",
    }
    lines = [f"# {_line(one.title)}", ""]
    lines += [f"- {name}: {_line(value)}" for name, value in facts.items() if value]
    return "\n".join([*lines, "", "## Transcript", "", *_spoken(told.corrected or heard.segments), ""])


def _spoken(segments: Sequence[meeting.Segment]) -> list[str]:
    """One line per segment: `[00:01:02] Ada: We ship on Friday.`"""
    said = []
    for one in segments:
        text = _line(one.text)
        if text:
            speaker = f"{_line(one.speaker)}: " if one.speaker else ""
            said += [f"[{clock(int(one.start))}] {speaker}{text}", ""]
    return said or ["Nothing was heard."]


def clock(seconds: int) -> str:
    """hh:mm:ss."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _line(text: str) -> str:
    """On one line, without control characters: an engine may write anything."""
    return "".join(one for one in " ".join(text.split()) if one.isprintable())
