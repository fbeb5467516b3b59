"""What the polls of a Connection came to: written by the sources process, read by the operator. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from crds import connection

REASONS = ("CredentialsRejected", "Misconfigured", "Unreachable", "KnowledgeBaseAway", "DiskFull", "PollFailed")
"""Why a poll failed: reasons of the condition Ready."""


SWEPT, HELD, BROKEN = "Swept", "TooManyMissing", "SweepFailed"
OUTCOMES = (SWEPT, HELD, BROKEN)
"""Of a sweep: reasons of the condition DeletionsApplied."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The end of the last sweep: `known` items were compared, `missing` ones are not at the source any more, `removed`
    of them leave. `message` says why it broke off. The next one is at `due`; `confirmed` was considered."""

    at: datetime
    due: datetime
    outcome: str = SWEPT
    known: int = 0
    missing: int = 0
    removed: int = 0
    message: str = ""
    confirmed: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """An item of which no task could be made; `stored`: its content is kept."""

    title: str
    reason: str
    found: datetime
    retry_at: datetime | None
    stored: bool


@dataclass(frozen=True, slots=True)
class Workspace:
    """The clone of a Git Connection: `failures` tries in a row failed, the last one with `error`; the next is at
    `retry_at`."""

    state: connection.WorkspaceState
    failures: int = 0
    retry_at: datetime | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What the last polls came to. `failures` in a row; `reason` (CamelCase) and `message` of the last one, "" after a
    success; `rejected`: the source refused the credentials. `items` by state, `failed` the latest of them;
    `waiting_since`: the oldest item without a task was found. `retried`, `resynced`: the wishes that were done last.
    `refused`: a sentence about items whose tasks the apiserver refuses, or "". `counted`: `items` is as of this poll,
    with those that have a task counted at `counted_at`; `idle`: none waits or leaves (`controllers.sources.counting`).
    """

    polled_at: datetime | None = None
    succeeded_at: datetime | None = None
    failures: int = 0
    reason: str = ""
    message: str = ""
    rejected: bool = False
    items: Mapping[str, int] | None = None
    cursor: str = ""
    refused: str = ""
    generation: int = 0
    sweep: Sweep | None = None
    failed: tuple[Failed, ...] = ()
    waiting_since: datetime | None = None
    retried: str = ""
    resynced: str = ""
    workspace: Workspace | None = None
    counted: bool = False
    counted_at: datetime | None = None
    idle: bool = False
