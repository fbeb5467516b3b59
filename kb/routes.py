"""The routes of the knowledge base: one row each with path, models, parameters and rights.

OpenAPI (`kb.service.http.openapi`), the client (`kb.client`) and the gate (`kb.service.http.access`) read it. A new
route is a row here and a handler in a module of `kb.service.http`, whose `routes()` names both. The routes of the code
graph are the rows of `codegraph.routes`; `/mcp`, whose models are those of a protocol, has its row beside its handler.

Models are given as functions, so that a client that calls one route constructs the models of that one.
"""

from __future__ import annotations

import pydantic

from contracts.http_routes import SCOPE, Caller, Route
from kb import api

_UPLOADED = ("filename", "sourceUrn", "kind", "title", "observedAt")


# --- Documents and content
INGEST = Route(
    "POST",
    "/api/v1/ingest/full",
    "Make a document known",
    body=lambda: api.IngestRequest,
    reply=lambda: api.IngestReply,
)
DOCUMENTS_FORGET = Route[pydantic.BaseModel](
    "DELETE", "/api/v1/documents", "Forget a document", status=204, query=("sourceUrn", *SCOPE), observed=True
)
GIT_COMMITS = Route(
    "POST",
    "/api/v1/ingest/git-commits",
    "Make commits of a branch known without a model, or known no more; each has an outcome of its own",
    body=lambda: api.GitCommits,
    reply=lambda: api.GitCommitsReply,
    observed=True,
)
RETRIEVE = Route(
    "POST",
    "/api/v1/retrieve",
    "Evidence for a question",
    body=lambda: api.RetrieveRequest,
    reply=lambda: api.RetrieveReply,
    lines=lambda: api.RetrieveEvent,
    asks=True,
    principals=True,
    callers=frozenset({Caller.RUN}),
)
CONTENT_STORE = Route(
    "POST",
    "/api/v1/content",
    "Store large content",
    status=201,
    raw_body=True,
    reply=lambda: api.ContentRef,
    query=SCOPE,
    callers=frozenset({Caller.STORING_RUN, Caller.ANALYSIS, Caller.SANDBOX}),
)
CONTENT_LOAD = Route[pydantic.BaseModel](
    "GET",
    "/api/v1/content/{key}",
    "Stored content",
    raw_reply=True,
    query=SCOPE,
    callers=frozenset({Caller.RUN, Caller.SANDBOX}),
)

# --- The queue of extractions
INDEX = Route(
    "POST",
    "/api/v1/ingest",
    "Make a document findable now and extract its entities later",
    status=202,
    body=lambda: api.IngestRequest,
    reply=lambda: api.IndexReply,
)
QUEUE_LIST = Route(
    "GET",
    "/api/v1/queue",
    "Documents that wait for extraction, and those that failed",
    reply=lambda: api.Queue,
    query=SCOPE,
    optional=("limit",),
)
QUEUE_RETRY = Route(
    "POST",
    "/api/v1/queue/retry",
    "Queue documents that failed once more, as they were sent",
    body=lambda: api.Retry,
    reply=lambda: api.Retried,
)
QUEUE_REORDER = Route(
    "POST", "/api/v1/queue/reorder", "Give a waiting document a place", body=lambda: api.Move, reply=lambda: api.Job
)
QUEUE_PRIORITIZE = Route(
    "POST",
    "/api/v1/queue/prioritize",
    "Move a waiting document to the front",
    body=lambda: api.Prioritize,
    reply=lambda: api.Job,
)

