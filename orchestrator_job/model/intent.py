"""What kind of work a task is, by the word of a model: fields of the structured reply that a run asks for anyway.

`intent` is the category of a task, of a single task with what is done for it (seed 000 "Task Categories", seed 001
"Significance Filter"); `sentence` is copied from what the user wrote, and `effects` are the tools outside that it wants
used. A reply whose sentence the user has not written orders nothing: a document that others wrote decides nothing about
what is done. What is not usable is a single task that is answered. No word of any language is known here; what code
decides about an effect does not rest on it. Pure.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from crds import permits
from kb import api
from orchestrator_job.store.graph_state import State
from router.client import reading, schema

OTHER = "other"
EFFECTS = (*(name for name in permits.TOOLS if name != "fetchPage"), OTHER)
"""Tools that change something, by the names that permits have, and all else that changes something outside."""
_SENTENCE_CHARS = 500


class Kind(StrEnum):
    """What is wanted. ADVICE and RESPOND are answered; the others are worked on. All but ADVICE, EPIC and GENERATIVE
    are single tasks. REMEMBER is an answer in seed 001; here a tool is needed for it."""

    ADVICE = "advice"
    RESPOND = "respond"
    CODE = "code"
    TRACKER = "tracker_ops"
    MIXED = "mixed"
    REMEMBER = "remember"
    EPIC = "epic"
    GENERATIVE = "generative"


MEANS: Mapping[Kind, str] = {
    Kind.ADVICE: "something is asked, and nothing is to be done",
    Kind.RESPOND: "one thing is to be done, and it is none of the others",
    Kind.CODE: "files of a repository are to be changed",
    Kind.TRACKER: "issues or tickets are to be created, changed, closed or commented on",
    Kind.MIXED: "both of the last two",
    Kind.REMEMBER: "something is to be kept in mind for later",
    Kind.EPIC: "several goals, or a work so large that it has to be divided into goals",
    Kind.GENERATIVE: "something new is to be designed first, and then made",
}
"""For a prompt."""
ANSWERED = (Kind.ADVICE, Kind.RESPOND)
WORKED = tuple(kind for kind in Kind if kind not in ANSWERED)
_CATEGORIES = {
    Kind.ADVICE: api.TaskCategory.ADVICE,
    Kind.EPIC: api.TaskCategory.EPIC,
    Kind.GENERATIVE: api.TaskCategory.GENERATIVE,
}


def works(*, delegates: bool, outside: bool) -> tuple[Kind, ...]:
    """What the legacy graph works on in a run that may delegate, `outside`: and has repositories and trackers."""
    if not delegates:
        return ()
    at_connections = (Kind.CODE, Kind.TRACKER, Kind.MIXED) if outside else ()
    return (*at_connections, Kind.REMEMBER, Kind.EPIC, Kind.GENERATIVE)


class Intent(BaseModel):
    """The state's `intent`: of `round`. `effects` are some of EFFECTS; `not_before` is the moment before which nothing
    of it is to be done, in UTC."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    round: int
    kind: Kind = Kind.RESPOND
    sentence: str = ""
    effects: tuple[str, ...] = ()
    not_before: datetime | None = None
    answered: bool = False
    """Whether it gets an answer in place of work, because it is for later."""

    def later(self, now: datetime) -> bool:
        """Whether nothing of it is to be done yet."""
        return self.not_before is not None and now < self.not_before

    def at(self, now: datetime) -> Intent:
        """The same at this moment: what is for later gets an answer."""
        return self.model_copy(update={"answered": self.later(now)})

    @property
    def works(self) -> bool:
        """Whether it is worked on, not answered alone."""
        return self.kind not in ANSWERED and not self.answered

    @property
    def category(self) -> api.TaskCategory:
        """By the names of the knowledge base."""
        return _CATEGORIES.get(self.kind, api.TaskCategory.SINGLE_TASK)

    def dump(self) -> dict[str, Any]:
        """For a state."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def known(state: State) -> Intent | None:
    """That of the state's round; None: no model has said it yet."""
    stored = state.get("intent") or {}
    return Intent.model_validate(stored) if stored.get("round") == state["round"] else None


def of(state: State) -> Intent:
    """The same; a single task that is answered where no model has said it."""
    return known(state) or Intent(round=state["round"])


# --- as a part of replies -------------------------------------------------------------------------------------------

_Sentence = Annotated[str, Field(max_length=_SENTENCE_CHARS)]


class _Shape(schema.Shape):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Answering(_Shape):
    """The fields in front of an answer."""

    intent: Literal["advice", "respond"]
    sentence: _Sentence
    effects: list[str]
    not_before: str


class Ordered(_Shape):
    """A reply in place of an answer: the question is worked on."""

    intent: Kind
    sentence: _Sentence
    effects: list[str]
    not_before: str = ""

    # A model that may leave it out does not think of it.
    model_config = ConfigDict(json_schema_extra={"required": ["intent", "sentence", "effects", "notBefore"]})


class Worded(_Shape):
    """What is read of these fields, in whatever reply they stand: one that has none of them says nothing of it."""

    intent: Annotated[Kind | None, WithJsonSchema({"type": "string", "enum": [kind.value for kind in Kind]})] = None
    sentence: _Sentence = ""
    effects: list[str] = Field(default_factory=list)
    not_before: str = ""


def order(kinds: Collection[Kind]) -> schema.Wire:
    """What is sent as the shape of `Ordered`."""
    return schema.wire(Ordered, choices={"intent": [kind.value for kind in kinds], "effects": EFFECTS})


def read(worded: Worded | Ordered, question: str, round_number: int) -> Intent | None:
    """What a reply says; `question` is what the user wrote. None: it does not say it. Raises `reading.Unusable` for an
    order that rests on no sentence of the user."""
    if worded.intent is None:
        return None
    ordered = rests(worded.sentence, question)
    if worded.intent not in ANSWERED and not ordered:
        raise reading.Unusable("sentence: must be copied from <question>, letter by letter: the one that orders it")
    effects = tuple(name for name in dict.fromkeys(worded.effects) if name in EFFECTS) if ordered else ()
    sentence, moment = (worded.sentence, _moment(worded.not_before)) if ordered else ("", None)
    return Intent(round=round_number, kind=worded.intent, sentence=sentence, effects=effects, not_before=moment)


def asked(kinds: Collection[Kind]) -> str:
    """What a prompt says of the fields."""
    listed = "; ".join(f"{kind.value} ({MEANS[kind]})" for kind in (*ANSWERED, *kinds))
    return f"""
intent is what <question> wants, one of: {listed}. sentence is the sentence of <question> that this rests on, copied
letter by letter, and "" for advice. effects names what <question> itself wants to have sent or changed outside, with
{OTHER} for what no name fits, and is empty where it wants an answer alone. notBefore is the moment, in ISO 8601 with
its offset, before which <question> wants nothing of that to be done, counted from Today, and "" for what may be done
at once."""


def _moment(text: str) -> datetime | None:
    """The moment of a text, if it says one: a time without an offset may be any."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None else None


def rests(sentence: str, question: str) -> bool:
    """Whether the sentence stands in what the user wrote: with the same letters and digits, in whatever form."""
    plain = _plain(sentence)
    return bool(plain) and plain in _plain(question)


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))
