"""The kinds of tasks of a load, what their runs say, and where they end. Pure; the name tells the kind."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from crds.phases import Phase


class Kind(StrEnum):
    """First part of the task's name."""

    INFO = "info"
    CHAT = "chat"
    BACK = "back"
    SOON = "soon"
    LATE = "late"
    ASK = "ask"
    APPROVE = "approve"
    FAIL = "fail"
    LOST = "lost"
    MUTE = "mute"
    HELD = "held"
    LONG = "long"
    DROP = "drop"
    CRON = "cron"
    FILE = "file"
    BUSY = "busy"
    INVALID = "invalid"


ENDS = {Kind.INFO: Phase.DONE, Kind.BUSY: Phase.DONE, Kind.INVALID: Phase.ERROR, Kind.CRON: Phase.SCHEDULED}
"""Where a kind ends; the others are Completed. A template stays what it is, and its copy is Completed."""
CLIENT, TENANT = "acme", "tess"
"""Whose tasks are in the release's namespace, and whose in the tenant's."""
WITHDRAWN = frozenset({Kind.DROP})
"""Deleted by their users while they run: they may have been anywhere."""

_MAIL = {"type": "EmailProcessing"}
_CHAT = {"type": "UserInputProcessing", "mode": "Foreground"}
_FILE = {
    "name": "plan.txt",
    "mediaType": "text/plain",
    "contentRef": {"store": "gridfs", "key": "k", "sha256": "0" * 64, "bytes": 5},
}
_SPECS: dict[Kind, dict[str, Any]] = {
    Kind.INFO: {**_MAIL, "content": "INFO"},
    Kind.CHAT: {**_CHAT, "content": "A question."},
    Kind.BACK: {**_MAIL, "content": "ASK"},
    Kind.SOON: {"type": "ScheduledTask", "content": "ASK"},
    Kind.LATE: {**_CHAT, "content": "A talk."},
    Kind.ASK: {**_MAIL, "content": "ASSIGNED"},
    Kind.APPROVE: {"type": "UserTask", "content": "ASK"},
    Kind.FAIL: {**_CHAT, "content": "Something that fails."},
    Kind.LOST: {"type": "UserInputProcessing", "content": "Its first worker dies."},
    Kind.MUTE: {"type": "UserInputProcessing", "content": "Its worker leaves only a stored result."},
    Kind.HELD: {"type": "UserInputProcessing", "content": "It is held and let go."},
    Kind.LONG: {**_MAIL, "content": "ASK"},  # it works until a user needs its slot; a user's own would never yield
    Kind.DROP: {"type": "UserInputProcessing", "content": "Its user deletes it; a finalizer holds every second one."},
    Kind.CRON: {"type": "ScheduledTask", "content": "ASK"},
    Kind.FILE: {**_MAIL, "content": "ASK", "attachments": [_FILE]},
    Kind.BUSY: {**_MAIL, "content": "BUSY INFO"},
    Kind.INVALID: {**_MAIL, "content": "INVALID"},
}
_WEIGHTS = {
    Kind.INFO: 22, Kind.CHAT: 20, Kind.BACK: 18, Kind.SOON: 5, Kind.LATE: 8, Kind.ASK: 5, Kind.APPROVE: 4,
    Kind.FAIL: 4, Kind.LOST: 3, Kind.MUTE: 4, Kind.HELD: 3, Kind.BUSY: 2, Kind.INVALID: 2,
    Kind.LONG: 3, Kind.DROP: 2, Kind.CRON: 2, Kind.FILE: 3,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Said:
    """How a run ends. `message` is its termination message and `stored` its result; a crash leaves neither."""

    reason: str
    code: int
    message: dict[str, Any] | None
    stored: bool = True


def kind(name: str) -> Kind:
    """Of the task with that name; the copy of a template has its template's."""
    return Kind(name.split("-", 1)[0])


def of_tenant(name: str) -> bool:
    """Every second task is one of the tenant's, in his namespace."""
    return zlib.crc32(name.encode()) % 2 == 0


def ends(name: str) -> frozenset[Phase]:
    """Where a task of that name, which was submitted, may end."""
    what = kind(name)
    return frozenset(Phase) if what in WITHDRAWN else frozenset({ENDS.get(what, Phase.COMPLETED)})


def names(seed: int, count: int) -> list[str]:
    """Names of a mixed load; each kind is there at least once when `count` allows."""
    chance = random.Random(seed)
    drawn = chance.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()), k=max(0, count - len(Kind)))
    mixed = [*Kind, *drawn][:count]
    chance.shuffle(mixed)
    return [f"{one}-{number:04}" for number, one in enumerate(mixed)]


def spec(name: str, now: datetime) -> dict[str, Any]:
    """The task's spec."""
    found = {"clientId": TENANT if of_tenant(name) else CLIENT, **_SPECS[kind(name)]}
    if kind(name) is Kind.SOON:
        # Ten minutes ahead of its moment a task is due: seconds from now.
        at = now + timedelta(minutes=10, seconds=2 + int(name[-1]) % 4)
        found["schedule"] = {"at": at.isoformat(timespec="seconds").replace("+00:00", "Z")}
    if kind(name) is Kind.CRON:
        # Its copy is made ten minutes ahead, which is at once; the next one is due in a year.
        found["schedule"] = {"cron": f"{now + timedelta(minutes=9):%M %H %d %m} *"}
    return found


def says(name: str, attempt: int, memory: dict[str, Any]) -> Said:
    """What the run of that attempt says, given its input."""
    what = kind(name)
    if what is Kind.ASK and not memory.get("answers"):
        return _said("NeedsInput", questions=[{"id": "q1", "text": "Which one?"}])
    if what is Kind.APPROVE:
        # As the real run: only a decision on what an earlier run asked counts, and the latest one.
        decided = [one for one in memory.get("approvals") or () if one["attempt"] < attempt]
        if not decided:
            return _said("NeedsApproval")
        return _said("Answered" if decided[-1]["verdict"] == "Approved" else "Rejected")
    if attempt == 1 and what is Kind.FAIL:
        return _said("Error", code=1)
    if attempt == 1 and what is Kind.LOST:
        return Said("", 137, None, stored=False)
    if what is Kind.MUTE:
        return Said("Answered", 0, None)
    return _said("Answered")


def _said(reason: str, code: int = 0, **more: Any) -> Said:
    return Said(reason, code, {"exitReason": reason, "summary": f"The run says {reason}.", **more})
