"""`kb.qualify.*`: what kind of document it is and the fields of its kind, beside what `kb.hints/v2` says of it."""

from __future__ import annotations

import re
from typing import Any

from tests.fakes.ollama.rules import asking, hints, pattern, prompt, reading, text, threads

_AUTOMATIC = re.compile(
    r"\b(?:no-?reply|do-?not-?reply|notifications?|mailer-daemon|alerts?|cron|build)\S*@", re.IGNORECASE
)
_INVITATION = pattern.phrases(
    r"(?:invitation|invited|invites you)", r"calendar", r"BEGIN:VCALENDAR", r"join the meeting"
)
_LOGGED = re.compile(
    r"^\s*(?:\[?\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}|\[?\d{2}:\d{2}:\d{2}|"
    r"\[?(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b)"
)
_CRITICAL = re.compile(r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|Exception|Caused by|panic|OOMKilled|Traceback)\b")
_EVENT = re.compile(
    r"\b(?:start\w*|stop\w*|WARN(?:ING)?|ERROR|FATAL|restart\w*|connect\w*|fail\w*|deploy\w*)\b", re.IGNORECASE
)
_PAGE = re.compile(r"^(?:Space|Page|Author|Created by|Last modified)\s*:", re.MULTILINE)
_FIELD = r"(?im)^\W*(?:{0})\W*:\W*?[ \t]*(\S.*?)\s*$"
_MOST_LINES = 10


def answer(asked: prompt.Prompt) -> dict[str, Any]:
    """The object of the prompt's schema."""
    said = hints.answer(asked)
    document = reading.read(asked.document)
    match asked.tag:
        case "kb.qualify.detect/v2":
            kind, why = _kind(asked.document, document)
            return said | {"contentType": kind, "typeReason": why}
        case "kb.qualify.type/v1":
            kind, why = _kind(asked.document, document)
            return {"contentType": kind, "typeReason": why}
        case "kb.qualify.email/v2":
            return said | {
                "classification": _classification(document),
                "answersEarlier": threads.answers_earlier(asked, document),
                "sender": document.sender.label if document.sender else _field("from|sender", asked.document),
                "recipients": [one.label for one in document.to]
                or [one for one in (_field("to|recipients?", asked.document),) if one],
                "subject": document.subject,
            }
        case "kb.qualify.jira/v2":
            return said | {
                "status": document.status,
                "answersEarlier": threads.answers_earlier(asked, document),
                "type": _field("issue type|type", asked.document),
                "assignee": document.assignee.label if document.assignee else "",
                "reporter": document.reporter.label if document.reporter else "",
                "epic": _field("epic|epic link", asked.document),
                "sprint": _field("sprint", asked.document),
                "changeDescription": text.shorten(" ".join(_change(document)), 300),
            }
        case "kb.qualify.confluence/v1":
            return said | {
                "author": _field("author|created by|written by", asked.document),
                "title": asked.title or document.subject,
                "topic": text.shorten(asked.title or document.subject, 80),
            }
        case _:
            return said | _log(asked.document)


def _kind(source: str, document: reading.Reading) -> tuple[str, str]:
    lines = [line for line in source.splitlines() if line.strip()]
    logged = sum(1 for line in lines if _LOGGED.match(line))
    if document.kind == "mail":
        return "EMAIL", "It begins with the headers of a mail."
    if document.kind == "issue":
        return "JIRA", "It has the fields of an issue."
    if len(lines) > 2 and logged * 2 > len(lines):
        return "LOG", f"{logged} of {len(lines)} lines begin as those of programs do."
    if len(_PAGE.findall(source)) > 1:
        return "CONFLUENCE", "It has the fields of a page."
    return "GENERIC", "It has the form of no other type."


def _change(document: reading.Reading) -> list[str]:
    return asking.requests(document)[:1] or text.key_sentences(document.body, 1)


def _classification(document: reading.Reading) -> str:
    said = f"{document.subject}\n{document.body}"
    if document.bulk:
        return "NEWSLETTER"
    if document.sender is not None and _AUTOMATIC.search(document.sender.address):
        return "AUTOMATIC"
    if _INVITATION.search(said):
        return "INVITATION"
    wanted = asking.requests(document)
    if wanted and all(sentence.rstrip().endswith("?") for sentence in wanted):
        return "QUESTION"
    return "REQUEST" if wanted else "INFORMATION"


def _log(source: str) -> dict[str, Any]:
    lines = [line.strip() for line in source.splitlines() if line.strip() and line.strip() != "[...]"]
    critical = [line for line in lines if _CRITICAL.search(line)]
    events = [line for line in lines if _EVENT.search(line) and line not in critical] or lines[:1]
    first, last = (lines[0], lines[-1]) if lines else ("", "")
    told = f"{len(lines)} lines, {len(critical)} of them about errors, from {text.shorten(first, 80)!r} to "
    return {
        "logSummary": f"{told}{text.shorten(last, 80)!r}.",
        "keyEvents": events[:_MOST_LINES],
        "criticalDetails": critical[:_MOST_LINES],
    }


def _field(names: str, source: str) -> str:
    found = re.search(_FIELD.format(names), source)
    return found.group(1).strip("* ") if found else ""
