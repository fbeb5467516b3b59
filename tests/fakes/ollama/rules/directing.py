"""What stands in the way of a request: words that say nothing yet, a day before it may begin, a text that is sealed."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from tests.fakes.ollama.rules import asking, dates, pattern, reading, text, vision

_SEALED = re.compile(
    r"-----BEGIN PGP MESSAGE-----|^Content-Type:\s*(?:application/(?:x-)?pkcs7-mime|multipart/encrypted)\b",
    re.IGNORECASE | re.MULTILINE,
)
_OPEN = pattern.any_of(
    r"\b(?:TBD|TBC|to be (?:defined|decided|confirmed|announced|specified))\b",
    r"\?{3,}",
    r"[<\[{](?:name|date|amount|account|customer|environment|version|number|address)[>\]}]",
)
_HELD = re.compile(
    r"\b(?:not (?:[a-z]+ ){0,3}(?:before|until)|no (?:earlier|sooner) than|(?<!cannot )(?<!can't )wait until|"
    r"hold (?:off |it |this )?until|postpone (?:it |this )?until|only after)\s+(?:the |this |on )?(?:\w+day,? )?$",
    re.IGNORECASE,
)
_POINTS_AT_IMAGE = pattern.any_of(
    r"\b(?:screen ?shots?|pictures?|images?|photos?|scans?|attach\w*)\b",
    r"\b(?:snímk\w*|snímek|obráz\w+|fotk\w*|přílo\w+)\b",
    r"\b(?:bild\w*|bildschirmfoto\w*|aufnahmen?|anhang)\b",
)
_MINUTES = 24 * 60


def direct(document: reading.Reading, raw: str, today: date | None, wanted: list[str]) -> dict[str, Any]:
    """action, questions, deferMinutes and tags of `kb.hints/v2`."""
    said: dict[str, Any] = {"action": "Execute", "questions": [], "deferMinutes": None, "tags": [document.kind]}
    if _SEALED.search(raw):
        return said | {"action": "Fail"}
    if not wanted:
        return said
    sentences = text.sentences(asking.said(document))
    left_open = [one for one in sentences if _OPEN.search(one)]
    if left_open:
        asked = [f'What is meant by "{text.shorten(one, 200)}"?' for one in dict.fromkeys(left_open)]
        return said | {"action": "Ask", "questions": asked[:16]}
    if vision.UNREADABLE in document.body and any(_POINTS_AT_IMAGE.search(one) for one in wanted):
        return said | {"action": "Ask", "questions": ["What does the image show? No writing in it can be read."]}
    begins = max((day for one in sentences for day in _held(one, today)), default=None)
    if today is not None and begins is not None and begins > today:
        return said | {"action": "Defer", "deferMinutes": (begins - today).days * _MINUTES}
    return said


def is_held(before: str) -> bool:
    """Whether the words right in front of a day say that nothing may begin earlier: it is no deadline."""
    return _HELD.search(before) is not None


def _held(sentence: str, today: date | None) -> list[date]:
    return [one.day for one in dates.find(sentence, today) if is_held(sentence[: one.start])]
