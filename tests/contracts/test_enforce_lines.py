"""Lines of a rule that a program holds: provisions, routes, and who hears of a task."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rules import enforce_lines, routing
from contracts.rules.enforce_lines import Provision, Provisions, of
from contracts.rules.notices import Event, Notice
from contracts.rules.routing import Clause, Subject
from crds import patterns
from crds.pendingtask import Decision
from tests import effort

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


STANDING = "enforce: permit tool=sendMail connection=team targets=*@example.com most=3 notAfter=2027-03-31"


def test_lines_that_permit_effects() -> None:
    text = f"Mails to the team need no one.\n{STANDING}\n  Enforce:\tPermit tool=mcp:crm.add notAfter=2027-01-01\n"
    first, second = enforce_lines.permitted(text)
    assert (first.tool, first.connection, first.targets, first.most) == ("sendMail", "team", ("*@example.com",), 3)
    assert (second.tool, second.targets, second.not_after) == ("mcp:crm.add", (), datetime(2027, 1, 1, tzinfo=UTC))
    assert enforce_lines.permitted(TEXT) == ()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("enforce: permit", "tool: "),
        ("enforce: permit tool=sendMail", "notAfter: a standing permit ends"),
        ("enforce: permit tool=proposeRule notAfter=2027-01-01", "tool: 'proposeRule' must be one of"),
        ("enforce: permit tool=sendMail targets=a notAfter=soon", "notAfter: 'soon' is no time"),
    ],
)
def test_a_permit_without_end_or_with_a_wrong_field_is_refused(line: str, says: str) -> None:
    with pytest.raises(ValueError, match="cannot be enforced") as refused:
        of(line)
    assert says in str(refused.value)


URL = "https://hooks.example.com/services/T1?key=a,b"


def facts(text: str = "", **more: object) -> routing.Facts:
    given_ = {"kind": "email", "source": "email::<m1@acme.com>", "title": "", "text": text} | more
    return routing.Facts.of(**given_)  # type: ignore[arg-type]  # the test's own names


def meets(when: str, **more: object) -> bool:
    [line] = enforce_lines.routing_lines(f"enforce: route InfoOnly when {when}")
    return facts(**more).meet(line.when)  # type: ignore[arg-type]


def test_a_line_is_read() -> None:
    text = """Newsletters are for information.
