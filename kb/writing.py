"""The wire models of the endpoints beside ingest that write, and of the memories: knowledge, aliases, rules, the queue.

Same rules as `kb.wire`: requests refuse unknown fields, replies ignore them. Every list has a limit.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, JsonValue, StringConstraints, field_validator

from crds import provisions, scope
from kb import wire

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]
SUMMARY_CHARS = 200
"""Longest summary of a session entry (seed 001 "SessionEntry")."""


class Category(StrEnum):
    """What learned knowledge is about (seed 001 "Structured Categories")."""

    PREFERENCE = "preference"
    DOMAIN = "domain"
    TEAM = "team"
    TECH_STACK = "tech_stack"
    PERSONAL = "personal"
    GENERAL = "general"

    @property
    def kind(self) -> str:
        """The kind of the documents of this category."""
        return f"user_knowledge_{self.value}"

    @property
    def heading(self) -> str:
        """What stands above it in a prompt."""
        return {"domain": "Domain Context"}.get(self.value, self.value.replace("_", " ").title()) + (
            "s" if self is Category.PREFERENCE else ""
        )


class Knowledge(wire.Request):
    """Something learned from a person, to be known in every later conversation of this scope."""

    scope: scope.Scope
    subject: Name
    content: Annotated[Text, StringConstraints(max_length=20_000)]
    category: Category = Category.GENERAL


class UserContext(wire.Reply):
    """What is known about the user by category, newest first, and as markdown for a prompt; "" when nothing is."""

    markdown: str
    categories: dict[str, list[str]]
    truncated: bool = False


class Merge(wire.Request):
    """`alias` and `canonical` are keys of nodes (`user:john`); `by` says who decided."""

    scope: scope.Scope
    alias: Name
    canonical: Name
    by: Annotated[str, StringConstraints(max_length=200)] = ""
    across_types: bool = False


class Alias(wire.Reply):
    """An alias of the registry. `state` is Merging until every document that says it is mended."""

    scope: scope.Scope
    alias: str
    canonical: str
    area: str
    state: str
    seen_count: int
    last_seen_at: AwareDatetime | None = None
    created_at: AwareDatetime
    created_by: str


class MergeReply(wire.Reply):
    """`documents` are put together again by the queue, so that old and new knowledge agree."""

    alias: str
    canonical: str
    documents: int


class Aliases(wire.Reply):
    """Visible aliases in order of their keys."""

    aliases: list[Alias]


class Candidate(wire.Reply):
    """Two nodes that may be one: `likeness` of their names is between 0 and 1. Nothing is merged for it."""

    key: str
    other: str
    likeness: float


class Candidates(wire.Reply):
    """Best first."""

    candidates: list[Candidate]


class Job(wire.Reply):
    """A document in the extraction queue. `place` is its place among those that the viewer sees, from 1."""

    id: str
    scope: scope.Scope
    source_urn: str
    kind: str
    action: str
    state: Literal["Running", "Waiting", "Postponed"]
    priority: int
    place: int
    queue_position: int | None = None
    attempts: int
    reason: str
    created_at: AwareDatetime
    not_before: AwareDatetime | None = None


class Queue(wire.Reply):
    """The head of the queue, how many documents wait, and the documents that failed for good with their reasons."""

    jobs: list[Job]
    total: int
    failed: list[Failure]


class Failure(wire.Reply):
    """A document that cannot be ingested as it is; its former version, if there was one, is still there."""

    source_urn: str
    reason: str
    at: AwareDatetime


class Move(wire.Request):
    """A job by its id, to a place in front of everything that has none (1 is the first)."""

    scope: scope.Scope
    id: Name
    position: int = Field(ge=1, le=1_000_000)


class Prioritize(wire.Request):
    """A job by its id, to the front."""

    scope: scope.Scope
    id: Name


class RuleType(StrEnum):
    """What a hard rule is about (seed 002 "Rule Types")."""

    ROUTING = "ROUTING"
    NOTIFICATION = "NOTIFICATION"
    VALIDATION = "VALIDATION"
    PROCESSING = "PROCESSING"
    SECURITY = "SECURITY"
    CUSTOM = "CUSTOM"


RuleKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$")]


class RuleDraft(wire.Request):
    """A new version of the rule `ruleKey` of exactly this scope; for lines `enforce: ...` see `crds.provisions`."""

    scope: scope.Scope
    rule_key: RuleKey
    rule_type: RuleType
    rule_content: Annotated[Text, StringConstraints(max_length=20_000)]
    description: Annotated[str, StringConstraints(max_length=2000)] = ""
    created_by: Name

    @field_validator("rule_content")
    @classmethod
    def _enforceable(cls, text: str) -> str:
        provisions.of(text)
        return text


class Rule(wire.Reply):
    """One version of a rule. The one in force has neither `supersededAt` nor `deletedAt`."""

    scope: scope.Scope
    rule_key: str
    rule_type: RuleType
    rule_content: str
    description: str
    version: int
    created_at: AwareDatetime
    created_by: str
    superseded_at: AwareDatetime | None = None
    deleted_at: AwareDatetime | None = None
    deleted_by: str | None = None


class Rules(wire.Reply):
    """Rules by key, or the versions of one, newest first."""

    rules: list[Rule]


class SessionDraft(wire.Request):
    """Something to remember for a week. `id` makes a repeated call harmless."""

    scope: scope.Scope
    source: Literal["chat", "background", "orchestrator_decision"]
    summary: Annotated[Text, StringConstraints(max_length=SUMMARY_CHARS)]
    details: dict[str, JsonValue] | None = None
    task_id: Annotated[str, StringConstraints(max_length=253)] | None = None
    id: Annotated[str, StringConstraints(min_length=1, max_length=253)] | None = None


class SessionEntry(wire.Reply):
    """What was remembered, and when."""

    id: str
    timestamp: AwareDatetime
    source: str
    summary: str
    details: dict[str, Any] | None = None
    task_id: str | None = None


class Session(wire.Reply):
    """The entries of a client and project, newest first."""

    entries: list[SessionEntry]


class TaskMemory(wire.Reply):
    """What one task knows: what qualification found, and how it was routed (seed 000 "TaskMemory")."""

    task_uid: str
    correlation_id: str = ""
    title: str = ""
    type: str = ""
    source_urn: str | None = None
    context_summary: str | None = None
    graph_node_keys: list[str] = Field(default_factory=list)
    rag_document_ids: list[str] = Field(default_factory=list)
    structured_data: dict[str, Any] = Field(default_factory=dict)
    routing_decision: str | None = None
    routing_reason: str | None = None
    updated_at: AwareDatetime | None = None


class Findings(wire.Request):
    """What else a run found out about its task; merged into `structuredData`."""

    scope: scope.Scope
    structured_data: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")], JsonValue] = (
        Field(min_length=1, max_length=100)
    )


class Step(wire.Request):
    """One step of a procedure: which agent does what."""

    agent: Name
    action: Annotated[Text, StringConstraints(max_length=2000)]


class ProcedureDraft(wire.Request):
    """How tasks of a pattern are done. A user's definition comes before, and is never replaced by, a learned one."""

    client_id: str = Field(pattern=scope.IDENTIFIER)
    trigger_pattern: Name
    procedure_steps: list[Step] = Field(min_length=1, max_length=50)
    source: Literal["learned", "user_defined"] = "learned"


