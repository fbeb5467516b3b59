"""How the things in a text belong together, each statement with the sentence, word for word, that carries it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.fakes.ollama.rules import dates, entities, pattern, reading, text

_FIXES = re.compile(r"\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?)(?: +[\w\-]+){0,4}[\s:#(]*$", re.IGNORECASE)
_BROKEN = re.compile(
    r"^\W{0,3}(?:\w+ ){0,2}(?:crash(?:es|ed)?|fails?|failed|breaks?|broke|is (?:down|broken|slow)|times? out|hangs?)\b",
    re.IGNORECASE,
)
_PEOPLE = "person organization email_address"
_CODE = "class method file product concept service"
# (relation, kinds the source may have, kinds the target may have, words in between); the first that fits holds
_VERBS = (
    ("assigned_to", "*", _PEOPLE, pattern.phrases(r"assign\w*(?: \w+)? to|assignee|owner")),
    ("reported_by", "*", _PEOPLE, pattern.phrases(r"report(?:ed)? by|reporter")),
    ("fixes", "*", "jira_issue class method", _FIXES),
    ("blocks", "jira_issue", "jira_issue", pattern.phrases(r"block(?:s|ed by|ing)?")),
    ("depends_on", "*", f"{_CODE} jira_issue", pattern.phrases(r"depend(?:s|ed|ing)? on|requires|needs")),
    (
        "raises",
        "class method file product service",
        "class",
        pattern.phrases(r"(?:crash\w*|fail\w*) with|throws?|raises?"),
    ),
    (
        "affects",
        "*",
        f"{_CODE} organization",
        pattern.phrases(
            r"affect(?:s|ed|ing)?|break(?:s|ing)?|broke|impacts?|(?:crash(?:es)?|fail(?:s|ures?)?|errors?|bugs?) in"
        ),
    ),
    (
        "modifies",
        "*",
        _CODE,
        pattern.phrases(
            r"modif(?:y|ies|ied)|chang(?:e[sd]?|ing)|updat(?:e[sd]?|ing)|refactor(?:s|ed)?|rewrit(?:es|ten)"
        ),
    ),
    ("creates", "*", _CODE, pattern.phrases(r"add(?:s|ed)?|creat(?:es|ed)|introduc(?:es|ed)")),
    ("deletes", "*", _CODE, pattern.phrases(r"delet(?:es|ed)|remov(?:es|ed)|drop(?:s|ped)")),
    ("uses", "*", _CODE, pattern.phrases(r"us(?:es|ed|ing)|runs on|built (?:on|with)|based on|calls")),
    ("replaces", "*", _CODE, pattern.phrases(r"replac(?:es|ed|ing)|migrat(?:es|ed|ing) (?:from|to)|instead of")),
    ("works_for", "person", "organization", pattern.phrases(r"works (?:for|at)|joined|employed by|of|from|at")),
    ("part_of", "*", f"{_CODE} organization", pattern.phrases(r"part of|belongs to|member of|inside")),
)
_DEADLINE = pattern.phrases("due(?! to)|deadline")
_STATUS = re.compile(r"^([AMD])\t(\S+)$", re.MULTILINE)
_DIFFSTAT = re.compile(r"^ ?(\S+\.\w+) +\| +\d+", re.MULTILINE)
_STATUS_NAMES = {"A": "creates", "M": "modifies", "D": "deletes"}
_HEADERS = (
    ("sent_by", re.compile(r"^From: *(.+)$", re.MULTILINE)),
    ("sent_to", re.compile(r"^(?:To|Cc): *(.+)$", re.MULTILINE)),
    ("authored_by", re.compile(r"^Author: *(.+)$", re.MULTILINE)),
    ("assigned_to", re.compile(r"^\W*(?:Assignee|Assigned to|Owner)\W*: *(.+)$", re.MULTILINE | re.IGNORECASE)),
    ("reported_by", re.compile(r"^\W*(?:Reporter|Reported by)\W*: *(.+)$", re.MULTILINE | re.IGNORECASE)),
    ("has_deadline", re.compile(r"^\W*(?:Due(?: date)?|Deadline)\W*: *(.+)$", re.MULTILINE | re.IGNORECASE)),
)
_HEADER_TARGETS = {"has_deadline": {"date"}}
_SUBJECTS = {"mail": "email", "issue": "jira_issue", "commit": "commit", "text": "document"}


@dataclass(frozen=True)
class Relation:
    """source -type-> target, as `evidence` says."""

    source: entities.Entity
    target: entities.Entity
    type: str
    evidence: str


def subject_of(document: reading.Reading, title: str) -> entities.Entity | None:
    """What the document is: the mail, the issue, the commit.

    `title` is what the prompt calls the document, for a piece that does not name it; None if nobody names it.
    """
    kind = _SUBJECTS[document.kind]
    if document.kind in {"issue", "commit"} and document.key:
        return entities.Entity(document.key, kind, text.shorten(document.subject, 160))
    if document.kind == "mail" and document.subject:
        return entities.Entity(text.shorten(document.subject, 120), kind, "subject of the mail")
    named = document.fields.get("title") or title
    return entities.Entity(text.shorten(named, 120), kind, "title of the document") if named else None


def find(source: str, subject: entities.Entity | None, mentions: list[entities.Mention]) -> list[Relation]:
    """Every relation once, in the order of the text."""
    found = _from_headers(source, subject, mentions) if subject else []
    for start, end in text.spans(source):
        inside = [mention for mention in mentions if start <= mention.start and mention.end <= end]
        found += _from_sentence(source[start:end], start, subject, inside)
    told = {(one.source.key, one.target.key) for one in found if one.type != "mentions"}
    found = [one for one in found if one.type != "mentions" or (one.source.key, one.target.key) not in told]
    unique = {
        (one.source.key, one.target.key, one.type): one for one in reversed(found) if one.source.key != one.target.key
    }
    return list(reversed(unique.values()))


def _from_headers(source: str, subject: entities.Entity, mentions: list[entities.Mention]) -> list[Relation]:
    found = []
    for kind, form in _HEADERS:
        wanted = _HEADER_TARGETS.get(kind, set(_PEOPLE.split()))
        for match in form.finditer(source):
            for mention in mentions:
                if match.start(1) <= mention.start and mention.end <= match.end(1) and mention.entity.type in wanted:
                    found.append(Relation(subject, mention.entity, kind, match.group().strip()))
    files = {mention.entity.name: mention.entity for mention in mentions if mention.entity.type == "file"}
    for match in (*_STATUS.finditer(source), *_DIFFSTAT.finditer(source)):
        kind = _STATUS_NAMES[match.group(1)] if match.re is _STATUS else "modifies"
        entity = files.get(match.group(match.lastindex or 1))
        if entity:
            found.append(Relation(subject, entity, kind, match.group().strip()))
    return found


def _from_sentence(
    sentence: str, offset: int, subject: entities.Entity | None, inside: list[entities.Mention]
) -> list[Relation]:
    found: list[Relation] = []
    header = any(form.search(sentence) for _, form in _HEADERS)
    for index, mention in enumerate(inside):
        before = sentence[: mention.start - offset]
        if mention.entity.type == "date":
            if (
                (dates.is_due(before) or _DEADLINE.search(before))
                and not header
                and (owner := _owner(subject, inside[:index]))
            ):
                found.append(Relation(owner, mention.entity, "has_deadline", sentence))
            continue
        previous = inside[index - 1] if index else None
        between = sentence[previous.end - offset : mention.start - offset] if previous else before
        left = previous.entity if previous and previous.entity.type != "date" else subject
        stated = _verb(between, left, mention.entity) if left else None
        if stated is None and subject is not None and not header:
            left, stated = subject, _verb(between, subject, mention.entity)
        if subject is not None and mention.entity.type in _CODE and _BROKEN.match(sentence[mention.end - offset :]):
            found.append(Relation(subject, mention.entity, "affects", sentence))
        elif left is not None and stated is not None:
            reverse = stated == "blocks" and "blocked by" in between.lower()
            pair = (mention.entity, left) if reverse else (left, mention.entity)
            found.append(Relation(*pair, stated, sentence))
        elif subject is not None and not header:
            found.append(Relation(subject, mention.entity, "mentions", sentence))
        elif previous is not None and previous.entity.type != "date" and not header:
            found.append(Relation(previous.entity, mention.entity, "mentioned_with", sentence))
    return found


def _owner(subject: entities.Entity | None, before: list[entities.Mention]) -> entities.Entity | None:
    """What a deadline is for: an issue named in front of it, else the document."""
    issues = [mention.entity for mention in before if mention.entity.type == "jira_issue"]
    return issues[-1] if issues else subject


def _verb(words: str, left: entities.Entity, right: entities.Entity) -> str | None:
    for relation, sources, targets, verb in _VERBS:
        fits = (sources == "*" or left.type in sources.split()) and right.type in targets.split()
        if fits and verb.search(words):
            return relation
    return None
