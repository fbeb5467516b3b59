"""Connection (`conn`): a source of items, such as a mailbox, an issue tracker or a Git repository.

Source: blueprint section 3; seed 000 "Workspace Retry with Exponential Backoff" for status.workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from crds.access import Access
from crds.conditions import Condition
from crds.domains import MOST_DOMAINS, Domain
from crds.model import IMMUTABLE, ONE_WRITER, Metadata, Model, Time, rules
from crds.values import HOST_RULES, FixedIdentifier, OptionalIdentifier, SecretRef


class Type(StrEnum):
    """Protocol of the source."""

    EMAIL = "Email"
    JIRA = "Jira"
    CONFLUENCE = "Confluence"
    GITHUB = "GitHub"
    GITLAB = "GitLab"
    GITEA = "Gitea"
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
    """Folders, projects, spaces, repositories or branches (also release/*). Empty means all, or the one that url names,
    and for Git the default branch."""
    exclude: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(max_length=64)] = ()
    """Removed from include."""
    since: Time | None = None
    """Items before this moment are skipped."""
    query: Annotated[str, Field(max_length=2048)] = ""
    """The source's own query language, for example JQL; of GitHub, GitLab and Gitea state=, labels= and type=."""


class RateLimit(Model):
    """Limit on requests to the source."""

    requests_per_minute: Annotated[int, Field(ge=1, le=6000)] = 60
    """Sustained rate."""
    burst: Annotated[int, Field(ge=1, le=1000)] = 10
    """Requests in one burst."""


_HTTP = ("http", "https")
SCHEMES: Mapping[Type, tuple[str, ...]] = {
    **dict.fromkeys(Type, _HTTP),
    Type.EMAIL: ("imap", "imaps", "pop3", "pop3s"),
    Type.GIT: ("http", "https", "ssh", "git", "file"),
}
"""The schemes of spec.url by type: what the apiserver admits, the operator accepts and the providers call."""
UNCALLED = frozenset({Type.MEETING})
"""Types whose spec.url is a name that no request goes to: the apiserver admits any scheme."""
GIT_HOSTS = (Type.GITHUB, Type.GITLAB, Type.GITEA)
"""Git hosts with issues and checks: their URL or filter names repositories, runs may act on their issues."""
_HTTP_TYPES = [kind.value for kind in Type if SCHEMES[kind] == _HTTP and kind not in UNCALLED]
_OTHER_TYPES = f"!(self.type in {[kind.value for kind in GIT_HOSTS]})"
_NO_INCLUDE = "!has(self.filter) || !has(self.filter.include) || self.filter.include.size() == 0"
_QUERY = "(state=(open|closed|all)|labels=[^&]+|type=(issues|pulls|all))"


class Smtp(Model):
    """The mail server that takes what runs send."""

    url: Annotated[
        str,
        Field(
            min_length=8,
            max_length=2048,
            json_schema_extra=rules(
                (
                    "isURL(self) && url(self).getScheme() in ['smtp', 'smtps']",
                    "must start with smtp:// (STARTTLS, port 587) or smtps:// (TLS from the beginning, port 465)",
                ),
                *HOST_RULES,
            ),
        ),
    ]
    """smtp:// with STARTTLS or smtps://, and its host."""
    from_: Annotated[
        str,
        Field(
            alias="from",
            min_length=3,
            max_length=320,
            json_schema_extra=rules(
                (
                    'self.matches(r"^[A-Za-z0-9.!#$%&\'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$")',
                    "must be one address of ASCII without a name, for example team@example.com",
                )
            ),
        ),
    ]
    """Address that mails come from."""
    secret_ref: SecretRef | None = None
    """Login at the mail server, keys username and password or those of OAuth; by default that of the Connection."""


_BRANCHES = "^[A-Za-z0-9_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*(/[*])?$"


class Push(Model):
    """What runs may push."""

    branches: Annotated[
        tuple[
            Annotated[
                str,
                Field(
                    min_length=1,
                    max_length=200,
                    json_schema_extra=rules(
                        (
                            f"self.matches('{_BRANCHES}') && !self.startsWith('refs/')",
                            "must be the name of a branch, or a prefix that ends in /*, for example jervis/*",
                        )
                    ),
                ),
            ],
            ...,
        ],
        Field(min_length=1, max_length=16),
    ]
    """Names of branches, and prefixes that end in /*. The default branch counts only where its own name is listed."""

    def allows(self, branch: str, *, default: bool = False) -> bool:
        """Whether runs may push it; `default`: it is the default branch."""
        if branch in self.branches:
            return True
        return not default and any(one.endswith("/*") and branch.startswith(one[:-1]) for one in self.branches)


class Git(Model):
    """What is of repositories alone."""

    push: Push | None = None
    """What runs may push; without it nothing."""


class Spec(Model):
    """The source, its credentials and its limits."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"self.type != 'Email' || !isURL(self.url) || url(self.url).getScheme() in {list(SCHEMES[Type.EMAIL])}",
                "url of an Email connection must start with imap://, imaps://, pop3:// or pop3s://",
            ),
            (
                f"!(self.type in {_HTTP_TYPES}) || !isURL(self.url) || url(self.url).getScheme() in {list(_HTTP)}",
                "url of this type must start with http:// or https://",
            ),
            (
                f"self.type != 'Git' || !isURL(self.url) || url(self.url).getScheme() in {list(SCHEMES[Type.GIT])}",
                "url of a Git connection must start with https://, http://, ssh://, git:// or file://",
            ),
            (
                "self.type != 'Git' || !self.url.startsWith('ssh://') || has(self.secretRef)",
                "secretRef is required for ssh://; create a Secret with ssh-privatekey and known_hosts, name it here",
            ),
            (
                "self.type != 'Git' || !self.url.matches('[?#]') && self.url.matches('^[^:]+://[^/]*/+[^/]')",
                "url of a Git connection must have a path, without a query or a fragment: https://HOST/ORG/NAME.git",
            ),
            (
                "self.type != 'Git' || !has(self.filter) || !has(self.filter.query) || self.filter.query == ''",
                "filter.query has no meaning for a Git connection; choose branches with filter.include",
            ),
            (
                "self.type == 'Email' || !has(self.smtp)",
                "smtp is for type Email; remove it",
            ),
            (
                "self.type == 'Git' || !has(self.git)",
                "git is for type Git; remove it",
            ),
            (
                f"{_OTHER_TYPES} || !isURL(self.url) || !({_NO_INCLUDE})"
                " || self.url.matches('^https?://[^/]+/[^/]+/[^/]+')",
                "url of this type must name a repository, for example https://host/owner/name, or the host alone"
                " with repositories in filter.include",
            ),
            (
                f"{_OTHER_TYPES} || {_NO_INCLUDE}"
                " || self.filter.include.all(one, one.matches('^[^/ ?#[:cntrl:]]+(/[^/ ?#[:cntrl:]]+)+$'))",
                "filter.include of this type has names of repositories, for example owner/name",
            ),
            (
                f"{_OTHER_TYPES} || !has(self.filter) || !has(self.filter.query) || self.filter.query == ''"
                f" || self.filter.query.matches('^{_QUERY}(&{_QUERY})*$')",
                "filter.query of this type is made of state=open|closed|all, labels=NAME,NAME and"
                " type=issues|pulls|all, joined by &",
            ),
            (
                "!self.url.startsWith('pop3') || !has(self.filter) || ((!has(self.filter.include) ||"
                " size(self.filter.include) == 0) && (!has(self.filter.exclude) || size(self.filter.exclude) == 0)"
                " && !has(self.filter.since))",
                "POP3 has no folders and no times of arrival; leave filter.include, filter.exclude and filter.since"
                " out, or use imaps://",
            ),
            (
                "self.type in ['Email', 'Git', 'Meeting'] || !has(self.access)",
                "access is for types Email, Git and Meeting; the other sources say who may read their items, remove it",
            ),
            (
                "self.type == 'Git' || self.type == 'Meeting' || has(self.secretRef)",
                "secretRef is required for this type; create a Secret with its credentials and name it here",
            ),
        )
    )

    type: Annotated[Type, Field(json_schema_extra=rules(IMMUTABLE))]
    """Protocol of the source. Immutable."""
    client_id: FixedIdentifier
    """The client that the data belongs to. Immutable."""
    project_id: OptionalIdentifier = ""
    """The client's project, if all items belong to one."""
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
    """Address of the source."""
    secret_ref: SecretRef | None = None
    """Credentials for the source: keys username and password, or token; for ssh:// ssh-privatekey and known_hosts; for
    OAuth provider, client_id and refresh_token. ca.crt has authorities that are trusted beside the others."""
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
    """How often it is asked for news."""
    filter: Filter | None = None
    """Which items are taken."""
    rate_limit: RateLimit | None = None
    """Limit on requests to the source."""
    smtp: Smtp | None = None
    """For type Email: the server by which runs send mail."""
    git: Git | None = None
    """For type Git: what runs may push."""
    access: Access | None = None
    """For types Email, Git and Meeting, whose sources do not say it: who may see the items. Without it that is
    Unknown, and they are in no answer on behalf of a user."""
    internal_domains: Annotated[
        tuple[Domain, ...], Field(max_length=MOST_DOMAINS, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = ()
    """Domains of the client's own, as example.com, or *.example.com for its sub-domains: what a run has read of a
    source may go to addresses and hosts there without a person, where its readers may read the source."""
    suspend: bool = False
    """Stop polling; what was fetched is still processed."""
    max_in_flight_tasks: Annotated[int, Field(ge=1, le=10_000)] = 100
    """How many unfinished PendingTasks it may have at once; more items wait."""


class Items(Model):
    """Number of source items by state."""

    new: Annotated[int, Field(ge=0)] = 0
    """Fetched, no task yet."""
    indexing: Annotated[int, Field(ge=0)] = 0
    """A task is being created."""
    indexed: Annotated[int, Field(ge=0)] = 0
    """The task exists."""
    failed: Annotated[int, Field(ge=0)] = 0
    """Given up; the reason is stored with the item."""


MOST_FAILURES = 10
MOST_LATEST = 5


class Arrival(Model):
    """An item that was stored."""

    title: Annotated[str, Field(max_length=256)] = ""
    """Its title."""
    source_urn: Annotated[str, Field(max_length=1024)] = ""
    """The URN of its task and its document."""
    found_at: Time | None = None
    """When it was stored."""
    left_out: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=5)] = ()
    """What of it is not in its text and attachments, or is there in doubt."""


