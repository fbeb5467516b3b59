"""`kb.agent.*`: searches for the question once, then answers with the first sentences of what was found."""

from __future__ import annotations

from typing import Any

from tests.fakes.ollama.rules import prompt, text

_NOTHING = "Retrieved data:\nnothing yet"


def decide(asked: prompt.Prompt) -> dict[str, Any]:
    """`kb.agent.decide/v1`."""
    common = {"missing": "", "should_end": False, "impossible": False}
    if _NOTHING in asked.document:
        inputs = {"query": asked.question[:2000] or "everything"}
        reasoning = "Nothing has been looked up yet."
        return {"enough": False, "tool": "fast_vector_search", "inputs": inputs, "reasoning": reasoning, **common}
    reasoning = "The passages that were found are all that a rule can use."
    return {"enough": True, "tool": "text_response", "inputs": {}, "reasoning": reasoning, **common}


def answer(asked: prompt.Prompt) -> dict[str, Any]:
    """`kb.agent.answer/v1` and `kb.agent.summary/v1`."""
    first = asked.document.split("\n\n", 1)[0]
    said = " ".join(text.key_sentences(first, 2)) or text.shorten(first, 400)
    return {"answer": f"{said} [1]"}
