"""What the real Job controller makes of our Jobs: the promises of the manifest rest on it, not on a fake of ours."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from controllers.pendingtask import job
from crds import exit_reasons, pendingtask
from hack.cluster import binaries, progress
from tests import waiting
from tests.fakes import nodes
from tests.operator.conftest import Space
from tests.waiting import until

pytestmark = [pytest.mark.apiserver]


@pytest.fixture
def controller(kubeconfig: Path, tmp_path: Path) -> Iterator[None]:
    """kube-controller-manager with the Job controller and nothing else."""
    program = binaries.program(binaries.KUBERNETES, "kube-controller-manager", progress.Progress())
    options = ["--controllers=job-controller", "--leader-elect=false", "--secure-port=0", f"--kubeconfig={kubeconfig}"]
    with (tmp_path / "controller.log").open("wb") as log:
        process = subprocess.Popen([program, *options], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(waiting.PATIENCE)


class Run:
    """One Job as the operator makes it, and the kubelet's part in its life."""

    def __init__(self, space: Space, name: str) -> None:
        self._space = space
        made = pendingtask.PendingTask.model_validate(space.submit(name))
        self.name = job.name(name, made.metadata.uid, 1)
        where = ("http://kb", "http://router", "mongodb://m", "model")
        template = job.Template(space.name, "fake", "Never", "default", *where)
        space.batch.create_namespaced_job(space.name, job.manifest(made, 1, self.name, template))

    def pods(self) -> list[Any]:
        selector = f"job-name={self.name}"
        return list(self._space.core.list_namespaced_pod(self._space.name, label_selector=selector).items)

    def starts(self) -> str:
        """Name of the pod, once it is there and made to run."""
        until(lambda: any(not pod.metadata.deletion_timestamp for pod in self.pods()), "the controller made a pod")
        (pod,) = self.pods()
        name: str = pod.metadata.name
        target = client.V1Binding(
            metadata=client.V1ObjectMeta(name=name), target=client.V1ObjectReference(kind="Node", name="node")
        )
        with contextlib.suppress(ValueError):  # the client cannot read the answer to this call
            self._space.core.create_namespaced_pod_binding(name, self._space.name, target)
        self._is(name, "Running", {"running": {}})
        return name

    def ends(self, name: str, code: int) -> None:
        """The container exits; the kubelet tells, then lets the pod go if it was deleted."""
        self._is(name, "Failed", nodes.ended(code, {"exitReason": "Drained", "summary": ""}))
        if self._pod(name).metadata.deletion_timestamp:
            self._space.core.delete_namespaced_pod(name, self._space.name, grace_period_seconds=0)

    def suspend(self, suspend: bool) -> None:
        self._space.batch.patch_namespaced_job(self.name, self._space.name, {"spec": {"suspend": suspend}})

    def status(self) -> Any:
        return self._space.batch.read_namespaced_job(self.name, self._space.name).status

    def conditions(self) -> dict[str, str]:
        return {one.type: one.status for one in self.status().conditions or ()}

    def leaving(self, name: str) -> bool:
        return self._pod(name).metadata.deletion_timestamp is not None

    def _pod(self, name: str) -> Any:
        return self._space.core.read_namespaced_pod(name, self._space.name)

    def _is(self, name: str, phase: str, state: dict[str, Any]) -> None:
        body = {"status": nodes.pod_status(phase, state)}
        self._space.core.patch_namespaced_pod_status(name, self._space.name, body)


@pytest.mark.usefixtures("controller")
def test_a_suspended_job_survives_its_pods_exit_code_and_goes_on(space: Space) -> None:
    run = Run(space, "drains")
    pod = run.starts()
    run.suspend(True)
    until(lambda: run.leaving(pod), "the pod is asked to end")
    run.ends(pod, exit_reasons.DRAINED)
    until(lambda: not run.pods(), "it is gone")
    until(lambda: run.conditions().get("Suspended") == "True", "the Job is suspended")
    assert not run.conditions().keys() & {"Failed", "FailureTarget"}
    run.suspend(False)
    assert run.starts() != pod, "a new pod goes on"
    assert run.conditions().get("Failed") is None


@pytest.mark.usefixtures("controller")
def test_a_run_that_drains_by_itself_is_repeated_and_one_that_fails_is_not(space: Space) -> None:
    drains, fails = Run(space, "drains"), Run(space, "fails")
    pod = drains.starts()
    drains.ends(pod, exit_reasons.DRAINED)
    until(lambda: len(drains.pods()) == 2, "the Job makes another pod")
    fails.ends(fails.starts(), exit_reasons.FAILED)
    until(lambda: fails.conditions().get("Failed") == "True", "the operator decides what follows")
    assert len(fails.pods()) == 1
