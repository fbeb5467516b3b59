"""Repositories that are polled: tasks, commits, the workspace's state, and a process that is killed at any time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

import kube
from controllers.connection import decide
from controllers.connection.credentials import Finding
from crds import access, connection, labels
from kb import client as kb
from sources import metrics
from sources.core import assignments, poller
from sources.core.state import State
from sources.providers.git import clone
from sources.providers.git import polling as git
from tests import waiting
from tests.sources import parts, process
from tests.sources.git.knowledge import Commits, kubeconfig
from tests.sources.git.making import Repository, daemon
from tests.sources.git.test_repository import log

pytestmark = pytest.mark.services
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.fixture
async def world() -> AsyncIterator[Commits]:
    async with Commits().serving() as one:
        assert isinstance(one, Commits)
        yield one


def conn(
    url: str,
    *,
    project: str = "storage",
    generation: int = 1,
    retry: str = "",
    name: str = "",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    **more: Any,
) -> connection.Connection:
    spec = {"type": "Git", "projectId": project, "url": url, "pollInterval": "10s", **more}
    chosen = {name: list(names) for name, names in (("include", include), ("exclude", exclude)) if names}
    spec |= {"filter": chosen} if chosen else {}
    name, wish = name or project, {labels.RETRY: retry}
    return parts.connected(f"code-{name}", uid=f"uid-{name}", generation=generation, annotations=wish, **spec)


@dataclass
class Rig:
    """All that works on Connections, with one clock."""

    assigned: assignments.Assignments
    polls: poller.Poller
    measured: metrics.Metrics
    now: datetime = NOW

    async def round(self, one: connection.Connection) -> bool:
        """Poll what is due; whether something was."""
        await self.assigned.want(one)
        claim = await self.assigned.claim("me", self.now)
        if claim is not None:
            await self.polls.serve(claim)
        return claim is not None

    async def later(self, one: connection.Connection) -> None:
        """Two hours go by."""
        self.now += timedelta(hours=2)
        await self.round(one)

    async def state(self) -> State:
        """What is known of the Connection of project `storage`."""
        return (await self.assigned.states())["uid-storage"][2]

    async def workspace(self, one: connection.Connection) -> tuple[str, int, datetime | None]:
        """(condition's reason, tries, time of the next) as the operator writes them."""
        state = (await self.assigned.states())[one.metadata.uid][2]
        found = decide.patch(one, Finding(True, "NotNeeded", ""), self.now, file_urls=True, state=state)
        reasons = {each["type"]: each["reason"] for each in found["conditions"]}
        said = connection.Workspace.model_validate(found["workspace"])
        return reasons["WorkspaceReady"], said.retry_count, said.next_retry_at


@pytest.fixture(name="rig")
async def started(world: Commits, database: Any, tmp_path: Path) -> AsyncIterator[Rig]:
    loaded = kube.configuration(str(kubeconfig(tmp_path, world.url)))
    session = kube.session(loaded, fence=lambda: None)
    api = kube.Kube(loaded, session, fence=lambda: None, timeout=waiting.PATIENCE)
    assigned, measured = assignments.Assignments(database), parts.meters()
    async with httpx.AsyncClient(trust_env=False) as http:
        knowledge = kb.Client(world.url, http, attempts=1)

        def wall() -> datetime:
            return rig.now

        opens = git.opened(
            clone.Workspace(tmp_path / "ws", 1 << 30, 1 << 30), assigned, plain=True, authorities="", seconds=60,
            monotonic=time.monotonic,
        )  # fmt: skip
        polls = await parts.polling(
            api, knowledge, database, assigned, {}, wall=wall, measured=measured, every=3600, renew=20,
            monotonic=time.monotonic, clones={connection.Type.GIT: opens},
        )  # fmt: skip
        rig = Rig(assigned, polls, measured)
        yield rig
    await session.close()


async def test_a_clone_that_fails_is_tried_again_after_the_times_of_the_seed(
    rig: Rig, made: Repository, world: Commits
) -> None:
    one = conn(f"{made.url}-not-there")
    pauses = []
    for tries in range(1, 7):
        assert await rig.round(one)
        reason, count, again = await rig.workspace(one)
        assert (reason, count) == ("CloneFailed", tries)
        assert again is not None
        pauses.append(int((again - rig.now).total_seconds() // 60))
        rig.now = again - timedelta(seconds=1)
        assert not await rig.round(one)
        rig.now = again
    assert pauses == [5, 15, 30, 60, 5, 15]
    asked = conn(f"{made.url}-not-there", retry="now")
    rig.now -= timedelta(minutes=10)
    assert await rig.round(asked), "a person asks for it at once"
    assert (await rig.workspace(asked))[:2] == ("CloneFailed", 1)
    made.many(3)
    good = conn(made.url, generation=2, retry="now")
    assert await rig.round(good), "another URL is tried at once"
    assert await rig.workspace(good) == ("Cloned", 0, None)
    assert world.branches == {"storage/main": log(made)}


async def test_commits_that_are_not_stored_hold_the_cursor_and_bad_ones_are_failures(
    rig: Rig, made: Repository, world: Commits
) -> None:
    made.many(60)
    one = conn(made.url)
    world.answers = [("Failed", True)]
    await rig.round(one)
    state = await rig.state()
    assert (state.reason, world.sent) == ("KnowledgeBaseAway", [])
    assert (await rig.workspace(one))[0] == "Cloned", "the clone is there all the same"
    world.answers = [("Stored", False), ("Failed", False)]
    rig.now += timedelta(hours=1)
    await rig.round(one)
    state = await rig.state()
    assert (state.reason, len(world.sent)) == ("", 50)
    assert (state.items or {})["Failed"] == 10
    assert {item.title for item in state.failed} == {f"Change {number}" for number in range(50, 60)}


async def test_who_may_see_a_repository_is_said_by_its_connection(rig: Rig, made: Repository, world: Commits) -> None:
    told = {"visibility": "Restricted", "principals": ["group:dev"]}
    made.many(3)
    await rig.round(conn(made.url, access=told))
    made.commit("See https://example.com/why.", {"a": b"1"})
    await rig.later(conn(made.url, access=told))
    assert world.access == dict.fromkeys(log(made), access.restricted(["group:dev"]))
    said = {task["spec"]["type"]: task["spec"].get("access") for task in world.tasks.values()}
    assert said == {"GitProcessing": told, "LinkProcessing": None}, "a link leads to what is not of the repository"


async def test_a_link_that_is_no_address_stops_no_commit(rig: Rig, made: Repository, world: Commits) -> None:
    made.many(1)
    one = conn(made.url)
    await rig.round(one)
    made.commit("See http://ex℀mple.com/x and https://example.com/why.", {"a": b"1"})
    await rig.later(one)
    assert (await rig.state()).message == ""
    assert world.branches == {"storage/main": log(made)}
    links = [task["spec"]["sourceUrn"] for task in world.tasks.values() if task["spec"]["type"] == "LinkProcessing"]
    assert links == ["link::https://example.com/why"]


async def test_commits_that_the_knowledge_base_refuses_are_failures_and_the_others_pass(
    rig: Rig, made: Repository, world: Commits
) -> None:
    made.many(60)
    poison = log(made)[7]
    world.poison = {poison}
    one = conn(made.url)
    await rig.round(one)
    state = await rig.state()
    assert (state.reason, (state.items or {})["Failed"]) == ("", 1)
    assert [item.title for item in state.failed] == ["Change 7"]
    assert "no usable commit" in state.failed[0].reason
    assert sorted(world.sent) == sorted(set(log(made)) - {poison})


async def test_two_projects_on_one_repository_and_links_that_are_tasks(
    rig: Rig, made: Repository, world: Commits
) -> None:
    made.many(3)
    for project in ("storage", "network"):
        await rig.round(conn(made.url, project=project))
    assert world.branches == {"storage/main": log(made), "network/main": log(made)}
    made.commit("See https://example.com/why.", {"a": b"1"})
    rig.now += timedelta(hours=2)
    for project in ("storage", "network"):
        await rig.round(conn(made.url, project=project))
    assert (
        sorted(task["spec"]["type"] for task in world.tasks.values()) == ["GitProcessing"] * 2 + ["LinkProcessing"] * 2
    )
    for kind in ("GitProcessing", "LinkProcessing"):
        of = [task["spec"]["projectId"] for task in world.tasks.values() if task["spec"]["type"] == kind]
        assert sorted(of) == ["network", "storage"]


async def test_what_one_connection_leaves_stays_while_another_has_it(
    rig: Rig, made: Repository, world: Commits, tmp_path: Path
) -> None:
    """The knowledge base has one document of a commit, whichever Connections of a scope read it."""
    made.many(4)
    mirror = Repository(tmp_path / "mirror" / "acme" / "storage.git")
    mirror.git("fetch", "-q", str(made.path), "+refs/heads/*:refs/heads/*")
    made.point("topic", "main")
    topic = made.commit("Topic", {"t": b"1"}, branch="topic")
    with daemon(tmp_path / "srv") as here, daemon(tmp_path / "mirror") as there:
        url = f"{here}/acme/storage.git"
        both = [conn(url, include=["*"]), conn(f"{there}/acme/storage.git", name="mirror")]

        async def polled() -> None:
            rig.now += timedelta(hours=2)
            for one in both:
                await rig.assigned.want(one)
            for _ in range(4):
                await rig.round(both[0])

        await polled()
        assert world.branches == {"storage/main": log(made), "storage/topic": log(made, "topic")}
        both[0] = conn(url, generation=2, exclude=["main"], include=["*"])
        await polled()
        assert world.branches == {"storage/main": log(mirror), "storage/topic": [*log(made), topic]}
        # Both have it again; what neither has leaves, also where one hears of it before the other.
        both[0] = conn(url, generation=3, include=["main"])
        await polled()
        assert world.branches == {"storage/main": log(mirror), "storage/topic": []}
        for one in (made, mirror):
            one.point("main", "main~2")
            await polled()
            assert world.branches["storage/main"] == log(mirror)


async def test_a_process_that_was_frozen_takes_no_commits_from_its_successor(
    rig: Rig, made: Repository, world: Commits
) -> None:
    made.many(3)
    one = conn(made.url)
    await rig.round(one)
    last = made.sha("main")
    made.point("main", "main~1")
    rig.now += timedelta(hours=1)
    frozen = await parts.claimed(rig.assigned, rig.now, by="frozen")
    batches = (await rig.polls.source(frozen)).batches(frozen.cursor)
    # First the cursor says what is about to be removed.
    batch = await anext(one async for one in batches if one.commits)
    assert [request.removed for request in batch.commits] == [[last]]
    for at in ("main", last):
        made.point("main", at)
        rig.now += timedelta(hours=1)
        await rig.round(one)
    with pytest.raises(assignments.Lost):
        await rig.polls._store(frozen, batch.commits[0].scope, batch)
    await batches.aclose()
    assert world.branches == {"storage/main": log(made)}


async def test_a_branch_that_is_gone_takes_its_overview_along(rig: Rig, made: Repository, world: Commits) -> None:
    made.many(3)
    made.point("topic", "main")
    made.commit("Topic", {"t": b"1"}, branch="topic")
    one = conn(made.url, include=["*"])
    await rig.round(one)
    world.work()
    assert len(world.documents) == 2
    made.git("update-ref", "-d", "refs/heads/topic")
    await rig.later(one)
    assert world.branches == {"storage/main": log(made), "storage/topic": []}
    left = [row["urn"] async for row in rig.polls._items._rows.find({"state": "Gone"})]
    assert [urn.endswith("@topic:overview") for urn in left] == [True]


async def test_a_branch_that_is_forced_back_has_the_overview_of_what_it_is_now(
    rig: Rig, made: Repository, world: Commits
) -> None:
    first = made.commit("First", {"README.md": b"Old words"})
    one = conn(made.url)
    texts = []
    for step in ("old", "new", "old", "new"):
        if step == "old":
            made.point("main", first)
        else:
            made.commit("Second", {"README.md": b"New words"})
        await rig.later(one)
        await rig.round(one)
        world.work()
        texts.append([step.title() in task["spec"]["content"] for task in world.tasks.values()])
    assert texts == [[True], [False, True], [True, False, True], [False, True, False, True]]


async def test_a_resync_after_a_forced_push_removes_what_left(rig: Rig, made: Repository, world: Commits) -> None:
    made.many(3)
    made.point("topic", "main")
    made.commit("Topic", {"t": b"1"}, branch="topic")
    before = log(made)

    def asked(resync: str = "") -> connection.Connection:
        one = conn(made.url, include=["*"])
        meta = one.metadata.model_copy(update={"annotations": {labels.RESYNC: resync}})
        return one.model_copy(update={"metadata": meta})

    await rig.round(asked())
    assert len(world.branches["storage/topic"]) == 4
    made.point("main", "main~2")
    made.git("update-ref", "-d", "refs/heads/topic")
    await rig.round(asked("now"))
    assert world.branches == {"storage/main": before[:1], "storage/topic": []}
    assert len(world.tasks) == 2, "what is known makes no second task"


@pytest.mark.parametrize("end", ["forced", "gone"])
async def test_commits_that_come_back_after_a_kill_between_their_removal_and_the_cursor_are_there(
    rig: Rig, made: Repository, world: Commits, end: str
) -> None:
    made.many(3)
    made.point("topic", "main")
    whole = log(made)
    one = conn(made.url, include=["*"])
    await rig.round(one)
    if end == "forced":
        made.point("topic", "main~2")
    else:
        made.git("update-ref", "-d", "refs/heads/topic")
    rig.now += timedelta(minutes=1)
    claim = await parts.claimed(rig.assigned, rig.now)
    source = await rig.polls.source(claim)
    left = whole[1:] if end == "forced" else whole
    async with contextlib.aclosing(source.batches(claim.cursor)) as batches:
        async for batch in batches:
            for request in batch.commits:
                await rig.polls._direct_ingest.commit(claim, request)
            if world.branches["storage/topic"] == [sha for sha in whole if sha not in left]:
                break  # killed
            await rig.assigned.advance(claim, batch.cursor, rig.now)
    made.point("topic", "main")
    await rig.later(one)
    assert world.branches == {"storage/main": whole, "storage/topic": whole}


async def test_a_process_that_is_killed_again_and_again_loses_no_commit_and_stores_none_twice(
    world: Commits, database: Any, made: Repository, tmp_path: Path
) -> None:
    made.many(1500)
    assigned = assignments.Assignments(database)
    await assigned.want(conn(made.url))
    settings = {
        "KUBECONFIG": kubeconfig(tmp_path, world.url), "KB_URL": world.url, "MONGODB_DATABASE": database.name,
        "MONGODB_URI": os.environ["JERVIS_TEST_MONGODB_URI"], "CLAIM_SECONDS": 3, "WORKSPACE": tmp_path / "ws",
    }  # fmt: skip
    expected = log(made)

    def done() -> bool:
        return world.branches.get("storage/main") == expected and bool(world.tasks)

    for kills in range(12):
        one = process.Sources(tmp_path / f"{kills}.log", **settings)
        try:
            await asyncio.to_thread(one.ready)
            # Killed while it claims, clones, fetches, reads or sends: as far as these steps of 30 ms take it.
            wanted = len(world.sent) + 50 * (kills % 3)
            for _ in range(300 if kills < 11 else 10_000):
                await asyncio.sleep(0.03)
                if done() or (len(world.sent) > wanted and kills < 11):
                    break
        finally:
            await asyncio.to_thread(one.kill)
        if done():
            break
        await database[assignments.CONNECTIONS].update_many({}, {"$set": {"until": None}})
    assert world.branches == {"storage/main": expected}
    assert kills >= 3
    assert len(world.tasks) == 1
    assert len(world.sent) - len(expected) <= 50 * (kills + 1), "at most a batch comes again after a kill"
