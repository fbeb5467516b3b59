"""The text in which an agent reports, and what its parent makes of it. Pure.

Source: seed 000 "Agent Communication Protocol". Models keep to it more or less, so the parser is forgiving and never
raises: what a report does not say gets a cautious value and is named in `structured_data["missing"]`, and no text is
thrown away. RESULT is never cut: lines in it that look like fields, such as those of a report that the agent quotes,
stay in it, because of each other field the one before RESULT counts, or else the last one in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from crds import addresses
from orchestrator_job.store import delegation_models
from router.client import reading, schema
from text import surrogates

INSTRUCTIONS = """\
When your work is done, or cannot go on, report it in this form and write nothing after it. Each field begins a line, in
plain text without markdown; all six are there, in this order:

STATUS: 1 (done), 0 (not done) or P (done in part)
RESULT: the complete answer, as compact as it can be, over as many lines as it needs; what is not here is lost
ARTIFACTS: files, commits, pages, issues or drafts that were made, separated by commas, or none
ISSUES: what is missing, wrong or in the way, one on each line, or none
CONFIDENCE: how sure you are that RESULT is right and complete, from 0.0 to 1.0
NEEDS_VERIFICATION: true if a statement in RESULT rests on nothing that you have read, else false"""

ACCEPTED = 0.7
"""At this confidence and above a result is taken as it is."""
DOUBTED = 0.4
"""Below this confidence the agent is asked again; between the two a result is taken and its statements are checked."""
RETRIES = 1
"""How often the same agent is asked again; then another one is."""
UNSAID = 0.5
"""Confidence of a report that has fields, but none that says it."""
UNREPORTED = 0.3
"""Confidence of a text without any field."""


@dataclass(frozen=True, slots=True)
class Accept:
    """The result is used; `verify`: its statements are looked up in the knowledge base first."""

    verify: bool = False


@dataclass(frozen=True, slots=True)
class Retry:
    """The same agent is asked again; `why` is for it."""

    why: str


@dataclass(frozen=True, slots=True)
class Escalate:
    """Another agent, or a person, has to do it; `why` is for them."""

    why: str


def verdict(output: delegation_models.AgentOutput, *, tries: int = 0) -> Accept | Retry | Escalate:
    """What the parent does with it; `tries` are those that the agent had before.

    done          confidence >= ACCEPTED: Accept, verified if the agent asks for it; >= DOUBTED: Accept, verified;
                  below: Retry
    done in part  confidence >= DOUBTED: Accept, verified; below: Retry
    not done      confidence >= ACCEPTED, so it is sure that it cannot: Escalate; below: Retry

    After RETRIES a Retry is an Escalate.
    """
    issues = "; ".join(_texts(output.structured_data.get("issues")))
    partial = output.structured_data.get("status") == "P"
    usable = bool(output.result.strip()) and (output.success or partial)
    if usable and output.confidence >= DOUBTED:
        return Accept(verify=output.needs_verification or partial or output.confidence < ACCEPTED)
    if not usable and output.confidence >= ACCEPTED:
        return Escalate(issues or "The agent reports that it cannot do this.")
    why = issues or _doubt(output)
    return Retry(why) if tries < RETRIES else Escalate(why)


def _doubt(output: delegation_models.AgentOutput) -> str:
    if not output.result.strip():
        return "There was no RESULT."
    missing = _texts(output.structured_data.get("missing"))
    if missing:
        return f"The report had no {', '.join(missing)}."
    return f"The confidence was {output.confidence:g}."


def parse(text: str, *, delegation_id: str, agent_name: str) -> delegation_models.AgentOutput:
    """The report as an AgentOutput. `structured_data` has `status` ("1", "0" or "P"), `issues`, `missing` (fields that
    were not there or not readable) and `remarks` (text outside the fields)."""
    report = _read(surrogates.clean(text))
    status, confidence, verify = report.status, report.confidence, report.needs_verification
    missing = [name for name in _FIELDS if name not in report.found]
    result, remarks = report.result, report.remarks
    if not result:
        result, remarks = remarks, ""
    # Some think within a field. Without an end of the thoughts it stays whole.
    result = reading.plain(result) or result
    if status is None:
        status = "P" if result else "0"
    if confidence is None:
        confidence = 0.0 if not result else UNSAID if report.found else UNREPORTED
    data: dict[str, JsonValue] = {"status": status, "issues": list(report.issues), "missing": list(missing)}
    if remarks:
        data["remarks"] = remarks
    return delegation_models.AgentOutput(
        delegation_id=delegation_id,
        agent_name=agent_name,
        success=status == "1",
        result=result,
        structured_data=data,
        artifacts=report.artifacts,
        confidence=confidence,
        needs_verification=True if verify is None else verify,
    )


def endless(output: delegation_models.AgentOutput) -> delegation_models.AgentOutput:
    """The report of a model that only repeated itself in the end: it is not whole, whatever it says of itself."""
    issues = [*_texts(output.structured_data.get("issues")), "The report has no end: it repeats itself."]
    status = "P" if output.result.strip() else "0"
    return output.model_copy(
        update={
            "success": False,
            "confidence": min(output.confidence, UNREPORTED),
            "needs_verification": True,
            "structured_data": {**output.structured_data, "status": status, "issues": issues},
        }
    )


# --- what a report says ---------------------------------------------------------------------------------------------

_MOST_NAME = 256
_FIELDS = ("STATUS", "RESULT", "ARTIFACTS", "ISSUES", "CONFIDENCE", "NEEDS_VERIFICATION")


@dataclass(frozen=True, slots=True)
class _Report:
    found: frozenset[str] = frozenset()
    status: str | None = None
    result: str = ""
    artifacts: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    confidence: float | None = None
    needs_verification: bool | None = None
    remarks: str = ""


def _read(text: str) -> _Report:
    text = reading.plain(text.replace("\r\n", "\n"))
    found = _from_json(text)
    return found if found is not None else _from_text(text)


# The quantifiers `*+` are possessive: a line is scanned once, whatever it consists of.
_MARK = r"[*_`\"'~]*+"
_LABEL = re.compile(
    rf"[-*+•>#| \t]*+(?:\d{{1,2}}[.)][ \t]*+)?{_MARK}"
    rf"(?P<name>status|result|artifacts|issues|confidence|needs[ _-]?verification){_MARK}"
    r"[ \t]*+(?:[:\uff1a=|]|(?P<alone>$))[ \t]*+(?P<value>.*)$",
    re.IGNORECASE,
)
_FENCE = re.compile(r"[ \t]*+(?:```|~~~)[^`]*$")
# Bold that ends behind the colon.
_OPENED = re.compile(r"[*_]{1,3}+$")
_HEADED = re.compile(r"[ \t]*+(?:#|\*\*|__)")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that may begin a field."""

    number: int
    name: str
    value: str
    upper: bool


