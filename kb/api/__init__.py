"""The wire models of the knowledge base's API, a module per endpoint, for the service and for its callers.

Requests refuse unknown fields, replies ignore them; every list has a limit. Callers import `kb.api` and name what it
lists, not its modules.

A module is imported when a name of it is used first: a run needs few of them, and each costs the construction of its
models. The imports below are what type checkers read, and the list of what is looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contracts import lazy_names

if TYPE_CHECKING:
    from contracts.api.git import Repository
    from contracts.api.message import VERSION, ErrorReply, Key, Kind, Problem, Reply, Request, Urgency, Urn
    from contracts.api.observations import OBSERVATION, Observation, Observed
    from kb.api.agent import THOUGHTS, AgentEvent, AgenticSearch, Citation, ConversationId, EventType
    from kb.api.aliases import Alias, Aliases, Candidate, Candidates, Merge, MergeReply
    from kb.api.commits import (
        GIT_COMMIT,
        MOST_COMMITS,
        STRUCTURED,
        Author,
        Commit,
        CommitFile,
        CommitOutcome,
        CommitResult,
        GitCommits,
        GitCommitsReply,
    )
    from kb.api.crawl import Crawl, CrawlReply, Page
    from kb.api.directive import DirectiveAction, QualifierDirective
    from kb.api.documents import Document, Documents, DocumentVersion, State
    from kb.api.entitytypes import EntityType, EntityTypeDraft, EntityTypes, EntityTypesDraft
    from kb.api.erasure import Erasure, ErasureDraft, Erasures, Place, PlaceDraft, Places
    from kb.api.exploring import (
        ByKindRequest,
        Chunk,
        ChunkReply,
        ChunksReply,
        ConsistencyReply,
        EdgeType,
        Finding,
        FindingKind,
        Hit,
        HybridReply,
        HybridRequest,
        Mention,
        Node,
        NodeKey,
        NodesReply,
        Pass,
        PassKind,
        Related,
        Relationship,
        RelationshipsReply,
        Statement,
        TraverseReply,
        TraverseRequest,
        Visit,
    )
    from kb.api.files import (
        ATTACHMENT,
        AttachmentDraft,
        FileReply,
        attached_to,
        attachment_sources,
        attachment_urn,
        came_with,
    )
    from kb.api.ingest import (
        METADATA_BYTES,
        MOST_INSTEAD,
        Answered,
        ContentRef,
        Duplicate,
        File,
        GivenNode,
        GivenRelationship,
        HiddenText,
        Hints,
        IndexReply,
        IngestReply,
        IngestRequest,
        InnerImage,
        Metadata,
        Properties,
        PropertyName,
        Repeat,
        RuleActed,
        Superseded,
        TaskOrigin,
    )
    from kb.api.knowledge import Category, Knowledge, UserContext
    from kb.api.linking import LinkAnswer, LinkRequest
    from kb.api.links import (
        LINK_URN,
        Link,
        LinkList,
        LinkOutcome,
        LinkPattern,
        LinkPatternDraft,
        LinkPatterns,
        LinkReport,
        LinkSource,
    )
    from kb.api.memory import (
        SUMMARY_CHARS,
        Findings,
        Procedure,
        ProcedureDraft,
        Procedures,
        Session,
        SessionDraft,
        SessionEntry,
        Step,
        TaskMemories,
        TaskMemory,
        Use,
    )
    from kb.api.outcome import Outcome, OutcomeReply, StepResult, TaskCategory
    from kb.api.pages import (
        Crop,
        DocumentPages,
        PageChoice,
        PageChoiceDraft,
        PageChoices,
        PageHit,
        PageReply,
        PageSearch,
        PageWhich,
        PatchMap,
        PatchMatch,
        Rectangle,
        TokenPatches,
    )
    from kb.api.qualification import (
        AttachmentAnalysis,
        ConfluenceExtraction,
        ContentType,
        EmailClassification,
        EmailExtraction,
        GenericExtraction,
        JiraExtraction,
        LogSummarization,
        PhaseMetrics,
        ProcessingMetrics,
        Qualification,
        QualifierPhase,
        RoutingDecision,
        TypedExtraction,
        VisionContext,
    )
    from kb.api.queue import Failure, Job, Move, Prioritize, Queue, Retried, Retry
    from kb.api.regroup import Regroup, Regrouped
    from kb.api.reindex import Reindex, ReindexDrop, Reindexes, ReindexState
    from kb.api.retrieve import (
        Crossed,
        EdgeRef,
        EvidenceItem,
        Explanation,
        Label,
        Narrowed,
        PageStart,
        Provenance,
        RetrieveEvent,
        RetrieveReply,
        RetrieveRequest,
    )
    from kb.api.rules import LEARNED, Rule, RuleDraft, Rules, RuleType
    from kb.api.tools import (
        AGENT_DOCUMENT,
        AskResult,
        AskUserQuestions,
        ClassificationResult,
        ClassifyJiraTicket,
        CreateNodeRequest,
        CreateNodeWithRagLinks,
        CreateRelationship,
        CreateRelationshipRequest,
        CreateUserTaskFromJira,
        DeferPendingTask,
        DeferResult,
        FailResult,
        FailToUserTask,
        Found,
        IndexDocument,
        IndexDocumentRequest,
        JiraClassification,
        NodeStored,
        RelationshipStored,
        RouteResult,
        RouteTask,
        Routing,
        SearchHybrid,
        SearchHybridRequest,
        SearchResult,
        StoreChunk,
        StoreChunkRequest,
        Stored,
        TaskCreationResult,
        TaskPriority,
    )


_names = lazy_names.Names(__name__, __file__)
modules = _names.modules


def __dir__() -> list[str]:
    return sorted(modules())


if not TYPE_CHECKING:
    __getattr__ = _names.get
