"""Runs whose task is gone: their Jobs go, whatever happened meanwhile, and their pods hold no slot for ever."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kube
from controllers.pendingtask import job, task_index, workloads
from controllers.pendingtask.effects import orphans
from crds import pendingtask
from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet, never
from tests.operator.process import Start
from tests.waiting import until

pytestmark = pytest.mark.apiserver

TEMPLATE = job.Template("", "fake", "Never", "default", "http://kb", "http://router", "mongodb://m", "model")


class Watched:
    """What a leader that has just started knows; the clock is in hand."""

    def __init__(self, api: kube.Kube, space: Space) -> None:
        self.now, self.changes = datetime.now(UTC), 0
        self.api, self.space = api, space
        self.tasks, self.workloads = task_index.Tasks(lambda: self.now), workloads.Workloads(space.name)
        self.members = {space.name, "team-b", "nowhere"}
        self.orphans = orphans.Orphans(
            api,
            self.tasks,
            self.workloads,
            members=self.members,
            changed=self._changed,
            wall=lambda: self.now,
        )

    def _changed(self) -> None:
        self.changes += 1

    async def launch(self, raw: dict[str, Any], attempt: int = 1, *, ended: bool = False) -> str:
        """A Job for that task; its name."""
        task = pendingtask.PendingTask.model_validate(raw)
        name = job.name(task.metadata.name, task.metadata.uid, attempt)
        body = job.manifest(task, attempt, name, dataclasses.replace(TEMPLATE, namespace=self.space.name))
        made = await self.api.create(kube.JOBS, self.space.name, body)
        if ended:
            over = {"type": "Complete", "status": "True"}
            made = {**made, "status": {"conditions": [over]}}
        assert self.workloads.observe_job(made)
        return name

    def jobs(self) -> set[str]:
        return {one.metadata.name for one in self.space.jobs()}


def elsewhere(raw: dict[str, Any], namespace: str, **metadata: Any) -> dict[str, Any]:
    """The same task as an object of another namespace."""
    return {**raw, "metadata": {**raw["metadata"], "namespace": namespace, **metadata}}


@pytest.fixture
def watched(api: kube.Kube, space: Space) -> Watched:
    return Watched(api, space)


async def test_jobs_of_tasks_that_are_gone_go_and_no_others(api: kube.Kube, watched: Watched, space: Space) -> None:
    known, unread, deleted, replaced = (space.submit(name) for name in ("known", "unread", "deleted", "replaced"))
    watched.tasks.observe(known)
    stay = {await watched.launch(known), await watched.launch(unread)}
    await watched.launch(deleted)
    await watched.launch(deleted, 2)
    await watched.launch(elsewhere(replaced, space.name, uid="0f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00"))
    await watched.launch(elsewhere(known, "nowhere", uid="1f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00"))
    foreign = {"metadata": {"name": "by-hand", "labels": {job.UID_LABEL: deleted["metadata"]["uid"]}}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "one", "image": "fake"}]}
    stranger = await api.create(kube.JOBS, space.name, {**foreign, "spec": {"template": {"spec": pod}}})
    assert not watched.workloads.observe_job(stranger)
    space.delete("deleted")
    await watched.orphans.sweep()
    assert watched.jobs() == stay | {"by-hand"}


async def test_ended_jobs_are_asked_about_in_turn(
    api: kube.Kube, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a finished task stays; that of a task that was deleted with its dependents orphaned goes."""
    monkeypatch.setattr(orphans, "ENDED_AT_ONCE", 1)
    watched = Watched(api, space)
    stay = {await watched.launch(space.submit(f"finished-{number}"), ended=True) for number in range(2)}
    deleted = space.submit("deleted")
    await watched.launch(deleted, ended=True)
    space.delete("deleted")
    for _ in range(4):  # one of three each time, and a new round
        await watched.orphans.sweep()
    assert watched.jobs() == stay


async def test_no_sweep_is_idle_while_ended_jobs_are_there(watched: Watched, space: Space) -> None:
    """A deletion that no watch reported is found by the next sweep, also of a Job that was asked about in this one."""
    await watched.launch(space.submit("finished"), ended=True)
    await watched.orphans.sweep()
    space.delete("finished")
    await watched.orphans.sweep()
    assert watched.jobs() == set()


async def test_a_deletion_that_is_seen_ends_the_run_at_once(watched: Watched, space: Space) -> None:
    finished = space.submit("finished")
    await watched.launch(finished, ended=True)
    watched.workloads.abandon(finished["metadata"]["uid"], finishing=True)
    assert not watched.workloads.abandonment.is_set()
    space.delete("finished")
    deleted = space.submit("deleted")
    await watched.launch(deleted)
    space.delete("deleted")
    watched.workloads.abandon(deleted["metadata"]["uid"], finishing=True)
    assert watched.workloads.abandonment.is_set()
    await watched.orphans.sweep()
    assert watched.jobs() == set()
    watched.workloads.abandon("without-a-job")
    assert watched.workloads.abandoned == set()


class Refusing(kube.Kube):
    """An apiserver that refuses one namespace, as it does when a RoleBinding is gone."""

    forbidden = ""

    async def get(self, resource: kube.Resource, namespace: str | None, name: str | None = None) -> kube.Object:
        if namespace == self.forbidden:
            raise kube.Forbidden(f"{namespace} is closed")
        return await super().get(resource, namespace, name)


