"""Every input that the resource allows is worked on: of what is long as much is shown as has room, the rest is said."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from crds import pendingtask
from orchestrator_job.run import checkpoints
from tests.orchestrator_job import job, knowledge
from tests.orchestrator_job.desk import Desk
from tests.orchestrator_job.plan.test_procedures import procedure
from tests.orchestrator_job.run.test_delegation_runs import PLAN, RESEARCH, SYNTHESIS, planned
from tests.orchestrator_job.workbench import calls, report

pytestmark = pytest.mark.services

FIRST, LAST = "This is the log of last night.", "Which slot holds the failed disk?"
FACT = "slot 17 failed: disk is gone"
LINE = "2026-03-01 vega-7 wrote that all is well\n"
PLANNED = planned(("Research", "Look.", []))


def long_text(size: int) -> str:
    """A log with a question at its end and, in its middle, the line that answers it."""
    lines = (size - len(FIRST) - len(LAST) - len(FACT) - 3) // len(LINE)
    half = LINE * (lines // 2)
    return f"{FIRST}\n{half}{FACT}\n{half}{LAST}"


def script(*research: Any) -> dict[str, list[Any]]:
    """Each model's part, in both graphs."""
    return {
        job.TAG: [job.reply()],
        PLAN: [PLANNED],
        RESEARCH: [*research, report("Slot 17.")],
        SYNTHESIS: [job.reply()],
    }


def small(store: job.Store) -> bool:
    """Whether every checkpoint is far below what a checkpoint may have."""
    every = [*store.all(checkpoints.CHECKPOINTS), *store.all(checkpoints.WRITES)]
    sizes = [len(one.get("checkpoint") or one.get("value") or b"") for one in every]
    return bool(sizes) and max(sizes) < checkpoints.LIMIT // 8


async def test_an_order_is_seen_whole(desk: Desk) -> None:
    text = long_text(11_000)
    await desk.ends("Answered", script(), content=text)
    [prompt] = desk.prompts()
    assert f"<question>{text}</question>" in prompt
    assert "left out" not in prompt
    assert desk.result()["leftOut"] == []
    assert small(desk.store)


async def test_a_window_that_is_known_has_a_longer_order_whole(desk: Desk) -> None:
    text = long_text(pendingtask.CONTENT_BYTES)
    await desk.ends("Answered", script(), content=text, JERVIS_NUM_CTX="32768")
    [prompt] = desk.prompts()
    assert f"<question>{text}</question>" in prompt
    assert desk.result()["leftOut"] == []


async def test_evidence_that_the_window_has_no_room_for_is_asked_about_in_short(desk: Desk) -> None:
    """Three times as many tokens as its characters would have in English."""
    desk.known.items = [knowledge.hit(f"{n} " + "a b c d e f " * 900, f"email::{n}") for n in range(6)]
    await desk.ends("Answered", [job.reply(citations=[1])], content="When is the release?", JERVIS_NUM_CTX="8192")
    assert [one["status"] for one in desk.fake.requests(tag=job.TAG)] == [400, 200]
    whole, short = desk.prompts()
    assert len(short.encode()) < 8192 < len(whole)
    assert "When is the release?" in short


async def test_of_a_longer_order_the_middle_is_evidence(desk: Desk) -> None:
    text = long_text(pendingtask.CONTENT_BYTES)
    await desk.ends("Answered", script(), content=text)
    [prompt] = desk.prompts()
    evidence, _, question = prompt.partition("<question>")
    assert (FIRST in question, LAST in question, FACT in question, FACT in evidence) == (True, True, False, True)
    assert "characters are left out here.]" in question
    assert "characters are left out here.]" in evidence
    assert "The release of the router is on Friday." in evidence
    assert len(prompt.encode()) < 24_000 + 6_000
    result = desk.result()
    [said] = result["leftOut"]
    assert said.endswith(f"of the {len(text)} characters of the task's text are left out.")
    assert 2_000 < int(said.split()[0]) < 12_000
    assert any(one["origin"] == "Order" for one in result["evidence"])
    assert result["question"].startswith(FIRST)
    assert result["question"].endswith(LAST)


async def test_an_agent_reads_the_whole_of_a_long_order(desk: Desk) -> None:
    reads = script(calls(("read_result", {"delegation": "task", "start": 15_000})))
    await desk.delegates().ends("Answered", reads, content=long_text(pendingtask.CONTENT_BYTES), type="UserTask")
    for prompt in (*desk.prompts(PLAN), *desk.prompts(RESEARCH), *desk.prompts(SYNTHESIS)):
        assert (FIRST in prompt, LAST in prompt) == (True, True)
    assert 'delegation "task"' in desk.prompts(RESEARCH)[0]
    [_, second] = desk.fake.requests(tag=RESEARCH)
    assert FACT in second["body"]["messages"][-1]["content"]
    assert small(desk.store)


@pytest.mark.parametrize("graph", ["legacy", "delegation"])
async def test_as_many_messages_as_a_task_may_have(desk: Desk, graph: str) -> None:
    messages = [{"id": f"m{n}", "text": f"Message {n}: {'x' * 8000} end {n}."} for n in range(64)]
    if graph == "delegation":
        desk.delegates()
    await desk.ends("Answered", script(), content=long_text(pendingtask.CONTENT_BYTES), messages=messages)
    prompt = desk.prompts(job.TAG if graph == "legacy" else RESEARCH)[0]
    assert all(word in prompt for word in (FIRST, LAST, "Message 63:", "end 63.", "additions of the user are left out"))
    assert len(prompt.encode()) < 64_000
    assert desk.result()["leftOut"][-1].endswith("of the user's 64 messages and answers are left out.")
    assert small(desk.store)
    [query] = {one["query"] for one in desk.known.asked if "Message 63:" in one["query"]}
    assert LAST in query


async def test_a_content_of_megabytes(desk: Desk) -> None:
    raw = long_text(20 << 20).encode()
    desk.known.contents["big"] = raw
    ref = {"key": "big", "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    await desk.ends("Answered", script(), content=None, contentRef=ref)
    [prompt] = desk.prompts()
    assert (FIRST in prompt, LAST in prompt) == (True, True)
    said, more = desk.result()["leftOut"]
    assert said.endswith(f" of the {len(raw)} bytes of the content, its beginning and its end.")
    assert more.endswith("characters of the task's text are left out.")


async def test_a_procedure_takes_a_long_order_and_many_parameters(desk: Desk) -> None:
    parameters = {f"field{number}": f"value {number} " + "y" * 900 for number in range(70)}
    step = {"agent": "Research", "action": "Look for it. " * 150, "parameters": parameters}
    desk.known.procedures = [procedure("bug", step)]
    text = f"There is a bug. {long_text(pendingtask.CONTENT_BYTES - 20)}"
    await desk.delegates(JERVIS_USE_PROCEDURAL_MEMORY="true").ends(
        "Answered", {RESEARCH: [report("Slot 17.")]}, type="UserTask", content=text
    )
    [prompt] = desk.prompts(RESEARCH)
    assert all(f"Constraint: field{number}: value {number} " in prompt for number in range(70))
    assert "Look for it. " * 150 in prompt
    assert LAST in prompt.rpartition("<question>")[2]


async def test_a_run_that_died_goes_on_with_its_long_question(desk: Desk) -> None:
    await desk.dies([job.STALL], content=long_text(9_000))
    desk.fake.forget()
    await desk.ends("Answered", script(), attempt=2)
    [prompt] = desk.prompts()
    assert (FIRST in prompt, FACT in prompt, LAST in prompt) == (True, True, True)
    assert desk.result()["leftOut"] == []
