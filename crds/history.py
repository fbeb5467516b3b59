"""Responses and names of the operator's history API, `GET /api/v1/history`.

A caller authenticates with a ticket: a short-lived token, for this audience only, of a ServiceAccount without rights in
the namespace whose history is requested (docs/decisions/0007). RBAC decides who may create such a token.
"""

from __future__ import annotations

from typing import Any

from crds import phases
from crds.model import Model

AUDIENCE = "history.jervis.dev"
"""Audience of the tickets."""
TICKET_HEADER = "X-Jervis-Ticket"
"""Carries the ticket through the apiserver's service proxy, which uses Authorization itself."""
COMPONENT = "history"
"""Label app.kubernetes.io/component of the ServiceAccounts of the tickets."""
ADDRESS_ANNOTATION = "jervis.dev/history"
"""On such a ServiceAccount: `NAMESPACE/SERVICE:PORT` of the operator."""


class Entry(Model):
    """A finished task in a list."""

    uid: str
    """Uid of the task."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name; a newer task may have the same name."""
    client_id: str
    """The client that its data belongs to."""
    project_id: str = ""
    """The client's project."""
    type: str
    """spec.type."""
    phase: phases.Phase
    """Done, Completed or Error."""
    created_at: str
    """When it was created; all times are RFC 3339."""
    completed_at: str
    """When it ended."""
    archived_at: str
    """When it was archived."""
    attempt: int = 0
    """Number of runs."""
    decision: str = ""
    """Decision of qualification."""
    exit_reason: str = ""
    """Why the last run ended."""
    summary: str = ""
    """The result as text for people."""
    correlation_id: str = ""
    """Common to all tasks of one conversation or import."""


class Page(Model):
    """Finished tasks, latest end first."""

    items: tuple[Entry, ...]
    """At most `limit`."""
    next: str | None = None
    """Value of `before` for the next page; null on the last one."""


class Whole(Entry):
    """A finished task with its object and result."""

    object: dict[str, Any]
    """The archived PendingTask, without managedFields."""
    result: dict[str, Any] | None = None
    """The document that its last run stored in `task_results`; null without one."""


class Result(Model):
    """The stored result of a task's last run; the task may be unfinished."""

    uid: str
    """Uid of the task."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name."""
    archived: bool
    """True when the task has ended and is archived."""
    result: dict[str, Any]
    """The document of `task_results`: answer, citations, evidence, questions and the steps that led to them."""


class Problem(Model):
    """An error."""

    code: str
    """bad_request, unauthorized, forbidden, not_found or unavailable."""
    message: str
    """One sentence for people."""
    field: str | None = None
    """The wrong parameter."""
    remedy: str | None = None
    """How to fix it."""


class Failure(Model):
    """Body of every response that is not 200."""

    error: Problem
    """The error."""
