"""`job.respond/v1`: an extractive answer. The evidence sentences nearest to the question are quoted with their numbers.

Nearness is the cosine of the real sentence embeddings. If even the best sentence is far away, the answer is that the
evidence does not say it, and the user is asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tests.fakes.ollama.rules import asking, prompt, text

if TYPE_CHECKING:
    from tests.fakes.ollama.embedding import minilm


class Embed(Protocol):
    """Texts to unit vectors [texts, dimensions] in their order, and the number of tokens read."""

    def __call__(self, texts: Sequence[str], /) -> tuple[minilm.Vectors, int]: ...


KNOWN = 0.33  # below this cosine MiniLM's pairs of question and sentence are about different things
_CLOSE = 0.8  # a further sentence is quoted when it is nearly as near as the best one
_QUOTED = 3
_SENTENCES = 200
_CONTEXT = 0.2
_WANTED = 0.12
_ABOUT_WORK = re.compile(
    r"\b(?:ask(?:s|ed)? (?:of|for|us)|to be done|has to|what (?:should|must)|by when|deadline)\b", re.IGNORECASE
)
_SKIPPED = re.compile(
    r"^(?:Subject|Summary|Title|Date|Message-ID|References|In-Reply-To|Received|Return-Path|MIME-Version|Content-|X-|List-|Precedence)",
    re.IGNORECASE,
)
_OVERLAP = 0.1


def answer(asked: prompt.Prompt, embed: Embed) -> dict[str, Any]:
    """The object of the prompt's schema."""
    question = asked.question or asked.document
    ranked = _rank(question, asked.evidence, embed)
    if not ranked or ranked[0][0] < KNOWN:
        return _unknown(question)
    best = ranked[0][0]
    chosen = [one for one in ranked[:_QUOTED] if one[0] >= max(KNOWN, best * _CLOSE)]
    said = " ".join(f"{_ended(sentence)} [{number}]" for _, number, sentence in chosen)
    return {
        "answer": said,
        "citations": list(dict.fromkeys(number for _, number, _ in chosen)),
        "confidence": round(min(1.0, float(best)), 2),
        "needsInput": False,
        "questions": [],
    }


def _rank(question: str, evidence: Sequence[prompt.Evidence], embed: Embed) -> list[tuple[float, int, str]]:
    """(score, evidence id, sentence), best first; each sentence once."""
    rows: list[tuple[int, str]] = []
    seen: set[str] = set()
    for item in evidence:
        for sentence in text.sentences(item.text):
            if sentence.lower() not in seen and not _SKIPPED.match(sentence) and len(sentence.split()) > 1:
                seen.add(sentence.lower())
                rows.append((item.id, sentence))
    rows = rows[:_SENTENCES]
    if not rows:
        return []
    items = {item.id: position for position, item in enumerate(evidence)}
    vectors, _ = embed([question, *(item.text for item in evidence), *(sentence for _, sentence in rows)])
    asked = vectors[0]
    context = vectors[1 : 1 + len(evidence)] @ asked
    alone = vectors[1 + len(evidence) :] @ asked
    meant = set(text.words(question))
    about_work = _ABOUT_WORK.search(question) is not None
    ranked = []
    for near, (number, sentence) in zip(alone, rows, strict=True):
        shared = len(meant & set(text.words(sentence))) / (len(meant) or 1)
        wanted = _WANTED if about_work and asking.asks(sentence) else 0.0
        score = wanted + (1 - _CONTEXT) * float(near) + _CONTEXT * float(context[items[number]]) + _OVERLAP * shared
        ranked.append((round(score, 6), number, sentence))
    return sorted(ranked, key=lambda one: (-one[0], one[1], one[2]))


def _unknown(question: str) -> dict[str, Any]:
    """Without citations: of the shapes that are offered it is the one that asks."""
    short = text.shorten(question, 160)
    return {
        "answer": f"I do not know: the evidence does not say anything about: {short}",
        "needsInput": True,
        "questions": [f"Where can I find out about this: {short}"],
    }


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else sentence + "."
