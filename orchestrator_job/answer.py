"""The model's answer: its schema, its validation against the evidence, and the error message for the model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from crds import provisions, quotations
from orchestrator_job import errors

_SHOWN_PROBLEMS = 5
_FREE = provisions.Provisions()


class Unusable(errors.InvalidOutput):
    """The answer does not follow the schema or cites unknown evidence; the text says what to correct."""


class Answer(BaseModel):
    """`job.respond/v1`. `citations` are ids of evidence items; `questions` are for the user when input is needed."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    answer: str
    citations: list[int]
    confidence: Annotated[float, Field(ge=0, le=1)]
    needs_input: bool
    questions: Annotated[list[Annotated[str, Field(min_length=1, max_length=2048)]], Field(max_length=16)]


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


def schema() -> dict[str, Any]:
    """The JSON schema of the model's answer."""
    return Answer.model_json_schema(by_alias=True)


def parse(text: str, evidence_ids: Collection[int], held: provisions.Provisions = _FREE) -> Answer:
    """The validated answer, citations sorted and complete (marks in the text count as citations).

    Raises Unusable for text that is not JSON of the schema, for a citation of unknown evidence, for an empty answer,
    for needsInput without a question, and for an answer that `held` forbids.
    """
    try:
        given = Answer.model_validate_json(text)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[:_SHOWN_PROBLEMS]
        problems = [f"{'.'.join(str(part) for part in each['loc']) or 'answer'}: {each['msg']}" for each in found]
        raise Unusable("; ".join(problems)) from error
    marks = quotations.MARK.finditer(given.answer)
    cited = set(given.citations) | {number for mark in marks for number in quotations.numbers(mark)}
    unknown = sorted(cited - set(evidence_ids))
    if unknown:
        known = f"1 to {max(evidence_ids)}" if evidence_ids else "no evidence at all"
        raise Unusable(f"citations: {unknown} name no evidence; there is {known}")
    if given.needs_input and not any(question.strip() for question in given.questions):
        raise Unusable("questions: needsInput is true, but no question is asked")
    if not given.needs_input and not given.answer.strip():
        raise Unusable("answer: is empty although needsInput is false")
    if given.needs_input and not held.permits_tool("ask"):
        raise Unusable("needsInput: a rule forbids to ask the user; answer from the evidence and say what is missing")
    objection = objected(given, bool(cited), held)
    if objection is not None:
        raise Unusable(objection)
    return given.model_copy(update={"citations": sorted(cited)})


def objected(given: Answer, cites: bool, held: provisions.Provisions) -> str | None:
    """Why the rules forbid this answer; None: they do not."""
    said = " ".join([given.answer, *given.questions])
    objection = held.objection(said, cites=cites, final=not given.needs_input)
    return None if objection is None else f"{'questions' if given.needs_input else 'answer'}: {objection}"
