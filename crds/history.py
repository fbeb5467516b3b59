"""The history of finished tasks as it is asked for and answered: `GET /api/v1/history` of the operator.

A caller shows a ticket: a token of a ServiceAccount that has no rights, of the namespace whose history is wanted, for
this audience alone (docs/decisions/0007). The Kubernetes API gives one to whoever may create it there.
"""

from __future__ import annotations

from typing import Any

from crds import phases
from crds.model import Model

AUDIENCE = "history.jervis.dev"
"""What a ticket is good for."""
TICKET_HEADER = "X-Jervis-Ticket"
"""Carries the ticket where the apiserver is in between: its service proxy takes Authorization for itself."""
COMPONENT = "history"
"""Label app.kubernetes.io/component of the ServiceAccounts that tickets are made of."""
ADDRESS_ANNOTATION = "jervis.dev/history"
"""On such a ServiceAccount: `NAMESPACE/SERVICE:PORT` of the operator."""


class Entry(Model):
    """A finished task in a list."""

    uid: str
    """Identity of the object that it was."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name; another task may have it now."""
    client_id: str
    """The client that its data belongs to."""
    project_id: str = ""
    """The client's project."""
    type: str
    """Where the work came from."""
    phase: phases.Phase
    """Done, Completed or Error."""
    created_at: str
    """When it was created; RFC 3339, as all times here."""
    completed_at: str
    """When it ended."""
    archived_at: str
    """When it was archived."""
    attempt: int = 0
    """Runs that it took."""
    decision: str = ""
    """What qualification decided."""
    exit_reason: str = ""
    """Why the last run ended."""
    summary: str = ""
    """How it ended, in words."""
    correlation_id: str = ""
    """Ties together what belongs to one conversation or import."""


class Page(Model):
    """Finished tasks, the one that ended last first."""

    items: tuple[Entry, ...]
    """At most `limit`."""
    next: str | None = None
    """Give it as `before` for the page that follows; null on the last one."""


class Whole(Entry):
    """Everything that is known of one finished task."""

    object: dict[str, Any]
    """The PendingTask as it was archived, without managedFields."""
    result: dict[str, Any] | None = None
    """What its last run stored in `task_results`; null when no run did."""


class Result(Model):
    """What the last run of a task stored, of one that lives or has ended."""

    uid: str
    """Identity of the task."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name."""
    archived: bool
    """It has ended and is in the archive."""
    result: dict[str, Any]
    """The document of `task_results`: answer, citations, evidence, questions and how it came about."""


class Problem(Model):
    """What is wrong."""

    code: str
    """bad_request, unauthorized, forbidden, not_found or unavailable."""
    message: str
    """A sentence."""
    field: str | None = None
    """The parameter that is wrong."""
    remedy: str | None = None
    """How to mend it."""


class Failure(Model):
    """Every answer that is not 200."""

    error: Problem
    """What is wrong."""