# --- Files and pages of the web
UPLOAD_FILE = Route(
    "POST",
    "/api/v1/ingest/file",
    "Make a file known: PDF, DOCX, PPTX, XLSX, EML, MSG, HTML, text or an image, as the raw body; `metadata.KEY=VALUE` "
    "in the query is kept as its metadata, several of one KEY as a list",
    status=202,
    reply=lambda: api.FileReply,
    raw_body=True,
    query=SCOPE,
    optional=_UPLOADED,
    prefix="metadata.",
)
UPLOAD_IMAGE = Route(
    "POST",
    "/api/v1/ingest/image",
    "Make an image known by what a vision model sees: PNG, JPEG, GIF or WebP, as the raw body",
    status=202,
    reply=lambda: api.FileReply,
    raw_body=True,
    query=SCOPE,
    optional=_UPLOADED,
    prefix="metadata.",
)
UPLOAD_ATTACHMENT = Route(
    "POST",
    "/api/v1/ingest/attachment",
    "Make a stored file known that came with a document",
    status=202,
    body=lambda: api.AttachmentDraft,
    reply=lambda: api.FileReply,
)
CRAWL = Route(
    "POST",
    "/api/v1/crawl",
    "Make the pages of a site known",
    status=202,
    body=lambda: api.Crawl,
    reply=lambda: api.CrawlReply,
    callers=frozenset({Caller.ADDING_RUN}),
)

# --- What is known
DOCUMENTS_LIST = Route(
    "GET",
    "/api/v1/documents",
    "The documents that a scope sees, each with its state and versions; `source` is the beginning of a source URN",
    reply=lambda: api.Documents,
    query=SCOPE,
    optional=("kind", "source", "after", "limit"),
)

# --- What people and tasks teach
STORE = Route(
    "POST",
    "/api/v1/store",
    "Store something learned from a person",
    status=202,
    body=lambda: api.Knowledge,
    reply=lambda: api.IndexReply,
    callers=frozenset({Caller.ADDING_RUN}),
)
OUTCOMES = Route(
    "POST",
    "/api/v1/outcomes",
    "Remember what a finished task taught",
    body=lambda: api.Outcome,
    reply=lambda: api.OutcomeReply,
)

# --- Links
LINKS_READ = Route(
    "POST",
    "/api/v1/ingest/link",
    "Read the page of one link, if it may be opened: the content names the link, as JSON (`url`, `sourceUrn`, "
    "`sourceKind`, `subject`, `sender`, `before`, `after`) or as a text with a URL; `link` of the answer says what "
    "became of it, and `answer` is a person's to the question about an `Unclear` one",
    body=lambda: api.LinkRequest,
    reply=lambda: api.IngestReply,
)
LINKS_LIST = Route(
    "GET",
    "/api/v1/links/patterns",
    "Which links a scope calls safe or unsafe",
    reply=lambda: api.LinkPatterns,
    query=SCOPE,
)
LINKS_PUT = Route(
    "PUT",
    "/api/v1/links/patterns",
    "Call links safe or unsafe from now on, in exactly this scope",
    body=lambda: api.LinkPatternDraft,
    reply=lambda: api.LinkPattern,
)
LINKS_DELETE = Route[pydantic.BaseModel](
    "DELETE", "/api/v1/links/patterns", "Forget a pattern of links", status=204, query=("pattern", *SCOPE)
)

# --- Observers of sources
OBSERVE = Route[pydantic.BaseModel](
    "POST",
    "/api/v1/observations",
    "Observe a source under a new number: removals that are based on a smaller one are refused from now on",
    status=204,
    body=lambda: api.Observed,
)

