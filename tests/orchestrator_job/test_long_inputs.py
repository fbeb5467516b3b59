"""Every input that the resource allows is worked on: of what is long as much is shown as has room, the rest is said."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from crds import pendingtask
from orchestrator_job import checkpoints
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge
from tests.orchestrator_job.delegation import sources
from tests.orchestrator_job.delegation.test_procedures import procedure
from tests.orchestrator_job.delegation.test_runs import PLAN, RESEARCH, SYNTHESIS, delegating, planned
from tests.orchestrator_job.delegation.workbench import calls, report

pytestmark = pytest.mark.services

FIRST, LAST, FACT = (
    "This is the log of last night.",
    "Which slot holds the failed disk?",
    "slot 17 failed: disk is gone",
)
LINE = "2026-03-01 vega-7 wrote that all is well\n"
PLANNED = planned(("Research", "Look.", []))


def long_text(size: int) -> str:
    """A log with a question at its end and, in its middle, the line that answers it."""
    lines = (size - len(FIRST) - len(LAST) - len(FACT) - 3) // len(LINE)
    half = LINE * (lines // 2)
    return f"{FIRST}\n{half}{FACT}\n{half}{LAST}"


@pytest.fixture
async def outside() -> AsyncIterator[sources.Sources]:
    """Where effects happen."""
    async with sources.serving() as made:
        yield made


def prompts(fake: process.Fake, tag: str) -> list[str]:
    """The user messages of the prompts with this tag."""
    asked = [one["body"] for one in fake.requests(path="/api/chat") if one["tag"] == tag]
    return [one["messages"][1]["content"] for one in asked]


def script(fake: process.Fake, *research: Any) -> None:
    """Each model's part, in both graphs."""
    fake.set_script(
        {
            job.TAG: [job.reply()],
            PLAN: [PLANNED],
            RESEARCH: [*research, report("Slot 17.")],
            SYNTHESIS: [job.reply()],
        }
    )


def small(store: job.Store) -> bool:
    """Whether every checkpoint is far below what a checkpoint may have."""
    every = [*store.all(checkpoints.CHECKPOINTS), *store.all(checkpoints.WRITES)]
    sizes = [len(one.get("checkpoint") or one.get("value") or b"") for one in every]
    return bool(sizes) and max(sizes) < checkpoints.LIMIT // 8


