"""`kb.link/v1`: whether a link may be opened, by the words around it. With few words it cannot be told."""

from __future__ import annotations

import re
from typing import Any

from tests.fakes.ollama.rules import prompt

_LURE = re.compile(
    r"\b(?:prize|winner|won|lottery|jackpot|free gift|limited offer|discount|buy now|sale ends|casino|crypto|"
    r"claim your|download (?:the )?(?:app|program|setup)|advertis\w+|v[ýy]hra|sleva|gewinn\w*|rabatt)\b",
    re.IGNORECASE,
)
_FEW = 3


def answer(asked: prompt.Prompt) -> dict[str, Any]:
    """The object of the prompt's schema."""
    around = asked.document.replace("[LINK]", " ")
    if (lure := _LURE.search(around)) is not None:
        return {"decision": "leave", "reason": f"The text around it advertises: {lure[0]}."}
    if len(re.findall(r"\w{2,}", around)) < _FEW:
        return {"decision": "ask", "reason": "The text around it does not say what it is."}
    return {"decision": "open", "reason": "The text around it says what the page is about."}
