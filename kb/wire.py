"""The wire models of the knowledge base: one truth for the service, its client and its OpenAPI document.

Names are camelCase on the wire and snake_case in Python. Requests refuse unknown fields (a misspelt field is an error
that names it); replies ignore them, so that an older client can talk to a newer service.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from crds import scope, values
from kb import selection

VERSION = "1"
"""Of the wire format; the paths start with /api/v1."""

Urn = Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True)]
Kind = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")]
Urgency = Literal["low", "normal", "high"]


class Request(BaseModel):
    """What a caller sends: strict about field names."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Reply(BaseModel):
    """What the service answers: tolerant of fields that a newer service adds."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


ContentRef = values.ContentRef
"""Where content too large for a custom resource lies: the same value as in the custom resource."""


class IngestRequest(Request):
    """One document. The same `sourceUrn` in the same scope replaces what was known from it before.

    `observedAt` is when the source says it happened; it also gives the date that hints are judged by when the service
    is asked to replay. `team` names who "we" are (people, teams, mail addresses): it decides `isAssignedToMe`.
    `attachments` names the files that come with this version (`/ingest/attachment` sends them): others that came with
    an older one are forgotten. Without it all of them stay.
    """

    scope: scope.Scope
    source_urn: Urn
    kind: Kind
    title: str = Field(default="", max_length=1000)
    content: str | None = None
    content_ref: ContentRef | None = None
    observed_at: AwareDatetime | None = None
    team: list[Annotated[str, StringConstraints(min_length=1, max_length=320)]] = Field(
        default_factory=list, max_length=200
    )
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    attachments: list[Annotated[str, StringConstraints(min_length=1, max_length=255)]] | None = Field(
        default=None, max_length=1000
    )

    @model_validator(mode="after")
    def _one_content(self) -> IngestRequest:
        if (self.content is None) == (self.content_ref is None):
            raise ValueError("give exactly one of content and contentRef")
        return self


class Hints(Reply):
    """What the qualifier noticed about a document; the operator maps it to a route, deterministically.

    `questions`: what a person has to answer before anything can be done. `failure`: why nothing can be done at all.
    """

    has_actionable_content: bool
    is_assigned_to_me: bool
    has_future_deadline: bool
    suggested_deadline: AwareDatetime | None = None
    urgency: Urgency
    reason: str
    questions: list[str] = Field(default=[], max_length=16)
    failure: str = ""


class IngestReply(Reply):
    """`replaced` is true when the same sourceUrn had been ingested in this scope before.

    `problems` names the passages from which no entities could be extracted; they can be found by their words all the
    same, and a repeated ingest tries them again.
    """

    source_urn: str
    replaced: bool
    chunk_ids: list[str]
    node_keys: list[str]
    edge_count: int
    summary: str
    hints: Hints
    problems: list[str] = Field(default_factory=list)


class IndexReply(Reply):
    """The document can be found by its words now. `queued`: its entities are extracted later, at `priority` (0 to 3).

    `id` names the document in the queue.
    """

    id: str
    source_urn: str
    replaced: bool
    chunk_ids: list[str]
    queued: bool
    priority: int


class Narrowed(Request):
    """A question in a scope, narrowed to some documents; what is not given does not narrow.

    `sources` are source URNs, or beginnings of them ending with `*`. `since` and `until` bound `observedAt`,
    inclusively; documents without one are left out by them. `asOf` answers as if it were that moment:
    nothing observed later counts.
    """

    scope: scope.Scope
    kinds: list[Kind] | None = Field(default=None, max_length=100)
    sources: list[Urn] | None = Field(default=None, max_length=100)
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    as_of: AwareDatetime | None = None

    @model_validator(mode="after")
    def _forward(self) -> Narrowed:
        if self.since is not None and self.until is not None and self.since > self.until:
            raise ValueError("since must not be after until")
        return self

    def selection(self) -> selection.Selection:
        """The narrowing alone, as the stores take it."""
        return selection.Selection(
            kinds=None if self.kinds is None else tuple(self.kinds),
            sources=None if self.sources is None else tuple(self.sources),
            since=self.since,
            until=self.until,
            as_of=self.as_of,
        )


class RetrieveRequest(Narrowed):
    """A question in words; with `explain` every item says how its confidence came about."""

    query: str = Field(min_length=1, max_length=8000)
    max_results: int = Field(default=10, ge=1, le=100)
    explain: bool = False


class EdgeRef(Reply):
    """A relationship of the graph, by the keys of its two ends."""

    source: str
    type: str
    target: str


class Provenance(Reply):
    """Where an item comes from. `nodeKey`, `edge` and `sentence` say what it says about the question."""

    source_urn: str
    kind: str = ""
    title: str
    observed_at: AwareDatetime | None = None
    chunk_id: str
    node_key: str | None = None
    edge: EdgeRef | None = None
    sentence: str | None = None


class Crossed(Reply):
    """The hop that led to a chunk: over the node that `sentence` of the chunk `chunkId` names.

    `standing` is that chunk's share of the best score, `crowd` how many chunks mention the node, `salience` how much
    the chunk that was reached is about it.
    """

    hops: int
    chunk_id: str
    node_key: str
    sentence: str
    cosine: float
    standing: float
    crowd: int
    salience: float


class Explanation(Reply):
    """What a confidence was made from: a sum of five.

    `fused`: of `cosine` and `bm25`. `own`: of the chunk's sentence that is nearest to the question. `named`: that the
    chunk is about something which the question names. `hop`: of the way over `via`. `lead`: of having the first place,
    where the other four give it to another.
    """

    cosine: float | None = None
    bm25: float | None = None
    fused: float
    own: float
    named: float
    hop: float
    lead: float = 0.0
    via: Crossed | None = None


class EvidenceItem(Reply):
    """One piece of evidence; `confidence` is between 0 and 1 and comparable within one reply only."""

    source: Literal["RAG", "Graph"]
    content: str
    confidence: float = Field(ge=0, le=1)
    provenance: Provenance
    explanation: Explanation | None = None


class RetrieveReply(Reply):
    """The evidence pack, best first."""

    items: list[EvidenceItem]
    summary: str


class RetrieveEvent(Reply):
    """A line of the streamed answer: how much a stage found; the last line, of stage `reply`, holds the reply."""

    stage: Literal["search", "graph", "reply"]
    found: int
    reply: RetrieveReply | None = None


class Problem(Reply):
    """Why a request failed: `field` is the dotted path of the culprit, `remedy` one sentence on how to mend it."""

    code: str
    message: str
    field: str | None = None
    remedy: str | None = None


class ErrorReply(Reply):
    """The body of every answer that is not a success."""

    error: Problem
