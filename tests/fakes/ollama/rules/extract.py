"""`kb.extract/v1`: entities and relationships of one chunk."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

from tests.fakes.ollama.rules import entities, people, prompt, reading, relations

_ENCODED = re.compile(
    r"^Content-Transfer-Encoding:\s*(?:quoted-printable|base64)|^Content-Type:\s*multipart/|=\?[\w\-]+\?[bq]\?",
    re.MULTILINE | re.IGNORECASE,
)
_OTHER_HEADERS = re.compile(r"^(?!From:|To:|Cc:|Subject:)[A-Za-z][\w\-]*:.*(?:\n[ \t]+.*)*$", re.MULTILINE)
_TRANSPORT = re.compile(r"^(?:>.*|On .{4,80} wrote:|(?:Date|Sent):.*)$", re.MULTILINE)
_ENTITIES = 60
_RELATIONS = 80


def answer(asked: prompt.Prompt) -> dict[str, Any]:
    """The object of the prompt's schema: {entities, relationships}; both ends of a relationship are listed entities."""
    document = reading.read(asked.document)
    subject = relations.subject_of(document, asked.title)
    source = _readable(asked.document, document)
    today = asked.today or document.sent
    mentions = entities.find(source, today)
    found = relations.find(source, subject, mentions)
    if subject is not None and document.kind == "issue":
        found += _fields(asked.document, document, subject, {relation.type for relation in found}, today)
    listed: dict[tuple[str, str], entities.Entity] = {}
    for entity in [*([subject] if subject else []), *(mention.entity for mention in mentions)]:
        listed.setdefault(entity.key, entity)
    for relation in found[:_RELATIONS]:
        for end in (relation.source, relation.target):
            listed.setdefault(end.key, end)
    kept = dict(list(listed.items())[:_ENTITIES])
    return {
        "entities": [{"name": one.name, "type": one.type, "description": one.description} for one in kept.values()],
        "relationships": [
            {"source": one.source.name, "target": one.target.name, "type": one.type, "evidence": one.evidence}
            for one in found[:_RELATIONS]
            if one.source.key in kept and one.target.key in kept
        ],
    }


def _readable(raw: str, document: reading.Reading) -> str:
    """What is read for entities: the text itself, or the prose of a JSON issue or an encoded mail."""
    if document.kind == "mail":
        head = raw.replace("\r\n", "\n").split("\n\n", 1)[0]
        return _decoded(document) if _ENCODED.search(head) else _TRANSPORT.sub(_blank, _masked_head(raw, len(head)))
    if document.kind == "issue" and raw.lstrip().startswith("{"):
        return f"{document.subject}\n\n{document.body}"
    return _TRANSPORT.sub(_blank, raw) if document.kind == "commit" else raw


def _decoded(document: reading.Reading) -> str:
    """The mail as a reader sees it: the four lines that tell who and what, and the prose."""
    sender = [document.sender] if document.sender else []
    lines = [
        f"{name}: {', '.join(_written(person) for person in people_listed)}"
        for name, people_listed in (("From", sender), ("To", document.to), ("Cc", document.cc))
        if people_listed
    ]
    return "\n".join([*lines, f"Subject: {document.subject}", "", document.body])


def _written(person: people.Person) -> str:
    return f"{person.name} <{person.address}>" if person.name and person.address else person.label


def _masked_head(raw: str, length: int) -> str:
    return _OTHER_HEADERS.sub(_blank, raw[:length]) + raw[length:]


def _blank(match: re.Match[str]) -> str:
    """Spaces of the same length, so that places stay the same."""
    return re.sub(r"[^\n]", " ", match.group())


def _fields(
    raw: str, document: reading.Reading, subject: entities.Entity, known: set[str], today: date | None
) -> list[relations.Relation]:
    """What a JSON issue says in its fields; the evidence is the line of the JSON text."""
    found = []
    for kind, person in (("assigned_to", document.assignee), ("reported_by", document.reporter)):
        if person is not None and kind not in known:
            found.append(relations.Relation(subject, _person(person), kind, _line_with(raw, person.label)))
    if document.due and "has_deadline" not in known:
        for mention in entities.find(document.due, today)[:1]:
            found.append(relations.Relation(subject, mention.entity, "has_deadline", _line_with(raw, document.due)))
    return found


def _person(person: people.Person) -> entities.Entity:
    return entities.Entity(
        person.label, "person", f"mail address {person.address}" if person.address else "person named in a field"
    )


def _line_with(raw: str, value: str) -> str:
    """The line that holds the value, or its surroundings when the JSON has no line breaks."""
    needle = json.dumps(value, ensure_ascii=False)[1:-1]
    place = max(raw.find(needle), 0)
    line = raw[raw.rfind("\n", 0, place) + 1 :].split("\n", 1)[0].strip()
    return line if len(line) <= 300 else raw[max(0, place - 60) : place + len(needle) + 60]
