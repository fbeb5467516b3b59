"""A mail in the form of a task: its text, its URN, its facts, and the files that it holds. Pure.

The command line and the sources make tasks of mails; both must make the same one. A mail never fails because of one of
its parts: what cannot be understood is kept as bytes (`text.mail_body`) and named in the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from crds import given_graph, pendingtask
from text import invitations, mail_body, mail_headers, mail_parts
from text.mail_body import File, file_name
from text.mail_parts import UNKNOWN, is_type

__all__ = ["UNKNOWN_TYPE", "File", "Mail", "UnreadableError", "file_name", "is_type", "read"]

UNKNOWN_TYPE = UNKNOWN
_SHOWN = ("From", "To", "Cc", "Date", "Message-ID", "In-Reply-To", "References", "Subject")
_IN_PLACE_OF_FROM = ("Sender", "Return-Path")
_SUBJECT_CHARS = 4096
_URN_CHARS = 900
_MOST_NAMED = 20
_MOST_DOUBTS, _DOUBT_CHARS = 20, 300
_REST = "further-parts.mime"
SELF = "document::"
"""The key by which facts call the document that they come with (kb.extract.caller_facts)."""


class UnreadableError(ValueError):
    """These bytes are no mail; the text says why."""


@dataclass(frozen=True)
class Mail:
    """`message_id` without its brackets, "" when it has none; `title` the decoded subject.

    `text` is readable: headers decoded, then the body and the events of invitations. `body`: there is more than
    headers. `files` is all that the message holds beside its text; a task holds the first 32 of them, and the text
    names those that it does not. `doubts`: what could not be understood, a sentence each. `facts`: what the headers
    decide, as fields. `headed`: it begins with headers.
    """

    message_id: str
    title: str
    text: str
    body: bool = True
    files: list[File] = field(default_factory=list)
    doubts: tuple[str, ...] = ()
    facts: given_graph.Facts | None = None
    headed: bool = True

    @property
    def urn(self) -> str:
        """`email::<messageId>` of seed 001; "" without a Message-ID. One that is too long for a URN is hashed."""
        if len(self.message_id) > _URN_CHARS:
            return f"email::{hashlib.sha256(self.message_id.encode()).hexdigest()}"
        return f"email::{self.message_id}" if self.message_id else ""


def read(raw: bytes, received: datetime | None = None) -> Mail:
    """Parse a message (RFC 5322, RFC 2045); `received` is when its server got it. Raises `UnreadableError` for bytes
    that have neither a header nor a text."""
    root, rest, doubts = mail_parts.root(raw)
    shown = mail_body.read(root)
    doubts += shown.doubts
    files = shown.files
    if rest.strip():
        # Among those that the task holds.
        files.insert(min(len(files), pendingtask.MOST_ATTACHMENTS - 1), File(_REST, UNKNOWN, rest))
        doubts.append(f"what follows is kept as {_REST}")
    headers = _headers(root.fields)
    body = "\n\n".join([shown.body.strip(), *dict.fromkeys(event.text for event in shown.events)]).strip()
    if not root.fields and (not body or "\0" in body):
        raise UnreadableError("it has none of the headers of a mail")
    lines = [*(f"{name}: {value}" for name, value in headers.items()), *_notes(files, doubts)]
    identity = "".join(headers.get("Message-ID", "").split()).strip("<>")
    text = "\n".join([*lines, "", body, ""])
    title = headers.get("Subject", "")
    facts = _facts(root.fields, received, shown.events, doubts)
    return Mail(identity, title, text, bool(body), files, tuple(doubts), facts, bool(root.fields))


def _headers(fields: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The headers that the text begins with, the first of each name; without From whom else the mail names."""
    raw: dict[str, str] = {}
    for name, value in fields:
        raw.setdefault(name.lower(), value)
    names = _SHOWN if "from" in raw else (*_IN_PLACE_OF_FROM, *_SHOWN)
    shown = {name: mail_headers.readable(name, raw[name.lower()]) for name in names if name.lower() in raw}
    shown["Subject"] = shown.get("Subject", "")[:_SUBJECT_CHARS].strip()
    return {name: text for name, text in shown.items() if text}


def _notes(files: Sequence[File], doubts: Sequence[str]) -> Iterator[str]:
    """The lines behind the headers that name the files and what is in doubt."""
    taken, left = files[: pendingtask.MOST_ATTACHMENTS], files[pendingtask.MOST_ATTACHMENTS :]
    if taken:
        yield f"Attachments: {', '.join(file.name for file in taken)}"
    if left:
        more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
        names = ", ".join(file.name for file in left[:_MOST_NAMED])
        yield f"Attachments-Not-Taken: {names}{more} (a task holds at most {len(taken)})"
    if doubts:
        more = f"; {len(doubts) - _MOST_DOUBTS} more" if len(doubts) > _MOST_DOUBTS else ""
        yield f"In-Doubt: {'; '.join(one[:_DOUBT_CHARS] for one in doubts[:_MOST_DOUBTS])}{more}"


def _facts(
    fields: Sequence[tuple[str, str]],
    received: datetime | None,
    events: Sequence[invitations.Event],
    doubts: Sequence[str],
) -> given_graph.Facts | None:
    """What the headers and the invitations say of the document, as its node and nodes beside it."""
    properties: dict[str, Any] = mail_headers.deciding(list(fields), received)
    if doubts:
        properties["inDoubt"] = [one[:_DOUBT_CHARS] for one in doubts[:_MOST_DOUBTS]]
    nodes, edges = list[given_graph.Node](), list[given_graph.Relationship]()
    for name, header in (("replyTo", "Reply-To"), ("sender", "Sender")):
        for one in [properties[name]] if name == "sender" and name in properties else properties.get(name, ()):
            for shown, address in mail_headers.addresses(one):
                if "@" in address and len(address) < _URN_CHARS:
                    nodes.append(_user(shown, address, header))
                    kind = "reply_to" if name == "replyTo" else "sent_through"
                    edges.append(given_graph.Relationship(source=SELF, type=kind, target=nodes[-1].key, at=header))
    for event in events:
        if event.uid:
            nodes.append(_event(event))
            edges.append(
                given_graph.Relationship(source=SELF, type="about_event", target=nodes[-1].key, at="text/calendar")
            )
    if not properties and not nodes:
        return None
    own = given_graph.Node(key=SELF, type="email", properties=given_graph.fit(properties), at="headers")
    return given_graph.Facts(
        nodes=(own, *{one.key: one for one in nodes}.values())[: given_graph.MOST_NODES],
        relationships=tuple({one.target: one for one in edges}.values())[: given_graph.MOST_RELATIONSHIPS],
    )


def _user(name: str, address: str, header: str) -> given_graph.Node:
    said = {"email": address, **({"name": name} if name else {})}
    return given_graph.Node(key=f"user:{address}", type="user", properties=given_graph.fit(said), at=header)


def _event(event: invitations.Event) -> given_graph.Node:
    """An event is known by its series and by the start of the one of it that is meant (RFC 5546 2.1.4)."""
    identity = f"{event.uid}#{event.recurrence}" if event.recurrence else event.uid
    said = {
        "uid": event.uid,
        "recurrenceId": event.recurrence,
        "method": event.method,
        "sequence": event.sequence,
        "summary": event.summary,
        "organizer": event.organizer,
    }
    properties = {name: value for name, value in said.items() if value not in ("", None)}
    return given_graph.Node(key=f"event::{identity}", type="event", properties=properties, at="text/calendar")