class Procedure(wire.Reply):
    """`score` orders: user-defined first, then success, decaying with disuse. `successRate` is 0 to 1."""

    id: str
    client_id: str
    trigger_pattern: str
    procedure_steps: list[dict[str, Any]]
    success_rate: float
    last_used: AwareDatetime | None = None
    usage_count: int
    source: str
    score: float


class Procedures(wire.Reply):
    """Best first."""

    procedures: list[Procedure]


class Use(wire.Request):
    """A procedure was followed and did, or did not, lead to success."""

    client_id: str = Field(pattern=scope.IDENTIFIER)
    id: Name
    succeeded: bool


class TaskCategory(StrEnum):
    """Seed 001 "Significance Filter"."""

    SINGLE_TASK = "single_task"
    EPIC = "epic"
    GENERATIVE = "generative"
    ADVICE = "advice"


class StepResult(wire.Request):
    """What one step of the task did."""

    action: Annotated[str, StringConstraints(max_length=500)] = ""
    result: Annotated[str, StringConstraints(max_length=20_000)] = ""


class Outcome(wire.Request):
    """A task that ended. Whether it is remembered is decided by a table, not by a model."""

    scope: scope.Scope
    task_id: Name
    task_category: TaskCategory
    task_action: Literal["respond", "code", "tracker_ops", "mixed"]
    title: Annotated[str, StringConstraints(max_length=1000)] = ""
    question: Annotated[str, StringConstraints(max_length=20_000)] = ""
    final_result: Annotated[str, StringConstraints(max_length=100_000)] = ""
    step_results: list[StepResult] = Field(default_factory=list, max_length=200)
    error: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    finished_at: AwareDatetime | None = None