async def test_a_namespace_that_refuses_is_given_time(kubeconfig: Path, space: Space) -> None:
    loaded = kube.configuration(str(kubeconfig))
    async with kube.session(loaded) as session:
        api = Refusing(loaded, session, fence=lambda: None)
        watched = Watched(api, space)
        name = await watched.launch(elsewhere(space.submit("q"), "team-b"))
        api.forbidden = "team-b"
        await watched.orphans.sweep()
        watched.now += orphans.PATIENCE / 2
        await watched.orphans.sweep()
        assert watched.jobs() == {name}
        watched.now += orphans.PATIENCE / 2
        await watched.orphans.sweep()
        assert watched.jobs() == set()


async def test_a_deletion_that_was_seen_needs_no_word_of_a_namespace_that_refuses(
    kubeconfig: Path, space: Space
) -> None:
    """With Roles in each namespace the right to ask goes with the namespace, and a GPU's slot is taken meanwhile."""
    loaded = kube.configuration(str(kubeconfig))
    async with kube.session(loaded) as session:
        api = Refusing(loaded, session, fence=lambda: None)
        watched = Watched(api, space)
        seen, unseen = (elsewhere(space.submit(name), "team-b") for name in ("seen", "unseen"))
        await watched.launch(seen)
        stays = await watched.launch(unseen)
        api.forbidden = "team-b"
        watched.workloads.abandon(seen["metadata"]["uid"])
        await watched.orphans.sweep()
        assert watched.jobs() == {stays}
        assert watched.workloads.abandoned == set()


async def test_a_run_ends_some_time_after_its_namespace_has_left(
    api: kube.Kube, watched: Watched, space: Space
) -> None:
    """By its label: the task is there, and its run's end would not be recorded, nor its Job removed."""
    stays = await watched.launch(elsewhere(space.submit("stays"), space.name))
    other = Space(space.api, f"t-{uuid.uuid4().hex[:8]}")
    watched.members.add(other.name)
    runs, over = other.submit("runs"), other.submit("over")
    both = {await watched.launch(runs), await watched.launch(over, ended=True)}
    await watched.orphans.sweep()
    watched.members.discard(other.name)
    await watched.orphans.sweep()
    watched.now += orphans.PATIENCE / 2
    await watched.orphans.sweep()
    assert watched.jobs() == both | {stays}
    watched.members.add(other.name)
    await watched.orphans.sweep()
    watched.members.discard(other.name)
    watched.now += orphans.PATIENCE / 2
    await watched.orphans.sweep()
    assert watched.jobs() == both | {stays}, "it came back meanwhile"
    watched.now += orphans.PATIENCE
    await watched.orphans.sweep()
    assert watched.jobs() == {stays}
    assert {raw["metadata"]["name"] for raw in other.every()} == {"runs", "over"}, "its tasks are not touched"


def pod(space: Space, name: str) -> kube.Object:
    uid, task = "gone", "q"
    labels = {job.UID_LABEL: uid, job.TASK_LABEL: task, job.ATTEMPT_LABEL: "1"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job.name(task, uid, 1), "uid": "j", "controller": True}
    meta: kube.Object = {"name": name, "namespace": space.name, "uid": name, "resourceVersion": "1", "labels": labels}
    meta |= {"creationTimestamp": "2027-03-01T12:00:00Z", "ownerReferences": [owner]}
    return {"metadata": meta, "status": {"phase": "Running"}}


async def test_a_pod_that_is_not_there_any_more_holds_no_slot(api: kube.Kube, watched: Watched, space: Space) -> None:
    """A watch that lost its place tells of no pod that went away meanwhile: the API is asked."""
    await watched.orphans.verify()
    assert watched.changes == 0, "nothing is in doubt"
    assert watched.workloads.observe_pod(pod(space, "ghost"))
    there = pod(space, "there")["metadata"] | {"uid": None, "resourceVersion": None}
    containers = [{"name": job.CONTAINER, "image": "fake"}]
    body: kube.Object = {"metadata": there, "spec": {"containers": containers, "automountServiceAccountToken": False}}
    await api.create(kube.PODS, space.name, body)
    await watched.orphans.verify()
    assert [one.name for one in watched.workloads.pods("gone")] == ["there"]
    await api.delete(kube.PODS, space.name, "there")
    await watched.orphans.verify()
    assert watched.workloads.pods("gone") == ()
    assert watched.workloads.occupied(watched.now, but=()) == {}
    assert watched.changes == 2


@pytest.mark.services
def test_deleting_a_task_ends_its_run_while_the_operator_lives_and_after_it_was_killed(
    space: Space, start: Start
) -> None:
    chat = {"type": "UserInputProcessing", "mode": "Foreground"}
    with Kubelet(space.api, space.name, never) as kubelet:
        with start(IDENTITY="operator-0") as operator:
            for name in ("alive", "killed"):
                space.submit(name, **chat)
            until(lambda: set(space.phases().values()) == {"Orchestrating"}, "both run")
            space.delete("alive")
            until(lambda: len(space.jobs()) == 1, "its Job goes")
            operator.kill()
        space.delete("killed")
        assert len(space.jobs()) == 1
        with start(IDENTITY="operator-0"):
            until(lambda: not space.jobs(), "its Job goes at the start")
            until(lambda: not kubelet.pods(), "and its pod")