# --- Search and the graph
SEARCH_HYBRID = Route(
    "POST",
    "/api/v1/search/hybrid",
    "Chunks by vectors and by keywords, without the graph",
    body=lambda: api.HybridRequest,
    reply=lambda: api.HybridReply,
    asks=True,
    principals=True,
    callers=frozenset({Caller.RUN}),
)
CHUNKS_BY_KIND = Route(
    "POST",
    "/api/v1/chunks/by-kind",
    "Chunks of documents of some kinds, newest first; no model is asked",
    body=lambda: api.ByKindRequest,
    reply=lambda: api.ChunksReply,
    asks=True,
    principals=True,
    callers=frozenset({Caller.RUN}),
)
CHUNKS_SHOW = Route(
    "GET",
    "/api/v1/chunks/{chunkId}",
    "A chunk, and what its sentences say",
    reply=lambda: api.ChunkReply,
    query=SCOPE,
    principals=True,
    callers=frozenset({Caller.RUN}),
)
GRAPH_NODES = Route(
    "GET",
    "/api/v1/graph/nodes",
    "Nodes by key, part of a key (q), type or property (property=NAME=VALUE), the most mentioned first",
    reply=lambda: api.NodesReply,
    query=SCOPE,
    optional=("q", "type", "key", "property", "limit", "asOf"),
    repeated=("key", "property"),
    principals=True,
    callers=frozenset({Caller.RUN}),
)
GRAPH_TRAVERSE = Route(
    "POST",
    "/api/v1/graph/traverse",
    "A walk over relationships, breadth first, within bounds",
    body=lambda: api.TraverseRequest,
    reply=lambda: api.TraverseReply,
    asks=True,
    principals=True,
    callers=frozenset({Caller.RUN}),
)
GRAPH_RELATIONSHIPS = Route(
    "GET",
    "/api/v1/graph/relationship",
    "Relationships of one or two nodes with the sentences that prove them",
    reply=lambda: api.RelationshipsReply,
    query=SCOPE,
    optional=("source", "type", "target", "limit", "asOf", "history"),
    principals=True,
    callers=frozenset({Caller.RUN}),
)

# --- The decision agent
AGENT_ASK = Route[pydantic.BaseModel](
    "POST",
    "/api/v1/agentic_search",
    "An answer by the decision agent, event by event (application/x-ndjson)",
    body=lambda: api.AgenticSearch,
    lines=lambda: api.AgentEvent,
    asks=True,
    principals=True,
    callers=frozenset({Caller.RUN}),
)
AGENT_RESUME = Route[pydantic.BaseModel](
    "GET",
    "/api/v1/agentic_search/{stream}",
    "The events of such an answer after one of them, and those that come (application/x-ndjson)",
    lines=lambda: api.AgentEvent,
    query=SCOPE,
    optional=("after",),
    principals=True,
    callers=frozenset({Caller.RUN}),
)
AGENT_STOP = Route[pydantic.BaseModel](
    "DELETE",
    "/api/v1/agentic_search/{stream}",
    "End such an answer, although its question gave resumeSeconds",
    status=204,
    query=SCOPE,
    asks=True,
    principals=True,
    callers=frozenset({Caller.RUN}),
)

# --- Pages as images
PAGES_SEARCH = Route(
    "POST",
    "/api/v1/search/pages",
    "Pages of PDFs and images for a question: words first, then what they look like",
    body=lambda: api.PageSearch,
    reply=lambda: api.PageReply,
    asks=True,
    principals=True,
)
PAGES_IMAGE = Route[pydantic.BaseModel](
    "GET",
    "/api/v1/search/pages/{pageId}/image",
    "The image of a page, or of a place on it where it was drawn of a PDF, for who sees its document now",
    raw_reply=True,
    query=SCOPE,
    optional=("left", "top", "right", "bottom"),
    principals=True,
)
PAGES_LIST = Route(
    "GET",
    "/api/v1/page-choices",
    "Which documents of a scope get pages that are found as images",
    reply=lambda: api.PageChoices,
    query=SCOPE,
)
PAGES_PUT = Route(
    "PUT",
    "/api/v1/page-choices",
    "Choose which documents of exactly this scope get pages; it holds for what is sent from now on",
    body=lambda: api.PageChoiceDraft,
    reply=lambda: api.PageChoices,
)
PAGES_STATE = Route(
    "GET",
    "/api/v1/documents/pages",
    "How far the pages of a document are",
    reply=lambda: api.DocumentPages,
    query=("sourceUrn", *SCOPE),
)

