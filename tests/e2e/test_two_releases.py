"""A second release of the same name in a namespace of its own, beside the first: both work, both are read by the same
Prometheus, and the first does not notice that the second is uninstalled.

They share the cluster, MongoDB and Weaviate as charts/jervis/README.md, "Several releases in one cluster", has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from crds.phases import Phase
from hack.cluster import progress
from hack.demo import release
from hack.demo.kubectl import Kubectl
from tests.e2e import prometheus
from tests.e2e.conftest import NAMESPACE, VALUES
from tests.e2e.site import Site
from tests.e2e.test_kill import work

_SECOND = f"{NAMESPACE}-second"
_DATABASE = "jervis_second"
_MONITORED = {"monitoring": {kind: {"enabled": True} for kind in ("serviceMonitor", "prometheusRule")}}
_ITS_OWN = {
    "mongodb": {"database": _DATABASE},
    "kb": {"settings": {"index": "second"}, "terminationGracePeriodSeconds": 5},
    "router": {"terminationGracePeriodSeconds": 5},
    "watchNamespaceSelector": {"matchLabels": {"jervis.dev/e2e": "tenant-of-the-second"}},
}
_READ = {
    "operator": "jervis_operator_",
    "router": "jervis_router_",
    "kb-write": "jervis_kb_",
    "sources": "jervis_sources_",
}
"""The processes that Prometheus reads, and how their metrics begin."""
_WIDE = ("clusterroles", "clusterrolebindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings")


@pytest.fixture
def first(site: Site) -> Iterator[Site]:
    """The release of all tests, with ServiceMonitors and alerts."""

    def monitored(enabled: str) -> None:
        site.upgrade(*(f"monitoring.{kind}.enabled={enabled}" for kind in _MONITORED["monitoring"]))

    with prometheus.kinds(site.kubectl):
        monitored("true")
        yield site
        monitored("false")


@pytest.fixture
def second(first: Site) -> Iterator[Site]:
    """The release beside it."""
    wanted = dataclasses.replace(first.wanted, namespace=_SECOND)
    cluster = Kubectl(first.kubectl.program, first.kubectl.kubeconfig, _SECOND)
    report = progress.Progress()
    database = first.database.client[_DATABASE]
    try:
        release.install(wanted, cluster, report, release.overlaid(release.overlaid(VALUES, _MONITORED), _ITS_OWN))
        cluster.run("wait", "--for=condition=Ready", "gpubackends", "--all", "--timeout=60s", seconds=90)
        yield dataclasses.replace(first, kubectl=cluster, wanted=wanted, database=database)
    finally:
        release.remove(wanted, cluster, report)
        database.client.drop_database(_DATABASE)


def _pods(site: Site) -> dict[str, int]:
    """Restarts of each process of the release, by the pod's uid."""
    return {
        pod["metadata"]["uid"]: sum(one["restartCount"] for one in pod["status"]["containerStatuses"])
        for name in ("operator", "router", "kb", "ollama-gpu", "ollama-cpu")
        for pod in site.pods(f"app.kubernetes.io/component={name}")
    }


def _work(test: str, owner: str, *sites: Site) -> None:
    """A task in each of the releases reaches its end, in that release alone."""
    tasks = work(test, 1)
    for site in sites:
        site.apply(test, tasks, owner)
    for site in sites:
        (ended,) = site.ends(test, dict.fromkeys(tasks, Phase.COMPLETED)).values()
        assert len(site.results(ended)) == 1
        assert set(site.jobs([ended]).values()) == {1}


def _completed(site: Site) -> float:
    """How many tasks the release has completed, from its metrics; every process answers, and no other namespace's."""
    read = prometheus.scrape(site.kubectl)
    assert {target.monitor for target in read} == {f"jervis-{name}" for name in _READ}
    assert {target.namespace for target in read} == {site.kubectl.namespace}
    by_monitor = {target.monitor: samples for target, samples in read.items()}
    assert len(by_monitor) == len(read), "each process is read once"
    for name, prefix in _READ.items():
        assert any(sample.name.startswith(prefix) for sample in by_monitor[f"jervis-{name}"])
    operator = by_monitor["jervis-operator"]
    assert [sample.value for sample in operator if sample.name == "jervis_operator_leader"] == [1]
    moves = (sample for sample in operator if sample.name == "jervis_operator_transitions_total")
    return sum(sample.value for sample in moves if sample.labels["target"] == "Completed")


def _rules(site: Site) -> str:
    """The expressions of the release's alerts, one a line."""
    (rule,) = site.kubectl.items("prometheusrules")
    return "\n".join(alert["expr"] for group in rule["spec"]["groups"] for alert in group["rules"])


def test_neither_notices_the_other(second: Site, first: Site, owner: str) -> None:
    before, already = _pods(first), _completed(first)
    assert len(before) == len(_pods(second)) == 5

    _work("beside", owner, first, second)
    assert (_completed(first), _completed(second)) == (already + 1, 1)
    for one, other in ((first, second), (second, first)):
        assert f'namespace="{one.kubectl.namespace}"' in _rules(one)
        assert f'namespace="{other.kubectl.namespace}"' not in _rules(one)

    release.remove(second.wanted, second.kubectl, progress.Progress())
    assert second.kubectl.attempt("get", "namespace", _SECOND).returncode != 0
    left = [one for kind in _WIDE for one in first.kubectl.items(kind) if _SECOND in str(one["metadata"])]
    assert not left
    assert _pods(first) == before
    _work("alone-again", owner, first)
    assert _completed(first) == already + 2
