"""Whether what was found can answer a question at all, judged by its words. Pure.

A question about something that no document speaks of still has nearest chunks, and cosines do not tell them from
answers. What the best chunks leave unsaid of the question does, to some degree: decision 0066 has precision and recall.
"""

from __future__ import annotations

from collections.abc import Sequence

from text import words

BEST = 2
"""Chunks that are looked at, the best ones, because an answer over a hop stands in two. Chosen on half of lihua."""


def coverage(question: str, texts: Sequence[str]) -> float:
    """The share of the question's words that the texts contain in some form, 0 to 1; long words count more.

    1.0 for a question without words: nothing of it is missing.
    """
    asked = words.content(question)
    whole = sum(len(forms[0]) for forms in asked)
    said = {term for text in texts for term in words.vocabulary(text)}
    covered = sum(len(forms[0]) for forms in asked if not said.isdisjoint(forms))
    return round(covered / whole, 4) if whole else 1.0
