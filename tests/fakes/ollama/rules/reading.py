"""What kind of document this is, and its fields: a mail, an issue (Jira's JSON or text), a commit, or any other
text.
"""

from __future__ import annotations

import email
import email.policy
import json
import re
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any

from tests.fakes.ollama.rules import people

_HEADER_LINE = re.compile(r"[A-Za-z][A-Za-z0-9\-]*:\s?\S?")
_MAIL_HEADERS = {"from", "to", "subject", "message-id", "cc", "date", "received", "return-path"}
_FIELD = re.compile(
    r"^\W*(assignee|assigned to|owner|reporter|reported by|author|status|priority|due(?: date)?|deadline|type|key|"
    r"summary|title)"
    r"\W*:\W*?[ \t]*(\S.*?)\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_FIELD_BLOCK = re.compile(r"\A(?:#.*\n)?(?:[A-Z][\w ]{0,20}: .*\n)+")
_COMMIT = re.compile(r"^commit ([0-9a-f]{7,40})\b", re.MULTILINE)
_KEY = re.compile(r"\b([A-Z][A-Z0-9]{1,9}-\d{1,6})\b")
_QUOTED_REPLY = re.compile(
    r"^(?:>.*|On .{4,80} wrote:|Dne .{4,80} napsal(?:a|\(a\))?:|Am .{4,80} schrieb .{2,60}:|"
    r"-{2,} ?(?:(?:Original|Forwarded) [Mm]essage|(?:Přeposlaná|Původní) zpráva|"
    r"(?:Weitergeleitete|Ursprüngliche) Nachricht) ?-{2,}.*)$",
    re.MULTILINE,
)
# As the prompt marks them (`kb.extract.quote`).
_MARKED_QUOTE = re.compile(r"^\[quoted\]\n.*?^\[end of quoted\]$", re.DOTALL | re.MULTILINE)
_MARKED_FORWARD = re.compile(r"^\[(?:end of )?forwarded\]$", re.MULTILINE)
_FORWARDED_DATE = re.compile(r"^\W*(?:Date|Sent|Datum|Odesláno|Gesendet):.*$", re.MULTILINE)
_ENCODED = {"quoted-printable", "base64"}
_INLINE = {"text", "mention", "emoji", "inlineCard", "date", "status"}
_BULK = {"bulk", "list", "junk"}
_SEEN = "\n\nVISUAL CONTEXT:\n"


@dataclass(frozen=True)
class Reading:
    """The fields that the rules look at. `body` is prose: no headers, no quoted replies, no signature."""

    kind: str
    subject: str
    body: str
    sender: people.Person | None = None
    to: tuple[people.Person, ...] = ()
    cc: tuple[people.Person, ...] = ()
    assignee: people.Person | None = None
    reporter: people.Person | None = None
    key: str = ""
    status: str = ""
    priority: str = ""
    due: str = ""
    sent: date | None = None
    bulk: bool = False
    fields: dict[str, str] = field(default_factory=dict)


def read(document: str) -> Reading:
    """Look at the text and take it apart. What was seen in its images is read after its own words."""
    text = document.replace("\r\n", "\n").strip("\n")
    own, mark, seen = text.partition(_SEEN)
    found = _issue_json(own)
    if found is None and _COMMIT.match(own):
        found = _commit(own)
    elif found is None and _is_mail(own):
        found = _mail(own)
    if found is None:
        return _plain(text)
    return replace(found, body=f"{found.body}\n\n{seen.strip()}") if mark else found


def prose(text: str) -> str:
    """Without quoted replies, dates of forwarded headers and the signature."""
    text = _MARKED_FORWARD.sub("", _MARKED_QUOTE.sub("", text))
    text = re.split(r"^-- ?$", text, maxsplit=1, flags=re.MULTILINE)[0]
    return _FORWARDED_DATE.sub("", _QUOTED_REPLY.sub("", text)).strip()


def _is_mail(text: str) -> bool:
    names = set()
    for line in text.splitlines():
        if not line.strip():
            break
        if _HEADER_LINE.match(line):
            names.add(line.split(":", 1)[0].lower())
        elif not line.startswith((" ", "\t")):
            return False
    return len(names & _MAIL_HEADERS) > 1 and "from" in names


def _mail(text: str) -> Reading:
    message = email.message_from_string(text, EmailMessage, policy=email.policy.default)
    to = [*people.in_header(str(message.get("To", "")))]
    sender = people.in_header(str(message.get("From", "")))
    fields = _fields(_mail_text(message))
    marked = {str(message.get(name, "")).lower() for name in ("Importance", "Priority", "X-Priority")}
    return Reading(
        kind="mail",
        subject=" ".join(str(message.get("Subject", "")).split()),
        body=prose(_mail_text(message)),
        sender=sender[0] if sender else None,
        to=tuple(to),
        cc=tuple(people.in_header(str(message.get("Cc", "")))),
        assignee=people.one(fields.get("assignee", "")),
        priority=next((mark for mark in sorted(marked) if mark), ""),
        due=fields.get("due", ""),
        sent=_sent(str(message.get("Date", ""))),
        bulk=_is_bulk(message),
        fields=fields,
    )


def _is_bulk(message: EmailMessage) -> bool:
    """A mass mailing, or a mail that a program sent by itself (RFC 3834): an absence, a bounce."""
    automatic = str(message.get("Auto-Submitted", "no")).strip().lower()
    return (
        "List-Unsubscribe" in message
        or str(message.get("Precedence", "")).lower() in _BULK
        or automatic.partition(";")[0].strip() != "no"
    )


def _mail_text(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    content = str(part.get_payload())
    if str(part.get("Content-Transfer-Encoding", "")).strip().lower() in _ENCODED:
        # Only encoded parts need decoding: the document reached the prompt as text, whatever charset its header names.
        try:
            content = str(part.get_content())
        except (LookupError, UnicodeError):  # an unknown charset: the raw text is still readable in most places
            content = str(part.get_payload())
    return _without_markup(content) if part.get_content_subtype() == "html" else content


def _without_markup(html: str) -> str:
    html = re.sub(r"(?is)<(script|style|head)\b.*?</\1>", " ", html)
    html = re.sub(r"(?i)<(?:br|/p|/div|/li|/tr|/h\d)\b[^>]*>", "\n", html)
    return unescape(re.sub(r"<[^>]+>", " ", html))


def _sent(header: str) -> date | None:
    if not header:
        return None
    try:
        return parsedate_to_datetime(header).date()
    except ValueError:
        return None


def _commit(text: str) -> Reading:
    head, _, rest = text.partition("\n\n")
    author = re.search(r"^Author:\s*(.+)$", head, re.MULTILINE)
    message = re.split(r"^(?:diff --git |---$|[AMDR]\d*\t| \S+ +\| +\d)", rest, maxsplit=1, flags=re.MULTILINE)[0]
    sha = _COMMIT.match(text)
    assert sha is not None
    lines = [line.strip() for line in message.strip().splitlines()]
    return Reading(
        kind="commit",
        subject=lines[0] if lines else "",
        body="\n".join(lines),
        sender=people.one(author.group(1)) if author else None,
        key=sha.group(1),
    )


def _issue_json(text: str) -> Reading | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(text)
    except ValueError:
        return None
    fields = document.get("fields") if isinstance(document, dict) else None
    if not isinstance(fields, dict) or "key" not in document:
        return None
    comments = fields.get("comment") or {}
    said = [flatten(entry.get("body")) for entry in comments.get("comments", []) if isinstance(entry, dict)]
    return Reading(
        kind="issue",
        subject=str(fields.get("summary") or ""),
        body=prose("\n\n".join([flatten(fields.get("description")), *said])),
        assignee=_user(fields.get("assignee")),
        reporter=_user(fields.get("reporter") or fields.get("creator")),
        key=str(document["key"]),
        status=_name(fields.get("status")),
        priority=_name(fields.get("priority")),
        due=str(fields.get("duedate") or ""),
        sent=_day(str(fields.get("created") or "")),
    )


def flatten(value: Any) -> str:
    """Text of a description: a string, or Atlassian's document format."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(flatten(item) for item in value)
    if isinstance(value, dict):
        inner = str(value.get("text", "")) if value.get("type") == "text" else flatten(value.get("content", []))
        if value.get("type") == "mention":
            inner = str((value.get("attrs") or {}).get("text", ""))
        return inner + ("" if value.get("type") in _INLINE else "\n")
    return ""


def _plain(text: str) -> Reading:
    fields = _fields(text)
    first = next((line.strip(" #*\t") for line in text.splitlines() if line.strip()), "")
    is_issue = "assignee" in fields or ("status" in fields and bool(_KEY.search(first)))
    key = _KEY.search(fields.get("key", "") or first) or (_KEY.search(text) if is_issue else None)
    return Reading(
        kind="issue" if is_issue else "text",
        subject=fields.get("summary") or fields.get("title") or first,
        body=prose(_FIELD_BLOCK.sub("", text)) if is_issue else prose(text),
        assignee=people.one(fields.get("assignee", "")),
        reporter=people.one(fields.get("reporter", "")),
        key=key.group(1) if key else "",
        status=fields.get("status", ""),
        priority=fields.get("priority", ""),
        due=fields.get("due", ""),
        fields=fields,
    )


def _fields(text: str) -> dict[str, str]:
    """`Assignee: X` lines, under one name each; the first of a name holds."""
    names = {
        "assigned to": "assignee",
        "owner": "assignee",
        "reported by": "reporter",
        "due date": "due",
        "deadline": "due",
    }
    found: dict[str, str] = {}
    for name, value in _FIELD.findall(text):
        found.setdefault(names.get(name.lower(), name.lower()), value.strip("* "))
    return found


def _user(value: Any) -> people.Person | None:
    if not isinstance(value, dict):
        return None
    name = str(value.get("displayName") or value.get("name") or "")
    return people.Person(name, str(value.get("emailAddress") or "").lower()) if name else None


def _name(value: Any) -> str:
    return str(value.get("name", "")) if isinstance(value, dict) else ""


def _day(text: str) -> date | None:
    try:
        return datetime.fromisoformat(text[:10]).date()
    except ValueError:
        return None
