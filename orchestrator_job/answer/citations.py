"""Quotations of an answer, word for word against the evidence that their marks name. Pure.

Which words a quotation has, and what the evidence says to it, is decided in `text.quotations`. What is not supported
does not stay a quotation:

    Misattributed   gets the mark of the evidence that has it
    Stitched        loses its quotation marks
    Absent          loses its quotation marks, and has `[unconfirmed]` in place of its mark

A quotation without a mark may also be from what the model was given beside the evidence, such as the reports of agents.
Code is no quotation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from contracts.rules import enforce_lines
from orchestrator_job.answer import claims, evidence_pack, model_answer
from orchestrator_job.model import prompt_escape
from router.client import reading
from text import quotations
from text.quotations import Verdict

UNCONFIRMED = 0.5
"""Most confidence of an answer with statements that nothing supports."""
_BESIDE = 0
"""Number of what was given beside the evidence, whose numbers begin at 1."""
_PASSES = 3
_SHOWN = 3
"""Quotations of which the model gets to know in one correction."""
_SHOWN_CHARS = 200
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_SIGNS = re.compile("[\"'＂″〝〞〟“”‟„❝❞❮❯«»‹›‘’‚「」『』《》]")  # noqa: RUF001
_GAP = re.compile(r"[ \t]*[.,;:!?。，]?[ \t]*")  # noqa: RUF001
_MARKS = re.compile(rf"(?:[ \t]*{quotations.MARK.pattern})+")


class Sources:
    """What an answer may quote. `items` are quoted under their numbers, `own` are the user's words, which have no mark,
    and `beside` is what else the model was given."""

    def __init__(
        self, items: Iterable[evidence_pack.Item], own: Iterable[str] = (), beside: Iterable[str] = ()
    ) -> None:
        self._own = [_plain(text) for text in own]
        self._evidence: dict[int, Collection[str]] = {
            item.id: [_plain(item.content), _plain(item.title)] for item in items
        }
        self._evidence[_BESIDE] = [_plain(text) for text in beside]

    def judge(self, one: quotations.Quotation) -> quotations.Judged:
        """The verdict on a quotation."""
        if one.whole and quotations.within(one.text, self._own):
            return quotations.Judged(one, Verdict.SUPPORTED)
        return quotations.judge(one, self._evidence)


def verify(given: model_answer.Answer, sources: Sources) -> model_answer.Checked:
    """The answer, in which each quotation is one; `misquoted` has those that were none."""
    wrong: list[model_answer.Misquoted] = []
    text = _verified(given.answer, sources, wrong)
    # A mark in it may be a longer word now.
    questions = [_verified(each, sources, wrong)[: model_answer.QUESTION_CHARS] for each in given.questions]
    # A number whose last mark is gone is no citation any more.
    gone = set(quotations.marks(given.answer)) - set(quotations.marks(text))
    new = {one.found for one in wrong if one.found is not None}
    lost = any(one.verdict is Verdict.ABSENT for one in wrong)
    return model_answer.Checked(
        answer=text,
        citations=sorted((set(given.citations) - gone) | new),
        confidence=min(given.confidence, UNCONFIRMED) if lost else given.confidence,
        needs_input=given.needs_input,
        questions=questions,
        misquoted=tuple(wrong),
    )


class Tries:
    """The answers that a model gives to one question until one is taken. `last` is one that may be given, though its
    quotations are not all the model's."""

    def __init__(self, sources: Sources, held: enforce_lines.Provisions) -> None:
        self._sources = sources
        self._held = held
        self._asked = False
        self.last: model_answer.Checked | None = None

    def take(self, given: model_answer.Answer) -> model_answer.Checked:
        """The answer to give. Raises Unusable, once, for quotations that the evidence does not support, and for an
        answer that the rules forbid without them."""
        checked = verify(given, self._sources)
        if not checked.misquoted:
            return checked
        objection = model_answer.objected(checked, bool(checked.citations), self._held)
        if not self._asked:
            self._asked = True
            self.last = checked if objection is None else None
            raise reading.Unusable(problem(checked.misquoted))
        if objection is not None:
            raise reading.Unusable(objection)
        return checked


def problem(wrong: Sequence[model_answer.Misquoted]) -> str:
    """What the model is asked to correct."""
    return "; ".join(f"answer: {one.text[:_SHOWN_CHARS]!r} {_why(one)}" for one in wrong[:_SHOWN])


def _why(one: model_answer.Misquoted) -> str:
    if one.verdict is Verdict.MISATTRIBUTED:
        marks = ", ".join(map(str, one.marks))
        return f"is quoted from [{marks}], but it stands in [{one.found}]"
    if one.verdict is Verdict.STITCHED:
        return "is quoted as one text, but the evidence has its parts in different places: quote each of them alone"
    return "is quoted, but no evidence has these words"


def _verified(text: str, sources: Sources, wrong: list[model_answer.Misquoted]) -> str:
    """The text without what is no quotation; adds that to `wrong`. Without some signs others may begin a quotation."""
    for _ in range(_PASSES):
        changed = _once(text, sources, wrong)
        if changed == text:
            break
        text = changed
    return text


def _once(text: str, sources: Sources, wrong: list[model_answer.Misquoted]) -> str:
    hidden = _CODE.sub(lambda found: _SIGNS.sub("_", found.group()), text)
    made: list[str] = []
    start = 0
    for part in quotations.parts(hidden):
        shown = replace(part, text=text[start : start + len(part.text)])
        made.append(_repaired(shown, sources, wrong))
        start += len(part.text)
    return "".join(made)


def _repaired(part: quotations.Part, sources: Sources, wrong: list[model_answer.Misquoted]) -> str:
    made: list[str] = []
    at = 0
    for number, (span, quotation) in enumerate(zip(part.spans, part.quotations(), strict=True)):
        judged = sources.judge(quotation)
        if judged.verdict is Verdict.SUPPORTED:
            continue
        found = judged.found or None
        verdict = Verdict.ABSENT if judged.verdict is Verdict.MISATTRIBUTED and found is None else judged.verdict
        inside = part.text[span.start + 1 : span.end - span.whole]
        wrong.append(model_answer.Misquoted(text=inside, marks=quotation.marks, verdict=verdict, found=found))
        made.append(part.text[at : span.start])
        made.append(part.text[span.start : span.end] if found else quotations.unquoted(inside))
        at = span.end
        mark = f"[{found}]" if found else claims.MARK if verdict is Verdict.ABSENT and quotation.marks else ""
        if mark:
            most = part.spans[number + 1].start if number + 1 < len(part.spans) else len(part.text)
            between, at = _marks_behind(part.text, at, most)
            made.append(f"{between}{mark}")
    return "".join([*made, part.text[at:]])


def _marks_behind(text: str, at: int, most: int) -> tuple[str, int]:
    """What stands between a quotation that ends at `at` and its own marks, and where these end; a blank, and `at`, for
    a quotation whose marks are elsewhere in its sentence."""
    gap = _GAP.match(text, at, most)
    marks = _MARKS.match(text, gap.end(), most) if gap is not None else None
    if gap is None or marks is None:
        return " ", at
    return gap.group().rstrip(" \t") + " ", marks.end()


def _plain(text: str) -> str:
    # An answer has the characters that its prompt had in place of others.
    return quotations.plain(prompt_escape.restore(text))
