"""What is asked about a document of each type: one prompt that gives its fields and its hints in one answer.

A field that the text itself says in a known form is read from there (`mail`, `fields`) and holds; what a model adds has
to stand in the text, or in what was seen in the images, and is left out otherwise.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from importlib import resources
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from kb import api, hidden
from kb.extract import document_node, fields, hints, mail, prompt, quote, shape
from text import words

# What the instructions, the lines before the document and the answer may take of a model's window, in tokens.
_RESERVED = 2000
_LEAST_TOKENS = 256
_SMALLER_TOKENS = 1000
"""Of the document in a question that is asked last."""
_PART_CHARS = 3800
_LINE_CHARS = 1000
_MARKED_CHARS = 200_000
# More lines than a chunk takes are not looked for in the log.
_MOST_LINES = 200


class EmailJudgement(hints.Judgement):
    """The answer to `kb.qualify.email/v2` about a mail with headers."""

    # What a mail is for is shown, and decides nothing.
    cautious: ClassVar[shape.Cautious] = {
        **hints.Judgement.cautious,
        "classification": api.EmailClassification.UNKNOWN,
    }

    classification: api.EmailClassification
    answers_earlier: bool = False


class EmailReading(EmailJudgement):
    """The answer to it about a mail without."""

    sender: str = Field(default="", max_length=320)
    recipients: list[str] = Field(default_factory=list, max_length=200)
    subject: str = Field(default="", max_length=1000)


class JiraReading(hints.Judgement):
    """The answer to `kb.qualify.jira/v2`."""

    answers_earlier: bool = False

    status: str = Field(default="", max_length=200)
    type: str = Field(default="", max_length=200)
    assignee: str = Field(default="", max_length=320)
    reporter: str = Field(default="", max_length=320)
    epic: str = Field(default="", max_length=300)
    sprint: str = Field(default="", max_length=300)
    change_description: str = Field(default="", max_length=2000)


class ConfluenceReading(hints.Judgement):
    """The answer to `kb.qualify.confluence/v1`."""

    author: str = Field(default="", max_length=320)
    title: str = Field(default="", max_length=1000)
    topic: str = Field(default="", max_length=300)


class LogReading(hints.Judgement):
    """The answer to `kb.qualify.log/v1`."""

    tokens: ClassVar[int] = shape.LONG
    # It takes the place of the log's own text: without a summary it is none, and the log is judged by the shorter
    # question.
    cautious: ClassVar[shape.Cautious] = {**hints.Judgement.cautious, "keyEvents": [], "criticalDetails": []}

    log_summary: Annotated[str, StringConstraints(min_length=1, max_length=4000, strip_whitespace=True)]
    key_events: list[str] = Field(max_length=100)
    critical_details: list[str] = Field(max_length=100)


class Kind(shape.Camel):
    """The answer to `kb.qualify.type/v1`."""

    tokens: ClassVar[int] = shape.SMALL
    # As where the model is not sure: the document is read as a text of no type.
    cautious: ClassVar[shape.Cautious] = {"contentType": api.ContentType.GENERIC}

    type_reason: str = Field(default="", max_length=2000)
    content_type: api.ContentType


class Detection(hints.Judgement):
    """The answer to `kb.qualify.detect/v2`: a document of no type needs no other one."""

    cautious: ClassVar[shape.Cautious] = {**hints.Judgement.cautious, **Kind.cautious}

    type_reason: str = Field(default="", max_length=2000)
    content_type: api.ContentType


class Details(shape.Shape):
    """The answer to `kb.qualify.vision-TYPE/v1`."""

    tokens: ClassVar[int] = shape.LONG

    details: str = Field(max_length=20_000)


def look(kind: api.ContentType, request: api.IngestRequest, summary: str, images: Sequence[bytes]) -> prompt.Prompt:
    """What is looked for in the images of a document of this type; `summary` is what they show in general."""
    file = f"vision-{kind.value.lower()}"
    lines = [f"Kind: {request.kind}", f"Title: {request.title}"]
    asked = prompt.compose(f"kb.qualify.{file}/v1", instructions(f"{file}.v1"), lines, summary)
    system, user = asked.messages
    return prompt.Prompt(asked.name, (system, user | {"images": [base64.b64encode(one).decode() for one in images]}))


def question(
    name: str,
    request: api.IngestRequest,
    text: str,
    seen: str,
    *,
    today: date,
    num_ctx: int | None,
    earlier: str = "",
) -> prompt.Prompt:
    """The prompt `kb.qualify.NAME` about a text, what was `seen` in its images and what was said in its thread
    `earlier`, as far as the window takes them."""
    file, version = name.split("/")
    lines = [
        f"Today: {today.isoformat()}",
        f"Team: {', '.join(' '.join(one.split()) for one in request.team)}",
        f"Kind: {request.kind}",
        f"Title: {request.title}",
    ]
    before = earlier
    if num_ctx is not None:
        # At most a quarter of the window: the document is what is judged.
        room = max(num_ctx - _RESERVED, _LEAST_TOKENS) // 4
        before = earlier[: _fitting(earlier, room)]
        num_ctx -= room if before else 0
    # Of a longer mail the model sees little; looking for quotes in all of it would take the loop's time.
    marks = file == "email" and len(text) <= _MARKED_CHARS
    shown = document(quote.marked(text) if marks else text, seen, num_ctx)
    return prompt.compose(f"kb.qualify.{name}", instructions(f"{file}.{version}"), lines, shown, thread=before)


def smaller(num_ctx: int | None) -> int:
    """The window for which a question is made that is asked last: about little of the text and of its images."""
    room = _SMALLER_TOKENS if num_ctx is None else min(_SMALLER_TOKENS, (num_ctx - _RESERVED) // 2)
    return _RESERVED + room


@functools.cache
def instructions(name: str) -> str:
    """Those of a prompt, from its file."""
    return (resources.files("kb.extract.prompts") / f"{name}.txt").read_text(encoding="utf-8").strip()


def document(text: str, seen: str, num_ctx: int | None) -> str:
    """Head and tail of what is longer than is judged of a document, or than the window of the model."""
    most = hints.HEAD_CHARS + hints.TAIL_CHARS
    if num_ctx is not None:
        most = min(most, _fitting(text, max(num_ctx - _RESERVED, _LEAST_TOKENS)))
    shown = hints.excerpt(text, most)
    return f"{shown}\n\nVISUAL CONTEXT:\n{hints.excerpt(hidden.plain(seen), most // 2)}" if seen else shown


def _fitting(text: str, tokens: int) -> int:
    """How many characters of a text so many tokens take; no more than it has where it fits."""
    # About three letters of a Latin script are a token, and one of any other.
    plain = sum(1 for one in text if one.isascii())
    whole = plain / 3 + (len(text) - plain)
    return int(len(text) * tokens / whole) if whole else 0


def email(request: api.IngestRequest, text: str, seen: str, said: EmailJudgement | None) -> api.EmailExtraction:
    """The fields of a mail; without `said` those of its headers alone."""
    headers = mail.read(text)
    classification = said.classification if said else api.EmailClassification.UNKNOWN
    if headers is not None:
        return api.EmailExtraction(
            sender=headers.sender,
            recipients=headers.recipients,
            subject=headers.subject or request.title,
            classification=classification,
        )
    if not isinstance(said, EmailReading):
        return api.EmailExtraction(subject=request.title, classification=classification)
    stands = _standing(text, seen)
    return api.EmailExtraction(
        sender=stands(said.sender),
        recipients=tuple(one for one in said.recipients if stands(one)),
        subject=request.title or stands(said.subject),
        classification=classification,
    )


def issue_key(own: str, text: str) -> str:
    """What an issue is called: by the key of its node, or by its text."""
    topic = document_node.topic(own)
    return topic.key.partition("::")[2] if topic is not None else fields.read(text).get("key", "")


def jira(key: str, text: str, seen: str, said: JiraReading | None) -> api.JiraExtraction:
    """The fields of an issue called `key`."""
    known = fields.read(text)
    read = {} if said is None else said.model_dump()
    stands = _standing(text, seen)

    def of(name: str) -> str:
        return known.get(name, "") or stands(str(read.get(name, "")))

    return api.JiraExtraction(
        key=key,
        status=of("status"),
        type=of("type"),
        assignee=of("assignee"),
        reporter=of("reporter"),
        epic=of("epic"),
        sprint=of("sprint"),
        change_description=said.change_description if said else "",
    )


def confluence(
    request: api.IngestRequest, text: str, seen: str, said: ConfluenceReading | None
) -> api.ConfluenceExtraction:
    """The fields of a page."""
    known, stands = fields.read(text), _standing(text, seen)
    return api.ConfluenceExtraction(
        author=known.get("author", "") or (stands(said.author) if said else ""),
        title=request.title or (stands(said.title) if said else ""),
        topic=said.topic if said else "",
    )


def log(text: str, said: LogReading) -> tuple[api.LogSummarization, list[str]]:
    """The summary of a log, and a problem for the lines that the log does not have."""
    there, kept, problems = words.plain(text), dict[str, tuple[str, ...]](), list[str]()
    for name, given in (("keyEvents", said.key_events), ("criticalDetails", said.critical_details)):
        lines = [line.strip() for one in given for line in one.splitlines() if line.strip()][:_MOST_LINES]
        own = [line for line in lines if words.plain(line) in there]
        kept[name] = tuple(_bounded(iter(own)))
        if len(own) < len(lines):
            left_out = f"{len(lines) - len(own)} of {len(lines)} lines in {name}"
            problems.append(f"{left_out} do not stand in the log, and were left out")
    made = api.LogSummarization(
        summary=said.log_summary,
        key_events=kept["keyEvents"],
        critical_details=kept["criticalDetails"],
    )
    return made, problems


def parts(found: api.LogSummarization) -> list[str]:
    """The texts of a log's chunks (seed 003 "LOG Summarization": three instead of the raw text)."""
    listed: Sequence[tuple[str, Sequence[str]]] = (
        ("Summary", [found.summary]),
        ("Key events", found.key_events),
        ("Critical details", found.critical_details),
    )
    return ["\n".join([f"{name}:", *lines]) for name, lines in listed if any(lines)]


def looks_like_log(text: str) -> bool:
    """Whether most of the first lines begin as those of programs do: its chunks may not be needed then."""
    lines = [line for line in text[:20_000].splitlines() if line.strip()][:100]
    return len(lines) > 2 and sum(1 for line in lines if fields.LOGGED.match(line)) * 2 > len(lines)


def _standing(text: str, seen: str) -> Callable[[str], str]:
    """What gives a value back that stands in the text, or in what was seen, and "" for any other."""
    there: list[str] = []

    def said(value: str) -> str:
        value = " ".join(value.split())
        wanted = words.plain(value)
        if wanted and not there:
            # A long text is brought into the form of the comparison once.
            there.extend((words.plain(text), words.plain(seen)))
        return value if wanted and any(wanted in one for one in there) else ""

    return said


def _bounded(lines: Iterator[str]) -> Iterator[str]:
    """As many lines as a chunk takes, each once."""
    room, seen = _PART_CHARS, set[str]()
    for whole in lines:
        line = whole[:_LINE_CHARS]
        if line not in seen and len(line) < room:
            seen.add(line)
            room -= len(line) + 1
            yield line
