"""What allows an effect, from data alone: permits, approvals for the task, and copies; no text has a say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import permits
from crds.approvals import AllowedBy
from orchestrator_job.effects import allowance, copies, ledger_entries
from orchestrator_job.effects.tools import port
from orchestrator_job.model import rules_context
from tests.orchestrator_job import workbench

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_TOOLS, _PLACES, _TARGETS = ("sendMail", "addComment"), ("office", "tracker"), ("ann@example.com", "o/r#13", "42")
_PERMITS = st.builds(
    permits.Permit,
    tool=st.sampled_from(_TOOLS),
    connection=st.sampled_from((None, *_PLACES)),
    targets=st.lists(st.sampled_from((*_TARGETS, "*")), max_size=2).map(tuple),
    most=st.integers(1, 3),
    not_before=st.sampled_from((None, NOW - timedelta(days=1), NOW + timedelta(days=1))),
    may_share=st.booleans(),
)
_REACHES = st.builds(
    port.Reach,
    tool=st.sampled_from(_TOOLS),
    connection=st.sampled_from(_PLACES),
    targets=st.lists(st.sampled_from(_TARGETS), max_size=2, unique=True).map(tuple),
    text=st.text(),
)
_COPY = copies.Copy("7713", "doc::1", "doc::1 may be read inside alone.")


def ruled(reach: port.Reach, *given_permits: permits.Permit, **more: Any) -> allowance.Ruling:
    """What is decided about it with these permits in the task's spec."""
    grants = allowance.Grants(allowance.of_task(given_permits), held=more.get("held", False))
    tier, used = more.get("tier", port.Tier.PERMIT), more.get("used", ledger_entries.Used())
    return allowance.rule(tier, reach, grants, used, more.get("found", ()), NOW)


def used_up(*some: permits.Permit) -> ledger_entries.Used:
    """Each of them was used for a mail to Ann."""
    mail: ledger_entries.Allowed = {"tool": "sendMail", "connection": "office", "targets": ["ann@example.com"]}
    return ledger_entries.Used(tuple({**mail, "permit": grant.identity} for grant in allowance.of_task(some)))


@given(st.lists(_PERMITS, max_size=4, unique_by=str), _REACHES, st.booleans(), st.integers(0, 3), st.text())
def test_an_effect_is_allowed_exactly_where_a_permit_with_times_left_names_it(
    some: list[permits.Permit], reach: port.Reach, copied: bool, times: int, text: str
) -> None:
    used = used_up(*[permit for permit in some for _ in range(times)])
    found = [_COPY] if copied else []
    ruling = ruled(reach, *some, used=used, found=found)
    allowed = [
        permit
        for permit in some
        if permits.names(permit, tool=reach.tool, connection=reach.connection, targets=reach.targets, now=NOW)
        and times < permit.most
        and (permit.may_share or not copied)
    ]
    assert ruling.allowed is bool(allowed)
    assert bool(ruling.why) is not ruling.allowed
    assert tuple(ruling.copies) == (() if ruling.allowed else tuple(found))
    # What the effect says changes nothing, in whatever language.
    said = port.Reach(reach.tool, reach.connection, reach.targets, text)
    assert ruled(said, *some, used=used, found=found) == ruling


@given(_REACHES, _REACHES, st.booleans())
def test_an_approval_for_the_task_covers_the_like_and_no_other_target(
    approved: port.Reach, reach: port.Reach, copied: bool
) -> None:
    record = allowance.approved("ada", approved, edited=False, for_task=True)
    ruling = ruled(reach, used=ledger_entries.Used(for_task=(record,)), found=[_COPY] if copied else [])
    same = (approved.tool, approved.connection) == (reach.tool, reach.connection)
    assert ruling.allowed is (same and set(reach.targets) <= set(approved.targets) and not copied)
    if ruling.record is not None:
        assert (ruling.record["by"], ruling.record["name"]) == (AllowedBy.FOR_TASK.value, "ada")


@pytest.mark.parametrize(
    ("tier", "held", "for_task"),
    [(port.Tier.PERSON, False, False), (port.Tier.PERMIT, True, False), (port.Tier.ASK, False, True)],
)
def test_what_needs_a_person_is_not_permitted(tier: port.Tier, held: bool, for_task: bool) -> None:
    every = permits.Permit(tool="sendMail", targets=("*",), may_share=True)
    reach = port.Reach("sendMail", "office", ("ann@example.com",))
    assert not ruled(reach, every, tier=tier, held=held).allowed
    record = allowance.approved("ada", reach, edited=False, for_task=True)
    used = ledger_entries.Used(for_task=(record,))
    assert ruled(reach, every, tier=tier, held=held, used=used).allowed is for_task


def test_permits_that_say_the_same_add_up() -> None:
    twice = [permits.Permit(tool="sendMail", targets=("*",), most=2)] * 2
    reach = port.Reach("sendMail", "office", ("ann@example.com",))
    assert ruled(reach, *twice, used=used_up(*twice, twice[0])).allowed
    assert not ruled(reach, *twice, used=used_up(*twice, *twice)).allowed


@pytest.mark.parametrize(
    "change",
    [{"most": 2}, {"most": 2, "not_after": NOW + timedelta(days=1)}, {"most": 2, "targets": ("*@example.com",)}],
)
def test_a_permit_that_was_changed_goes_on_counting(change: dict[str, Any]) -> None:
    was = permits.Permit(tool="sendMail", targets=("ann@example.com",), not_after=NOW + timedelta(hours=1))
    now = was.model_copy(update=change)
    reach = port.Reach("sendMail", "office", ("ann@example.com",))
    assert ruled(reach, now, used=used_up(was)).allowed
    assert not ruled(reach, now, used=used_up(was, now)).allowed
    # One that stands beside it has times of its own, and so has one for another target.
    assert ruled(reach, was, now, used=used_up(was, now)).allowed
    other = permits.Permit(tool="sendMail", targets=("bob@example.com",))
    assert ruled(port.Reach("sendMail", "office", ("bob@example.com",)), other, used=used_up(was)).allowed


@pytest.mark.parametrize(
    ("key", "kind", "permitted"),
    [("mails", "SECURITY", True), ("mails", "GENERAL", False), ("learned.mails", "SECURITY", False)],
)
def test_standing_permits_are_those_of_security_rules_that_no_run_proposed(
    key: str, kind: str, permitted: bool
) -> None:
    line = "enforce: permit tool=sendMail targets=ann@example.com notAfter=2027-01-01T00:00:00Z"
    rule = rules_context.Rule(key=key, type=kind, content=line, version=1, owner=workbench.VIEWER)
    found = allowance.standing(rules_context.Standing(rules=(rule,)))
    assert [(grant.by, grant.name) for grant in found] == ([(AllowedBy.RULE, key)] if permitted else [])
