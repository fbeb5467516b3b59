"""Edited arguments of an approval, as whole runs: the example of docs/cli.md works, unusable ones are asked about."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.ollama import process
from tests.orchestrator_job import job
from tests.orchestrator_job.delegation import sources
from tests.orchestrator_job.delegation.test_runs import EMAIL, MAIL, ORDER, decided, delegating, script

pytestmark = pytest.mark.services
_PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"
FOREIGN = {**MAIL, "to": ["x@evil.example"]}


@pytest.fixture
async def outside() -> AsyncIterator[sources.Sources]:
    """Where effects happen."""
    async with sources.serving() as made:
        yield made


def example() -> str:
    """The edited arguments that the page shows."""
    [found] = re.findall(r"approve NAME --arguments '(\{.*\})'", _PAGE.read_text())
    return str(found)


async def test_the_example_of_the_page_is_sent(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    fake.set_script(script(FOREIGN))
    store.remember(task.memory(content=ORDER))
    asked = await delegating(task, outside).run()
    store.remember(task.memory(content=ORDER, approvals=[decided(1, "Approved", arguments=example())]))
    ended = await task.run(attempt=2)
    assert (asked.message["exitReason"], ended.message["exitReason"]) == ("NeedsApproval", "Answered"), ended
    wanted = json.loads(example())
    [sent] = outside.arguments.values()
    assert {name: sent[name] for name in wanted} == wanted


@pytest.mark.parametrize("edited", [{"to": ["b@example.com"], "subject": "Disk", "body": "It is replaced."}, {}])
async def test_arguments_that_the_tool_does_not_take_are_asked_about_again(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources, edited: dict[str, object]
) -> None:
    fake.set_script(script(FOREIGN))
    store.remember(task.memory(content=ORDER))
    assert (await delegating(task, outside).run()).message["exitReason"] == "NeedsApproval"
    wrong = decided(1, "Approved", arguments=json.dumps(edited), about="r1.d3.approval/2")
    store.remember(task.memory(content=ORDER, approvals=[wrong]))
    # Another attempt, which the operator makes when this one has left no result, asks the same.
    for attempt in (2, 3):
        asked = await task.run(attempt=attempt)
        assert asked.message["exitReason"] == "NeedsApproval", asked
        assert asked.message["about"] == "r1.d3.approval/2"
        why = asked.message["action"]["why"]
        assert why.startswith("Asked again, as the edited arguments cannot be used: send_mail: ")
        assert "text: Field required" in why
        assert json.loads(asked.message["action"]["arguments"])["to"] == ["x@evil.example"]
    assert (outside.effects, fake.count(tag=EMAIL)) == ({}, 1)
    right = decided(3, "Approved", arguments=json.dumps({**MAIL, "to": ["b@example.com"]}), about="r1.d3.approval/2")
    store.remember(task.memory(content=ORDER, approvals=[wrong, right]))
    assert (await task.run(attempt=4)).message["exitReason"] == "Answered"
    assert [one["to"] for one in outside.arguments.values()] == [["b@example.com"]]


async def test_what_was_edited_in_vain_does_not_approve_the_model_s_arguments(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    """The edited arguments name the same recipient, who counts as named by a person then."""
    fake.set_script(script(FOREIGN))
    store.remember(task.memory(content=ORDER))
    assert (await delegating(task, outside).run()).message["exitReason"] == "NeedsApproval"
    wrong = decided(1, "Approved", arguments=json.dumps({"to": FOREIGN["to"], "body": "Another text."}))
    store.remember(task.memory(content=ORDER, approvals=[wrong]))
    assert (await task.run(attempt=2)).message["exitReason"] == "NeedsApproval"
    assert outside.effects == {}
