"""A document that is sent, with the nodes and relationships that its sender gives, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    JsonValue,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StringConstraints,
    model_validator,
)

from contracts.api import message
from crds import access as accesses
from crds import scope, values
from kb import paging
from kb.api import links as linked
from kb.api.directive import (
    MESSAGE_CHARS,
    MOST_DEFER_MINUTES,
    QUESTION_CHARS,
    DirectiveAction,
    QualifierDirective,
)
from kb.api.qualification import Qualification

ContentRef = values.ContentRef
"""Where content too large for a custom resource lies: the same value as in the custom resource."""


def _bounded(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    size = len(json.dumps(metadata).encode())
    if size > METADATA_BYTES:
        raise ValueError(
            f"it has {size} bytes as JSON, at most {METADATA_BYTES} are kept; leave out what is not needed"
        )
    return metadata


METADATA_BYTES = 16_384
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_bounded)]
"""What a sender says about its document beside the text: kept with every chunk, given back, and a filter."""


_Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
_Scalar: TypeAlias = StrictBool | StrictInt | _Number | Annotated[str, Field(max_length=4000)]


def _flat(given: object) -> object:
    if isinstance(given, dict):
        for name, value in given.items():
            for one in value if isinstance(value, list) else [value]:
                if one is None or isinstance(one, dict | list):
                    kind = "null" if one is None else "an object" if isinstance(one, dict) else "a list in a list"
                    raise ValueError(
                        f"{str(name)[:64]!r} holds {kind}; give texts, numbers, true or false, or a list of these"
                    )
    return given


PropertyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]
Properties = Annotated[
    dict[PropertyName, _Scalar | Annotated[list[_Scalar], Field(max_length=200)]],
    Field(max_length=50),
    BeforeValidator(_flat),
]
"""Typed properties: texts, numbers, true or false, and lists of these; times are RFC 3339 texts."""
_Type = Annotated[str, StringConstraints(min_length=1, max_length=64, strip_whitespace=True)]
_Place = Annotated[str, StringConstraints(max_length=1024, strip_whitespace=True)]


class GivenNode(message.Request):
    """A node that the source is known to have; `key` is type:name (`jira::JERV-1`, `class:UserService`).

    `at` is where the source says so: the name of a field, or file@commit:line. Without it the place is the entry.
    """

    key: message.Key
    type: _Type
    properties: Properties = Field(default_factory=dict)
    at: _Place = ""


class GivenRelationship(message.Request):
    """A relationship that the source is known to have. The ends are keys, or the document's own value (`JERV-1`)."""

    source: message.Key
    type: _Type
    target: message.Key
    properties: Properties = Field(default_factory=dict)
    at: _Place = ""


