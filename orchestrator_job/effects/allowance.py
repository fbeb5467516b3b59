"""What allows an effect: a permit of the task, a standing permit, or what a person has approved. Pure.

It is decided from data alone: the name of the tool, the Connection, the targets, how often and when. No text of a user,
a document or a model allows anything, in any language.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from contracts.rules import enforce_lines
from contracts.rules import permits as rule_permits
from crds import approvals, permits
from crds.approvals import AllowedBy
from kb import api
from orchestrator_job.effects import copies, ledger_entries
from orchestrator_job.effects.tools import port
from orchestrator_job.model import rules_context


@dataclass(frozen=True, slots=True)
class Grant:
    """A permit, with what it is called: spec.permits[N], or the key of its rule."""

    by: AllowedBy
    name: str
    permit: permits.Permit

    @property
    def identity(self) -> str:
        """What its effects are counted by; the same for permits that say the same."""
        return hashlib.sha256(self.permit.model_dump_json().encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Grants:
    """What may allow effects of a task: those of its spec, then those of its rules. `held`: a rule wants a person for
    each effect."""

    permits: tuple[Grant, ...] = ()
    held: bool = False


def of_task(given: Sequence[permits.Permit]) -> tuple[Grant, ...]:
    """The permits of a task's spec."""
    return tuple(Grant(AllowedBy.PERMIT, f"spec.permits[{at}]", permit) for at, permit in enumerate(given))


def standing(held: rules_context.Standing) -> tuple[Grant, ...]:
    """The permits in the rules of a run. Those that a run proposed are none: nothing that a model says permits."""
    return tuple(
        Grant(AllowedBy.RULE, rule.key, permit)
        for rule in held.rules
        if rule.type == rule_permits.TYPE and not rule.key.startswith(api.LEARNED)
        for permit in enforce_lines.permitted(rule.content)
    )


@dataclass(frozen=True, slots=True)
class Ruling:
    """`allowed` by what the ledger keeps in `record`; else a person decides, and `why` says so in a sentence. `copies`
    are what a person sees of other sources."""

    allowed: bool
    record: ledger_entries.Allowed | None = None
    why: str = ""
    copies: tuple[copies.Copy, ...] = ()


def rule(
    tier: port.Tier,
    reach: port.Reach,
    grants: Grants,
    used: ledger_entries.Used,
    found: Sequence[copies.Copy],
    now: datetime,
) -> Ruling:
    """Whether the effect is carried out without being asked about. `used` is what permits and approvals of the task
    have allowed so far, `found` are the copies in its text."""
    if tier is port.Tier.FREE:
        return Ruling(True)
    if grants.held:
        return Ruling(False, why="A rule of this client requires a person's approval.", copies=tuple(found))
    if tier is port.Tier.PERSON:
        return Ruling(False, why=f"{reach.tool} always needs a person's approval.", copies=tuple(found))
    shared = next((one for one in found if one.why), None)
    early: list[datetime] = []
    spent = unshared = False
    for grant in grants.permits if tier is port.Tier.PERMIT else ():
        permit = grant.permit
        if not _names(permit, reach, now):
            if permit.not_before is not None and permit.not_before > now and _names(permit, reach, permit.not_before):
                early.append(permit.not_before)
        elif _times(grant, grants, used) >= _most(grant, grants):
            spent = True
        elif shared is not None and not permit.may_share:
            unshared = True
        else:
            return Ruling(True, {**_record(grant.by, grant.name, reach), "permit": grant.identity})
    like = next((one for one in used.for_task if _like(one, reach)), None)
    if like is not None and shared is None:
        return Ruling(True, _record(AllowedBy.FOR_TASK, like["name"], reach))
    if shared is not None and (unshared or like is not None):
        why = f"It is permitted, but passes on a copy. {shared.why}"
    elif tier is port.Tier.ASK:
        why = f"{reach.tool} needs a person's approval, whatever permits say."
    elif spent:
        why = f"The permits for {reach.tool}{_where(reach)} are used up."
    elif early:
        why = f"It is permitted from {min(early).isoformat()} on; approved, it is done at once."
    else:
        why = f"No permit names {reach.tool}{_where(reach)}."
    return Ruling(False, why=why, copies=tuple(found))


def approved(author: str, reach: port.Reach, *, edited: bool, for_task: bool) -> ledger_entries.Allowed:
    """What the ledger keeps of an effect that a person has approved."""
    record = _record(AllowedBy.EDITED if edited else AllowedBy.APPROVAL, author, reach)
    return {**record, "forTask": True} if for_task else record


def _record(by: AllowedBy, name: str, reach: port.Reach) -> ledger_entries.Allowed:
    return {
        "by": by.value,
        "name": name,
        "tool": reach.tool,
        "connection": reach.connection,
        "targets": list(reach.targets),
    }


def _most(grant: Grant, grants: Grants) -> int:
    """How often the task may use it; permits that say the same add up."""
    return sum(other.permit.most for other in grants.permits if other.permit == grant.permit)


def _times(grant: Grant, grants: Grants, used: ledger_entries.Used) -> int:
    """How often the task has used it. A permit that was changed is another one: effects of permits that stand no more
    count for each that names them, at whatever time."""
    standing = {other.identity for other in grants.permits}
    always = grant.permit.model_copy(update={"not_before": None, "not_after": None})
    times = 0
    for one in used.permitted:
        reach = port.Reach(one["tool"], one["connection"], tuple(one["targets"]))
        own = one["permit"] == grant.identity
        times += own or (one["permit"] not in standing and _names(always, reach, datetime.max.replace(tzinfo=UTC)))
    return times


def _names(permit: permits.Permit, reach: port.Reach, now: datetime) -> bool:
    return permits.names(permit, tool=reach.tool, connection=reach.connection, targets=reach.targets, now=now)


def _like(approval: ledger_entries.Allowed, reach: port.Reach) -> bool:
    """Whether an approval for the task covers it: the tool, the Connection, and no other target."""
    same = approval["tool"] == reach.tool and approval["connection"] == reach.connection
    return same and set(reach.targets) <= set(approval["targets"])


def _where(reach: port.Reach) -> str:
    shown = ", ".join(reach.targets[:5])[:200]
    more = f" and {len(reach.targets) - 5} more" if len(reach.targets) > 5 else ""
    at = f" at {reach.connection}" if reach.connection else ""
    return f"{at} with {shown}{more}" if shown else at


def recorded(found: Sequence[copies.Copy]) -> tuple[approvals.Copy, ...]:
    """Copies as a request has them."""
    return tuple(approvals.Copy(text=one.text, source=one.source, why=one.why) for one in found)
