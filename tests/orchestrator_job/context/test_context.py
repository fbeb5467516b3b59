"""What later steps see of earlier ones, how long it is kept, and how long texts become short: no text is cut."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator_job.context import entries, reading, retention, summarizer
from orchestrator_job.context.retention import Level
from orchestrator_job.effects.tools import port
from orchestrator_job.store import mongo, retry, task_memory
from tests.orchestrator_job import job, workbench


def entry(level: Level, path: str, **fields: Any) -> entries.Entry:
    return entries.Entry(**{"round": 1, "level": level, "path": path, "title": path, "done": True, **fields})


EPIC = entry(Level.EPIC, "r1.epic", text="The design. " * 50, summary="1. Look\n2. Say")
FIRST = entry(Level.GOAL, "r1.g1", goal=1, summary="Three disks are slow.", steps=("r1.d1",))
OLD = entry(Level.STEP, "r1.d1", goal=1, text="Long ago. " * 100, summary="Three disks.")
STEP = entry(Level.STEP, "r1.d2", goal=2, text="vega-1 is slow. " * 20, summary="vega-1.")
LAST = entry(Level.STEP, "r1.d3", goal=2, text="vega-2 is slow. " * 20, summary="vega-2.", done=False)
ALL = [EPIC, FIRST, OLD, STEP, LAST]


def test_a_step_sees_its_own_goal_whole_and_others_by_what_they_came_to() -> None:
    found = entries.shown(ALL, 2, 10_000)
    seen = found.text
    assert not found.whole, "the step of the other goal is not there"
    assert [seen.count(text) for text in (EPIC.text, STEP.text, LAST.text, "Three disks are slow.")] == [1, 1, 1, 1]
    assert "Long ago." not in seen
    assert seen.index("The whole") < seen.index("Goal 1 (done)") < seen.index("Step (done): r1.d2")
    assert "Step (not done): r1.d3" in seen


def test_what_has_no_room_is_its_summary_and_then_a_line_with_its_place() -> None:
    seen = entries.shown(ALL, 2, 800).text
    # The latest step is whole, what was before it has its summary.
    assert LAST.text in seen
    assert "r1.d2\nvega-1." in seen
    assert "1. Look" in seen
    bare = [one.model_copy(update={"summary": None}) for one in ALL]
    seen = entries.shown(bare, 2, 800).text
    assert "characters that have no room here; they are kept as r1.d2.]" in seen


def test_of_many_goals_the_latest_are_shown() -> None:
    many = [FIRST.model_copy(update={"path": f"r{n}.g1", "title": f"Round {n}", "round": n}) for n in range(1, 40)]
    seen = entries.shown(many, 0, 1000).text
    assert "Round 39\nThree disks are slow." in seen
    assert "Round 1\n" not in seen


def test_a_goal_without_a_summary_is_shown_by_its_steps() -> None:
    bare = FIRST.model_copy(update={"summary": None})
    found = entries.shown([EPIC, bare, OLD], 2, 10_000)
    assert (OLD.text in found.text, found.whole) == (True, True)


def test_what_is_not_whole_names_the_tool_that_opens_it() -> None:
    seen = entries.shown(ALL, 2, 1_000, reading.READ_STEP)
    assert (
        f'1. Look\n2. Say\n[A summary of {len(EPIC.text)} characters; read them with read_step, step "r1.epic".]'
        in (seen.text)
    )
    # What is complete, and what is short, names none.
    assert f"{LAST.text}\n[" not in seen.text
    bare = [STEP.model_copy(update={"summary": None}), LAST]
    assert 'characters that have no room here; read them with read_step, step "r1.d2".]' in (
        entries.shown(bare, 2, 500, reading.READ_STEP).text
    )
    short = entry(Level.GOAL, "r1.g1", goal=1, summary="Look\nvega-1.", steps=("r1.d1",))
    step = entry(Level.STEP, "r1.d1", goal=1, text="vega-1.")
    assert entries.shown([short, step], 2, 1_000, reading.READ_STEP) == entries.Shown(
        "Goal 1 (done): r1.g1\nLook\nvega-1.", whole=True
    )


@given(st.integers(0, 4000), st.integers(0, 3))
def test_no_text_is_shown_in_part(room: int, goal: int) -> None:
    seen = entries.shown(ALL, goal, room, reading.READ_STEP).text
    assert len(seen) <= room
    for one in (EPIC, STEP, LAST):
        assert (one.text in seen) or one.text[:24] not in seen


@pytest.mark.parametrize(
    ("made", "knowledge", "days"),
    [
        (retention.Made(Level.GOAL, done=True), True, 30),
        (retention.Made(Level.GOAL, done=False), False, 7),
        (retention.Made(Level.GOAL, done=True, doubted=True), False, 30),
        (retention.Made(Level.GOAL, done=True, private=True), False, 30),
        (retention.Made(Level.STEP, done=True), False, 30),
        (retention.Made(Level.STEP, done=True, alone=True), True, 30),
        (retention.Made(Level.STEP, done=True, alone=True, private=True), False, 30),
        (retention.Made(Level.STEP, done=False, alone=True), False, 7),
        (retention.Made(Level.EPIC, done=True), False, 30),
    ],
)
def test_what_the_knowledge_base_is_given(made: retention.Made, knowledge: bool, days: int) -> None:
    kept = retention.decide(made)
    assert (kept.knowledge, kept.life) == (knowledge, timedelta(days=days))
    assert kept.why


@given(st.lists(st.sampled_from(["a", "b c", "\n", "\n\n", "x" * 30]), max_size=60).map("".join), st.integers(5, 50))
def test_the_parts_of_a_text_are_the_text(text: str, most: int) -> None:
    found = summarizer.parts(text, most)
    assert "".join(found) == text
    assert all(len(one) <= most for one in found)


async def opened(
    store: job.Store, task: task_memory.TaskMemory, now: list[datetime], attempt: int = 1
) -> entries.Context:
    """That of a process which works on the task, and asks no model; the time is the first of `now`."""
    bench = workbench.Bench(store, None, task, attempt=attempt)  # type: ignore[arg-type]
    await bench.guard.claim(workbench.NOW)
    return entries.Context(bench.database, bench.guard, bench.book, task, lambda: now[0])


@pytest.mark.services
async def test_an_entry_is_written_once_and_expires(store: job.Store, uid: str) -> None:
    now = [workbench.NOW]
    context = await opened(store, workbench.task(uid), now)
    assert not await context.kept("r1.d1")
    await context.keep(OLD, retention.Kept(False, timedelta(days=7), "why"))
    await context.keep(OLD.model_copy(update={"text": "another"}), retention.Kept(True, timedelta(days=30), "why"))
    assert await context.kept("r1.d1")
    assert [one.text for one in await context.of_round(1)] == [OLD.text]
    [stored] = store.all(entries.COLLECTION, taskUid=uid)
    assert (stored["clientId"], stored["projectId"], stored["knowledge"]) == ("acme", "jervis", False)
    assert await context.before(2) == []
    await context.keep(FIRST, retention.Kept(True, timedelta(days=30), "why"))
    assert [one.path for one in await context.before(2)] == ["r1.g1"]
    now[0] += timedelta(days=8)
    assert [one.path for one in await context.of_round(1)] == ["r1.g1"]
    assert await entries.expire(mongo.Database(store.client, store.name, retry.Retry(5)), now[0]) == 1


@pytest.mark.services
async def test_a_process_that_died_behind_its_write_leaves_no_open_ledger(store: job.Store, uid: str) -> None:
    task = workbench.task(uid)
    first = await opened(store, task, [workbench.NOW])
    await first.keep(OLD, retention.Kept(False, timedelta(days=7), "why"))
    store.database["orchestrator_ledger"].update_one({"taskUid": uid}, {"$set": {"state": "started", "result": None}})
    again = await opened(store, task, [workbench.NOW], attempt=2)
    assert await again.kept("r1.d1")
    assert [one["state"] for one in store.all("orchestrator_ledger", taskUid=uid)] == ["done"]


@pytest.mark.services
async def test_a_step_is_read_whole_in_parts_and_only_of_the_own_task(store: job.Store, uid: str) -> None:
    task, now, kept = workbench.task(uid), [workbench.NOW], retention.Kept(False, timedelta(days=7), "why")
    foreign = workbench.task("f" * 32)
    for each, path in ((foreign, "r1.d9"), (task, "r1.d1")):
        context = await opened(store, each, now)
        await context.keep(OLD.model_copy(update={"path": path, "text": f"{each.task_uid[0]}{OLD.text}"}), kept)
    await context.keep(STEP.model_copy(update={"goal": 1}), kept)
    await context.keep(FIRST.model_copy(update={"steps": ("r1.d1", "r1.d2")}), kept)
    tool = reading.Steps(context, 400)
    place = port.Place(workbench.VIEWER, "r1.d3", 1, 1, "en")

    async def read(step: str, start: int = 0) -> port.Result:
        return await tool.read(port.parse(tool, {"step": step, "start": start}), place)

    async def whole(step: str) -> str:
        text, start = "", 0
        while True:
            found = await read(step, start)
            part, _, line = found.text.rpartition("\n[Characters ")
            assert len(found.text) <= 400
            text, start = text + part, start + len(part)
            if line.endswith("this is its end.]"):
                return text
            assert line.endswith(f"go on with start={start}.]")

    assert await whole("r1.d1") == f"{uid[0]}{OLD.text}"
    # A goal is what its steps handed back.
    assert await whole("r1.g1") == f"{uid[0]}{OLD.text}\n\n{STEP.text}"
    past = await read("r1.d1", 5000)
    assert (past.failed, past.text) == (True, f"It has only {len(OLD.text) + 1} characters.")
    for unknown in ("r1.d9", f"{foreign.task_uid}/r1.d9", "r2.d1", "*", "{}"):
        missing = await read(unknown)
        assert (missing.failed, missing.text) == (True, "There is no such step; there are r1.d1, r1.d2, r1.g1.")
    for wrong in ({"step": ""}, {"step": "r1.d1", "start": -1}, {"step": {"$ne": ""}}, {"path": "r1.d1"}):
        with pytest.raises(port.Misused):
            port.parse(tool, wrong)
    now[0] += timedelta(days=8)
    assert (await read("r1.d1")).failed, "it has expired"
