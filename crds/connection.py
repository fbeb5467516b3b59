"""Connection (`conn`): a source of items, such as a mailbox, an issue tracker or a Git repository.

Source: blueprint section 3; seed 000 "Workspace Retry with Exponential Backoff" for status.workspace.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from crds.conditions import Condition
from crds.model import IMMUTABLE, ONE_WRITER, Metadata, Model, Time, rules
from crds.values import HOST_RULES, FixedIdentifier, OptionalIdentifier, SecretRef


class Type(StrEnum):
    """Which protocol the source speaks."""

    EMAIL = "Email"
    JIRA = "Jira"
    CONFLUENCE = "Confluence"
    GITHUB = "GitHub"
    GITLAB = "GitLab"
    GIT = "Git"
    MEETING = "Meeting"


class WorkspaceState(StrEnum):
    """State of a Git connection's clone."""

    CLONING = "Cloning"
    READY = "Ready"
    CLONE_FAILED = "CloneFailed"


class Filter(Model):
    """Which items are taken."""

    include: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(max_length=64)] = ()
    """Folders, projects, spaces or branches; empty means all."""
    exclude: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(max_length=64)] = ()
    """Taken away from include."""
    since: Time | None = None
    """Nothing older."""
    query: Annotated[str, Field(max_length=2048)] = ""
    """The source's own query language, for example JQL."""


class RateLimit(Model):
    """Bound on calls of the source."""

    requests_per_minute: Annotated[int, Field(ge=1, le=6000)] = 60
    """Sustained rate."""
    burst: Annotated[int, Field(ge=1, le=1000)] = 10
    """How many at once."""


_SCHEMES = {
    "Email": "['imap', 'imaps', 'pop3', 'pop3s']",
    "Git": "['http', 'https', 'ssh', 'git', 'file']",
}
_HTTP_TYPES = "['Jira', 'Confluence', 'GitHub', 'GitLab']"


class Spec(Model):
    """Where items come from and how often."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"self.type != 'Email' || !isURL(self.url) || url(self.url).getScheme() in {_SCHEMES['Email']}",
                "url of an Email connection must start with imap://, imaps://, pop3:// or pop3s://",
            ),
            (
                f"!(self.type in {_HTTP_TYPES}) || !isURL(self.url) || url(self.url).getScheme() in ['http', 'https']",
                "url of this type must start with http:// or https://",
            ),
            (
                f"self.type != 'Git' || !isURL(self.url) || url(self.url).getScheme() in {_SCHEMES['Git']}",
                "url of a Git connection must start with https://, http://, ssh://, git:// or file://",
            ),
            (
                "self.type == 'Git' || self.type == 'Meeting' || has(self.secretRef)",
                "secretRef is required for this type; create a Secret with its credentials and name it here",
            ),
        )
    )

    type: Annotated[Type, Field(json_schema_extra=rules(IMMUTABLE))]
    """Which protocol. Immutable."""
    client_id: FixedIdentifier
    """The client that the data belongs to. Immutable."""
    project_id: OptionalIdentifier = ""
    """Its project, if all items are about one."""
    group_id: OptionalIdentifier = ""
    """The project's group."""
    url: Annotated[
        str,
        Field(
            min_length=7,
            max_length=2048,
            json_schema_extra=rules(
                ("isURL(self)", "must be an absolute URL with a scheme, for example https://host/path"),
                *HOST_RULES,
            ),
        ),
    ]
    """Where the source is."""
    secret_ref: SecretRef | None = None
    """Its credentials: keys username and password, or token."""
    poll_interval: Annotated[
        str,
        Field(
            max_length=16,
            json_schema_extra=rules(
                (
                    "self.matches('^[0-9]+(s|m|h)$') && duration(self) >= duration('10s')"
                    " && duration(self) <= duration('24h')",
                    "must be a duration between 10s and 24h, for example 5m",
                )
            ),
        ),
    ] = "5m"
    """How often it is asked for news, once sources are polled; this version polls none."""
    filter: Filter | None = None
    """Which items are taken."""
    rate_limit: RateLimit | None = None
    """Bound on calls of the source."""
    suspend: bool = False
    """Stop polling; what was fetched is still processed."""
    max_in_flight_tasks: Annotated[int, Field(ge=1, le=10_000)] = 100
    """How many unfinished PendingTasks it may have at once, once sources are polled."""


class Items(Model):
    """Source items by state (seed 000: NEW, INDEXING, INDEXED)."""

    new: Annotated[int, Field(ge=0)] = 0
    """Fetched, no task yet."""
    indexing: Annotated[int, Field(ge=0)] = 0
    """Being turned into a task."""
    indexed: Annotated[int, Field(ge=0)] = 0
    """Handed over as a task."""
    failed: Annotated[int, Field(ge=0)] = 0
    """Given up, with the reason kept beside the item."""


class Workspace(Model):
    """The clone of a Git connection."""

    state: WorkspaceState
    """Cloning, Ready or CloneFailed."""
    retry_count: Annotated[int, Field(ge=0)] = 0
    """Failed tries."""
    next_retry_at: Time | None = None
    """Not before."""
    last_error: Annotated[str, Field(max_length=1024)] = ""
    """What went wrong last."""


class Status(Model):
    """What the operator knows about the source."""

    model_config = ConfigDict(json_schema_extra=ONE_WRITER)

    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    """Ready, CredentialsValid, WorkspaceReady."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation that the rest is about."""
    cursor: Annotated[str, Field(max_length=4096)] = ""
    """Opaque position in the source."""
    last_poll_time: Time | None = None
    """When the source was last asked; this version polls none."""
    items: Items | None = None
    """Source items by state."""
    workspace: Workspace | None = None
    """The clone of a Git connection."""
    leader_epoch: Annotated[int, Field(ge=0)] = 0
    """leaseTransitions of the operator that wrote this."""


class Connection(Model):
    """A source of items. This version checks it and does not poll it yet (Ready=False, PollingNotEnabled): create
    PendingTasks for the items meanwhile."""

    api_version: Literal["jervis.dev/v1alpha1"] = "jervis.dev/v1alpha1"
    kind: Literal["Connection"] = "Connection"
    metadata: Metadata
    spec: Spec
    status: Status = Field(default_factory=Status)
