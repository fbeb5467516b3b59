"""The index of tasks and the cache over it: what waits, what is kept, what comes in, and the order of the work."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given

import kube
from controllers import queue
from controllers.pendingtask import cache, task_index
from controllers.pendingtask.decision import WaitFor
from controllers.pendingtask.task_index import Contents
from crds import pendingtask
from crds.phases import Phase
from tests import httpserver
from tests.controllers import build
from tests.controllers.build import present
from tests.controllers.strategies import tasks
from tests.controllers.test_slot_scheduler import Desk
from tests.kube import apiserver


def known(*rows: tuple[str, Phase, int, dict[str, Any]]) -> task_index.Tasks:
    """Tasks as (uid, phase, seconds in it, spec)."""
    tasks = task_index.Tasks(lambda: build.NOW)
    for uid, phase, seconds, spec in rows:
        entered = (build.NOW - timedelta(seconds=seconds)).isoformat()
        one = build.task(phase, spec=spec, status={"phaseTimes": {phase.value: entered}}, uid=uid, name=uid)
        assert tasks.observe(one.wire())
    return tasks


def ages(tasks: task_index.Tasks, phase: Phase) -> list[int | None]:
    """Seconds for Foreground and Background."""
    return [None if since is None else int(build.NOW.timestamp()) - since for since in tasks.oldest(phase)]


@pytest.fixture
def kept() -> Contents:
    return Contents()


def test_the_oldest_of_each_lane_in_each_phase() -> None:
    chat = {"type": "UserInputProcessing"}
    tasks = known(
        ("a", Phase.READY_FOR_GPU, 10, {}),
        ("b", Phase.READY_FOR_GPU, 70, {}),
        ("c", Phase.READY_FOR_GPU, 5, chat),
        ("d", Phase.READY_FOR_QUALIFICATION, 300, {"mode": "Foreground"}),
    )
    assert ages(tasks, Phase.READY_FOR_GPU) == [5, 70]
    assert ages(tasks, Phase.READY_FOR_QUALIFICATION) == [300, None]
    assert ages(tasks, Phase.NEW) == [None, None]
    tasks.forget("b")
    assert ages(tasks, Phase.READY_FOR_GPU) == [5, 10]


def test_a_task_that_its_user_holds_is_not_waiting_for_us() -> None:
    tasks = known(("a", Phase.READY_FOR_GPU, 10, {}), ("b", Phase.READY_FOR_GPU, 70, {"suspend": True}))
    assert ages(tasks, Phase.READY_FOR_GPU) == [None, 10]


def test_a_new_task_waits_since_it_was_created() -> None:
    tasks = task_index.Tasks(lambda: build.NOW)
    tasks.observe(build.task().wire())
    assert ages(tasks, Phase.NEW) == [None, 3600]


def test_every_phase_that_waits_for_us_is_measured() -> None:
    for_others = {Phase.SCHEDULED, Phase.USER_TASK, Phase.DONE, Phase.COMPLETED, Phase.ERROR}
    at_work = {Phase.QUALIFYING, Phase.DISPATCHED_GPU, Phase.ORCHESTRATING}
    assert set(task_index.WAITING) == set(Phase) - for_others - at_work


def test_links_that_are_not_finished_are_counted_by_client() -> None:
    index = task_index.Tasks(lambda: build.NOW)
    phases = [Phase.NEW, Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING, Phase.USER_TASK, Phase.READY_FOR_GPU]
    for number, (phase, client) in enumerate([(one, "acme") for one in phases] + [(Phase.NEW, "globex")]):
        for type_ in ("LinkProcessing", "EmailProcessing"):
            raw = build.task(phase, spec={"type": type_, "clientId": client}, uid=f"{type_}-{number}").wire()
            assert index.observe(raw)
    assert (index.links("acme"), index.links("globex"), index.links("x")) == (4, 1, 0)


def test_a_task_is_followed_by_those_that_wait_for_its_reading() -> None:
    tasks = known(("a", Phase.QUALIFYING, 10, {}), ("c", Phase.READY_FOR_QUALIFICATION, 10, {}))
    behind = {"retry": {"count": 1, "reason": "QualificationPostponed: a", "waitsFor": "a"}}
    waiting = build.task(Phase.READY_FOR_QUALIFICATION, status=behind, uid="b", name="b")
    tasks.observe(waiting.wire())
    assert (tasks.followers("a"), tasks.followers("b"), tasks.undecided("a")) == (["b"], [], True)
    # It is read itself.
    reads = build.task(Phase.QUALIFYING, status=behind, uid="b", name="b").wire()
    reads["metadata"]["resourceVersion"] = "9"
    tasks.observe(reads)
    assert tasks.followers("a") == []
    waiting_again = waiting.wire()
    waiting_again["metadata"]["resourceVersion"] = "10"
    tasks.observe(waiting_again)
    tasks.forget("a")
    assert (tasks.followers("a"), tasks.undecided("a")) == (["b"], False)
    tasks.forget("b")
    assert tasks.followers("a") == []


@pytest.mark.parametrize(
    ("phase", "status", "undecided"),
    [
        (Phase.NEW, {}, True),
        (Phase.READY_FOR_QUALIFICATION, {}, True),
        (Phase.USER_TASK, {"userTask": {"kind": "Failure"}}, False),
        (Phase.READY_FOR_GPU, {"route": {"decision": "Execute"}}, False),
        (Phase.ERROR, {}, False),
    ],
)
def test_what_becomes_of_a_task_is_known_or_not(phase: Phase, status: dict[str, Any], undecided: bool) -> None:
    assert pendingtask.undecided(build.task(phase, status=status)) is undecided


def stored(task: pendingtask.PendingTask) -> tuple[pendingtask.PendingTask, int]:
    """The task as the index gives it back, and the bytes that it takes."""
    index = task_index.Tasks(lambda: datetime.now(UTC))
    assert index.observe(task.wire())
    found, entry = index.get(task.metadata.uid), index.entry(task.metadata.uid)
    assert found is not None
    return found, len(present(entry).document)


@given(task=tasks())
def test_everything_comes_back_but_what_people_wrote(task: pendingtask.PendingTask) -> None:
    found, _ = stored(task)
    assert found.status == task.status
    assert found.metadata == task.metadata.model_copy(update={"annotations": found.metadata.annotations})
    assert [one.id for one in found.spec.messages] == [one.id for one in task.spec.messages]
    assert [one.id for one in found.spec.answers] == [one.id for one in task.spec.answers]
    texts: dict[str, object] = {"content": None, "content_ref": None, "messages": [], "answers": []}
    assert found.spec.model_copy(update=texts) == task.spec.model_copy(update=texts)


def test_ten_thousand_tasks_that_all_differ_take_fifteen_megabytes() -> None:
    total = 0
    for number in range(10_000):
        spec = {
            "content": f"Please look into {number}. " * 50,
            "clientId": f"client-{number % 97}",
            "sourceUrn": f"imap:acme/handlers/{number}",
        }
        raw = build.routed(Phase.READY_FOR_GPU, spec=spec).wire()
        raw["metadata"] |= {"name": f"mail-{number}", "uid": str(uuid.UUID(int=number * 7919)), "resourceVersion": "9"}
        total += stored(pendingtask.PendingTask.model_validate(raw))[1]
    assert total <= 15_000_000


def unread(uid: str = "u", version: str = "7", phase: str | None = None, content: str = "x") -> dict[str, Any]:
    meta = {"name": "t", "namespace": "ns", "uid": uid, "resourceVersion": version, "managedFields": [{}]}
    spec = {"type": "EmailProcessing", "clientId": "acme", "content": content}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase} if phase else {}}


def test_a_new_task_is_kept_whole_until_it_is_taken(kept: Contents) -> None:
    kept.keep(unread())
    found = present(kept.pop("u", "7"))
    assert pendingtask.PendingTask.model_validate(found).spec.content == "x"
    assert "managedFields" not in found["metadata"]
    assert kept.pop("u", "7") is None
    assert len(kept) == 0


def test_another_version_is_not_given_out(kept: Contents) -> None:
    kept.keep(unread(version="7"))
    assert kept.pop("u", "8") is None
    assert len(kept) == 0
    kept.keep(unread(version="7"))
    kept.keep(unread(version="8", content="new"))
    found = present(kept.pop("u", "8"))
    assert found["spec"]["content"] == "new"


def test_what_has_been_read_is_not_kept(kept: Contents) -> None:
    kept.keep(unread())
    kept.keep(unread(version="8", phase="ReadyForGpu"))
    assert len(kept) == 0
    kept.keep(unread(phase="ReadyForQualification"))
    kept.drop("u")
    assert len(kept) == 0


def test_it_is_bounded_and_the_first_ones_stay() -> None:
    kept = Contents(capacity=10_000)
    for number in range(20):
        kept.keep(unread(f"u{number}", content="x" * 1000))
    held = len(kept)
    assert 5 <= held < 10
    assert kept.pop("u19", "7") is None
    assert all(kept.pop(f"u{number}", "7") for number in range(held))
    kept.keep(unread("late", content="x" * 1000))
    assert kept.pop("late", "7") is not None


def created(seconds: int) -> str:
    """`seconds` after 11:00."""
    return f"2027-03-01T11:{seconds // 60:02}:{seconds % 60:02}Z"


class Place(Desk):
    """The parts of a Desk behind a cache and a queue."""

    def __init__(self, http: aiohttp.ClientSession, host: str = "") -> None:
        super().__init__()
        self.members = {"default"}
        loaded = apiserver.configuration(host or "http://localhost")
        self.work: queue.WorkQueue[str] = queue.WorkQueue(lambda: self.now.timestamp())
        self.cache = cache.TaskCache(
            kube.Kube(loaded, http, fence=lambda: None),
            members=self.members,
            work=self.work,
            tasks=self.tasks,
            workloads=self.workloads,
            book=self.scheduler,
            cancel_reading=lambda uid: None,
            monotonic=lambda: self.now.timestamp(),
        )

    def has(self, uid: str, phase: Phase, at: int, **spec: Any) -> None:
        self.version += 1
        meta = {"uid": uid, "name": uid, "creationTimestamp": created(at), "resourceVersion": str(self.version)}
        found = build.task if phase is Phase.NEW else build.routed
        raw = found(phase, spec=spec).wire()
        raw["metadata"] |= meta
        assert self.cache.take(raw)
        self.cache.enqueue(uid)

    async def taken(self) -> list[str]:
        return [await self.work.get() for _ in range(len(self.work))]


async def test_the_jobs_of_a_burst_come_before_what_its_first_runs_have_to_say() -> None:
    async with aiohttp.ClientSession() as http:
        place = Place(http)
        place.has("run", Phase.ORCHESTRATING, 0)
        place.has("soon", Phase.NEW, cache.RUNS_BEHIND_SECONDS - 1)
        place.has("late", Phase.NEW, cache.RUNS_BEHIND_SECONDS + 1)
        assert await place.taken() == ["soon", "run", "late"], "and no run waits for ever"


async def test_a_user_s_run_and_the_end_for_which_a_task_waits_keep_their_place() -> None:
    async with aiohttp.ClientSession() as http:
        place = Place(http)
        place.has("users", Phase.ORCHESTRATING, 0, mode="Foreground")
        place.has("new", Phase.NEW, 1, mode="Foreground")
        assert await place.taken() == ["users", "new"]
        place.wait("waiter", WaitFor.GPU)
        place.has("run", Phase.ORCHESTRATING, 0)
        place.has("soon", Phase.NEW, 1)
        assert await place.taken() == ["run", "soon"]


async def test_what_is_read_or_written_while_its_namespace_leaves_stays_out() -> None:
    task = build.routed(Phase.READY_FOR_GPU)
    raw, uid, namespace = task.wire(), task.metadata.uid, task.metadata.namespace
    asked, answers = asyncio.Event(), asyncio.Event()

    async def serve(_: web.Request) -> web.Response:
        asked.set()
        await answers.wait()
        return web.json_response(raw)

    async with aiohttp.ClientSession() as http, httpserver.serving(serve, method="GET") as url:
        place = Place(http, url)
        assert place.cache.take(raw)
        reading = asyncio.create_task(place.cache.read(task))
        await asked.wait()
        place.members.discard(namespace)
        place.cache.leave(uid)
        answers.set()
        await reading
        assert list(place.tasks) == []
        later = {**raw, "metadata": {**raw["metadata"], "resourceVersion": "999"}}
        assert not place.cache.take(later), "the answer of a write"
        assert not place.cache.admit({**later, "spec": {}}), "one that cannot be read is not reported either"
        assert list(place.tasks) == []
        assert (len(place.cache.contents), place.cache.unreadable, len(place.work)) == (0, {}, 0)
        place.members.add(namespace)
        assert place.cache.take(raw), "any version of it may come back"