def _from_text(text: str) -> _Report:
    lines, labels = _labelled(text.split("\n"))
    chosen = _authoritative(lines, labels)
    if not chosen:
        return _Report(remarks="\n".join(lines).strip())
    values: dict[str, Any] = {}
    result: list[str] | None = None
    remarks = lines[: chosen[0].number]
    ends = [*(line.number for line in chosen[1:]), len(lines)]
    for line, end in zip(chosen, ends, strict=True):
        body = [line.value, *lines[line.number + 1 : end]]
        if line.name == "RESULT":
            result = body
        elif line.name in _LISTS:
            values[line.name] = _LISTS[line.name](body)
        else:
            value, rest = _scalar(line.name, body)
            values |= {} if value is None else {line.name: value}
            # Text between two fields behind RESULT is taken for a part of it: it must not be cut.
            (remarks if result is None or end == len(lines) else result).extend(rest)
    said = "\n".join(result or ()).strip()
    return _Report(
        found=frozenset([*values, *(["RESULT"] if said else [])]),
        status=values.get("STATUS"),
        result=said,
        artifacts=values.get("ARTIFACTS", ()),
        issues=values.get("ISSUES", ()),
        confidence=values.get("CONFIDENCE"),
        needs_verification=values.get("NEEDS_VERIFICATION"),
        remarks="\n".join(remarks).strip(),
    )


