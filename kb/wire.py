"""The wire models of the knowledge base: one truth for the service, its client and its OpenAPI document.

Names are camelCase on the wire and snake_case in Python. Requests refuse unknown fields (a misspelt field is an error
that names it); replies ignore them, so that an older client can talk to a newer service.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from crds import scope, values

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

    @model_validator(mode="after")
    def _one_content(self) -> IngestRequest:
        if (self.content is None) == (self.content_ref is None):
            raise ValueError("give exactly one of content and contentRef")
        return self


class Hints(Reply):
    """What the qualifier noticed about a document; the operator maps it to a route, deterministically."""

    has_actionable_content: bool
    is_assigned_to_me: bool
    has_future_deadline: bool
    suggested_deadline: AwareDatetime | None = None
    urgency: Urgency
    reason: str


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


class RetrieveRequest(Request):
    """A question in words. `kinds` narrows to documents of these kinds; None means every kind."""

    scope: scope.Scope
    query: str = Field(min_length=1, max_length=8000)
    max_results: int = Field(default=10, ge=1, le=100)
    kinds: list[Kind] | None = None


class EdgeRef(Reply):
    """A relationship of the graph, by the keys of its two ends."""

    source: str
    type: str
    target: str


class Provenance(Reply):
    """Where an item comes from. `nodeKey`, `edge` and `sentence` say how the graph reached it."""

    source_urn: str
    title: str
    chunk_id: str
    node_key: str | None = None
    edge: EdgeRef | None = None
    sentence: str | None = None


class EvidenceItem(Reply):
    """One piece of evidence; `confidence` is between 0 and 1 and comparable within one reply only."""

    source: Literal["RAG", "Graph"]
    content: str
    confidence: float = Field(ge=0, le=1)
    provenance: Provenance


class RetrieveReply(Reply):
    """The evidence pack, best first."""

    items: list[EvidenceItem]
    summary: str


class Problem(Reply):
    """Why a request failed: `field` is the dotted path of the culprit, `remedy` one sentence on how to mend it."""

    code: str
    message: str
    field: str | None = None
    remedy: str | None = None


class ErrorReply(Reply):
    """The body of every answer that is not a success."""

    error: Problem
