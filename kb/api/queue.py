"""The extraction queue: what waits, what failed for good, and what is to come first."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from contracts.api import message
from crds import scope
from kb.api.words import Name


class Job(message.Reply):
    """A document in the extraction queue. `place` is its place among those that the viewer sees, from 1.

    `ahead`: how many documents of all clients come before it as things stand, without those in work and as if those
    that were postponed were due. Clients take turns, so what others send later comes before it at most once per client
    and document of its own that is before it.
    """

    id: str
    scope: scope.Scope
    source_urn: str
    kind: str
    action: str
    state: Literal["Running", "Waiting", "Postponed"]
    priority: int
    place: int
    ahead: int = 0
    queue_position: int | None = None
    attempts: int
    reason: str
    created_at: AwareDatetime
    not_before: AwareDatetime | None = None


class Failure(message.Reply):
    """A document that cannot be ingested as it is; its former version, if there was one, is still there.

    `retryable`: its request is kept, and `POST /api/v1/queue/retry` tries it again. A request that was refused at once
    is not: its sender has to change it.
    """

    id: str
    scope: scope.Scope
    source_urn: str
    reason: str
    at: AwareDatetime
    retryable: bool


class Queue(message.Reply):
    """The head of the queue, how many documents wait, and the documents that failed for good with their reasons."""

    jobs: list[Job]
    total: int
    failed: list[Failure]


class Retry(message.Request):
    """A failed document by its id, or without one all failed documents that the scope sees."""

    scope: scope.Scope
    id: Name | None = None


class Retried(message.Reply):
    """The source URNs of the documents that wait in the queue again, and those that do not, with the reason."""

    retried: list[str]
    left: list[Failure]


class Move(message.Request):
    """A job by its id, to a place in front of everything that has none (1 is the first)."""

    scope: scope.Scope
    id: Name
    position: int = Field(ge=1, le=1_000_000)


class Prioritize(message.Request):
    """A job by its id, to the front."""

    scope: scope.Scope
    id: Name
