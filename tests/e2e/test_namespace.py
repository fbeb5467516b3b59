"""`kubectl delete namespace` of a watched namespace under load, by the real namespace controller.

The tenant's namespace joins by its label. Its runs, which live in the release's namespace, are removed with it; tasks
of the release's namespace end as before, and the operator is not restarted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from crds.phases import HOLDS_SLOT, Phase
from hack.demo.kubectl import Kubectl
from tests.e2e.conftest import JOINS, NAMESPACE
from tests.e2e.simulator import GATE, Simulator
from tests.e2e.site import UID_LABEL, Document, Site
from tests.e2e.test_kill import work
from tests.waiting import until

_TEST = "namespace"
_TENANT = f"{NAMESPACE}-tenant"
_SLOTS = 2
_WAITING, _OURS = 6, 4


@pytest.fixture
def tenant(site: Site) -> Iterator[Site]:
    """A namespace that the operator serves for as long as it is there."""
    site.kubectl.run("delete", "namespace", _TENANT, "--ignore-not-found", "--wait=true", seconds=180)
    labels = {"metadata": {"name": _TENANT, "labels": JOINS}}
    site.kubectl.apply([{"apiVersion": "v1", "kind": "Namespace", **labels}])
    yield dataclasses.replace(site, kubectl=Kubectl(site.kubectl.program, site.kubectl.kubeconfig, _TENANT))
    site.kubectl.run("delete", "namespace", _TENANT, "--ignore-not-found", "--wait=true", seconds=180)


def _restarts(site: Site) -> tuple[str, int]:
    """The operator's pod, and how often its container was started again."""
    pod = site.component("operator")
    (container,) = pod["status"]["containerStatuses"]
    return pod["metadata"]["uid"], int(container["restartCount"])


def _jobs(site: Site, uids: set[str]) -> list[Document]:
    return [one for one in site.kubectl.items("jobs", "-l", UID_LABEL) if one["metadata"]["labels"][UID_LABEL] in uids]


def test_the_other_namespace_does_not_notice(site: Site, tenant: Site, owner: str, gpu: Simulator) -> None:
    before = _restarts(site)
    # The tenant's runs hold every slot and would hold it for ever; what comes after them waits.
    gpu.faults({"match": {"tag": "job.respond/v1"}, "times": _SLOTS, "stall": {"afterBytes": 0, "gate": GATE}})
    tenant.apply(_TEST, work("tenant", _SLOTS + _WAITING), f"{owner}-tenant")
    until(lambda: gpu.waiting() == _SLOTS, "every slot is the tenant's")
    uids = {task.metadata.uid for task in tenant.kubectl.tasks()}
    at_work = {task.metadata.uid for task in tenant.kubectl.tasks() if task.status.phase in HOLDS_SLOT}
    assert (len(uids), len(at_work)) == (_SLOTS + _WAITING, _SLOTS)
    assert {one["metadata"]["namespace"] for one in _jobs(site, uids)} == {NAMESPACE}
    assert tenant.kubectl.items("jobs") == [], "a tenant's namespace holds no run"

    ours = work("ours", _OURS)
    site.apply(_TEST, ours, owner)
    site.kubectl.run("delete", "namespace", _TENANT, "--wait=true", seconds=180)
    assert site.kubectl.attempt("get", "namespace", _TENANT).returncode != 0

    ended = site.ends(_TEST, dict.fromkeys(ours, Phase.COMPLETED))
    assert {task.status.attempt for task in ended.values()} == {1}
    assert [len(site.results(task)) for task in ended.values()] == [1] * _OURS
    until(lambda: not _jobs(site, uids), "the Jobs of the tenant's tasks are removed")
    until(lambda: not any(site.pods(f"{UID_LABEL}={uid}") for uid in uids), "their pods as well")
    assert _restarts(site) == before

    # A namespace of that name joins again, with nothing of the former one.
    site.kubectl.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _TENANT, "labels": JOINS}}])
    again = work("again", 1)
    tenant.apply(_TEST, again, f"{owner}-tenant")
    tenant.ends(_TEST, dict.fromkeys(again, Phase.COMPLETED))
    assert _restarts(site) == before
