"""Lines of hard rules about links: which decide, in which order, and where."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rules import enforce_lines, links
from crds import scope
from kb import api, visibility
from kb.rules import linking
from tests.kb import scopes
from tests.kb.rules import test_enforce

URL = "https://docs.vendor.example/notes"
ABOUT = api.LinkSource(
    url=URL,
    source_urn="email::<m1@vendor.example>",
    source_kind="email",
    subject="Release 3.2",
    sender="Jana <Jana@Vendor.example>",
    before="The notes are",
    after="and the plan",
)
LINES = ("Leave", "Ask", "Open")


def decided(*lines: str, about: api.LinkSource = ABOUT) -> str | None:
    rules = [test_enforce.rule(f"enforce: link {line}", key=f"k{at}") for at, line in enumerate(lines)]
    found = linking.decide(rules, scopes.SHOP, about, about.url)
    return None if found is None else found.effect.value


@pytest.mark.parametrize(
    ("when", "met"),
    [
        ("host *.vendor.example", True),
        ("host vendor.example", False),
        ("not host *.acme.example", True),
        ("sender *@vendor.example and kind email", True),
        ("sender jana@else.example", False),
        ("source email::*", True),
        ('title "release 3.2"', True),
        ("contains plan and contains notes", True),
        ("contains vendor", False),
    ],
)
def test_conditions_look_at_the_link_and_its_document(when: str, met: bool) -> None:
    assert (decided(f"Open when {when}") == "Open") is met


def test_any_order_gives_the_most_careful_effect() -> None:
    for number in (1, 2, 3):
        for chosen in itertools.permutations(LINES, number):
            expected = min(chosen, key=LINES.index)
            assert decided(*(f"{one} when kind email" for one in chosen), "Leave when kind wiki") == expected
    assert decided() is None


@given(scopes.ANY, scopes.ANY, st.sampled_from(LINES))
def test_a_rule_acts_in_its_scope_only(owner: scope.Scope, where: scope.Scope, effect: str) -> None:
    rules = [test_enforce.rule(f"enforce: link {effect} when host *", owner)]
    found = linking.decide(rules, where, ABOUT, URL)
    assert (found is not None) is visibility.governs(owner, where)


def test_what_cannot_be_read_leaves_the_link() -> None:
    found = linking.decide([test_enforce.rule("enforce: fly away")], scopes.SHOP, ABOUT, URL)
    assert found is not None
    assert found.effect is links.Effect.LEAVE
    assert "cannot be enforced" in found.rules


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("link Open", "when kind email"),
        ("link when host a", "Leave, Ask, Open"),
        ("link Read when host a", "Leave, Ask, Open"),
        ("link Open now when host a", "Leave, Ask, Open"),
        ("link Open when file *.pdf", "kind, source, sender, title, contains, host"),
        ("route InfoOnly when host a", "kind, source, sender, file, title, contains"),
    ],
)
def test_what_is_no_line_is_refused_with_the_remedy(line: str, remedy: str) -> None:
    with pytest.raises(ValueError, match="cannot be enforced") as caught:
        enforce_lines.of(f"enforce: {line}")
    assert remedy in str(caught.value)
