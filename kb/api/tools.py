"""The atomic tools: what an agent or the qualifier's model gives, and what it gets. Seed 002 "Atomic Tool Design".

Flat. Arguments refuse unknown fields. Results are ids, counts and URNs, never a text that was given. The same arguments
about the same task or document always have the same ids.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints, model_validator

from contracts.api import message
from crds import scope
from kb.api import directive
from kb.api.ingest import ContentRef, Properties
from kb.api.words import Text

CHUNK_CHARS = 4000
DOCUMENT_CHARS = 200_000
AGENT_DOCUMENT = "agent_document"
"""The kind of documents that `indexDocument` makes."""


class JiraClassification(StrEnum):
    """Seed 002 names the type; the values are ours."""

    ACTIONABLE = "ACTIONABLE"
    """Something is to be done."""
    QUESTION = "QUESTION"
    """Something is to be answered."""
    INFORMATIONAL = "INFORMATIONAL"
    """Nothing is to be done."""
    CUSTOM = "CUSTOM"
    """What `customGroup` says."""


class TaskPriority(StrEnum):
    """Seed 002 names the type (TaskPriorityEnum); the values are ours, the urgencies of a document's hints."""

    LOW = "LOW"
    NORMAL = "NORMAL"
    HIGH = "HIGH"


class Routing(StrEnum):
    """Seed 000 "TaskRoutingTool"."""

    DONE = "DONE"
    """Nothing is to be done."""
    READY_FOR_GPU = "READY_FOR_GPU"
    """Something is to be done; the hints decide when."""


def _nothing(value: object) -> object:
    """Models write "" or null where they have nothing to say."""
    return None if isinstance(value, str) and value.strip().casefold() in ("", "null", "none") else value


def _end_of_day(value: object) -> object:
    """A date without a time means the end of that day."""
    return f"{value.strip()}T23:59:59Z" if isinstance(value, str) and len(value.strip()) == len("2026-01-31") else value


_Reason = Annotated[str, StringConstraints(min_length=1, max_length=2000, strip_whitespace=True)]
_Question = Annotated[str, StringConstraints(min_length=1, max_length=directive.QUESTION_CHARS, strip_whitespace=True)]
_JiraKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9]{1,9}-\d{1,7}$")]
_Word = Annotated[str, StringConstraints(min_length=1, max_length=directive.TAG_CHARS, strip_whitespace=True)]
_Type = Annotated[str, StringConstraints(min_length=1, max_length=60, strip_whitespace=True)]
_ChunkId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
_ChunkIds = Annotated[list[_ChunkId], Field(min_length=1, max_length=20)]
_DocumentId = Annotated[str, StringConstraints(min_length=1, max_length=512, strip_whitespace=True)]


class _Result(message.Reply):
    call_id: str
    """Of the call: from the task and the arguments."""


class ClassifyJiraTicket(message.Request):
    """Say what kind of issue the task is about. `customGroup` comes with CUSTOM."""

    jira_key: _JiraKey
    classification: JiraClassification
    reason: _Reason
    custom_group: Annotated[_Word | None, BeforeValidator(_nothing)] = None

    @model_validator(mode="after")
    def _grouped(self) -> ClassifyJiraTicket:
        if (self.custom_group is not None) != (self.classification is JiraClassification.CUSTOM):
            raise ValueError("customGroup and the classification CUSTOM go together")
        return self


class ClassificationResult(_Result):
    """`taskId` is the task that is qualified."""

    task_id: str
    jira_key: str
    classification: JiraClassification


class CreateUserTaskFromJira(message.Request):
    """Have a person look at the issue first. `descriptionRef` is the task's sourceUrn or a chunk id, never content."""

    jira_key: _JiraKey
    title: _Question
    description_ref: message.Urn
    priority: TaskPriority


class TaskCreationResult(_Result):
    """`taskId` is the task that is qualified: it goes to phase UserTask, and no other is made."""

    task_id: str


class DeferPendingTask(message.Request):
    """The task must not begin before `deferMinutes`, counted from the beginning of today."""

    defer_minutes: int = Field(ge=1, le=directive.MOST_DEFER_MINUTES)
    reason: _Reason


class DeferResult(_Result):
    """`scheduledTaskId` is the task that is qualified: it goes to phase Scheduled, and no copy is made."""

    scheduled_task_id: str


class FailToUserTask(message.Request):
    """Nothing can be done with the task; a person decides. `detailsRef` is its sourceUrn or a chunk id."""

    reason: _Reason
    details_ref: Annotated[message.Urn | None, BeforeValidator(_nothing)] = None


class FailResult(_Result):
    """`userTaskId` is the task that is qualified: it goes to phase UserTask, kind Failure."""

    user_task_id: str


class AskUserQuestions(message.Request):
    """The task cannot begin before a person answers."""

    questions: list[_Question] = Field(min_length=1, max_length=directive.MOST_QUESTIONS)
    context: _Reason


class AskResult(_Result):
    """`dialogTaskId` is the task that is qualified: it goes to phase UserTask, kind Question."""

    dialog_task_id: str
    questions: int


class RouteTask(message.Request):
    """Say whether something is to be done. `graphNodeKeys` and `ragDocIds` are those of the task's own document.

    Beyond the seed: what the decision tree needs (`assignedToUs`, `deadline`, `urgency`) and `tags`.
    """

    routing: Routing
    reason: _Reason
    context_summary: Annotated[str, StringConstraints(max_length=4000)] = ""
    graph_node_keys: list[message.Key] = Field(default_factory=list, max_length=100)
    rag_doc_ids: list[_ChunkId] = Field(default_factory=list, max_length=100)
    assigned_to_us: bool = False
    deadline: Annotated[AwareDatetime | None, BeforeValidator(_end_of_day), BeforeValidator(_nothing)] = None
    urgency: message.Urgency = "normal"
    tags: list[_Word] = Field(default_factory=list, max_length=directive.MOST_TAGS)


