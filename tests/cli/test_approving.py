"""What is decided about the effects of a request, by flags or in an editor; and what the operator makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from cli import approving, edits, errors, reading
from controllers.pendingtask import decide, observed
from crds.pendingtask import Verdict
from crds.phases import Phase
from tests.cli import objects
from tests.cli.test_edits import decided


def approved(comment: str = "", **choice: Any) -> approving.Choice:
    return approving.Choice(Verdict.APPROVED, comment, **choice)


def rejected(comment: str = "", **choice: Any) -> approving.Choice:
    return approving.Choice(Verdict.REJECTED, comment, **choice)


def acting(count: int = 1, **spec: Any) -> Any:
    """A task that asks whether it may send mails."""
    raw = objects.asking("Approval", **spec)
    names = ("ada", "bob", "eve")[:count]
    effects = [
        {"id": f"r1.d{n}/0", "tool": "sendMail", "targets": [name], "arguments": json.dumps({"to": name})}
        for n, name in enumerate(names, start=1)
    ]
    raw["status"]["userTask"] |= {"effects": effects, "effectsWaiting": count}
    return raw


def given(raw: Any, choice: approving.Choice) -> Any:
    """`spec.approval` after the decision, which the operator takes."""
    after = objects.merged(raw, edits.decide(raw, choice, ""))
    assert decided(after) is Phase.READY_FOR_GPU
    assert edits.decide(after, choice, "") is None, "the same again"
    return after["spec"]["approval"]


def by_effect(raw: Any, choice: approving.Choice) -> list[tuple[str, str, str, bool]]:
    """What the operator makes of the decision: verdict, comment, arguments, for the task."""
    after = objects.merged(raw, edits.decide(raw, choice, ""))
    made = decide.decide(reading.task(after), observed.ObservedState(), objects.NOW)
    return [
        (one["verdict"], one["comment"], one["arguments"], one["forTask"]) for one in made.status_patch["approvals"]
    ]


NOT_CHOSEN = ("Rejected", "Not among those that were approved.", "", False)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (approved(every=True), [("Approved", "", "", False)] * 3),
        (approved("go", every=True, for_task=True), [("Approved", "go", "", True)] * 3),
        (approved(only=frozenset({1, 3})), [("Approved", "", "", False), NOT_CHOSEN, ("Approved", "", "", False)]),
        (
            approved(only=frozenset({2}), for_task=True, arguments={2: '{"to":"zoe"}'}),
            [NOT_CHOSEN, ("Approved", "", '{"to":"zoe"}', True), NOT_CHOSEN],
        ),
        (
            approved(rejected={2: "not he", 3: ""}, comment="in part"),
            [("Approved", "in part", "", False), ("Rejected", "not he", "", False), ("Rejected", "in part", "", False)],
        ),
        (
            approved(every=True, like=frozenset({3}), arguments={1: '{"to":"zoe"}'}),
            [("Approved", "", '{"to":"zoe"}', False), ("Approved", "", "", False), ("Approved", "", "", True)],
        ),
        (rejected("no"), [("Rejected", "no", "", False)] * 3),
        (
            rejected(rejected={1: "not she"}, comment="no"),
            [("Rejected", "not she", "", False), ("Rejected", "no", "", False), ("Rejected", "no", "", False)],
        ),
    ],
)
def test_what_is_decided_about_each_effect(
    choice: approving.Choice, expected: list[tuple[str, str, str, bool]]
) -> None:
    assert by_effect(acting(3), choice) == expected
    given(acting(3), choice)


def test_several_effects_are_not_approved_unseen() -> None:
    with pytest.raises(errors.Misplaced, match="asks for 3 effects") as refused:
        edits.decide(acting(3), approved(), "")
    assert "--all, or --only 1,3, or --edit" in str(refused.value.remedy)
    given(acting(1), approved())
    given(acting(3), rejected())


@pytest.mark.parametrize(
    "choice", [approved(only=frozenset({4})), approved(rejected={4: ""}), approved(every=True, arguments={4: "{}"})]
)
def test_a_number_that_the_request_does_not_have_is_named(choice: approving.Choice) -> None:
    with pytest.raises(errors.Misplaced, match="there is no number 4"):
        edits.decide(acting(3), choice, "")


def test_a_decision_takes_the_place_of_an_earlier_one_as_a_whole() -> None:
    old = {
        "verdict": "Approved",
        "requestId": "run-1",
        "forTask": True,
        "effects": [{"id": "x", "verdict": "Rejected"}],
    }
    assert given(acting(3, approval=old), approved(every=True)).keys() == {"verdict", "requestId", "comment", "author"}


def test_an_approval_with_edited_arguments() -> None:
    raw = acting()
    choice = approved(arguments={1: '{"to":"bob"}'})
    after = objects.merged(raw, edits.decide(raw, choice, ""))
    assert [one["arguments"] for one in after["spec"]["approval"]["effects"]] == ['{"to":"bob"}']
    assert decided(after) is Phase.READY_FOR_GPU
    assert edits.decide(after, choice, "") is None
    for other in (approved(), approved(arguments={1: '{"to":"eve"}'}), approved(for_task=True), rejected()):
        with pytest.raises(errors.Misplaced, match="decided already"):
            edits.decide(after, other, "")


def test_an_edit_of_what_is_cut_is_refused_with_the_way_to_edit_it() -> None:
    raw = acting()
    raw["status"]["userTask"]["effects"][0] |= {"arguments": '{"text":"Dear… [cut]"}', "shortened": True}
    with pytest.raises(errors.Unusable, match="argument text ends in") as refused:
        edits.decide(raw, approved(arguments={1: '{"text":"Dear… [cut]","to":"bob"}'}), "")
    assert "--edit" in str(refused.value.remedy)
    given(raw, approved(arguments={1: '{"text":"Dear Ann, ..."}'}))


@pytest.mark.parametrize("bad", [{"id": "r1.d1/0", "arguments": "[]"}, {"id": "of-another-request"}])
def test_a_decision_that_the_operator_cannot_use_is_replaced(bad: dict[str, str]) -> None:
    raw = acting(approval={"verdict": "Approved", "requestId": "run-2", "effects": [{"verdict": "Approved", **bad}]})
    assert decided(raw) is None
    assert decided(objects.merged(raw, edits.decide(raw, approved(), ""))) is Phase.READY_FOR_GPU
    assert decided(objects.merged(raw, edits.decide(raw, rejected(), ""))) is Phase.READY_FOR_GPU


def test_there_is_nothing_to_choose_where_no_effect_is_asked_for() -> None:
    for kind in ("Approval", "Failure"):
        for choice in (approved(arguments={1: "{}"}), approved(for_task=True), approved(only=frozenset({1}))):
            with pytest.raises(errors.Misplaced, match="no effect"):
                edits.decide(objects.asking(kind), choice, "")


def test_another_decision_comes_too_late_once_the_task_has_gone_on() -> None:
    accepted = [{"requestId": "run-2", "attempt": 2, "about": f"r1/{n}", "verdict": "Approved"} for n in (1, 2)]
    raw = objects.task(status={"phase": "Orchestrating", "attempt": 3, "approvals": accepted})
    assert edits.decide(raw, approved(), "") is None
    for choice in (rejected(), approved(only=frozenset({1})), approved(arguments={1: "{}"})):
        with pytest.raises(errors.Misplaced, match="waits for no decision"):
            edits.decide(raw, choice, "")
    accepted[0]["verdict"] = "Rejected"
    with pytest.raises(errors.Misplaced, match="waits for no decision"):
        edits.decide(raw, approved(), "")


WAITING = [
    {"id": "a", "tool": "sendMail", "targets": ["ada"], "arguments": {"to": "ada", "text": "Hi,\nsee you\n"}},
    {"id": "b", "tool": "createIssue", "why": "No permit.", "arguments": {"title": "1", "due": "2026-12-01", "n": 2}},
    {"id": "c", "tool": "mcp:crm.add", "arguments": {}},
]


def test_a_form_that_is_saved_as_it_is_approves_all_as_they_are() -> None:
    form = approving.form("t", WAITING)
    assert approving.decided(form, WAITING) == approved(every=True)
    assert "    text: |\n      Hi,\n      see you\n" in form, "a text is shown in its lines"
    assert approving.decided("", WAITING) is None
    assert approving.decided("# nothing\n", WAITING) is None


def test_what_is_edited_in_a_form_is_decided() -> None:
    listed = yaml.safe_load(approving.form("t", WAITING))
    listed[0] |= {"arguments": {"to": "bob"}, "forTask": True}
    listed[1] |= {"verdict": "Rejected", "reason": "not now"}
    del listed[2]
    choice = approving.decided(yaml.safe_dump(listed), WAITING)
    assert choice == approved(
        every=True, rejected={2: "not now", 3: ""}, arguments={1: '{"to":"bob"}'}, like=frozenset({1})
    )
    nothing = [{**one, "verdict": "Rejected"} for one in listed]
    assert approving.decided(yaml.safe_dump(nothing), WAITING) == rejected(
        every=True, rejected={1: "", 2: "not now", 3: ""}
    )


def test_a_date_that_a_person_writes_stays_a_text() -> None:
    form = approving.form("t", WAITING).replace("'2026-12-01'", "2026-12-24")
    choice = approving.decided(form, WAITING)
    assert choice is not None
    assert json.loads(choice.arguments[2])["due"] == "2026-12-24"


@pytest.mark.parametrize(
    "text",
    [
        "no list",
        "- effect: 1",
        "- {effect: 1, verdict: Perhaps, arguments: {}}",
        "- {effect: 4, verdict: Approved, arguments: {}}",
        "- {effect: 0, verdict: Approved, arguments: {}}",
        "- {effect: 1, verdict: Approved, arguments: {}}\n- {effect: 1, verdict: Rejected, arguments: {}}",
        "- {effect: 1, verdict: Approved, arguments: [1]}",
        "- {effect: 1",
        "- !!python/object/apply:os.getcwd []",
    ],
)
def test_a_form_that_cannot_be_used_decides_nothing(text: str) -> None:
    with pytest.raises(errors.Unusable):
        approving.decided(text, WAITING)


@pytest.mark.parametrize("text", ["", "a", "0", "1,,2", "-1", "1;2"])
def test_numbers_of_effects(text: str) -> None:
    with pytest.raises(errors.Unusable, match="names no effects"):
        approving.numbers(text, "--only")
    with pytest.raises(errors.Unusable, match="is not the number of one effect"):
        approving.numbered([text], "--reject")


def test_reasons_by_number() -> None:
    assert approving.numbers("1, 3", "--only") == {1, 3}
    assert approving.numbered(["2=not = he", "3"], "--reject") == {2: "not = he", 3: ""}
    with pytest.raises(errors.Unusable):
        approving.numbered(["2=a", "2=b"], "--reject")