enforce: route infoonly WHEN kind email AND sender *@Lists.example.com
enforce: Route Defer 90 when source jira::SHOP-*
enforce: route Ask "Who has  approved it?" when contains "bank  account" and NOT title Statement
enforce: ask-before-execute "Which one?" when not file *
enforce: never-say when
"""
    assert enforce_lines.routing_lines(text) == (
        routing.Ruling(
            "route",
            Decision.INFO_ONLY,
            (Clause(Subject.KIND, "email"), Clause(Subject.SENDER, "*@lists.example.com")),
        ),
        routing.Ruling("route", Decision.DEFER, (Clause(Subject.SOURCE, "jira::shop-*"),), minutes=90),
        routing.Ruling(
            "route",
            Decision.ASK,
            (Clause(Subject.CONTAINS, "bank account"), Clause(Subject.TITLE, "statement", negated=True)),
            text="Who has approved it?",
        ),
        routing.Ruling("ask-before-execute", Decision.ASK, (Clause(Subject.FILE, "*", True),), text="Which one?"),
    )


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("route", "when kind email"),
        ("route InfoOnly", "when kind email"),
        ("route Later when kind email", "InfoOnly, Execute"),
        ("route when kind email", "InfoOnly, Execute"),
        ("route InfoOnly now when kind email", "nothing stands between"),
        ("route Defer when kind email", "give the minutes"),
        ("route Defer 0 when kind email", "1 to 527040"),
        ("route Defer 527041 when kind email", "1 to 527040"),
        ("route Defer \u0661 when kind email", "1 to 527040"),
        ("route Ask when kind email", "one question in quotation marks"),
        ("route Ask Who pays? when kind email", "one question in quotation marks"),
        ('route Ask " " when kind email', "1 to 500"),
        ("route Fail when kind email", "one reason in quotation marks"),
        ("ask-before-execute when kind email", "give the question"),
        ("never-index", "when kind email"),
        ("never-index it when kind email", "nothing stands between"),
        ("route InfoOnly when", "a subject and a pattern"),
        ("route InfoOnly when kind", "a subject and a pattern"),
        ("route InfoOnly when kind email and", "a subject and a pattern"),
        ("route InfoOnly when colour red", "kind, source, sender, file, title, contains"),
        ("route InfoOnly when kind email or kind chat", "joined by `and`"),
        ("route InfoOnly when contains two words", "quotation marks"),
        ('route InfoOnly when contains "two', "not closed"),
        ('route InfoOnly when contains "\u200b"', "can be seen"),
        ("route InfoOnly when source *********", "at most 8"),
        (f"route InfoOnly when {' and '.join(['kind a'] * 9)}", "several lines"),
        ("notify ", "the address of a webhook"),
        ("notify jana@example.com on UserTask", "the address of a webhook"),
        ("notify ftp://hooks.example.com on UserTask", "the address of a webhook"),
        ("notify https://user:secret@hooks.example.com on UserTask", "the address of a webhook"),
        ("notify https://hooks.example.com:0 on UserTask", "the address of a webhook"),
        ("notify https://hooks.example.com:x on UserTask", "the address of a webhook"),
        ("notify https:///path on UserTask", "the address of a webhook"),
        ("notify https://hooks.example.com/\u00e4 on UserTask", "the address of a webhook"),
        (f"notify https://hooks.example.com/{'a' * 2000} on UserTask", "the address of a webhook"),
        (f"notify {URL}", "UserTask, Failure, Completed"),
        (f"notify {URL} on", "UserTask, Failure, Completed"),
        (f"notify {URL} UserTask", "UserTask, Failure, Completed"),
        (f"notify {URL} on Done", "UserTask, Failure, Completed"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_remedy(line: str, remedy: str) -> None:
    with pytest.raises(ValueError, match="cannot be enforced") as caught:
        enforce_lines.of(f"Text.\nenforce: {line}\n")
    assert remedy in str(caught.value)
    assert line[:200].split('"')[0] in str(caught.value)


def test_conditions_look_past_case_spacing_and_what_cannot_be_seen() -> None:
    assert meets('contains "bank account"', text="our new BANK\n  Acc\u200bount\u00ad is")
    assert meets("contains straße", text="Hauptstrasse 1")
    assert meets("contains wire", title="\uff37ire transfer")
    assert not meets('contains "bank account"', text="bank. account")
    assert not meets("title wire", text="wire")
    assert meets("kind EMAIL and source EMAIL::*")
    assert not meets("kind mail")


def test_who_sent_it_and_what_came_with_it() -> None:
    assert meets("sender *@lists.example.com", senders=["Info@Lists.Example.COM"])
    assert not meets("sender *@lists.example.com", senders=["lists.example.com@evil.test"])
    assert not meets("sender *")
    assert meets("not sender *@acme.com")  # unknown is not ours
    assert meets("file *.pdf", files=["a.txt", "Bill.PDF"])
    assert meets("not file *")


@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_a_star_stands_for_anything(pattern: str, value: str) -> None:
    def oracle(left: str, right: str) -> bool:
        if not left:
            return not right
        if left[0] == "*":
            return any(oracle(left[1:], right[cut:]) for cut in range(len(right) + 1))
        return bool(right) and left[0] == right[0] and oracle(left[1:], right[1:])

    assert patterns.matches(pattern, value) is oracle(pattern, value)


@given(st.sampled_from(["enforce: route ", "enforce: ask-before-execute ", "enforce:"]), st.text(max_size=200))
def test_any_line_is_read_or_refused(beginning: str, words: str) -> None:
    try:
        enforce_lines.of(beginning + words)
    except ValueError as error:
        assert "enforce:" in str(error)  # noqa: PT017 -- lines of both ends are among them


def test_no_rule_and_no_text_takes_long() -> None:
    with effort.counted() as spent:
        enforce_lines.of("enforce: never-say a" + " " * 19_000 + "b")
        assert not patterns.matches("*a" * 8, "a" * 7 + "b" * 200_000)
        assert not meets('contains "' + "a " * 200 + 'b"', text="a " * 200_000)
        # Measured: 0.1 s. With backtracking it would be minutes.
    assert spent.loops < 800


def test_a_line_of_notices_is_read() -> None:
    text = f"""Jana hears of it.
enforce: notify {URL} on UserTask, failure
  ENFORCE: Notify http://[2001:db8::1]:8080 ON completed
enforce: never-say x"""
    assert enforce_lines.notified(text) == (
        Notice(URL, frozenset({Event.USER_TASK, Event.FAILURE})),
        Notice("http://[2001:db8::1]:8080", frozenset({Event.COMPLETED})),
    )
    assert enforce_lines.unaddressed(text) == "Jana hears of it.\nenforce: never-say x"
