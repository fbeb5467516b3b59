"""`kb.agent.*`: searches for the question once, then answers with the first sentences of what was found."""

from __future__ import annotations

from typing import Any

from tests.fakes.ollama.rules import prompt, text

_NOTHING = "Retrieved data:\nnothing yet"


def decide(asked: prompt.Prompt) -> dict[str, Any]:
    """`kb.agent.decide/v1`."""
    if _NOTHING in asked.document:
        inputs = {"query": asked.question[:2000] or "everything"}
        reasoning = "Nothing has been looked up yet."
        return {"reasoning": reasoning, "tool": "fast_vector_search", "inputs": inputs, "should_end": False}
    return {"reasoning": "The passages that were found are all that a rule can use.", "enough": True}


def answer(asked: prompt.Prompt) -> dict[str, Any]:
    """`kb.agent.answer/v1` and `kb.agent.summary/v1`."""
    first = asked.document.split("\n\n", 1)[0]
    said = " ".join(text.key_sentences(first, 2)) or text.shorten(first, 400)
    return {"answer": f"{said} [1]"}
