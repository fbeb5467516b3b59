"""What a permit names, and its form as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import patterns, permits
from crds.permits import Permit

NOW = datetime(2026, 12, 4, 9, tzinfo=UTC)


def permit(**fields: object) -> Permit:
    return Permit.model_validate({"tool": "sendMail", "targets": ["ann@example.com"], **fields})


def names(of: Permit, *targets: str, tool: str = "sendMail", connection: str = "team", now: datetime = NOW) -> bool:
    return permits.names(of, tool=tool, connection=connection, targets=targets, now=now)


def test_a_permit_names_its_tool_at_its_connection_and_targets() -> None:
    assert names(permit(), "ann@example.com")
    assert not names(permit(), "ann@example.com", tool="sendInvitation")
    assert names(permit(connection="team"), "ann@example.com")
    assert not names(permit(connection="other"), "ann@example.com")
    assert not names(permit(connection="team"), "ann@example.com", connection="")


@pytest.mark.parametrize(
    ("patterns_", "targets", "named"),
    [
        (["ann@example.com"], ["ann@example.com", "eve@evil.example"], False),
        (["ann@example.com", "*@team.example"], ["ann@example.com", "bob@team.example"], True),
        (["*@example.com"], ["eve@example.com.evil.example"], False),
        (["*@example.com"], ["eve@evil.example,ann@example.com"], True),
        (["ann@Example.com"], ["ANN@example.COM"], True),
        (["ann@example.com"], ["a\u0144n@example.com"], False),
        # The Kelvin sign is a k without its case, and another letter in an address.
        (["kim@example.com"], ["\u212aim@example.com"], False),
        (["jervis/*"], ["jervis/fix-12"], True),
        (["jervis/*"], ["Jervis/fix-12"], False),
        (["acme/shop#13"], ["acme/shop#131"], False),
        (["acme/shop#*"], ["acme/shop#131"], True),
        (["acme/sh?p"], ["acme/shop"], False),
        (["acme/[s]hop"], ["acme/shop"], False),
        ([], ["ann@example.com"], False),
        ([], [], True),
        (["*"], [], True),
        (["*"], ["anything", "else"], True),
        # A permit that bounds the targets says nothing of an effect whose targets are not known.
        (["ann@example.com"], [], False),
    ],
)
def test_all_targets_are_among_its_patterns(patterns_: list[str], targets: list[str], named: bool) -> None:
    assert names(permit(targets=patterns_), *targets) is named


def test_it_names_nothing_before_and_from_its_end_on() -> None:
    between = permit(notBefore="2026-12-04T09:00:00Z", notAfter="2026-12-04T10:00:00+01:00")
    assert not names(between, "ann@example.com", now=NOW - timedelta(seconds=1))
    later = permit(notBefore="2026-12-04T09:00:00Z", notAfter="2026-12-04T10:00:01Z")
    assert names(later, "ann@example.com")
    assert names(later, "ann@example.com", now=NOW + timedelta(hours=1))
    assert not names(later, "ann@example.com", now=NOW + timedelta(hours=1, seconds=1))


@given(st.lists(st.text("a*@", min_size=1, max_size=5), min_size=1, max_size=3), st.text("ab@", max_size=6))
def test_more_patterns_name_no_less(some: list[str], target: str) -> None:
    if target and any(names(permit(targets=[one]), target) for one in some):
        assert names(permit(targets=some), target)


@pytest.mark.parametrize(
    ("agent_tool", "called"),
    [("send_mail", "sendMail"), ("push_branch", "pushBranch"), ("crm.add_note", "mcp:crm.add_note")],
)
def test_how_permits_call_a_tool(agent_tool: str, called: str) -> None:
    assert permits.tool_name(agent_tool) == called
    assert permits.of({"tool": called}).tool == called


def test_a_permit_as_text() -> None:
    given_ = (
        "tool=sendMail connection=team-mailbox targets=ann@example.com,*@example.com most=2"
        " notBefore=2026-12-04T09:00:00+01:00 notAfter=2026-12-31 mayShare=true"
    )
    made = permits.parse(given_)
    assert made == Permit(
        tool="sendMail",
        connection="team-mailbox",
        targets=("ann@example.com", "*@example.com"),
        most=2,
        not_before=datetime(2026, 12, 4, 8, tzinfo=UTC),
        not_after=datetime(2026, 12, 31, tzinfo=UTC),
        may_share=True,
    )
    assert permits.parse("tool=editPage targets='page 7, page 8'").targets == ("page 7", "page 8")


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters=",*"), min_size=1), max_size=3),
    st.integers(1, 1000),
    st.booleans(),
)
def test_what_is_written_is_read_again(targets: list[str], most: int, shares: bool) -> None:
    wanted = Permit(tool="editPage", targets=tuple(filter(None, (one.strip() for one in targets))), most=most)
    wanted = wanted.model_copy(update={"may_share": shares})
    assert permits.parse(permits.text(wanted)) == wanted


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "tool: "),
        ("tool=sendMial", "tool: 'sendMial' must be one of addComment, "),
        ("tool=mcp:crm", "mcp:SERVER.TOOL"),
        ("tool=proposeRule", "tool: "),
        ("sendMail", "'sendMail' is no field of a permit; write NAME=VALUE"),
        ("tool=sendMail target=ann@example.com", "with one of tool, connection, targets, most, "),
        ("tool=sendMail tool=editPage", "tool: stands there twice"),
        ("tool=sendMail most=0", "most: "),
        ("tool=sendMail most=often", "most: "),
        ("tool=sendMail targets=a,,b", "targets.1: "),
        ("tool=sendMail targets=" + "*a" * (patterns.MOST_STARS + 1), "has more than 8 *"),
        ("tool=sendMail connection=Team", "connection: "),
        ("tool=sendMail notAfter=tomorrow", "notAfter: 'tomorrow' is no time such as 2026-12-31T18:00:00+01:00"),
        ("tool=sendMail notAfter=5", "notAfter: '5' is no time"),
        ("tool=sendMail notAfter=0000-01-01", "notAfter: "),
        ("tool=sendMail notBefore=2026-12-05 notAfter=2026-12-04", "notBefore must be before notAfter"),
        ("tool=sendMail targets='a", "quotation marks"),
        ("tool=sendMail mayShare=perhaps", "mayShare: "),
    ],
)
def test_what_is_no_permit_is_named_with_its_field(text: str, says: str) -> None:
    with pytest.raises(ValueError) as raised:
        permits.parse(text)
    assert says in str(raised.value)
