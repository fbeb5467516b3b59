"""A real apiserver takes all of it, under restricted pod security."""

from __future__ import annotations

import json

import pytest

from hack.cluster import binaries
from tests.chart import rendering
from tests.chart.cluster import Cluster
from tests.chart.rendering import VARIANTS

pytestmark = pytest.mark.apiserver


def test_the_apiserver_is_of_the_version_that_was_asked_for(installed: Cluster) -> None:
    assert json.loads(installed.kubectl("get", "--raw", "/version"))["gitVersion"] == binaries.apiserver().version


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_pod_passes_the_restricted_standard(installed: Cluster, variant: str) -> None:
    refused = {}
    for name, template in rendering.pods(installed.chart.render(*VARIANTS[variant])):
        spec = {**template["spec"], "serviceAccountName": "default"}
        metadata = {"name": "probe", "namespace": "jervis", "labels": template["metadata"]["labels"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        installed.kubectl("-n", "jervis", "get", "namespace", "jervis")
        result = installed.try_kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", document=pod)
        if result.returncode != 0:
            refused[name] = result.stderr
    assert not refused


def test_the_standard_is_really_enforced_here(installed: Cluster) -> None:
    container = {"name": "c", "image": "x", "securityContext": {"privileged": True}}
    metadata = {"name": "probe", "namespace": "jervis"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    result = installed.try_kubectl("create", "--dry-run=server", "-f", "-", document=pod)
    assert "violates PodSecurity" in result.stderr


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_object_is_accepted(installed: Cluster, variant: str) -> None:
    """A server-side dry run with strict field validation; only kinds of the Prometheus operator are not known here."""
    known = [
        m for m in installed.chart.render(*VARIANTS[variant], namespace="empty")
        if not m["apiVersion"].startswith("monitoring.coreos.com/")
    ]  # fmt: skip
    listed = {"apiVersion": "v1", "kind": "List", "items": known}
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    # A pod, such as one of `helm test`, is refused where its account is not there.
    accounts = [m for m in known if m["kind"] == "ServiceAccount"]
    installed.kubectl(*apply, document={"apiVersion": "v1", "kind": "List", "items": accounts})
    output = installed.kubectl(*apply, "--dry-run=server", "--validate=strict", document=listed)
    assert len(output.splitlines()) == len(known)
