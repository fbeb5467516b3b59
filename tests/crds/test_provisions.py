"""What of a hard rule a program holds."""

from __future__ import annotations

import pytest

from crds.provisions import Provision, Provisions, of

TEXT = """Invoices go to Jana before they are paid.
enforce: never-use-source jira::SEC-*
  Enforce: never-use-kind meeting
enforce: never-say account  number
enforce: always-cite
"""


def test_lines_that_a_program_holds_are_found_in_the_text() -> None:
    assert of(TEXT) == (
        Provision("never-use-source", "jira::SEC-*"),
        Provision("never-use-kind", "meeting"),
        Provision("never-say", "account  number"),
        Provision("always-cite", ""),
    )
    assert of("We enforce: nothing in the middle of a line.") == ()


@pytest.mark.parametrize(
    "line",
    ["enforce:", "enforce: never", "enforce: never-say", "enforce: always-cite twice", "enforce: needs-approval x"],
)
def test_what_nobody_could_hold_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"always-cite, always-say, ask-before-execute, .*needs-approval"):
        of(f"text\n{line}\n")


def test_evidence_that_is_not_shown() -> None:
    held = Provisions.together([TEXT, "enforce: never-use-source email::<a@b>"])
    assert not held.shows("jira::SEC-1", "issue")
    assert not held.shows("email::<a@b>", "email")
    assert not held.shows("u", "meeting")
    assert held.shows("jira::SHOP-1", "issue")
    assert held.shows("email::<a@b>#2", "email")


def test_answers_that_are_not_given() -> None:
    held = Provisions.together([TEXT, "enforce: always-say no legal advice"])
    fine = "This is no LEGAL\nadvice."
    assert held.objection(fine, cites=True) is None
    assert "'account  number'" in (held.objection(f"{fine} Account\tNumber 7", cites=True) or "")
    assert "'no legal advice'" in (held.objection("Yes.", cites=True) or "")
    assert "cite" in (held.objection(fine, cites=False) or "")
    assert held.objection("Which one?", cites=False, final=False) is None
    assert held.objection("Which account number?", cites=False, final=False) is not None
    assert Provisions().objection("", cites=False) is None


def test_answers_that_a_person_approves_first() -> None:
    assert Provisions.together([TEXT, "enforce: needs-approval"]).needs_approval
    assert not Provisions.together([TEXT]).needs_approval
