"""The one state of the qualifier. Immutable: a phase returns a new one, with all that earlier phases said.

Seed 003 "Single Source of Truth: QualifierPipelineState". It holds the ids of chunks and never their text.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kb import api
from kb.extract import caller_facts, hints


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskMetadata(_Frozen):
    """Whose document it is; `correlation_id` is that of the sender's metadata, or ""."""

    correlation_id: str
    client_id: str
    project_id: str | None
    source_urn: str


class ContentTypeDetection(_Frozen):
    """What the detection said, in its own words."""

    content_type: str
    reason: str


class AttachmentMetadata(_Frozen):
    """A file that came with the document; `vision_analysis` is what a vision model saw in it."""

    name: str
    key: str
    vision_analysis: str | None = None


class IndexingState(_Frozen):
    """`chunks` are ids. `base_info` is a sentence about the base node."""

    base_node_key: str
    base_info: str
    chunks: tuple[str, ...] = ()
    processed_chunk_count: int = 0
    created_base_node: bool = False
    errors: tuple[str, ...] = ()


class QualifierPipelineState(_Frozen):
    """See the module. `judgement` is what the routing decision and the hints are made from; `answers_earlier`: it
    answers what was asked before in its thread."""

    task_meta: TaskMetadata
    original_text: str = Field(repr=False)
    attachments: tuple[AttachmentMetadata, ...] = ()
    vision: api.VisionContext = api.VisionContext()
    content_type_detection: ContentTypeDetection | None = None
    content_type: api.ContentType = api.ContentType.GENERIC
    extraction: api.TypedExtraction | None = None
    base_node: caller_facts.Base | None = None
    judgement: hints.Judgement | None = None
    answers_earlier: bool = False
    indexing: IndexingState | None = None
    routing_decision: api.RoutingDecision | None = None
    metrics: api.ProcessingMetrics = api.ProcessingMetrics()

    @classmethod
    def initial(cls, request: api.IngestRequest, text: str) -> QualifierPipelineState:
        """Before the first phase."""
        correlation = request.metadata.get("correlationId")
        meta = TaskMetadata(
            correlation_id=correlation if isinstance(correlation, str) else "",
            client_id=request.scope.client_id,
            project_id=request.scope.project_id,
            source_urn=request.source_urn,
        )
        files = tuple(AttachmentMetadata(name=one.name, key=one.content_ref.key) for one in request.files)
        return cls(task_meta=meta, original_text=text, attachments=files)

    @property
    def errors(self) -> tuple[str, ...]:
        """What could not be found out, in the order of the phases."""
        return tuple(f"{one.phase.value}: {error}" for one in self.metrics.phases for error in one.errors)

    @property
    def seen(self) -> str:
        """What the images show, for the prompts of all phases that follow."""
        said = (self.vision.general_vision_summary, self.vision.type_specific_vision_details)
        return "\n\n".join(one for one in said if one)

    def measured(self, one: api.PhaseMetrics) -> QualifierPipelineState:
        """With the cost of a phase that has ended."""
        return self.model_copy(update={"metrics": api.ProcessingMetrics(phases=(*self.metrics.phases, one))})

    def created(self) -> QualifierPipelineState:
        """With the base node in the graph: called when the document is committed."""
        if self.indexing is None:
            return self
        return self.model_copy(update={"indexing": self.indexing.model_copy(update={"created_base_node": True})})

    def qualification(self) -> api.Qualification | None:
        """For the caller; None when the graph was stopped by an operational error, which is raised."""
        if self.extraction is None or self.indexing is None:
            return None
        return api.Qualification(
            content_type=self.content_type,
            base_node_key=self.indexing.base_node_key,
            extraction=self.extraction,
            vision=self.vision,
            attachments=tuple(
                api.AttachmentAnalysis(name=one.name, vision_analysis=one.vision_analysis) for one in self.attachments
            ),
            routing_decision=self.routing_decision,
            processed_chunk_count=self.indexing.processed_chunk_count,
            metrics=self.metrics,
            errors=self.errors,
        )
