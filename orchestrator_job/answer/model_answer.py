"""The model's answer: its schema, its validation against the evidence, and the error message for the model. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from contracts.rules import enforce_lines
from orchestrator_job.model import intent
from router.client import reading, schema
from text import quotations

TOKENS = 4096
"""Most tokens of an answer."""
_UNSAID = 0.5
"""Confidence of an answer that does not say it."""
_FREE = enforce_lines.Provisions()
QUESTION_CHARS = 2048
_Question = Annotated[str, Field(min_length=1, max_length=QUESTION_CHARS)]


class Answer(BaseModel):
    """`job.respond/v1`. `citations` are ids of evidence items; `questions` are for the user when input is needed."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    answer: str
    citations: list[int]
    confidence: Annotated[float, Field(ge=0, le=1)]
    needs_input: bool
    questions: Annotated[list[_Question], Field(max_length=16)]


class _Shape(schema.Shape):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Given(_Shape):
    """What a model is asked for where the evidence answers."""

    answer: str
    citations: list[int]
    confidence: schema.Share


class GivenToUser(intent.Answering):
    """The same to what a user has written."""

    answer: str
    citations: list[int]
    confidence: schema.Share


class Asks(_Shape):
    """What it is asked for in place of that where something is missing: `answer` is what can be said already."""

    answer: str
    questions: Annotated[list[_Question], Field(min_length=1, max_length=16)]


class Draft(intent.Worded):
    """What is read of an answer: one of these, or several with a flag, as models write them that follow no schema."""

    cautious: ClassVar[dict[str, Any]] = {"confidence": _UNSAID}
    # A question that cannot be read is asked of nobody.
    telling: ClassVar[frozenset[str]] = frozenset({"questions"})

    answer: str = ""
    citations: list[int] = Field(default_factory=list)
    confidence: schema.Share
    needs_input: bool | None = None
    questions: Annotated[list[_Question], Field(max_length=16)] = Field(default_factory=list)


class Misquoted(BaseModel):
    """A text that the model put into quotation marks although the evidence of `marks` does not have it. `found`: the
    evidence that has it, whose mark it has now; None: it has no quotation marks any more."""

    model_config = ConfigDict(frozen=True)

    text: str
    marks: tuple[int, ...] = ()
    verdict: quotations.Verdict
    found: int | None = None


class Checked(Answer):
    """An answer whose quotations were compared with the evidence."""

    misquoted: tuple[Misquoted, ...] = ()


def wire(
    evidence_ids: Sequence[int],
    held: enforce_lines.Provisions = _FREE,
    kinds: Collection[intent.Kind] | None = None,
) -> schema.Wire:
    """What is sent as the shape of an answer from this evidence; no questions where a rule forbids them. `kinds` are
    what can be worked on in place of an answer to a user, who is not asked for what is known already (None)."""
    choices: dict[str, Sequence[int] | Sequence[str]] = {"citations": list(evidence_ids)}
    asks = (Asks,) if held.permits_tool("ask") else ()
    if kinds is None:
        return schema.wire(Given, *asks, choices=choices)
    given = schema.wire(GivenToUser, *asks, choices={**choices, "effects": intent.EFFECTS})
    return schema.either(given, intent.order(kinds)) if kinds else given


def judged(draft: Draft, evidence_ids: Collection[int], held: enforce_lines.Provisions = _FREE) -> Answer:
    """The answer, citations sorted and complete: marks in its text count as citations, and a number that names no
    evidence is neither. An answer beside a flag without a question is an answer, questions without an answer ask.

    Raises Unusable for one that says nothing, and for one that `held` forbids.
    """
    # Some think within a field.
    text, cited = _cited(reading.plain(draft.answer), frozenset(evidence_ids))
    # A small model fills its list with the same ones.
    questions = list(
        dict.fromkeys(reading.plain(question) for question in draft.questions if quotations.has_words(question))
    )
    asks = bool(questions) and (draft.needs_input or (draft.needs_input is None and not draft.citations and not cited))
    if not asks and not quotations.has_words(text):
        if not questions:
            raise reading.Unusable("answer: has no word, and no question is asked")
        asks = True
    if asks and not held.permits_tool("ask"):
        raise reading.Unusable(
            "questions: a rule forbids to ask the user; answer from the evidence and say what is missing"
        )
    answer = Answer(
        answer=text,
        citations=sorted(cited | (set(draft.citations) & set(evidence_ids))),
        confidence=draft.confidence,
        needs_input=asks,
        questions=questions,
    )
    if (objection := objected(answer, bool(answer.citations), held)) is not None:
        raise reading.Unusable(objection)
    return answer


def _cited(text: str, known: frozenset[int]) -> tuple[str, set[int]]:
    """The text without marks that name no evidence, and the evidence that its marks name."""
    cited: set[int] = set()

    def kept(mark: re.Match[str]) -> str:
        numbers = quotations.numbers(mark)
        cited.update(known.intersection(numbers))
        if known.issuperset(numbers):
            return mark[0]
        left = [number for number in numbers if number in known]
        return f"[{', '.join(map(str, left))}]" if left else ""

    return quotations.MARK.sub(kept, text), cited


def objected(given: Answer, cites: bool, held: enforce_lines.Provisions) -> str | None:
    """Why the rules forbid this answer; None: they do not."""
    said = " ".join([given.answer, *given.questions])
    objection = held.objection(said, cites=cites, final=not given.needs_input)
    return None if objection is None else f"{'questions' if given.needs_input else 'answer'}: {objection}"