def _labelled(lines: list[str]) -> tuple[list[str], list[_Line]]:
    """The lines without a fence around the whole report, and those that may begin a field: none in a code block."""
    found = [line for line in map(_label, range(len(lines)), lines) if line is not None]
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    if found and fences and fences[0] < found[0].number:
        lines = list(lines)
        lines[fences[0]] = ""
        if len(fences) % 2 == 0:
            lines[fences[-1]] = ""
        return _labelled(lines)
    inside: set[int] = set()
    # A fence that is never closed is none: it must not hide the fields that follow.
    for opened, closed in zip(fences[::2], fences[1::2], strict=False):
        inside.update(range(opened, closed + 1))
    return lines, [line for line in found if line.number not in inside]


def _label(number: int, text: str) -> _Line | None:
    match = _LABEL.match(text)
    if match is None or (match["alone"] is not None and not _HEADED.match(text)):
        return None
    name = match["name"].upper().replace(" ", "_").replace("-", "_").replace("NEEDSV", "NEEDS_V")
    value = match["value"]
    opened = _OPENED.search(text, 0, match.start("name"))
    if opened is not None and value.startswith(opened.group()):
        value = value[len(opened.group()) :].lstrip(" \t")
    return _Line(number, name, value, match["name"].isupper())


def _authoritative(lines: Sequence[str], labels: Sequence[_Line]) -> list[_Line]:
    """The one line of each field that begins it, in their order."""
    readable = [line for line in labels if line.name not in _SCALARS or _scalar_at(line, lines) is not None]
    upper = [line for line in readable if line.upper]
    # "Status: open" is a line of an answer where the fields are in upper case.
    usable = upper if len({line.name for line in upper}) > 1 else readable
    start = next((line for line in usable if line.name == "RESULT"), None)
    chosen = [] if start is None else [start]
    for name in _FIELDS:
        own = [line for line in usable if line.name == name]
        if name == "RESULT" or not own:
            continue
        before = [line for line in own if start is not None and line.number < start.number]
        chosen.append((before or own)[-1])
    return sorted(chosen, key=lambda line: line.number)


def _scalar_at(line: _Line, lines: Sequence[str]) -> object:
    return _scalar(line.name, [line.value, *lines[line.number + 1 : line.number + 3]])[0]


def _scalar(name: str, body: Sequence[str]) -> tuple[Any, list[str]]:
    """The value, on the field's line or the next one that is not blank, and the lines behind it."""
    at = next((number for number, text in enumerate(body) if text.strip()), None)
    value = None if at is None else _SCALARS[name](body[at])
    return value, list(body[1:] if at is None else body[at + 1 :])


# --- the values of fields -------------------------------------------------------------------------------------------

_NOTHING = reading.NOTHING | {
    *("-", "\u2013", "\u2014", "0", "na", "nil", "no", "nothing", "no issues", "no artifacts", "no problems"),
}
_BULLET = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+")
_STATUS = {
    "1": ("1", "success", "successful", "succeeded", "ok", "done", "complete", "completed", "true", "✅", "✓"),
    "0": ("0", "failure", "fail", "failed", "error", "false", "blocked", "❌", "✗"),
    "P": ("p", "partial", "partially", "partly", "0.5", "incomplete"),
}
_STATUSES = {word: status for status, words in _STATUS.items() for word in words}
_YES = frozenset(("true", "yes", "y", "1", "required", "ano", "ja", "oui", "si", "sí"))
_NO = frozenset(("false", "no", "n", "0", "none", "not", "ne", "nein", "non", "nie"))
_WORD = re.compile(r"^\d\.\d|^[^\s,;.(:|/-]+")


def _bare(text: str) -> str:
    """In lower case, without markdown around it."""
    return text.strip().strip("*_`\"'[]|").strip().lower()


def _first(text: str) -> str:
    """The first word, or nothing where the text is the template itself, "true/false"."""
    bare = _bare(text)
    word = _WORD.match(bare)
    return "" if word is None or bare[word.end() :].lstrip()[:1] in ("/", "|") or "|" in bare else word.group()