async def test_an_order_is_seen_whole(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    script(fake)
    text = long_text(11_000)
    store.remember(task.memory(content=text))
    ended = await task.run()
    assert ended.message["exitReason"] == "Answered"
    [prompt] = prompts(fake, job.TAG)
    assert f"<question>{text}</question>" in prompt
    assert "left out" not in prompt
    [result] = store.all("task_results")
    assert result["leftOut"] == []
    assert small(store)


async def test_a_window_that_is_known_has_a_longer_order_whole(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    script(fake)
    text = long_text(pendingtask.CONTENT_BYTES)
    store.remember(task.memory(content=text))
    ended = await task.run(JERVIS_NUM_CTX="32768")
    assert ended.message["exitReason"] == "Answered"
    [prompt] = prompts(fake, job.TAG)
    assert f"<question>{text}</question>" in prompt
    assert store.all("task_results")[0]["leftOut"] == []


async def test_evidence_that_the_window_has_no_room_for_is_asked_about_in_short(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    """Three times as many tokens as its characters would have in English."""
    known.items = [knowledge.hit(f"{n} " + "a b c d e f " * 900, f"email::{n}") for n in range(6)]
    fake.set_script({job.TAG: [job.reply(citations=[1])]})
    store.remember(task.memory(content="When is the release?"))
    ended = await task.run(JERVIS_NUM_CTX="8192")
    assert ended.message["exitReason"] == "Answered"
    asked = [one for one in fake.requests(path="/api/chat") if one["tag"] == job.TAG]
    assert [one["status"] for one in asked] == [400, 200]
    whole, short = prompts(fake, job.TAG)
    assert len(short.encode()) < 8192 < len(whole)
    assert "When is the release?" in short


async def test_of_a_longer_order_the_middle_is_evidence(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    script(fake)
    text = long_text(pendingtask.CONTENT_BYTES)
    store.remember(task.memory(content=text))
    ended = await task.run()
    assert ended.message["exitReason"] == "Answered"
    [prompt] = prompts(fake, job.TAG)
    evidence, _, question = prompt.partition("<question>")
    assert (FIRST in question, LAST in question, FACT in question, FACT in evidence) == (True, True, False, True)
    assert "characters are left out here.]" in question
    assert "characters are left out here.]" in evidence
    assert "The release of the router is on Friday." in evidence
    assert len(prompt.encode()) < 24_000 + 6_000
    [result] = store.all("task_results")
    [said] = result["leftOut"]
    assert said.endswith(f"of the {len(text)} characters of the task's text are left out.")
    assert 2_000 < int(said.split()[0]) < 12_000
    assert any(one["origin"] == "Order" for one in result["evidence"])
    assert result["question"].startswith(FIRST)
    assert result["question"].endswith(LAST)


async def test_an_agent_reads_the_whole_of_a_long_order(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge, outside: sources.Sources
) -> None:
    script(fake, calls(("read_result", {"delegation": "task", "start": 15_000})))
    store.remember(task.memory(content=long_text(pendingtask.CONTENT_BYTES), type="UserTask"))
    ended = await delegating(task, outside).run()
    assert ended.message["exitReason"] == "Answered"
    for prompt in (*prompts(fake, PLAN), *prompts(fake, RESEARCH), *prompts(fake, SYNTHESIS)):
        assert (FIRST in prompt, LAST in prompt) == (True, True)
    assert 'delegation "task"' in prompts(fake, RESEARCH)[0]
    [_, second] = [one["body"] for one in fake.requests(path="/api/chat") if one["tag"] == RESEARCH]
    assert FACT in second["messages"][-1]["content"]
    assert small(store)


@pytest.mark.parametrize("graph", ["legacy", "delegation"])
async def test_as_many_messages_as_a_task_may_have(
    task: job.Job,
    store: job.Store,
    fake: process.Fake,
    known: knowledge.Knowledge,
    outside: sources.Sources,
    graph: str,
) -> None:
    script(fake)
    messages = [{"id": f"m{n}", "text": f"Message {n}: {'x' * 8000} end {n}."} for n in range(64)]
    store.remember(task.memory(content=long_text(pendingtask.CONTENT_BYTES), messages=messages))
    if graph == "delegation":
        delegating(task, outside)
    ended = await task.run()
    assert ended.message["exitReason"] == "Answered"
    prompt = prompts(fake, job.TAG if graph == "legacy" else RESEARCH)[0]
    assert all(word in prompt for word in (FIRST, LAST, "Message 63:", "end 63.", "additions of the user are left out"))
    assert len(prompt.encode()) < 64_000
    [result] = store.all("task_results")
    assert result["leftOut"][-1].endswith("of the user's 64 messages and answers are left out.")
    assert small(store)
    [query] = {one["query"] for one in known.asked if "Message 63:" in one["query"]}
    assert LAST in query


async def test_a_content_of_megabytes(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    script(fake)
    raw = long_text(20 << 20).encode()
    known.contents["big"] = raw
    ref = {"key": "big", "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    store.remember(task.memory(content=None, contentRef=ref))
    ended = await task.run()
    assert ended.message["exitReason"] == "Answered", ended.lines
    [prompt] = prompts(fake, job.TAG)
    assert (FIRST in prompt, LAST in prompt) == (True, True)
    said, more = store.all("task_results")[0]["leftOut"]
    assert said.endswith(f" of the {len(raw)} bytes of the content, its beginning and its end.")
    assert more.endswith("characters of the task's text are left out.")


async def test_a_procedure_takes_a_long_order_and_many_parameters(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge, outside: sources.Sources
) -> None:
    parameters = {f"field{number}": f"value {number} " + "y" * 900 for number in range(70)}
    step = {"agent": "Research", "action": "Look for it. " * 150, "parameters": parameters}
    known.procedures = [procedure("bug_report", step)]
    fake.set_script({RESEARCH: [report("Slot 17.")]})
    text = f"There is a bug. {long_text(pendingtask.CONTENT_BYTES - 20)}"
    store.remember(task.memory(type="UserTask", content=text))
    ended = await delegating(task, outside, JERVIS_USE_PROCEDURAL_MEMORY="true").run()
    assert ended.message["exitReason"] == "Answered"
    [prompt] = prompts(fake, RESEARCH)
    assert all(f"Constraint: field{number}: value {number} " in prompt for number in range(70))
    assert "Look for it. " * 150 in prompt
    assert LAST in prompt.rpartition("<question>")[2]


async def test_a_run_that_died_goes_on_with_its_long_question(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    fake.set_script({job.TAG: [{"fault": {"stall": {"afterBytes": 0}}}]})
    store.remember(task.memory(content=long_text(9_000)))
    running = task.start()
    await job.reached(fake)
    running.process.kill()
    await task.end(running)
    fake.forget()
    script(fake)
    ended = await task.run(attempt=2)
    assert ended.message["exitReason"] == "Answered"
    [prompt] = prompts(fake, job.TAG)
    assert (FIRST in prompt, FACT in prompt, LAST in prompt) == (True, True, True)
    assert store.all("task_results")[0]["leftOut"] == []
