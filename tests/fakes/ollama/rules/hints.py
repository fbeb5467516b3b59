"""`kb.hints/v2`: does this document want something done, by us, by when, how urgently, and what is needed first?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Any

from tests.fakes.ollama.rules import asking, dates, directing, pattern, people, prompt, reading, text

_CUE_ANYWHERE = pattern.phrases(
    "deadline|due(?! to)|at the latest|no later than|spätestens|nejpozději|termín(?:em)?|Frist"
)
_NOT_A_DEADLINE = pattern.phrases("since|valid|open|available|closed|on leave|out of office|away|holiday")
_NOT_WANTED = re.compile(r"\b(?:on|from|of|since|at|dated|was|were)\s+$", re.IGNORECASE)
_HIGH = pattern.phrases(
    r"urgent(?:ly)?|asap|as soon as possible|immediate(?:ly)?|right away|critical|emergency|outage|blocker|blocking",
    r"sev-?1|p1|production (?:is )?down|is down|data loss|security incident|highest",
    r"co nejdříve|naléhav\w+|urgentní|okamžitě|ihned|výpadek|kritick\w+",
    r"dringend\w*|sofort|umgehend|so (?:schnell|bald) wie möglich|eilt(?! nicht)|Ausfall|kritisch\w*",
)
_DENIED = re.compile(
    r"\b(?:not|no|non|isn't|nothing|nicht|kein|není(?: to)?|nic)[ -](?:\w+ )?"
    r"(?:urgent|critical|blocking|immediate|dringend|kriti|naléhav)\w*",
    re.IGNORECASE,
)
_LOW = pattern.phrases(
    "no rush|no hurry|low priority|priority low|whenever|when you (?:have|find) time|nice to have|minor|someday|lowest",
    "not urgent|nespěchá|není to (?:urgentní|naléhavé)|až bude čas|eilt nicht|nicht dringend|keine Eile|hat Zeit",
)
_NEAR_DAYS = 2
_SUMMARY = 400


@dataclass(frozen=True)
class Deadline:
    """A day by which something is wanted, and the sentence that says so."""

    day: date
    sentence: str


def answer(asked: prompt.Prompt) -> dict[str, Any]:
    """The object of the prompt's schema."""
    document = reading.read(asked.document)
    today = asked.today or document.sent
    wanted = asking.requests(document)
    assigned = asking.assignment(document, people.Team(asked.team))
    actionable = bool(wanted or assigned) or asking.is_open_issue(document)
    deadline = next_deadline(document, today, wanted) if actionable else None
    urgency = _urgency(document, actionable, deadline, today)
    return {
        "hasActionableContent": actionable,
        "isAssignedToMe": bool(assigned),
        "hasFutureDeadline": deadline is not None,
        "suggestedDeadline": f"{deadline.day.isoformat()}T23:59:59Z" if deadline else None,
        "urgency": urgency,
        "summary": summary(document),
        "reason": _reason(document, wanted, assigned, deadline, actionable),
        **directing.direct(document, asked.document, today, wanted),
    }


def summary(document: reading.Reading) -> str:
    """Subject and the sentences that say most."""
    said = [
        sentence
        for sentence in text.key_sentences(document.body, 2)
        if sentence.rstrip(".") != document.subject.rstrip(".")
    ]
    head = f"{document.key}: {document.subject}" if document.kind == "issue" and document.key else document.subject
    lead = [head if head.endswith((".", "!", "?")) else head + "."] if head else []
    return text.shorten(" ".join([*lead, *said]), _SUMMARY)


def deadlines(document: reading.Reading, today: date | None, wanted: list[str]) -> list[Deadline]:
    """Every day that the text sets as a deadline, past ones too, in order. Header dates are not read."""
    found = []
    if document.due:
        found += [Deadline(one.day, f"Due: {document.due}") for one in dates.find(document.due, today)[:1]]
    for sentence in text.sentences(asking.said(document)):
        for one in dates.find(sentence, today):
            before = sentence[: one.start]
            if directing.is_held(before):
                continue
            cued = bool(dates.is_due(before) or _CUE_ANYWHERE.search(sentence))
            said = cued and not _NOT_A_DEADLINE.search(before[-30:])
            if said or (not cued and sentence in wanted and not _NOT_WANTED.search(before)):
                found.append(Deadline(one.day, sentence))
    return found


def next_deadline(document: reading.Reading, today: date | None, wanted: list[str]) -> Deadline | None:
    """The earliest deadline that is not over."""
    ahead = [one for one in deadlines(document, today, wanted) if today is not None and one.day >= today]
    return min(ahead, key=lambda one: one.day) if ahead else None


def _urgency(document: reading.Reading, actionable: bool, deadline: Deadline | None, today: date | None) -> str:
    if not actionable:
        return "low"
    said = f"{document.subject} {document.body} priority {document.priority}"
    calm = bool(_LOW.search(said))
    if (
        _HIGH.search(_DENIED.sub(" ", said))
        or document.priority.strip()[:1] == "1"
        or document.priority.lower() == "high"
    ):
        return "high"
    if deadline is not None and today is not None and (deadline.day - today).days <= _NEAR_DAYS:
        return "high"
    return "low" if calm else "normal"


def _reason(
    document: reading.Reading, wanted: list[str], assigned: str, deadline: Deadline | None, actionable: bool
) -> str:
    if not actionable:
        why = "a mass mailing" if document.bulk else f"this {document.kind} informs and asks for nothing"
        return f"No action: {why}."
    parts = []
    if wanted:
        parts.append(f'asked: "{text.shorten(wanted[0], 160)}"')
    elif document.kind == "issue":
        parts.append(f"issue {document.key} is open" if document.key else "the issue is open")
    if assigned:
        parts.append(f'given to us: "{text.shorten(assigned, 120)}"')
    if deadline:
        parts.append(f"deadline {deadline.day.isoformat()}")
    return "Action: " + "; ".join(parts) + "."