# --- Atomic tools
TOOL_STORE_CHUNK = Route(
    "POST",
    "/api/v1/tools/storeChunk",
    "Store a text that was extracted from a document, beside it",
    body=lambda: api.StoreChunkRequest,
    reply=lambda: api.Stored,
)
TOOL_INDEX_DOCUMENT = Route(
    "POST",
    "/api/v1/tools/indexDocument",
    "Store a document of an agent's own",
    body=lambda: api.IndexDocumentRequest,
    reply=lambda: api.Stored,
)
TOOL_CREATE_NODE = Route(
    "POST",
    "/api/v1/tools/createNodeWithRagLinks",
    "A node that chunks name",
    body=lambda: api.CreateNodeRequest,
    reply=lambda: api.NodeStored,
)
TOOL_CREATE_RELATIONSHIP = Route(
    "POST",
    "/api/v1/tools/createRelationship",
    "A relationship that a sentence of a chunk states",
    body=lambda: api.CreateRelationshipRequest,
    reply=lambda: api.RelationshipStored,
)
TOOL_SEARCH_HYBRID = Route(
    "POST",
    "/api/v1/tools/searchHybrid",
    "Chunks by reference, without their text",
    body=lambda: api.SearchHybridRequest,
    reply=lambda: api.SearchResult,
    asks=True,
    principals=True,
)

# --- Hard rules
RULES_LIST = Route(
    "GET",
    "/api/v1/rules",
    "Rules in force for a scope",
    reply=lambda: api.Rules,
    query=SCOPE,
    optional=("ruleType",),
    callers=frozenset({Caller.RUN}),
)
RULES_PUT = Route(
    "PUT",
    "/api/v1/rules",
    "Make a new version of a rule",
    body=lambda: api.RuleDraft,
    reply=lambda: api.Rule,
    callers=frozenset({Caller.APPROVED_RUN}),
)
RULES_DELETE = Route[pydantic.BaseModel](
    "DELETE", "/api/v1/rules", "Take a rule out of force", status=204, query=("ruleKey", "deletedBy", *SCOPE)
)
RULES_HISTORY = Route(
    "GET", "/api/v1/rules/history", "Every version of a rule", reply=lambda: api.Rules, query=("ruleKey", *SCOPE)
)

# --- Types of entities
ENTITY_TYPES_LIST = Route(
    "GET",
    "/api/v1/entity-types",
    "Entity types that count in a scope beside those that every extraction knows",
    reply=lambda: api.EntityTypes,
    query=SCOPE,
)
ENTITY_TYPES_PUT = Route(
    "PUT",
    "/api/v1/entity-types",
    "Replace the entity types of exactly this scope; documents that are sent from now on are extracted with them",
    body=lambda: api.EntityTypesDraft,
    reply=lambda: api.EntityTypes,
)

# --- Memories of tasks, users and procedures
MEMORY_TASK = Route(
    "GET",
    "/api/v1/memory/task/{uid}",
    "What a task knows",
    reply=lambda: api.TaskMemory,
    query=SCOPE,
    callers=frozenset({Caller.RUN}),
)
MEMORY_CONVERSATION = Route(
    "GET",
    "/api/v1/memory/task",
    "What the tasks of one conversation know",
    reply=lambda: api.TaskMemories,
    query=("correlationId", *SCOPE),
)
MEMORY_FINDINGS = Route(
    "POST",
    "/api/v1/memory/task/{uid}",
    "Add structured data to a task's memory",
    body=lambda: api.Findings,
    reply=lambda: api.TaskMemory,
)
MEMORY_SESSION = Route(
    "GET",
    "/api/v1/memory/session",
    "What happened lately",
    reply=lambda: api.Session,
    query=SCOPE,
    optional=("limit",),
    callers=frozenset({Caller.RUN}),
)
MEMORY_REMEMBER = Route(
    "POST",
    "/api/v1/memory/session",
    "Remember something for a week",
    status=201,
    body=lambda: api.SessionDraft,
    reply=lambda: api.SessionEntry,
)
MEMORY_PROCEDURES = Route(
    "GET",
    "/api/v1/memory/procedural",
    "How tasks are done, best first",
    reply=lambda: api.Procedures,
    query=SCOPE,
    optional=("trigger", "limit"),
    callers=frozenset({Caller.RUN}),
)
MEMORY_SAVE_PROCEDURE = Route(
    "PUT",
    "/api/v1/memory/procedural",
    "Save a procedure",
    body=lambda: api.ProcedureDraft,
    reply=lambda: api.Procedure,
    callers=frozenset({Caller.ADDING_RUN}),
)
USER_CONTEXT = Route(
    "GET",
    "/api/v1/user-context",
    "What is known about the user, for the start of a conversation",
    reply=lambda: api.UserContext,
    query=SCOPE,
    callers=frozenset({Caller.RUN}),
)
MEMORY_USE_PROCEDURE = Route(
    "POST",
    "/api/v1/memory/procedural/uses",
    "Count a use of a procedure",
    body=lambda: api.Use,
    reply=lambda: api.Procedure,
    callers=frozenset({Caller.ADDING_RUN}),
)
MEMORY_FORGET_PROCEDURE = Route[pydantic.BaseModel](
    "DELETE", "/api/v1/memory/procedural", "Forget a procedure", status=204, query=("id", *SCOPE)
)

