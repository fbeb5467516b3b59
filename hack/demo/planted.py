"""What is put at the sources before they are connected: three mails, two issues, four commits. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime

QUESTION = "Who is on call for the storage cluster in week 49?"
FIRST, THEN = "Jana Nováková", "Martin Dvořák"
"""Who that is by the mail, and by the changed issue once the mail is gone."""
REPOSITORY = "platform/storage"
ON_CALL = "on-call-49@example.com"
BRANCH = "main"


@dataclass(frozen=True)
class Mail:
    """`identity` is its Message-ID without brackets."""

    identity: str
    sender: str
    subject: str
    text: str

    @property
    def urn(self) -> str:
        return f"email::{self.identity}"

    def raw(self, sent: datetime) -> bytes:
        """RFC 5322."""
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = self.sender, "platform-team@example.com", self.subject
        message["Date"], message["Message-ID"] = format_datetime(sent), f"<{self.identity}>"
        message.set_content(self.text)
        return message.as_bytes()


@dataclass(frozen=True)
class Issue:
    """The first has number 1."""

    title: str
    body: str


MAILS = (
    Mail(ON_CALL, "Jana Nováková <jana@example.com>", "On call in week 49",
         f"For your information only.\n\n{FIRST} is on call for the storage cluster in week 49.\n"),
    Mail("switch-b2@example.com", "Network <network@example.com>", "The new switch of rack B2",
         "For your information only.\n\nThe new switch of rack B2 carries the backup network since Monday.\n"),
    Mail("tank-3@example.com", "Storage <storage@example.com>", "The volume tank-3 in November",
         "For your information only.\n\nThe volume tank-3 reached 71 percent of its size in November.\n"),
)  # fmt: skip
ISSUES = (
    Issue("Weeks on call", "The weeks of December are not given out yet."),
    Issue("Snapshots of tank-3", "Snapshots of tank-3 are kept for 30 days."),
)
CHANGED = f"{THEN} is on call for the storage cluster in week 49."
"""What the first issue says later."""
_CHECK = '''"""Whether a volume fits into its limit."""

LIMITS = {"tank-3": 40}


def limit_of(volume: str) -> int:
    """In TiB; 0 for a volume without one."""
    return LIMITS.get(volume, 0)


def fits(volume: str, size: int) -> bool:
    """Whether it may have so many TiB."""
    return size <= limit_of(volume)
'''
SYMBOL, CALLER = "limit_of", "check.fits"
"""A function of the repository, and the one that calls it."""
COMMITS = (
    ("README.md", "# Storage\n\nLimits and schedules of the storage cluster.\n", "Say what this repository holds"),
    ("limits.yaml", "tank-3: 40TiB\n", "Limit tank-3 to 40 TiB"),
    ("snapshots.yaml", "tank-3: 30d\n", "Keep snapshots of tank-3 for 30 days"),
    ("check.py", _CHECK, "Check sizes of volumes"),
)
"""(file, content, message), oldest first."""


def urn(number: int) -> str:
    """Of an issue."""
    return f"gitea::{REPOSITORY}#{number}"


def stories() -> dict[str, str]:
    """{sourceUrn: what it is} of everything that becomes a task."""
    found = {mail.urn: f"mail: {mail.subject}" for mail in MAILS}
    found |= {urn(number): f"issue: {issue.title}" for number, issue in enumerate(ISSUES, 1)}
    return found | {f"git::{REPOSITORY}@{BRANCH}:overview": f"the repository {REPOSITORY}"}