def _status(text: str) -> str | None:
    return _STATUSES.get(_first(text).strip("*_`"))


def _truth(text: str) -> bool | None:
    word = _first(text).strip("*_`")
    return True if word in _YES else False if word in _NO else None


def _artifacts(body: Sequence[str]) -> tuple[str, ...]:
    """Names, from a list in JSON, a list by lines, or one with commas."""
    joined = "\n".join(body).strip()
    if joined.startswith("["):
        listed = _loaded(joined)
        if isinstance(listed, list):
            return _made(_texts(listed))
    named: list[str] = []
    for line in body:
        bulleted = _BULLET.match(line)
        text = _BULLET.sub("", line)
        named += [text] if bulleted else re.split(r"[,;](?=\s|$)", text)
    return _made(named)


def _made(texts: Iterable[str]) -> tuple[str, ...]:
    """Names of what was made: of a line at most, and none that leads from one path to another."""
    return tuple(
        name
        for name in _named(texts)
        if len(name) <= _MOST_NAME and name.isprintable() and not addresses.leads_away(name.replace(" ", "%20"))
    )


def _issues(body: Sequence[str]) -> tuple[str, ...]:
    """One for each line."""
    joined = "\n".join(body).strip()
    listed = _loaded(joined) if joined.startswith("[") else None
    return _named(_texts(listed) if isinstance(listed, list) else [_BULLET.sub("", line) for line in body])


def _named(texts: Iterable[str]) -> tuple[str, ...]:
    plain = (text.strip().strip("`").strip() for text in texts)
    return tuple(dict.fromkeys(text for text in plain if _bare(text).rstrip(".") not in _NOTHING))


_LISTS: Mapping[str, Callable[[Sequence[str]], tuple[str, ...]]] = {"ARTIFACTS": _artifacts, "ISSUES": _issues}
_SCALARS: Mapping[str, Callable[[str], object]] = {
    "STATUS": _status,
    "CONFIDENCE": schema.share,
    "NEEDS_VERIFICATION": _truth,
}


# --- a report that is JSON ------------------------------------------------------------------------------------------

_JSON_FENCE = re.compile(r"```(?:json)?\s*+(?=\{)", re.IGNORECASE)


def _from_json(text: str) -> _Report | None:
    """The report of a model that answers with an object; None for other texts."""
    bare = text.strip()
    fenced = _JSON_FENCE.search(bare)
    for candidate in (bare, bare[fenced.end() : bare.rfind("```")] if fenced else ""):
        given = _loaded(candidate) if candidate.startswith("{") else None
        if isinstance(given, dict):
            named = {re.sub(r"[^a-z]", "", key.lower()): value for key, value in given.items()}
            if "result" in named or "status" in named:
                return _of_object(named)
    return None


def _of_object(given: Mapping[str, Any]) -> _Report:
    status = _status(_text(given.get("status", given.get("success", ""))))
    confidence = schema.share(_text(given.get("confidence", "")))
    verify = _truth(_text(given.get("needsverification", "")))
    result = _text(given.get("result", "")).strip()
    values = {
        "STATUS": status,
        "RESULT": result or None,
        "ARTIFACTS": given.get("artifacts"),
        "ISSUES": given.get("issues"),
        "CONFIDENCE": confidence,
        "NEEDS_VERIFICATION": verify,
    }
    return _Report(
        found=frozenset(name for name, value in values.items() if value is not None),
        status=status,
        result=result,
        artifacts=_made(_texts(given.get("artifacts"))),
        issues=_named(_texts(given.get("issues"))),
        confidence=confidence,
        needs_verification=verify,
    )


def _loaded(text: str) -> Any:
    try:
        return reading.loaded(text)
    except ValueError:
        return None


def _text(value: Any) -> str:
    """A value of JSON as text."""
    if isinstance(value, str):
        return surrogates.clean(value)
    return "" if value is None else surrogates.clean(json.dumps(value, ensure_ascii=False))


def _texts(value: Any) -> list[str]:
    """A value of JSON as texts, one for each item of a list."""
    if value is None:
        return []
    return [_text(each) for each in value] if isinstance(value, list | tuple) else _text(value).split("\n")
