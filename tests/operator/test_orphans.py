"""A watch that lost its place tells of no pod that went away meanwhile: the API is asked."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from controllers import kube
from controllers.pendingtask import index, job, orphans
from tests.operator.conftest import Space

pytestmark = pytest.mark.apiserver


def pod(name: str, space: Space) -> kube.Object:
    labels = {job.UID_LABEL: "gone", job.ATTEMPT_LABEL: "1"}
    meta = {"name": name, "namespace": space.name, "uid": name, "resourceVersion": "1", "labels": labels}
    meta["creationTimestamp"] = "2027-03-01T12:00:00Z"
    return {"metadata": meta, "status": {"phase": "Running"}}


async def test_a_pod_that_is_not_there_any_more_holds_no_slot(kubeconfig: Path, space: Space) -> None:
    loaded = kube.configuration(str(kubeconfig))
    session = kube.session(loaded)
    api = kube.Kube(loaded, session, fence=lambda: None)
    tasks, workloads, changes = index.Tasks(lambda: datetime.now(UTC)), index.Workloads(), list[int]()
    watcher = orphans.Orphans(
        api, [space.name], tasks, workloads, changed=lambda: changes.append(1), wall=lambda: datetime.now(UTC)
    )
    await watcher.verify()
    assert changes == [], "nothing is in doubt"
    workloads.observe_pod(pod("ghost", space))
    there = pod("there", space)["metadata"] | {"uid": None, "resourceVersion": None}
    containers = [{"name": job.CONTAINER, "image": "fake"}]
    body: kube.Object = {"metadata": there, "spec": {"containers": containers, "automountServiceAccountToken": False}}
    await api.create(kube.PODS, space.name, body)
    await watcher.verify()
    assert [one.name for one in workloads.pods("gone")] == ["there"]
    await api.delete(kube.PODS, space.name, "there")
    await watcher.verify()
    assert workloads.pods("gone") == ()
    assert workloads.occupied(datetime.now(UTC), but=()) == {}
    assert len(changes) == 2
    await session.close()
