"""A prompt taken apart: tag, date, team, document, question, evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

_TAG = re.compile(r"\[prompt:\s*([A-Za-z0-9_.\-]+/v\d+)\s*\]")
_TODAY = re.compile(r"^\s*Today(?:'s date)?:\s*(\d{4})-(\d{2})-(\d{2})", re.MULTILINE)
_TEAM = re.compile(r"^[ \t]*Team:[ \t]*(.*)$", re.MULTILINE)
_TOOLS = re.compile(r"^[ \t]*Tools:[ \t]*(.*)$", re.MULTILINE)
_TITLE = re.compile(r"^[ \t]*Title:[ \t]*(.*)$", re.MULTILINE)
_DOCUMENT = re.compile(r"<document>\n?(.*?)\n?</document>", re.DOTALL)
_THREAD = re.compile(r"<thread>\n?(.*?)\n?</thread>", re.DOTALL)
_QUESTION = re.compile(r"<question>\s*(.*?)\s*</question>", re.DOTALL)
_EVIDENCE = re.compile(r'<evidence\s+id="?(\d+)"?(?:\s+source="([^"]*)")?[^>]*>\s*(.*?)\s*</evidence>', re.DOTALL)


@dataclass(frozen=True)
class Evidence:
    """One item that may be cited as [id]."""

    id: int
    source: str
    text: str


@dataclass(frozen=True)
class Prompt:
    """What the rules need to know. `document` is the whole user text when nothing is marked as the document."""

    tag: str | None
    document: str
    today: date | None
    team: tuple[str, ...]
    title: str
    question: str
    evidence: tuple[Evidence, ...]
    tools: tuple[str, ...] = ()
    thread: str = ""


def parse(messages: Iterable[tuple[str, str]]) -> Prompt:
    """Take (role, text) turns apart. Instructions are looked for outside the document: its text is data."""
    turns = list(messages)
    everything = "\n".join(text for _, text in turns)
    # The instructions name the tags of a thread; what was said in it stands with the document.
    said = "\n".join(text for role, text in turns if role != "system")
    thread = _THREAD.search(_DOCUMENT.sub("", said))
    outside = _THREAD.sub("", _DOCUMENT.sub("", _EVIDENCE.sub("", everything)))
    documents = _DOCUMENT.findall(everything)
    asked = _QUESTION.search(everything)
    last_user = next((text for role, text in reversed(turns) if role == "user"), "")
    return Prompt(
        tag=_tag_in([text for role, text in turns if role == "system"]) or _tag_in([outside]),
        document="\n\n".join(documents) if documents else _strip(last_user),
        today=_date(_TODAY.search(outside)),
        team=_names(_TEAM.search(outside)),
        title=_line(_TITLE.search(outside)),
        question=asked.group(1).rpartition("<question>")[2].strip() if asked else "",  # instructions name the mark
        evidence=tuple(Evidence(int(i), source, text) for i, source, text in _EVIDENCE.findall(everything)),
        tools=_names(_TOOLS.search(outside)),
        thread=thread.group(1) if thread else "",
    )


def find_tag(document: dict[str, Any]) -> str | None:
    """The tag in a request's JSON body, whichever endpoint it is for; system texts are looked at first."""
    texts: list[tuple[str, str]] = [("system", document["system"])] if isinstance(document.get("system"), str) else []
    for turn in document.get("messages") or []:
        if isinstance(turn, dict) and isinstance(turn.get("content"), str):
            texts.append((str(turn.get("role")), turn["content"]))
    if isinstance(document.get("prompt"), str):
        texts.append(("user", document["prompt"]))
    return parse(texts).tag if texts else None


def _tag_in(texts: list[str]) -> str | None:
    for text in texts:
        match = _TAG.search(text)
        if match:
            return match.group(1)
    return None


def _date(match: re.Match[str] | None) -> date | None:
    if match is None:
        return None
    try:
        return date(int(match.group(1)), int(match.group(2)), int(match.group(3)))
    except ValueError:
        return None


def _line(match: re.Match[str] | None) -> str:
    return match.group(1).strip() if match else ""


def _names(match: re.Match[str] | None) -> tuple[str, ...]:
    if match is None:
        return ()
    return tuple(name.strip() for name in re.split(r"[,;]", match.group(1)) if name.strip())


def _strip(text: str) -> str:
    """A user text without the marks and lines that steer the rules."""
    for pattern in (_EVIDENCE, _QUESTION, _TODAY, _TEAM, _TAG):
        text = pattern.sub(" ", text)
    return text.strip()
