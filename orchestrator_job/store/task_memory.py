"""Task memory: the run's input, which the operator wrote before it created the Job. Read only; one document per uid.

Pure; `task_memory_reader` reads it. Source: seed 000 "TaskMemory - Context Passing" and "Python Orchestrator - Task
Context Loading".
"""

from __future__ import annotations

import hashlib
import json

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from crds import pendingtask, scope, values
from crds.permits import Permit


class TaskMemory(BaseModel):
    """The task as one run sees it. Unknown fields are ignored: a newer operator may write more."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    task_uid: str
    name: str = ""
    namespace: str = ""
    type: pendingtask.Type
    mode: pendingtask.Mode = pendingtask.Mode.BACKGROUND
    correlation_id: str = ""
    scope: scope.Scope
    on_behalf_of: tuple[str, ...] = ()
    """As whom the run reads, which its token enforces; sorted, empty: all of the scope."""
    source_urn: str | None = None
    source_type: str | None = None
    source_id: str | None = None
    title: str = ""
    content: str | None = None
    content_ref: values.ContentRef | None = None
    attachments: tuple[pendingtask.Attachment, ...] = ()
    messages: tuple[pendingtask.Message, ...] = ()
    answers: tuple[pendingtask.Answer, ...] = ()
    approvals: tuple[pendingtask.Decided, ...] = ()
    permits: tuple[Permit, ...] = ()
    """Effects that the run may have without asking a person (spec.permits)."""
    context_summary: str | None = None
    graph_node_keys: tuple[str, ...] = ()
    rag_document_ids: tuple[str, ...] = ()
    structured_data: dict[str, object] = Field(default_factory=dict)
    routing_decision: str | None = None
    routing_reason: str | None = None
    budget: pendingtask.Budget | None = None
    time_zone: str = ""
    """That of the user, a name of the IANA database; "": the task does not say it."""
    attempt: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_content(self) -> TaskMemory:
        if (self.content is None) == (self.content_ref is None):
            raise ValueError("exactly one of content and contentRef must be set")
        return self

    @property
    def source(self) -> str:
        """The source URN of the content and its files in the knowledge base."""
        return self.source_urn or f"task::{self.task_uid}"

    @property
    def asked_by_user(self) -> bool:
        """True when the content is a user's request; otherwise it is a document of a third party."""
        return self.type in (pendingtask.Type.USER_INPUT, pendingtask.Type.USER_TASK, pendingtask.Type.SCHEDULED)

    def digest(self) -> str:
        """Identity of the round's input: it changes when a message or an answer is added.

        SHA-256 in hex over content (or its reference's hash), messages and answers. A decision on an approval is not
        included: it is about this round's own answer.
        """
        said = {
            "content": self.content,
            "ref": self.content_ref.sha256 if self.content_ref is not None else None,
            "messages": [(message.id, message.text) for message in self.messages],
            "answers": [(answer.id, answer.text) for answer in self.answers],
        }
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