class File(message.Request):
    """An image that comes with a document, by the name that `/ingest/attachment` gives it."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    content_ref: ContentRef


MOST_INSTEAD = 100
"""Tasks in whose place one may be read."""


class TaskOrigin(message.Request):
    """The task that a document comes with; `name` is its namespace/name.

    `fingerprint` is its caller's hash of the task's input: where the version that is stored came with another task, the
    same one and under the same hard rules, nothing is done and the answer has `repeats`. So it is where models read the
    same document for another task. Not with `again`, nor without a fingerprint, nor where that task is one of
    `insteadOf`: uids of tasks that came to nothing, whose readings are taken over.
    """

    uid: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    name: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    fingerprint: Annotated[str, StringConstraints(max_length=64)] = ""
    again: bool = False
    instead_of: list[Annotated[str, StringConstraints(min_length=1, max_length=64)]] | None = Field(
        default=None, max_length=MOST_INSTEAD
    )


class IngestRequest(message.Request):
    """One document. The same `sourceUrn` in the same scope replaces what was known from it before.

    `observedAt` is when the source says it happened. A version that was observed before the one that was accepted last
    is not stored, neither in the present nor in the history, and its answer has `supersededBy`; of two with the same
    time, or where one has none, the later request is the newer version. `team` names who "we" are (people, teams, mail
    addresses): it decides `isAssignedToMe`. `attachments` names the files that come with this version
    (`/ingest/attachment` sends them): others that came with an older one are forgotten. Without it all of them stay.
    `metadata` is the sender's own: it is given back with every chunk, and questions can be narrowed by it. `nodes` and
    `relationships` are facts that the caller knows, beside what models read in the text; like the text they belong to
    this version and are replaced with it. `files` are the images among the attachments: what a vision model sees in
    them helps to understand the document. `task` is the one that it comes with. `access` is who may see it at its
    source; without it the document keeps what was said before, and a new one is Unknown.
    """

    scope: scope.Scope
    source_urn: message.Urn
    kind: message.Kind
    title: str = Field(default="", max_length=1000)
    content: str | None = None
    content_ref: ContentRef | None = None
    observed_at: AwareDatetime | None = None
    team: list[Annotated[str, StringConstraints(min_length=1, max_length=320)]] = Field(
        default_factory=list, max_length=200
    )
    metadata: Metadata = Field(default_factory=dict)
    attachments: list[Annotated[str, StringConstraints(min_length=1, max_length=255)]] | None = Field(
        default=None, max_length=1000
    )
    files: list[File] = Field(default_factory=list, max_length=50)
    nodes: list[GivenNode] = Field(default_factory=list, max_length=5000)
    relationships: list[GivenRelationship] = Field(default_factory=list, max_length=10_000)
    task: TaskOrigin | None = None
    access: accesses.Access | None = None
    _marked: bool = PrivateAttr(default=False)
    _starts: paging.Starts = PrivateAttr(default=())

    @property
    def marked(self) -> bool:
        """Whether this program itself has read the content and marked what is hidden in it: no caller can say so."""
        return self._marked

    @property
    def starts(self) -> paging.Starts:
        """Where in the content the pages of the file begin that this program has read: no caller can say so."""
        return self._starts

    def as_marked(self, starts: paging.Starts = ()) -> Self:
        """The same, marked by this program; `starts` of its pages are those of the marked content."""
        made = self.model_copy()
        made._marked, made._starts = True, starts
        return made

    @model_validator(mode="after")
    def _one_content(self) -> IngestRequest:
        if accesses.METADATA in self.metadata:
            raise ValueError(
                f"metadata has {accesses.METADATA}, a name of the knowledge base's own; give access instead"
            )
        if paging.METADATA in self.metadata:
            raise ValueError(f"metadata has {paging.METADATA}, a name of the knowledge base's own; use another one")
        if (self.content is None) == (self.content_ref is None):
            raise ValueError("give exactly one of content and contentRef")
        return self


Routed = Literal["InfoOnly", "Execute", "ExecuteHigh", "Defer", "Ask", "Fail"]
# Of the others nothing has to come first; whether and when they are executed says the route itself.
_RULED: Mapping[str, DirectiveAction] = {
    "Defer": DirectiveAction.DEFER,
    "Ask": DirectiveAction.ASK,
    "Fail": DirectiveAction.FAIL,
}


class Hints(message.Reply):
    """What the qualifier noticed about a document; the operator maps it to a route, deterministically.

    `questions`: what a person has to answer before anything can be done. `failure`: why nothing can be done at all.
    `route`: what a hard rule decides, whatever the rest says; `deferMinutes` belongs to Defer.
    """

    has_actionable_content: bool
    is_assigned_to_me: bool
    has_future_deadline: bool
    suggested_deadline: AwareDatetime | None = None
    urgency: message.Urgency
    reason: str
    questions: list[str] = Field(default=[], max_length=16)
    failure: str = ""
    route: Routed | None = None
    defer_minutes: int = 0

    def directive(self) -> QualifierDirective:
        """What these hints say that the task needs: what a hard rule decides, else what the model noticed.

        Questions about content that asks for nothing need no answer, unless a rule asks them.
        """
        questions = list(dict.fromkeys(each.strip()[:QUESTION_CHARS] for each in self.questions if each.strip()))
        action = self._action(asks=bool(questions))
        message = (self.failure if action is DirectiveAction.FAIL else "").strip() or self.reason.strip()
        message = message[:MESSAGE_CHARS].strip() or "No reason was given."
        minutes = min(max(self.defer_minutes, 1), MOST_DEFER_MINUTES)
        return QualifierDirective(
            action=action,
            message=message,
            questions=(questions or [message[:QUESTION_CHARS]]) if action is DirectiveAction.ASK else None,
            defer_minutes=minutes if action is DirectiveAction.DEFER else None,
        )

    def _action(self, *, asks: bool) -> DirectiveAction:
        if self.route is not None:
            return _RULED.get(self.route, DirectiveAction.EXECUTE)
        if self.failure.strip():
            return DirectiveAction.FAIL
        return DirectiveAction.ASK if asks and self.has_actionable_content else DirectiveAction.EXECUTE


class RuleActed(message.Reply):
    """A version of a hard rule that decided something about a document; `effect` is that, such as `route InfoOnly`."""

    scope: scope.Scope
    rule_key: str
    version: int
    effect: str


Superseded = Literal["Version", "Deletion"]


class HiddenText(message.Reply):
    """A part of a document that its reader does not see, and the beginning of what it says (`kb.hidden`).

    NotDisplayed, SameColour and Comment are of HTML and files, AltText of HTML; TextLayer is of PDFs, Note of
    presentations, ZeroWidth and TagCharacters of any text.
    """

    kind: Literal["NotDisplayed", "SameColour", "TextLayer", "Comment", "Note", "AltText", "ZeroWidth", "TagCharacters"]
    quote: str = Field(max_length=200)


class Answered(message.Reply):
    """An earlier document of the thread, and the task that it came with."""

    source_urn: str
    task_uid: str


class Duplicate(message.Reply):
    """An earlier document that says nearly the same, and the task that it came with, "" if none; `share` of the words
    that both have, in their order: 1.0 means all."""

    source_urn: str
    task_uid: str
    title: str
    share: float


class Repeat(message.Reply):
    """The task that the same document came with before; `task` is its namespace/name.

    `reading`: it is not stored yet. Models read it for that task, or will soon.
    """

    task_uid: str
    task: str
    reading: bool = False


class InnerImage(message.Reply):
    """An image that stood in the document, a part of a mail or a `data:` URI; `sourceUrn` is that of its attachment."""

    name: str
    source_urn: str
    media_type: str
    size: int
    chunk_ids: list[str]


class IngestReply(message.Reply):
    """`replaced` is true when the same sourceUrn had been ingested in this scope before.

    `supersededBy` is set when a newer version of the document, by `observedAt`, was accepted before this one, or when
    another one or its deletion came while models read it: nothing of it is stored, so it has no chunks and nodes.
    Summary and hints are about it all the same.

    `directive` is what the task needs first; without it the hints say it (`Hints.directive`). With a `route` it is that
    of the route: InfoOnly, Execute and ExecuteHigh are Execute, the others have their own action.

    `problems` names the passages from which no entities could be extracted; they can be found by their words all the
    same, and a repeated ingest tries them again. What the qualifier could not find out is named there too.
    `qualification` is what it understood.

    `links` are those that the document holds; none was opened. `link` says what became of a link that was to be read.

    `rules` are the hard rules that decided something, beside what models say. `indexed` is false when one of them
    forbids to store the document: it was judged all the same, and is not known any more if it was.

    `hidden` lists the parts of the content that its reader does not see; in the stored text they stand between marks.

    `repeats` names the task that the same document came with before (`TaskOrigin`): nothing is done with it, no model
    is asked, and the other fields say nothing about it.

    `earlier` are the sourceUrns of the thread's documents that the model read with this one, the latest first;
    `answered` those whose request this one answers, so that nothing of it is left to do. `duplicate` is an earlier
    document that says nearly the same; this one is stored and judged all the same.

    `images` are those that stood in the content. What they show is stored with them; the text names them.
    """

    source_urn: str
    replaced: bool
    superseded_by: Superseded | None = None
    chunk_ids: list[str]
    node_keys: list[str]
    edge_count: int
    summary: str
    hints: Hints
    directive: QualifierDirective | None = None
    problems: list[str] = Field(default_factory=list)
    qualification: Qualification | None = None
    links: list[linked.Link] = Field(default_factory=list)
    link: linked.LinkReport | None = None
    rules: list[RuleActed] = Field(default_factory=list)
    indexed: bool = True
    hidden: list[HiddenText] = Field(default_factory=list, max_length=20)
    repeats: Repeat | None = None
    earlier: list[str] = Field(default_factory=list, max_length=20)
    answered: list[Answered] = Field(default_factory=list, max_length=20)
    duplicate: Duplicate | None = None
    images: list[InnerImage] = Field(default_factory=list)


class IndexReply(message.Reply):
    """The document can be found by its words now. `queued`: its entities are extracted later, at `priority` (0 to 3).

    `id` names the document in the queue. `supersededBy` is set when a version with a later `observedAt` was accepted
    before: nothing of this one is stored, and it has no chunks. `indexed` is false when `rules` forbid to store it.
    `hidden` is as in IngestReply. `images` are those in the file that the document was read from; images in a content
    are looked at later. `problems` say what of the text is left out.
    """

    id: str
    source_urn: str
    replaced: bool
    superseded_by: Superseded | None = None
    chunk_ids: list[str]
    queued: bool
    priority: int
    rules: list[RuleActed] = Field(default_factory=list)
    indexed: bool = True
    hidden: list[HiddenText] = Field(default_factory=list, max_length=20)
    images: list[InnerImage] = Field(default_factory=list)
    problems: list[str] = Field(default_factory=list)