class Remedy(StrEnum):
    """What has a failed item tried again: what is stored of it, or its place at the source (Retry), or all of the
    source, read once more (Resync)."""

    RETRY = "Retry"
    RESYNC = "Resync"


class Failure(Model):
    """An item of which no task could be made."""

    title: Annotated[str, Field(max_length=256)] = ""
    """Its title, else its place at the source."""
    reason: Annotated[str, Field(max_length=512)] = ""
    """Why no task could be made of it."""
    found_at: Time | None = None
    """When it was found at the source."""
    retry_at: Time | None = None
    """When it is tried again by itself."""
    remedy: Remedy = Remedy.RETRY
    """What has it tried again: Retry, its stored content or its place, or Resync, all of the source."""


class Workspace(Model):
    """The clone of a Git connection."""

    state: WorkspaceState
    """Cloning, Ready or CloneFailed."""
    retry_count: Annotated[int, Field(ge=0)] = 0
    """Failed tries."""
    next_retry_at: Time | None = None
    """Earliest time of the next try."""
    last_error: Annotated[str, Field(max_length=1024)] = ""
    """The last error."""


class Status(Model):
    """State of the source, written by the operator."""

    model_config = ConfigDict(json_schema_extra=ONE_WRITER)

    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    """Ready, CredentialsValid, DeletionsApplied, SendingReady, WorkspaceReady."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation that the rest of the status is about."""
    cursor: Annotated[str, Field(max_length=4096)] = ""
    """Opaque position in the source."""
    last_poll_time: Time | None = None
    """When the source was last asked."""
    last_success_time: Time | None = None
    """When it was last asked and everything new was stored."""
    items: Items | None = None
    """Source items by state."""
    waiting_since: Time | None = None
    """When the oldest item that has no task yet was found."""
    failures: Annotated[tuple[Failure, ...], Field(max_length=MOST_FAILURES)] = ()
    """Of the failed items, the ones that were found last."""
    latest: Annotated[tuple[Arrival, ...], Field(max_length=MOST_LATEST)] = ()
    """The items that were stored last, the newest first."""
    last_handled_retry: Annotated[str, Field(max_length=64)] = ""
    """The annotation jervis.dev/retry-requested whose wish was done last."""
    last_handled_resync: Annotated[str, Field(max_length=64)] = ""
    """The annotation jervis.dev/resync-requested whose wish was done last: the source was read to its end."""
    workspace: Workspace | None = None
    """The clone of a Git connection."""
    leader_epoch: Annotated[int, Field(ge=0)] = 0
    """leaseTransitions of the Lease of the operator that wrote this."""


class Connection(Model):
    """A source of items, each of which becomes a PendingTask, once (commits become documents). It is polled where the
    chart's sources.enabled is set, and only checked otherwise (Ready=False, PollingNotEnabled)."""

    api_version: Literal["jervis.dev/v1alpha1"] = "jervis.dev/v1alpha1"
    kind: Literal["Connection"] = "Connection"
    metadata: Metadata
    spec: Spec
    status: Status = Field(default_factory=Status)


def wish(conn: Connection, annotation: str) -> str:
    """What the annotation asks for, as the status repeats it; "" without one."""
    return conn.metadata.annotations.get(annotation, "")[:64]


def seconds(interval: str) -> float:
    """`spec.pollInterval` in seconds, for example of "5m"."""
    return float(interval[:-1]) * {"s": 1, "m": 60, "h": 3600}[interval[-1]]
