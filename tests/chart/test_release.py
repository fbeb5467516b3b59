"""The life of a release: installed, upgraded, uninstalled, beside another one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.chart import cluster as clusters
from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART, Chart
from tests.conftest import ROOT

pytestmark = pytest.mark.apiserver

WATCHED = ("--set", "watchNamespaces={team-a,team-b}")


@pytest.fixture(scope="module")
def fresh(chart: Chart, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of its own without the kinds: what is installed changes."""
    with clusters.running(chart, tmp_path_factory.mktemp("release")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ready(chart: Chart, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same with the kinds, as the first release of a cluster leaves them."""
    with clusters.running(chart, tmp_path_factory.mktemp("ready")) as cluster:
        cluster.kubectl("apply", "--server-side", "-f", str(CHART.parents[1] / "crds"))
        yield cluster


def test_backends_of_the_first_install_are_adopted_and_leave_with_the_release(fresh: Cluster) -> None:
    """The order matters, so it is one test: install, the hook's objects, upgrade, upgrade, uninstall, install again."""
    values = ("--set", "simulator.enabled=true", *WATCHED)
    fresh.helm("install", "jervis", str(CHART), "-n", "jervis", *WATCHED)
    rendered = fresh.chart.render("--set", "simulator.enabled=true")
    late = [m for m in rendered if m["kind"] == "GpuBackend"]
    assert [m["metadata"]["annotations"]["helm.sh/hook"] for m in late] == ["post-install", "post-install"]
    waiter = next(m for m in rendered if m["kind"] == "Job")
    weights = [int(m["metadata"]["annotations"]["helm.sh/hook-weight"]) for m in (waiter, *late)]
    assert weights == sorted(weights)
    assert weights[0] < weights[1]
    # No kubelet runs here, so the hook's Job could never end: its objects are made as the hook would make them.
    for manifest in late:
        fresh.kubectl("apply", "--server-side", "--field-manager=helm", "-f", "-", document=manifest)
    before = {m["metadata"]["name"]: m["metadata"]["uid"] for m in fresh.items("-n", "jervis", "gpu")}
    assert len(before) == 2

    fresh.helm("upgrade", "jervis", str(CHART), "-n", "jervis", *values)
    fresh.helm("upgrade", "jervis", str(CHART), "-n", "jervis", *values, "--set", "simulator.gpu.numParallel=3")
    after = {m["metadata"]["name"]: m["metadata"]["uid"] for m in fresh.items("-n", "jervis", "gpu")}
    assert after == before
    changed = {m["metadata"]["name"]: m["spec"]["numParallel"] for m in fresh.items("-n", "jervis", "gpu")}
    assert changed == {"jervis-ollama-gpu": 3, "jervis-ollama-cpu": 10}
    listed = [m for m in yaml.safe_load_all(fresh.helm("get", "manifest", "jervis", "-n", "jervis")) if m]
    assert len([m for m in listed if m["kind"] == "GpuBackend"]) == 2
    assert not [m for m in listed if m["kind"] == "Job"]

    fresh.helm("uninstall", "jervis", "-n", "jervis")
    assert fresh.items("-n", "jervis", "gpu") == []
    kinds = {m["metadata"]["name"] for m in fresh.items("crd")}
    assert kinds == {"pendingtasks.jervis.dev", "connections.jervis.dev", "gpubackends.jervis.dev"}
    assert fresh.items("-n", "jervis", "deploy,role,networkpolicy") == []
    fresh.helm("install", "jervis", str(CHART), "-n", "jervis", *values)
    assert len(fresh.items("-n", "jervis", "gpu")) == 2


def test_two_releases_share_a_cluster(ready: Cluster) -> None:
    ready.kubectl("create", "namespace", "second")
    ready.helm("install", "jervis", str(CHART), "-n", "second", "--set", "crds.enabled=false,simulator.enabled=true")
    assert len(ready.items("-n", "second", "gpu")) == 2


def test_an_upgrade_leaves_the_number_of_pods_to_the_autoscaler(ready: Cluster) -> None:
    ready.kubectl("create", "namespace", "scaled")
    values = ("--set", "crds.enabled=false,tika.enabled=true,tika.autoscaling.enabled=true")
    ready.helm("install", "jervis", str(CHART), "-n", "scaled", *values)
    ready.kubectl("scale", "-n", "scaled", "deployment/jervis-tika", "--replicas=3")  # as the autoscaler would
    ready.helm("upgrade", "jervis", str(CHART), "-n", "scaled", *values, "--set", "commonLabels.changed=yes")
    [tika] = ready.items("-n", "scaled", "deployment", "-l", "changed=yes,app.kubernetes.io/component=tika")
    assert tika["spec"]["replicas"] == 3


def of_the_backup_page(kind: str) -> list[str]:
    """The arguments of its one command that reads objects of a kind in the release's namespace."""
    page = (ROOT / "docs" / "backup.md").read_text()
    [line] = re.findall(rf"^\$ kubectl (-n jervis get {kind} .*?)(?: > \S+)?$", page, re.MULTILINE)
    return shlex.split(line)


def test_a_release_is_installed_again_with_the_secrets_of_a_backup(ready: Cluster, tmp_path: Path) -> None:
    install = ("install", "jervis", str(CHART), "-n", "jervis", "--set", "crds.enabled=false")
    ready.helm(*install)
    key = ("-n", "jervis", "get", "secret", "jervis-run-token", "-o", "jsonpath={.data.signing}")
    signing = ready.kubectl(*key)
    assert signing
    saved = tmp_path / "secrets.yaml"
    saved.write_text(ready.kubectl(*of_the_backup_page("secrets")))
    ready.helm("uninstall", "jervis", "-n", "jervis")
    assert not ready.items("-n", "jervis", "secrets")
    ready.kubectl("-n", "jervis", "apply", "-f", str(saved))
    ready.helm(*install)
    assert ready.kubectl(*key) == signing


def test_a_backup_waits_for_each_run_that_writes_or_may_begin_to(ready: Cluster) -> None:
    ready.kubectl("create", "namespace", "runs")
    ready.kubectl("create", "serviceaccount", "default", "-n", "runs")
    for phase in ("Pending", "Running", "Succeeded", "Failed"):
        labels = {"jervis.dev/task-uid": phase}
        spec = {"containers": [{"name": "run", "image": "jervis"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": phase.lower(), "labels": labels}, "spec": spec}
        ready.kubectl("-n", "runs", "create", "-f", "-", document=pod)
        status = f'{{"status": {{"phase": "{phase}"}}}}'
        ready.kubectl("-n", "runs", "patch", "pod", phase.lower(), "--subresource=status", "-p", status)
    command = ["runs" if word == "jervis" else word for word in of_the_backup_page("pods")]
    listed = ready.kubectl(*command, "-o", "name").split()
    assert sorted(listed) == ["pod/pending", "pod/running"]


def test_the_notes_tell_the_truth(ready: Cluster) -> None:
    """What stands in for a model is called a simulator, and the task in the notes is one that the apiserver takes."""
    ready.kubectl("create", "namespace", "notes")
    install = ("install", "jervis", str(CHART), "-n", "notes", "--set", "crds.enabled=false")
    ready.helm(*install)
    plain = ready.helm("get", "notes", "jervis", "-n", "notes")
    assert "SIMULATOR" not in plain
    assert "No GpuBackend comes with this release" in plain
    documents = [part.partition("<<EOF\n")[2].partition("    EOF")[0] for part in plain.split("kubectl apply")[1:]]
    tried = [yaml.safe_load(document) for document in documents]
    assert [manifest["kind"] for manifest in tried] == ["GpuBackend", "PendingTask"]
    for manifest in tried:
        ready.kubectl("create", "-n", "notes", "--dry-run=server", "--validate=strict", "-f", "-", document=manifest)
    ready.helm("uninstall", "jervis", "-n", "notes")
    switches = "simulator.enabled=true,networkPolicy.enabled=false,admission.enabled=false"
    ready.helm(*install, "--set", switches)
    simulated = ready.helm("get", "notes", "jervis", "-n", "notes")
    assert "*** SIMULATOR" in simulated
    assert "NetworkPolicies are off" in simulated
    assert "ValidatingAdmissionPolicies are off" in simulated
    assert "ValidatingAdmissionPolicies" not in plain