# --- Aliases
ALIASES_CANDIDATES = Route(
    "GET",
    "/api/v1/aliases/candidates",
    "Nodes that may be the same thing as one; nothing is merged",
    reply=lambda: api.Candidates,
    query=("key", *SCOPE),
    optional=("limit",),
)
ALIASES_LIST = Route(
    "GET",
    "/api/v1/aliases",
    "Which names mean which nodes",
    reply=lambda: api.Aliases,
    query=SCOPE,
    optional=("key", "limit"),
)
ALIASES_MERGE = Route(
    "PUT",
    "/api/v1/aliases",
    "Let one node's key mean another node",
    status=202,
    body=lambda: api.Merge,
    reply=lambda: api.MergeReply,
)
ALIASES_UNMERGE = Route(
    "DELETE", "/api/v1/aliases", "Take a merge back", status=202, reply=lambda: api.MergeReply, query=("alias", *SCOPE)
)

# --- Upkeep
CONSISTENCY = Route(
    "GET",
    "/api/v1/health/consistency",
    "Whether graph and vectors agree about the scope's data",
    reply=lambda: api.ConsistencyReply,
    query=SCOPE,
    optional=("after", "limit"),
)
PROJECTS_REGROUP = Route(
    "POST",
    "/api/v1/projects/regroup",
    "Take a project's data into its new group",
    body=lambda: api.Regroup,
    reply=lambda: api.Regrouped,
)

# --- A new embedding model
REINDEX_STATUS = Route(
    "GET",
    "/api/v1/reindex",
    "How far a new embedding model has come, and what it waits for",
    reply=lambda: api.Reindexes,
)
REINDEX_DROP = Route(
    "POST",
    "/api/v1/reindex/drop",
    "Say that the index of the embedding model before is not needed any more",
    body=lambda: api.ReindexDrop,
    reply=lambda: api.Reindexes,
)

# --- Erasures
ERASURES_ASK = Route(
    "POST",
    "/api/v1/erasures",
    "Forget all that a client, a project or a group owns",
    status=202,
    body=lambda: api.ErasureDraft,
    reply=lambda: api.Erasure,
    erases=True,
)
ERASURES_LIST = Route(
    "GET",
    "/api/v1/erasures",
    "Erasures of a scope, and how far they have come",
    reply=lambda: api.Erasures,
    query=SCOPE,
)
ERASURES_PLACES = Route(
    "GET", "/api/v1/erasures/places", "The places that can hold text, for which erasures wait", reply=lambda: api.Places
)
ERASURES_FORGET = Route(
    "POST",
    "/api/v1/erasures/places/forget",
    "Say that the files of a place are gone for good",
    body=lambda: api.PlaceDraft,
    reply=lambda: api.Places,
    erases=True,
)

ALL: tuple[Route[pydantic.BaseModel], ...] = tuple(
    value for value in tuple(vars().values()) if isinstance(value, Route)
)
"""Every row."""
