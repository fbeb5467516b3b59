"""The extraction queue: what waits, what failed for good, and what is to come first."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from crds import scope
from kb import wire
from kb.writing.words import Name


class Job(wire.Reply):
    """A document in the extraction queue. `place` is its place among those that the viewer sees, from 1."""

    id: str
    scope: scope.Scope
    source_urn: str
    kind: str
    action: str
    state: Literal["Running", "Waiting", "Postponed"]
    priority: int
    place: int
    queue_position: int | None = None
    attempts: int
    reason: str
    created_at: AwareDatetime
    not_before: AwareDatetime | None = None


class Failure(wire.Reply):
    """A document that cannot be ingested as it is; its former version, if there was one, is still there."""

    source_urn: str
    reason: str
    at: AwareDatetime


class Queue(wire.Reply):
    """The head of the queue, how many documents wait, and the documents that failed for good with their reasons."""

    jobs: list[Job]
    total: int
    failed: list[Failure]


class Move(wire.Request):
    """A job by its id, to a place in front of everything that has none (1 is the first)."""

    scope: scope.Scope
    id: Name
    position: int = Field(ge=1, le=1_000_000)


class Prioritize(wire.Request):
    """A job by its id, to the front."""

    scope: scope.Scope
    id: Name
