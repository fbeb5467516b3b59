"""A mail that answers a request ends the task that asked for it, before that one runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.operator.conftest import Space
from tests.operator.test_superseded import site

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
ASKED = "Please restart the billing service."


def mail(number: int, text: str, sender: str = "petr@acme.com", *answered: int) -> dict[str, Any]:
    references = f"References: {' '.join(f'<m{one}@acme.com>' for one in answered)}\n" if answered else ""
    head = f"From: {sender}\nTo: jana@acme.com, petr@acme.com\nMessage-ID: <m{number}@acme.com>\n{references}"
    return {"content": f"{head}Subject: Billing\n\n{text}\n", "sourceUrn": f"email::<m{number}@acme.com>"}


async def test_the_older_task_is_done_and_names_the_answer(space: Space, local: dict[str, Any], tmp_path: Path) -> None:
    async with site(space, local, tmp_path) as at:

        async def ended(name: str, phase: str, **spec: Any) -> None:
            space.submit(name, **spec)
            at.here.hear(space.get(name))
            await at.here.until(lambda: space.phase(name) == phase, f"{name} is in {phase}")

        await ended("asked", "ReadyForGpu", **mail(1, ASKED, "jana@acme.com"))
        await ended("another", "ReadyForGpu", **mail(2, ASKED.replace("billing", "shop"), "jana@acme.com"))
        await ended("ordered", "ReadyForGpu", **mail(3, ASKED, "jana@acme.com") | {"type": "UserTask"})
        # One who did not take part ends nothing.
        await ended("stranger", "Done", **mail(4, "Done.", "mallory@evil.example", 1, 2, 3))
        assert space.phase("asked") == "ReadyForGpu"
        await ended("answer", "Done", **mail(5, "It is done.", "petr@acme.com", 3, 1))
        # What a user ordered is not ended by a mail.
        await ended("second", "Done", **mail(6, "It is done.", "petr@acme.com", 1, 3))
        assert space.phases() == {
            "asked": "Done", "another": "ReadyForGpu", "ordered": "ReadyForGpu", "stranger": "Done", "answer": "Done",
            "second": "Done",
        }  # fmt: skip
        assert space.conditions("asked")["Superseded"] == "AnsweredInThread"
        [said] = [one for one in space.status("answer")["conditions"] if one["type"] == "Qualified"]
        assert said["message"].endswith("It answers email::<m1@acme.com>.")
        assert "task answer" in space.status("asked")["result"]["summary"]
        moved = at.here.metrics.transitions.labels("ReadyForGpu", "Done")._value.get()
        assert moved == 1
