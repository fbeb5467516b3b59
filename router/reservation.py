"""A GPU kept for the orchestrator: who holds it, until when, and when it is given up.

An orchestrator announces itself (`POST /router/announce`), or its first P0 request does so for it. The reservation ends
when it is released, or after a time without a request (a request that runs, and a load that it waits for, are activity,
however long they take), or its longest time after the last announcement or P0 request. So a conversation is not cut
off, and urgent work of others (P1) alone keeps no reservation beyond that time. Announcing again with its id, or as the
same owner, renews it.

Pure. Source: seed 000 "Orchestrator Pre-announcement Protocol"; the design's router page, "Announce/release".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

# The owner of a reservation that was not announced: it came with a P0 request.
IMPLICIT = "P0"


@dataclass(frozen=True, slots=True)
class Durations:
    """Seconds."""

    longest: float = 1800.0
    idle: float = 300.0


@dataclass(slots=True)
class Reservation:
    """A reservation in force. Moments are in seconds of the scheduler's clock."""

    id: str
    owner: str
    backend: str
    model_set: str
    """Empty on a GPU without model sets."""
    until: float
    active: float
    """When a request of an urgent level last began or ended there."""
    implicit: bool = False
    awaiting: set[str] = field(default_factory=set)
    """Models that must be usable before it is ready."""
    loading: set[str] = field(default_factory=set)
    """Those of them that a GPU without model sets was asked to load."""

    @property
    def ready(self) -> bool:
        """Is everything there?"""
        return not self.awaiting

    def named(self, *, owners: bool) -> str:
        """Its owner as others may see it. Without `owners` they show no token, and a caller who knows the name could
        pretend to have made the reservation: empty, unless it came with a P0 request."""
        return self.owner if owners or self.implicit else ""

    def over(self, now: float, durations: Durations, *, talking: bool, busy: bool) -> bool:
        """Has it run out? `talking`: a P0 request runs on the GPU. `busy`: an urgent one does, or it waits for
        its models."""
        if talking:
            return False
        return now >= self.until or (not busy and now - self.active >= durations.idle)

    def meant(self, owner: str, lease_id: str) -> bool:
        """Does an announcement renew this one? The owner's name is enough: an id may be from before a restart."""
        return self.id == lease_id or (self.owner == owner and not self.implicit)

    def releasable(self, owner: str, lease_id: str) -> bool:
        """Does a release end this one? An id that is given must be the right one: the release may come late."""
        return self.owner == owner and not self.implicit and (not lease_id or self.id == lease_id)


class Verdict(StrEnum):
    """What came of announcing or releasing."""

    HELD = "Held"
    RELEASED = "Released"
    NOTHING = "Nothing"
    """There was nothing to release."""
    TAKEN = "Taken"
    """Another owner holds it."""
    UNAVAILABLE = "Unavailable"
    """No GPU could be reserved."""


class Answer(NamedTuple):
    """`reservation` is the one that is held, or the one that is in the way. It ends after `idle` seconds without a
    request."""

    verdict: Verdict
    reservation: Reservation | None = None
    reason: str = ""
    idle: float = 0.0
