"""The page of a passage that is meant, where the passage knows where its pages begin (`kb.paging`). Pure."""

from __future__ import annotations

import bisect
import itertools

from kb import paging
from text import quotations, words


def best(text: str, starts: paging.Starts, question: str) -> int | None:
    """The page of a passage that has most of the question's words, the first of equals; None where it is none."""
    asked = {form: forms[0] for forms in words.content(question) for form in forms}
    most, found = -1, 0
    for (offset, page), (end, _) in itertools.pairwise([*starts, (len(text), 0)]):
        meant = {asked[term] for term in words.vocabulary(text[offset:end]) if term in asked} if asked else ()
        worth = sum(len(form) for form in meant)
        if worth > most:
            most, found = worth, page
    return found or None


def of_quotation(text: str, starts: paging.Starts, quotation: str) -> int | None:
    """The page of a passage on which a quotation of it begins; None where it is none or the passage has it not."""
    at = quotations.place(quotation, quotations.plain(text))
    if at < 0:
        return None
    # So many characters stand before a page in the form in which quotations are compared.
    before = bisect.bisect_right(starts, at, key=lambda one: len(quotations.seen(quotations.plain(text[: one[0]]))))
    return starts[before - 1][1] or None if before else None
