"""A question, and the evidence that answers it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    AwareDatetime,
    Field,
    JsonValue,
    StringConstraints,
    model_validator,
)

from contracts.api import message
from crds import access as accesses
from crds import scope
from kb import selection

Label = Annotated[str, StringConstraints(max_length=256)] | bool | int | float


class Narrowed(message.Request):
    """A question in a scope, narrowed to some documents; what is not given does not narrow.

    `sources` are source URNs, or beginnings of them ending with `*`. `since` and `until` bound `observedAt`,
    inclusively; documents without one are left out by them. `asOf` answers as if it were that moment:
    nothing observed later counts. `metadata` names values that a document's own metadata must have: a list allows any
    of its elements, keys of objects inside are joined by dots (`{"team": ["core", "web"], "build.branch": "main"}`).
    """

    scope: scope.Scope
    kinds: list[message.Kind] | None = Field(default=None, max_length=100)
    sources: list[message.Urn] | None = Field(default=None, max_length=100)
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    as_of: AwareDatetime | None = None
    metadata: dict[str, Label | Annotated[list[Label], Field(min_length=1, max_length=100)]] | None = Field(
        default=None, max_length=20
    )

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
            labels=tuple(selection.labels({key: wanted}) for key, wanted in (self.metadata or {}).items()),
        )


class RetrieveRequest(Narrowed):
    """A question in words; with `explain` every item says how its confidence came about."""

    query: str = Field(min_length=1, max_length=8000)
    max_results: int = Field(default=10, ge=1, le=100)
    explain: bool = False


class EdgeRef(message.Reply):
    """A relationship of the graph, by the keys of its two ends."""

    source: str
    type: str
    target: str


class PageStart(message.Reply):
    """From `offset` on, in characters, a passage stands on this page; without `page` it is no text of a page."""

    offset: int
    page: int | None = None


class Provenance(message.Reply):
    """Where an item comes from. `nodeKey`, `edge` and `sentence` say what it says about the question.

    `places`: where a relationship that the caller gave stands (a field's name, file@commit:line). `validUntil`: when a
    newer version of the document took the place of this one. `retiredAt`: when a newer fact, whose target is
    `supersededBy`, took the place of `edge`. `pages`: of a passage of a PDF where in it the pages begin. `access`: who
    may see it at its source; null where that was never said.
    """

    source_urn: str
    kind: str = ""
    title: str
    observed_at: AwareDatetime | None = None
    chunk_id: str
    node_key: str | None = None
    edge: EdgeRef | None = None
    sentence: str | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    pages: list[PageStart] = Field(default_factory=list)
    places: list[str] = Field(default_factory=list)
    valid_until: AwareDatetime | None = None
    retired_at: AwareDatetime | None = None
    superseded_by: str | None = None
    access: accesses.Access | None = None

    @property
    def paged(self) -> str:
        """The pages that it stands on, as "page 2" or "pages 2-3"; "" where it stands on none."""
        numbers = sorted({one.page for one in self.pages if one.page})
        if len(numbers) < 2:
            return f"page {numbers[0]}" if numbers else ""
        return f"pages {numbers[0]}-{numbers[-1]}"


class Crossed(message.Reply):
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


class Explanation(message.Reply):
    """What a confidence was made from: a sum of six.

    `fused`: of `cosine` and `bm25`. `own`: of the chunk's sentence that is nearest to the question. `named`: that the
    chunk is about something which the question names. `hop`: of the way over `via`. `lead`: of having the first place,
    where the other four give it to another. `rerank`: of the place that the reranker gave it, whose judgement is
    `relevance`.
    """

    cosine: float | None = None
    bm25: float | None = None
    fused: float
    own: float
    named: float
    hop: float
    lead: float = 0.0
    rerank: float = 0.0
    relevance: float | None = None
    via: Crossed | None = None


class EvidenceItem(message.Reply):
    """One piece of evidence; `confidence` is between 0 and 1 and comparable within one reply only."""

    source: Literal["RAG", "Graph"]
    content: str
    confidence: float = Field(ge=0, le=1)
    provenance: Provenance
    explanation: Explanation | None = None


class RetrieveReply(message.Reply):
    """The evidence pack, best first.

    `rerank`: whether the reranker had its say (`Done`); otherwise the order is the one without it. `coverage`: the
    share of the question's words that the best two items contain in some form, 0 to 1. `sufficient`: whether that
    reaches the service's threshold; without one it is true of whatever was found.
    """

    items: list[EvidenceItem]
    summary: str
    rerank: str = "Off"
    coverage: float = Field(default=0.0, ge=0, le=1)
    sufficient: bool = True


class RetrieveEvent(message.Reply):
    """A line of the streamed answer: how much a stage found; the last line, of stage `reply`, holds the reply."""

    stage: Literal["search", "graph", "reply"]
    found: int
    reply: RetrieveReply | None = None