class OutcomeReply(wire.Reply):
    """`remembered` is false when the table says that the task is not worth it; `reason` says which line of it."""

    remembered: bool
    reason: str
    source_urn: str | None = None
    chunk_ids: list[str] = Field(default_factory=list)


class ErasureDraft(wire.Request):
    """Forget all that `scope` owns: a client with its projects and groups, a project, or a group's own data.

    `by` says who decided.
    """

    scope: scope.Scope
    by: Name


class Erasure(wire.Reply):
    """How far it has come. `erased` counts by kind what is gone, `reason` says what it waits for, "" for nothing."""

    id: str
    scope: scope.Scope
    state: Literal["Running", "Done"]
    requested_by: str
    requested_at: AwareDatetime
    finished_at: AwareDatetime | None = None
    erased: dict[str, int] = Field(default_factory=dict)
    reason: str = ""


class Erasures(wire.Reply):
    """The latest first."""

    erasures: list[Erasure]


class Crawl(wire.Request):
    """Pages of one site, breadth first from `url`. `depth` 0 is that page alone."""

    scope: scope.Scope
    url: Annotated[str, StringConstraints(min_length=8, max_length=2000, pattern=r"^https?://")]
    depth: int = Field(default=1, ge=0, le=5)
    max_pages: int = Field(default=20, ge=1, le=500)
    kind: wire.Kind = "web_page"


class Page(wire.Reply):
    """A page that was looked at; `reason` says why it was not taken, "" when it was."""

    url: str
    source_urn: str | None = None
    chunks: int = 0
    reason: str = ""


class CrawlReply(wire.Reply):
    """`truncated` when a limit ended the crawl before it ran out of links."""

    pages: list[Page]
    taken: int
    truncated: bool


ATTACHMENT = "attachment"
"""The kind of documents that came with another one."""


def attachment_urn(attached_to: str, name: str) -> str:
    """The source URN of a file that came with the document `attached_to`; the same two always give the same."""
    return f"{_attachments(attached_to)}{' '.join(name.split())}"


def attachment_sources(attached_to: str) -> str:
    """All attachments of a document as a member of `sources`."""
    return f"{_attachments(attached_to)}*"


def attached_to(urn: str) -> str | None:
    """The URN of the document that an attachment's URN names; None for any other URN, or one that was too long."""
    of, mark, _ = urn.rpartition(_NAMED)
    return of.removeprefix(_OF) if mark and of.startswith(_OF) and _CUT not in of else None


_OF, _NAMED, _CUT = "attachment::of:", ",name:", "~sha256-"


def _attachments(document: str) -> str:
    # With a name of 255 characters it stays within the 1024 of a URN.
    if len(document) > 700:
        document = f"{document[:600]}{_CUT}{hashlib.sha256(document.encode()).hexdigest()[:16]}"
    return f"{_OF}{document}{_NAMED}"


class AttachmentDraft(wire.Request):
    """A stored file (`contentRef`, of the same scope) that came with the document `attachedTo`, titled `title`.

    Its type is what its bytes say. The same name at the same document replaces what was known from it before.
    """

    scope: scope.Scope
    attached_to: wire.Urn
    name: Annotated[Text, StringConstraints(max_length=255)]
    content_ref: wire.ContentRef
    title: Annotated[str, StringConstraints(max_length=1000)] = ""
    observed_at: AwareDatetime | None = None


class FileReply(wire.IndexReply):
    """What was made of a file: its type as its content says, its bytes, the characters of its text."""

    media_type: str
    characters: int
    title: str
    size: int


Queue.model_rebuild()
