"""What the qualifier made of a document: its type, the fields of that type, and what finding out has cost.

The names are those of seed 003 ("State Model", "Phase 2: Type-Specific Extraction").
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from contracts.api import message


class ContentType(StrEnum):
    """Which fields a document has; GENERIC where nothing is known of it."""

    EMAIL = "EMAIL"
    JIRA = "JIRA"
    CONFLUENCE = "CONFLUENCE"
    LOG = "LOG"
    GENERIC = "GENERIC"


class EmailClassification(StrEnum):
    """What a mail is for; UNKNOWN where no model could say it."""

    REQUEST = "REQUEST"
    QUESTION = "QUESTION"
    INFORMATION = "INFORMATION"
    NEWSLETTER = "NEWSLETTER"
    AUTOMATIC = "AUTOMATIC"
    INVITATION = "INVITATION"
    UNKNOWN = "UNKNOWN"


class QualifierPhase(StrEnum):
    """A step of the qualifier, in the order in which they come."""

    VISION_GENERAL = "visionGeneral"
    CONTENT_TYPE = "contentType"
    VISION_DETAILS = "visionDetails"
    EXTRACTION = "extraction"
    INDEXING = "indexing"
    CHUNKS = "chunks"
    ROUTING = "routing"


class Value(message.Reply):
    """A part of a qualification; it never changes."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True, frozen=True)


class EmailExtraction(Value):
    """A mail. `sender` and `recipients` are as in its headers: a name with an address, or an address."""

    content_type: Literal[ContentType.EMAIL] = ContentType.EMAIL
    sender: str = ""
    recipients: tuple[str, ...] = ()
    subject: str = ""
    classification: EmailClassification = EmailClassification.UNKNOWN


class JiraExtraction(Value):
    """An issue of Jira, GitHub or GitLab; fields that its text does not have are empty."""

    content_type: Literal[ContentType.JIRA] = ContentType.JIRA
    key: str = ""
    status: str = ""
    type: str = ""
    assignee: str = ""
    reporter: str = ""
    epic: str = ""
    sprint: str = ""
    change_description: str = ""


class ConfluenceExtraction(Value):
    """A page of a wiki."""

    content_type: Literal[ContentType.CONFLUENCE] = ContentType.CONFLUENCE
    author: str = ""
    title: str = ""
    topic: str = ""


class LogSummarization(Value):
    """A log: what happened, and the lines that say so, verbatim."""

    content_type: Literal[ContentType.LOG] = ContentType.LOG
    summary: str = ""
    key_events: tuple[str, ...] = ()
    critical_details: tuple[str, ...] = ()


class GenericExtraction(Value):
    """Any other document; `chunks` are the ids of its chunks."""

    content_type: Literal[ContentType.GENERIC] = ContentType.GENERIC
    base_info: str = ""
    chunks: tuple[str, ...] = ()


TypedExtraction: TypeAlias = Annotated[
    EmailExtraction | JiraExtraction | ConfluenceExtraction | LogSummarization | GenericExtraction,
    Field(discriminator="content_type"),
]


class PhaseMetrics(Value):
    """What a phase has cost. `calls` of models, `kept` answers that were there already; `tokens` read and written, None
    where the backend did not say. Phases that nothing needed are missing."""

    phase: QualifierPhase
    seconds: float
    calls: int = 0
    kept: int = 0
    tokens: int | None = None
    errors: tuple[str, ...] = ()


class ProcessingMetrics(Value):
    """What the phases have cost, in their order. Chunks are read while other phases run: seconds do not add up."""

    phases: tuple[PhaseMetrics, ...] = ()


class VisionContext(Value):
    """What a vision model saw in the images that came with the document."""

    general_vision_summary: str | None = None
    type_specific_vision_details: str | None = None


class AttachmentAnalysis(Value):
    """An image that came with the document; `vision_analysis` is None where no model could look at it."""

    name: str
    vision_analysis: str | None = None


class RoutingDecision(Value):
    """DONE: knowledge alone. LIFT_UP: a run or a person has to act. The operator's route follows from the hints.

    Where a hard rule decides the route, it is that of the route: DONE with InfoOnly, LIFT_UP with any other.
    """

    decision: Literal["DONE", "LIFT_UP"]
    reason: str


class Qualification(Value):
    """The document as the qualifier understood it. `baseNodeKey` is the node that every chunk is part of.

    `errors`: what could not be found out, by phase; the document is stored all the same.
    """

    content_type: ContentType
    base_node_key: str
    extraction: TypedExtraction
    vision: VisionContext = VisionContext()
    attachments: tuple[AttachmentAnalysis, ...] = ()
    routing_decision: RoutingDecision | None = None
    processed_chunk_count: int
    metrics: ProcessingMetrics = ProcessingMetrics()
    errors: tuple[str, ...] = ()
