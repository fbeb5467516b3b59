"""`job.plan/v1`: a plan from the text itself. First what is asked, then each sentence that asks for something, then the
answer; 3 to 7 steps.
"""

from __future__ import annotations

from typing import Any

from tests.fakes.ollama.rules import asking, prompt, text

_MOST = 7
_LEAST = 3
_CHARS = 200


def answer(asked: prompt.Prompt) -> dict[str, Any]:
    """The object of the prompt's schema, with the tools of the prompt alone."""
    question = text.shorten(asked.question or asked.document, _CHARS)
    own = asked.evidence[0].text if asked.evidence else ""
    wanted = [one for one in text.sentences(own) if asking.asks(one)]
    more = [one for one in text.key_sentences(own, _LEAST) if one not in wanted]
    found = [text.shorten(one, _CHARS) for one in [*wanted, *more][: _MOST - 2]]
    steps = [
        _step(asked, question, "search", "The evidence says what is asked."),
        *(_step(asked, one, "search", "It is known what this is about.") for one in found),
        _step(asked, question, "answer", "The answer cites its evidence."),
    ]
    while len(steps) < _LEAST:
        steps.insert(-1, _step(asked, question, "search", "It is known what is still open."))
    return {"steps": steps}


def _step(asked: prompt.Prompt, description: str, tool: str, done: str) -> dict[str, Any]:
    tools = [tool] if tool in asked.tools else []
    return {"description": description, "tools": tools, "successCriteria": done}
