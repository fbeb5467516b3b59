"""`kb.describe/v1` and `kb.qualify.vision-*`: what is said of images, by the writing that was read in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.fakes.ollama.rules import text

UNREADABLE = "An image in which no writing can be read."
_FIELD = re.compile(r"^[A-Z][A-Za-z ]{1,30}: \S.*$", re.MULTILINE)
_TITLE = 80


def answer(tag: str, written: Sequence[str]) -> dict[str, Any]:
    """The object of the prompt's schema; `written` is the writing in each image."""
    if tag == "kb.describe/v1":
        said = written[0].strip()
        if not said:
            return {"title": "An image", "description": UNREADABLE, "text": ""}
        title = text.shorten(said.splitlines()[0], _TITLE)
        return {"title": title, "description": f"A picture of: {title}", "text": said}
    fields = [field for said in written for field in _FIELD.findall(said)]
    return {"details": "\n".join(fields or [said.splitlines()[0] for said in written if said])}
