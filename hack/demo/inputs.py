"""What the demonstration feeds in, and where each piece has to end.

Everything arrives as a connection would hand it over: mails and the issue are read from `examples/demo/`, the commits
are this checkout's own, and the screenshots are drawn from their texts. Dates in the files are placeholders, so that a
deadline stays in the future.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

from crds import pendingtask
from crds.phases import Phase
from hack import drawing
from hack.demo import commits, jira, mail

FOLDER = Path("examples/demo")
DEADLINE_DAYS = 45
COMMITS = 3

_DONE = frozenset({Phase.DONE})
_SCHEDULED = frozenset({Phase.SCHEDULED})
_COMPLETED = frozenset({Phase.COMPLETED})


@dataclass(frozen=True)
class Item:
    """One task to be: `story` says in a few words what it is, `expected` the phases that it may end in.

    `message` is the whole mail of one that comes with files, for `kubectl jervis submit`.
    """

    name: str
    story: str
    type: pendingtask.Type
    content: str
    expected: frozenset[Phase]
    source_urn: str | None = None
    mode: pendingtask.Mode = pendingtask.Mode.BACKGROUND
    message: bytes = b""


def mails(checkout: Path, now: datetime) -> list[Item]:
    """One that only informs, one with a deadline far away, one assigned to the team."""
    cases = (
        ("mail-weekly", "infrastructure-weekly.eml", "a newsletter: nothing to do", _DONE),
        ("mail-capacity", "capacity-plan.eml", f"asks for something in {DEADLINE_DAYS} days: wait", _SCHEDULED),
        ("mail-certificate", "registry-certificate.eml", "assigned to the team: the agent works on it", _COMPLETED),
    )
    items = []
    for name, file, story, expected in cases:
        read = mail.read(_filled(checkout / FOLDER / file, now).encode())
        items.append(Item(name, story, pendingtask.Type.EMAIL, read.text, expected, read.urn))
    return items


def screenshots(checkout: Path, now: datetime) -> list[Item]:
    """One mail twice, with a screenshot each: its own words ask for nothing, those in the picture may."""
    cases = (
        ("backup-failed", f"its picture asks for something in {DEADLINE_DAYS} days: wait", _SCHEDULED),
        ("backup-complete", "the same mail, other words in its picture: nothing to do", _DONE),
    )
    items = []
    for name, story, expected in cases:
        filled = _filled(checkout / FOLDER / "backup-console.eml", now).replace("{{picture}}", name)
        message = message_from_bytes(filled.encode(), policy=policy.SMTP)
        assert isinstance(message, EmailMessage)
        shown = screenshot(checkout, now, name)
        message.add_attachment(drawing.picture(shown), maintype="image", subtype="png", filename=f"{name}.png")
        raw = message.as_bytes()
        read = mail.read(raw)
        items.append(Item(f"mail-{name}", story, pendingtask.Type.EMAIL, read.text, expected, read.urn, message=raw))
    return items


def screenshot(checkout: Path, now: datetime, name: str) -> str:
    """What stands in the screenshot."""
    return _filled(checkout / FOLDER / f"{name}.txt", now)


def issue(checkout: Path, now: datetime) -> Item:
    """A bug that is assigned to the team, made two hours ago: the same text a second time would be no news."""
    given = json.loads((checkout / FOLDER / "jira-issue.json").read_text())
    given["fields"]["created"] = (now - timedelta(hours=2)).isoformat(timespec="milliseconds")
    read = jira.read(given)
    story = "a bug assigned to the team: the agent works on it"
    return Item("jira-jerv-142", story, pendingtask.Type.BUG_TRACKER, read.text, _COMPLETED, read.urn)


def history(checkout: Path) -> list[Item]:
    """This checkout's latest commits; empty where there is no history.

    What a commit says is not ours to know: one whose message asks for something is worked on, every other is knowledge.
    """
    return [
        Item(
            f"git-{commit.urn.rpartition(':')[2][:10]}",
            commit.subject[:60],
            pendingtask.Type.GIT,
            commit.text,
            _DONE | _COMPLETED,
            commit.urn,
        )
        for commit in commits.latest(checkout, COMMITS)
    ]


def question(checkout: Path) -> Item:
    """What a person asks once all that is known."""
    text = (checkout / FOLDER / "question.txt").read_text().strip()
    return Item(
        "question",
        text,
        pendingtask.Type.USER_INPUT,
        text,
        _COMPLETED,
        mode=pendingtask.Mode.FOREGROUND,
    )


def _filled(path: Path, now: datetime) -> str:
    return (
        path.read_text(encoding="utf-8")
        .replace("{{date}}", format_datetime(now - timedelta(hours=2)))
        .replace("{{deadline}}", spoken(deadline(now)))
    )


def deadline(now: datetime) -> date:
    """The day that the second mail asks for."""
    return now.date() + timedelta(days=DEADLINE_DAYS)


def spoken(day: date) -> str:
    """As people write it in a mail: 5 January 2027."""
    months = (
        "January February March April May June July August September October November December".split()  # noqa: SIM905 -- shorter to read, and no locale decides
    )
    return f"{day.day} {months[day.month - 1]} {day.year}"
