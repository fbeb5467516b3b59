"""Edited arguments of an approval, as whole runs: the example of docs/cli.md works, unusable ones are asked about."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.orchestrator_job.delegation.test_runs import EMAIL, FOREIGN, MAIL, ORDER, decided, script
from tests.orchestrator_job.desk import Desk

pytestmark = pytest.mark.services
_PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def example() -> str:
    """The edited arguments that the page shows."""
    [found] = re.findall(r"approve NAME --arguments '(\{.*\})'", _PAGE.read_text())
    return str(found)


async def test_the_example_of_the_page_is_sent(desk: Desk) -> None:
    await desk.delegates().ends("NeedsApproval", script(FOREIGN), content=ORDER)
    await desk.ends("Answered", approvals=[decided(1, "Approved", arguments=example())])
    wanted = json.loads(example())
    [sent] = desk.outside.arguments.values()
    assert {name: sent[name] for name in wanted} == wanted


@pytest.mark.parametrize("edited", [{"to": ["b@example.com"], "subject": "Disk", "body": "It is replaced."}, {}])
async def test_arguments_that_the_tool_does_not_take_are_asked_about_again(
    desk: Desk, edited: dict[str, object]
) -> None:
    await desk.delegates().ends("NeedsApproval", script(FOREIGN), content=ORDER)
    wrong = decided(1, "Approved", arguments=json.dumps(edited), about="r1.d3.approval/2")
    # Another attempt, which the operator makes when this one has left no result, asks the same.
    for _ in range(2):
        asked = await desk.ends("NeedsApproval", approvals=[wrong])
        assert asked.message["about"] == "r1.d3.approval/2"
        why = asked.message["action"]["why"]
        assert why.startswith("Asked again, as the edited arguments cannot be used: send_mail: ")
        assert "text: Field required" in why
        assert json.loads(asked.message["action"]["arguments"])["to"] == ["x@evil.example"]
    assert (desk.outside.effects, desk.fake.count(tag=EMAIL)) == ({}, 1)
    right = decided(3, "Approved", arguments=json.dumps({**MAIL, "to": ["b@example.com"]}), about="r1.d3.approval/2")
    await desk.ends("Answered", approvals=[wrong, right])
    assert [one["to"] for one in desk.outside.arguments.values()] == [["b@example.com"]]


async def test_what_was_edited_in_vain_does_not_approve_the_model_s_arguments(desk: Desk) -> None:
    """The edited arguments name the same recipient, who counts as named by a person then."""
    await desk.delegates().ends("NeedsApproval", script(FOREIGN), content=ORDER)
    wrong = decided(1, "Approved", arguments=json.dumps({"to": FOREIGN["to"], "body": "Another text."}))
    await desk.ends("NeedsApproval", approvals=[wrong])
    assert desk.outside.effects == {}
