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


class Effect(Model):
    """Something that a delegation did, or wants to do, outside of its run."""

    ordinal: int
    """Its number among the events of the delegation."""
    what: str
    """The tool, or what the run's ledger says of it."""
    state: str
    """asked, Approved or Rejected while there is a decision and nothing else; then intent, started, done."""
    asked: bool = False
    """Whether a person was asked about it."""


class Step(Model):
    """One delegation of a run, or one of the nodes around them that every run has."""

    id: str
    """r<round>.d<number>, with .<number> for each level below; of a node r<round>.<name>: intake, evidence, plan,
    follow, respond, synthesis, approve, finalize."""
    parent: str = ""
    """The delegation that delegated it; empty: the run itself did."""
    round: int
    """The round of the conversation."""
    agent: str = ""
    """The agent that works on it; of a node its name in the graph."""
    status: str
    """PENDING, RUNNING, COMPLETED, FAILED or INTERRUPTED."""
    started_at: str = ""
    """When it began; empty before."""
    ended_at: str = ""
    """When it ended; empty before."""
    llm_calls: int = 0
    """Model calls, without those of its sub-delegations."""
    tool_calls: int = 0
    """Calls of tools whose answers are kept; those of earlier rounds are not."""
    tokens: int = 0
    """Tokens that models read and wrote for it."""
    confidence: float | None = None
    """How sure its agent was, 0 to 1, and of the node that wrote the answer, how sure that is; null before its end."""
    needs_verification: bool = False
    """Whether its agent wanted the result verified."""
    effects: tuple[Effect, ...] = ()
    """Its effects, in order."""


class Trace(Model):
    """What the runs of a task did, as far as it is stored; of a task that runs up to this moment."""

    uid: str
    """Uid of the task."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name."""
    attempt: int = 0
    """Number of the latest run; 0 when nothing of it is kept any more."""
    round: int = 0
    """The latest round; the next begins when a person adds something after an answer."""
    llm_calls: int = 0
    """Model calls of that round, of all its runs."""
    tokens: int = 0
    """Tokens of that round."""
    steps: tuple[Step, ...] = ()
    """In the order in which they began; a delegation after the one that delegated it."""


class Artifact(Model):
    """Something that a result names as made."""

    key: str
    """The key of stored content, or the name of something that was made elsewhere."""
    delegation: str = ""
    """The delegation that made it, if one did."""
    bytes: int | None = None
    """Size of a text that is kept with the run; null for everything else."""


class Artifacts(Model):
    """What a result has beside its answer."""

    uid: str
    """Uid of the task."""
    artifacts: tuple[Artifact, ...] = ()
    """Each once, in the order of the result."""
    changed_files: tuple[str, ...] = ()
    """Paths that were changed in a workspace."""


class Content(Model):
    """One stored content of a result."""

    uid: str
    """Uid of the task."""
    key: str
    """Its key."""
    data: str
    """Its bytes in base64 (RFC 4648)."""


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
