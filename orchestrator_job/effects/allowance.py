"""What allows an effect: a permit of the task, a standing permit, or what a person has approved. Pure.

It is decided from data alone: the name of the tool, the Connection, the targets, how often and when. No text of a user,
a document or a model allows anything, in any language.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from crds import permits
from orchestrator_job.effects import copies
from orchestrator_job.effects.tools import port


class By(StrEnum):
    """What allowed an effect; the ledger and the metrics have it by this name."""

    FREE = "Free"
    PERMIT = "Permit"
    STANDING = "StandingPermit"
    FOR_TASK = "ApprovalForTask"
    APPROVAL = "Approval"
    EDITED = "EditedApproval"


@dataclass(frozen=True, slots=True)
class Grants:
    """What may allow effects of a task: `task` are the permits of its spec, `standing` those of its rules, `approved`
    what a person has allowed for the rest of the task. `held`: a rule wants a person for each effect."""

    task: tuple[permits.Permit, ...] = ()
    standing: tuple[permits.Permit, ...] = ()
    approved: tuple[port.Reach, ...] = ()
    held: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """`by` is what allows it; None: a person decides, and `why` says so in a sentence. `permit` identifies the permit
    that is used up by it, `copies` are what a person has to see of other sources, `not_before` is when a permit of it
    begins."""

    by: By | None
    permit: str = ""
    why: str = ""
    copies: tuple[copies.Copy, ...] = ()
    not_before: datetime | None = None


def identity(permit: permits.Permit) -> str:
    """The same for permits that say the same."""
    return hashlib.sha256(permit.model_dump_json().encode()).hexdigest()[:16]


def more(grants: Grants, approved: Iterable[port.Reach]) -> Grants:
    """With what persons have allowed for the rest of the task."""
    return replace(grants, approved=(*grants.approved, *approved))


def rule(
    tier: port.Tier,
    reach: port.Reach,
    grants: Grants,
    used: Mapping[str, int],
    found: Sequence[copies.Copy],
    now: datetime,
) -> Ruling:
    """Whether the effect is carried out without being asked about. `used`: how often each permit has allowed one.
    `found` are the copies in its text that go to readers who may not read their source."""
    if tier is port.Tier.FREE:
        return Ruling(By.FREE)
    if grants.held:
        return Ruling(None, why="A rule of this client requires a person's approval.", copies=tuple(found))
    if tier is port.Tier.PERSON:
        return Ruling(None, why=f"{reach.tool} always needs a person's approval.", copies=tuple(found))
    shares = bool(found or reach.stored)
    later: list[datetime] = []
    spent = unshared = False
    for by, permit in _each(grants):
        if not _names(permit, reach, now):
            if permit.not_before is not None and permit.not_before > now and _names(permit, reach, permit.not_before):
                later.append(permit.not_before)
            continue
        name = identity(permit)
        if used.get(name, 0) >= _most(permit, grants):
            spent = True
        elif shares and not permit.may_share:
            unshared = True
        else:
            return Ruling(by, name)
    if any(_like(approved, reach) for approved in grants.approved):
        if not shares:
            return Ruling(By.FOR_TASK)
        unshared = True
    if unshared:
        what = (*(f"the stored content {key}" for key in reach.stored), *(one.why for one in found[:1]))
        why = f"What is permitted may not pass on {'; '.join(what)[:300].rstrip('.')}."
    elif spent:
        why = f"The permit for {reach.tool} is used up."
    elif later:
        why = f"It is permitted from {min(later).isoformat()} on, and would be done at once when it is approved now."
    else:
        why = f"No permit names {reach.tool}{_where(reach)}."
    return Ruling(None, why=why, copies=tuple(found), not_before=min(later, default=None))


def _each(grants: Grants) -> Iterable[tuple[By, permits.Permit]]:
    yield from ((By.PERMIT, permit) for permit in grants.task)
    yield from ((By.STANDING, permit) for permit in grants.standing)


def _most(permit: permits.Permit, grants: Grants) -> int:
    """How often the task may use it; permits that say the same add up."""
    return sum(other.most for _, other in _each(grants) if other == permit)


def _names(permit: permits.Permit, reach: port.Reach, now: datetime) -> bool:
    return permits.names(
        permit, tool=reach.tool, connection=reach.connection, targets=reach.targets, now=now
    )


def _like(approved: port.Reach, reach: port.Reach) -> bool:
    """Whether an approval for the task covers it: the tool, the Connection, and no other target."""
    same = approved.tool == reach.tool and approved.connection == reach.connection
    return same and set(reach.targets) <= set(approved.targets)


def _where(reach: port.Reach) -> str:
    shown = ", ".join(reach.targets[:5])[:200]
    more = f" and {len(reach.targets) - 5} more" if len(reach.targets) > 5 else ""
    at = f" at {reach.connection}" if reach.connection else ""
    return f"{at} with {shown}{more}" if shown else at
