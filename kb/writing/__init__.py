"""The wire models of the endpoints beside ingest that write, and of the memories, a module per endpoint.

Same rules as `kb.wire`: requests refuse unknown fields, replies ignore them. Every list has a limit. This package is a
door: callers import `kb.writing` and name what it lists, not its modules.
"""

from kb.writing.aliases import Alias, Aliases, Candidate, Candidates, Merge, MergeReply
from kb.writing.crawl import Crawl, CrawlReply, Page
from kb.writing.erasure import Erasure, ErasureDraft, Erasures
from kb.writing.files import (
    ATTACHMENT,
    AttachmentDraft,
    FileReply,
    attached_to,
    attachment_sources,
    attachment_urn,
    came_with,
)
from kb.writing.knowledge import Category, Knowledge, UserContext
from kb.writing.memory import (
    SUMMARY_CHARS,
    Findings,
    Procedure,
    ProcedureDraft,
    Procedures,
    Session,
    SessionDraft,
    SessionEntry,
    Step,
    TaskMemory,
    Use,
)
from kb.writing.outcome import Outcome, OutcomeReply, StepResult, TaskCategory
from kb.writing.queue import Failure, Job, Move, Prioritize, Queue
from kb.writing.rules import Rule, RuleDraft, Rules, RuleType

__all__ = [
    "ATTACHMENT",
    "Alias",
    "Aliases",
    "AttachmentDraft",
    "Candidate",
    "Candidates",
    "Category",
    "Crawl",
    "CrawlReply",
    "Erasure",
    "ErasureDraft",
    "Erasures",
    "Failure",
    "FileReply",
    "Findings",
    "Job",
    "Knowledge",
    "Merge",
    "MergeReply",
    "Move",
    "Outcome",
    "OutcomeReply",
    "Page",
    "Prioritize",
    "Procedure",
    "ProcedureDraft",
    "Procedures",
    "Queue",
    "Rule",
    "RuleDraft",
    "RuleType",
    "Rules",
    "SUMMARY_CHARS",
    "Session",
    "SessionDraft",
    "SessionEntry",
    "Step",
    "StepResult",
    "TaskCategory",
    "TaskMemory",
    "Use",
    "UserContext",
    "attached_to",
    "attachment_sources",
    "attachment_urn",
    "came_with",
]