class RouteResult(_Result):
    """`taskId` is the task that is qualified."""

    task_id: str
    routing: Routing


class StoreChunk(message.Request):
    """Store a text about `nodeKey` that was extracted from the document `documentId` (its sourceUrn).

    It is stored beside that document and goes with it. The text has to name `nodeKey` and each of `graphRefs`.
    """

    document_id: message.Urn = Field(description="The sourceUrn of a document that is known in this scope.")
    content: Annotated[str, StringConstraints(min_length=1, max_length=CHUNK_CHARS, strip_whitespace=True)] = Field(
        description="What the document says about the thing, as sentences that are understood alone."
    )
    node_key: message.Key = Field(description="The thing, as type:name; the content has to name it.")
    entity_types: list[_Type] = Field(
        default_factory=list, max_length=20, description="What the thing is; the first type counts."
    )
    graph_refs: list[message.Key] = Field(
        default_factory=list, max_length=50, description="Other things that the content names, as type:name."
    )
    knowledge_type: message.Kind = "DOCUMENT"


class IndexDocument(message.Request):
    """Store a document of the agent's own; the service cuts the chunks. What sources sent is never replaced.

    `relatedDocs` are sourceUrns of documents of the scope.
    """

    document_id: _DocumentId = Field(description="Your own name for the document; the same one replaces it.")
    content: Annotated[str, StringConstraints(min_length=1, max_length=DOCUMENT_CHARS)] | None = None
    content_ref: ContentRef | None = None
    title: Annotated[Text, StringConstraints(max_length=1000)]
    location: Annotated[str, StringConstraints(max_length=1000, strip_whitespace=True)] = ""
    knowledge_type: message.Kind = "DOCUMENT"
    related_docs: list[message.Urn] = Field(
        default_factory=list, max_length=50, description="sourceUrns of documents of this scope."
    )

    @model_validator(mode="after")
    def _one_content(self) -> IndexDocument:
        if (self.content is None) == (self.content_ref is None):
            raise ValueError("give exactly one of content and contentRef")
        return self


class CreateNodeWithRagLinks(message.Request):
    """A node of the graph, with the chunks that name it; `ragChunkIds` are ids that a search gave."""

    node_key: message.Key = Field(description="A key as type:name, for example user:jana.")
    node_type: _Type
    properties: Properties = Field(default_factory=dict)
    rag_chunk_ids: _ChunkIds = Field(description="Ids of chunks of this scope that name the node.")


class CreateRelationship(message.Request):
    """A relationship that a sentence of one of `ragChunkIds` states: it names both ends."""

    from_key: message.Key = Field(description="A key as type:name.")
    to_key: message.Key = Field(description="A key as type:name.")
    edge_type: Annotated[str, StringConstraints(min_length=1, max_length=120, strip_whitespace=True)]
    properties: Properties = Field(default_factory=dict)
    rag_chunk_ids: _ChunkIds = Field(description="Ids of chunks; a sentence of one has to name both ends.")


class SearchHybrid(message.Request):
    """Find chunks; `alpha` 0 counts keywords alone, 1 vectors alone. `knowledgeTypes` are kinds of documents."""

    query: str = Field(min_length=1, max_length=8000)
    alpha: float = Field(default=0.5, ge=0, le=1, description="0 counts keywords alone, 1 vectors alone.")
    max_results: int = Field(default=10, ge=1, le=50)
    knowledge_types: list[message.Kind] | None = Field(
        default=None, max_length=100, description="Only documents of these kinds, for example email."
    )


class Stored(_Result):
    """What was stored: `sourceUrns` of documents and their chunks. `indexed` is false where a hard rule forbids it."""

    source_urns: list[str]
    chunk_ids: list[str]
    replaced: bool
    indexed: bool


class NodeStored(Stored):
    """`nodeKey` is the canonical key; `ragChunkIds` are the chunks that name the node."""

    node_key: str
    rag_chunk_ids: list[str]


class RelationshipStored(Stored):
    """The canonical keys and type; `ragChunkId` is the chunk whose sentence states it."""

    from_key: str
    edge_type: str
    to_key: str
    rag_chunk_id: str


class Found(message.Reply):
    """A chunk by reference. `documentId` is the sourceUrn; `GET /chunks/{chunkId}` has the text."""

    chunk_id: str
    document_id: str
    kind: str
    score: float
    graph_refs: list[str]


class SearchResult(message.Reply):
    """The chunks, best first."""

    found: list[Found]


class _Scoped(message.Request):
    scope: scope.Scope


class StoreChunkRequest(StoreChunk, _Scoped):
    """`StoreChunk` in a scope."""


class IndexDocumentRequest(IndexDocument, _Scoped):
    """`IndexDocument` in a scope."""


class CreateNodeRequest(CreateNodeWithRagLinks, _Scoped):
    """`CreateNodeWithRagLinks` in a scope."""


class CreateRelationshipRequest(CreateRelationship, _Scoped):
    """`CreateRelationship` in a scope."""


class SearchHybridRequest(SearchHybrid, _Scoped):
    """`SearchHybrid` in a scope."""
