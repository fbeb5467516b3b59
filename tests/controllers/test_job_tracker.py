"""A Job is made once with its Secret, whatever process dies between which two steps, and an error ends one Job only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import kube
from controllers import job_tracker
from crds import errors
from kube import lease

LABEL = "jervis.dev/tried"


class Died(BaseException):
    """The process ends."""


class Cluster:
    """The apiserver in memory: the outside. The process dies after the call number `dies`; 0: it lives. `refusal` is
    raised instead of creating a Secret."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.calls, self.dies, self.created = 0, 0, 0
        self.refusal: errors.JervisError | None = None

    def step(self) -> None:
        self.calls += 1
        if self.calls == self.dies:
            raise Died

    async def get(self, resource: kube.Resource, namespace: str, name: str) -> dict[str, Any]:
        if name not in self.jobs:
            raise kube.NotFound(name)
        return self.jobs[name]

    async def create(self, resource: kube.Resource, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        kept, name = self.jobs if resource is kube.JOBS else self.secrets, body["metadata"]["name"]
        if resource is kube.SECRETS and self.refusal is not None:
            raise self.refusal
        if name in kept:
            raise kube.AlreadyExists(name)
        self.created += resource is kube.JOBS
        kept[name] = {**body, "metadata": {**body["metadata"], "uid": f"uid-{self.created}"}}
        self.step()
        return kept[name]

    async def delete(self, resource: kube.Resource, namespace: str, name: str) -> None:
        self.jobs.pop(name, None)

    async def each(self, resource: kube.Resource, namespace: str, selector: str) -> AsyncIterator[dict[str, Any]]:
        for raw in self.jobs.values():
            if selector.partition("=")[0] in raw["metadata"].get("labels", {}):
                yield raw


class Record:
    """What is to be done, and what it says of its Job."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.made, self.begun, self.refusals = cluster, False, 0, list[str]()
        self.jobs = job_tracker.JobTracker(cluster, "ns", LABEL)  # type: ignore[arg-type]  # the outside

    async def record_made(self) -> None:
        self.made = True
        self.cluster.step()

    def count(self) -> None:
        self.begun += 1

    def wanted(self) -> job_tracker.Wanted:
        return job_tracker.Wanted(
            "a",
            "one",
            self.made,
            manifest=lambda: {"metadata": {"name": "a", "labels": {LABEL: "one"}}},
            secret=lambda uid: {"metadata": {"name": "a", "owner": uid}},
            record_made=self.record_made,
            created=self.count,
        )

    async def ensure(self) -> dict[str, Any] | None:
        return await self.jobs.ensure(self.wanted())

    async def runs(self, error: errors.JervisError | None = None) -> bool:
        async def reconcile() -> bool:
            if error is not None:
                raise error
            return await self.ensure() is not None

        async def refused(why: errors.Permanent) -> None:
            self.refusals.append(why.message)

        return await self.jobs.reconcile_job("a", reconcile, refused)


@pytest.fixture
def record() -> Record:
    return Record(Cluster())


@pytest.mark.parametrize("dies", [0, 1, 2, 3])
async def test_a_job_is_made_once_with_its_secret_whenever_the_process_dies(record: Record, dies: int) -> None:
    record.cluster.dies = dies
    if dies:
        with pytest.raises(Died):
            await record.ensure()
    for _ in range(2):
        found = await record.ensure()
        assert found is not None
    assert (record.made, record.cluster.created) == (True, 1)
    assert record.cluster.secrets["a"]["metadata"]["owner"] == "uid-1", "of the Job that there is"
    assert record.begun == (0 if dies == 1 else 1), "it is counted once it is known to be there"


async def test_one_that_vanished_is_not_made_again(record: Record) -> None:
    await record.ensure()
    await record.jobs.delete("a")
    assert await record.ensure() is None
    assert record.cluster.created == 1


@pytest.mark.parametrize("made", [False, True])
async def test_a_job_of_another_with_its_name_is_left_alone(record: Record, made: bool) -> None:
    theirs = {"metadata": {"name": "a", "uid": "theirs", "labels": {LABEL: "another"}}}
    record.cluster.jobs["a"], record.made = theirs, made
    assert await record.runs() is False
    assert record.refusals == ["another Job has its name: a"]
    assert (record.cluster.jobs, record.cluster.secrets) == ({"a": theirs}, {})


async def test_a_job_whose_secret_is_refused_is_deleted(record: Record) -> None:
    record.cluster.refusal = kube.Refused("exceeded quota")
    assert await record.runs() is False
    assert (record.refusals, record.cluster.jobs, record.made) == (["exceeded quota"], {}, False)


async def test_what_may_be_cured_leaves_the_job_alone(record: Record) -> None:
    await record.ensure()
    assert await record.runs(kube.Unavailable("away")) is True
    with pytest.raises(lease.Fenced):
        await record.runs(lease.Fenced("no lease"))
    assert (record.refusals, list(record.cluster.jobs)) == ([], ["a"])


async def test_they_are_listed_by_name_and_belong_by_their_label(record: Record) -> None:
    await record.ensure()
    record.cluster.jobs["other"] = {"metadata": {"name": "other"}}
    known = await record.jobs.all()
    assert list(known) == ["a"]
    assert (record.jobs.belongs(known["a"], "one"), record.jobs.belongs(known["a"], "two")) == (True, False)
    assert not record.jobs.belongs({"metadata": {}}, "one")


@pytest.mark.parametrize(
    ("conditions", "end"),
    [
        ([], None),
        ([{"type": "Complete", "status": "False"}, {"type": "FailureTarget", "status": "True"}], None),
        ([{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}], (True, "", "")),
        ([{"type": "Failed", "status": "True"}], (False, "", "")),
        (
            [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}],
            (False, "DeadlineExceeded", "late"),
        ),
    ],
)
def test_how_a_job_ended_is_what_its_conditions_say(conditions: list[dict[str, str]], end: object) -> None:
    assert job_tracker.ended({"status": {"conditions": conditions}}) == end


def test_a_job_without_a_status_runs() -> None:
    assert job_tracker.ended({}) is None


@pytest.mark.parametrize("message", ["", "no JSON", "[" * 100_000, "7", "[]", "null"])
def test_what_is_no_object_counts_as_nothing_said(message: str) -> None:
    assert job_tracker.termination_message({"message": message}) == {}


def test_the_latest_pod_and_its_containers_in_order() -> None:
    old: dict[str, Any] = {"metadata": {"creationTimestamp": "2027-03-01T12:00:01Z"}}
    new: dict[str, Any] = {"metadata": {"creationTimestamp": "2027-03-01T12:00:02Z"}}
    new["status"] = {
        "containerStatuses": [{"name": "last", "state": {"running": {}}}],
        "initContainerStatuses": [{"name": "first", "state": {"terminated": {"message": '{"a": 1}'}}}],
    }  # fmt: skip
    assert job_tracker.latest_pod([old, new, old]) is new
    assert job_tracker.latest_pod([]) == {}
    first, last = job_tracker.container_statuses(new)
    assert (first["name"], last["name"]) == ("first", "last")
    assert job_tracker.termination_message(job_tracker.terminated(first)) == {"a": 1}
    assert job_tracker.terminated(last) == {}
