"""What the apiserver's authorizer says about the service accounts of an installed release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from tests.chart import cluster as clusters
from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART, Chart
from tests.conftest import api_client

pytestmark = pytest.mark.apiserver

# (account, namespace, verb, group, resource[/subresource], name of the object or "")
MAY = [
    ("operator", "jervis", "watch", "jervis.dev", "pendingtasks", ""),
    ("operator", "team-a", "patch", "jervis.dev", "pendingtasks/status", ""),
    ("operator", "jervis", "create", "batch", "jobs", ""),
    ("operator", "jervis", "delete", "batch", "jobs", ""),
    ("operator", "jervis", "list", "", "pods", ""),
    ("operator", "jervis", "create", "", "secrets", ""),
    ("operator", "jervis", "update", "", "secrets", ""),
    ("operator", "jervis", "create", "", "events", ""),
    ("operator", "jervis", "create", "coordination.k8s.io", "leases", ""),
    ("operator", "jervis", "update", "coordination.k8s.io", "leases", "jervis-operator"),
    ("operator", "jervis", "patch", "jervis.dev", "gpubackends/status", ""),
    ("operator", "jervis", "get", "", "secrets", "imap"),
    ("operator", "team-a", "get", "", "secrets", "imap"),
    ("operator", "", "create", "authentication.k8s.io", "tokenreviews", ""),
    ("operator", "team-a", "get", "", "namespaces", "team-a"),
    ("router", "jervis", "watch", "jervis.dev", "gpubackends", ""),
    ("router", "jervis", "patch", "jervis.dev", "gpubackends/status", ""),
    ("job", "jervis", "get", "", "services/proxy", "http:jervis-operator:history"),
]
MAY_NOT = [
    *(("operator", "team-a", verb, "batch", "jobs", "") for verb in ("get", "list", "create", "delete")),
    *(("operator", "team-a", verb, "", "pods", "") for verb in ("get", "list", "create")),
    *(("operator", "team-a", verb, "", "secrets", "") for verb in ("get", "list", "create", "update", "delete")),
    *(("operator", "jervis", verb, "", "secrets", "") for verb in ("patch", "watch", "delete", "deletecollection")),
    ("operator", "jervis", "get", "", "secrets", ""),
    ("operator", "jervis", "list", "", "secrets", ""),
    ("operator", "jervis", "get", "", "secrets", "other"),
    ("operator", "team-a", "get", "", "secrets", "other"),
    ("operator", "default", "get", "", "secrets", "imap"),
    *(
        ("operator", namespace, verb, "jervis.dev", f"{plural}/status", "")
        for plural in ("pendingtasks", "connections", "gpubackends")
        for namespace, verb in (("jervis", "get"), ("team-a", "get"), ("jervis", "update"))
    ),
    ("operator", "jervis", "patch", "jervis.dev", "connections", ""),
    ("operator", "jervis", "patch", "jervis.dev", "gpubackends", ""),
    ("operator", "jervis", "update", "jervis.dev", "pendingtasks/finalizers", ""),
    ("operator", "jervis", "patch", "", "events", ""),
    ("operator", "jervis", "patch", "coordination.k8s.io", "leases", "jervis-operator"),
    ("operator", "jervis", "update", "coordination.k8s.io", "leases", "another"),
    ("operator", "team-a", "create", "coordination.k8s.io", "leases", ""),
    ("operator", "jervis", "get", "", "pods/log", ""),
    ("operator", "jervis", "create", "", "pods/exec", ""),
    ("operator", "jervis", "create", "", "pods", ""),
    ("operator", "jervis", "create", "jervis.dev", "gpubackends", ""),
    ("operator", "default", "list", "jervis.dev", "pendingtasks", ""),
    ("operator", "default", "get", "", "namespaces", "default"),
    ("operator", "", "list", "", "namespaces", ""),
    ("operator", "team-a", "create", "", "serviceaccounts", ""),
    ("operator", "team-a", "create", "", "resourcequotas", ""),
    ("operator", "kube-system", "create", "batch", "jobs", ""),
    ("operator", "jervis", "create", "rbac.authorization.k8s.io", "roles", ""),
    ("router", "jervis", "patch", "jervis.dev", "gpubackends", ""),
    ("router", "team-a", "list", "jervis.dev", "gpubackends", ""),
    ("router", "jervis", "list", "jervis.dev", "pendingtasks", ""),
    ("router", "jervis", "list", "", "pods", ""),
    ("history", "jervis", "list", "jervis.dev", "pendingtasks", ""),
    ("history", "jervis", "create", "", "serviceaccounts/token", "jervis-history"),
    ("job", "jervis", "get", "", "services/proxy", "http:jervis-operator:metrics"),
    ("job", "jervis", "create", "", "serviceaccounts/token", "jervis-history"),
    ("kb", "jervis", "list", "jervis.dev", "pendingtasks", ""),
    ("kb", "jervis", "get", "", "secrets", ""),
    ("job", "jervis", "get", "jervis.dev", "pendingtasks", ""),
    ("job", "jervis", "list", "", "pods", ""),
]


# With agents.clusterState.enabled, and logs of team-a.
SHOWN = [
    *(("operator", "team-a", "list", "", one, "") for one in ("pods", "events", "services", "resourcequotas")),
    *(("operator", "team-b", "list", "apps", one, "") for one in ("deployments", "statefulsets", "daemonsets")),
    ("operator", "team-b", "list", "batch", "cronjobs", ""),
    ("operator", "team-b", "list", "discovery.k8s.io", "endpointslices", ""),
    ("operator", "team-a", "get", "", "pods/log", "any"),
]
NOT_SHOWN = [
    *(("operator", "team-a", verb, "", "pods", "") for verb in ("get", "watch", "create", "delete")),
    *(("operator", "team-a", "list", "", one, "") for one in ("secrets", "configmaps", "serviceaccounts")),
    ("operator", "team-b", "get", "", "pods/log", "any"),
    ("operator", "jervis", "get", "", "pods/log", "any"),
    ("operator", "jervis", "list", "apps", "deployments", ""),
    ("operator", "empty", "list", "", "pods", ""),
    ("operator", "", "list", "", "pods", ""),
    ("job", "team-a", "list", "", "pods", ""),
]
Question = tuple[str, str, str, str, str, str]


@pytest.fixture(scope="module")
def reviewer(installed: Cluster) -> Iterator[client.AuthorizationV1Api]:
    api = api_client(installed.kubeconfig)
    yield client.AuthorizationV1Api(api)
    api.close()


@pytest.fixture(scope="module")
def showing(chart: Chart, tmp_path_factory: pytest.TempPathFactory) -> Iterator[client.AuthorizationV1Api]:
    """Of a release that shows the state of its namespaces to runs."""
    with clusters.running(chart, tmp_path_factory.mktemp("showing")) as cluster:
        cluster.helm(
            "install", "jervis", str(CHART), "-n", "jervis", "--set", "watchNamespaces={team-a,team-b}",
            "--set", "agents.clusterState.enabled=true,agents.clusterState.logNamespaces={team-a}",
        )  # fmt: skip
        api = api_client(cluster.kubeconfig)
        yield client.AuthorizationV1Api(api)
        api.close()


def allowed(reviewer: client.AuthorizationV1Api, question: Question) -> bool:
    """The answer to a SubjectAccessReview."""
    account, namespace, verb, group, resource, name = question
    plural, _, subresource = resource.partition("/")
    attributes = client.V1ResourceAttributes(
        namespace=namespace, verb=verb, group=group, resource=plural, subresource=subresource, name=name
    )
    user = f"system:serviceaccount:jervis:jervis-{account}"
    groups = ["system:serviceaccounts", "system:serviceaccounts:jervis", "system:authenticated"]
    spec = client.V1SubjectAccessReviewSpec(user=user, groups=groups, resource_attributes=attributes)
    review: Any = reviewer.create_subject_access_review(client.V1SubjectAccessReview(spec=spec))
    return bool(review.status.allowed)


@pytest.mark.parametrize("question", MAY, ids="-".join)
def test_an_account_may(reviewer: client.AuthorizationV1Api, question: Question) -> None:
    assert allowed(reviewer, question)


@pytest.mark.parametrize("question", MAY_NOT, ids="-".join)
def test_an_account_may_not(reviewer: client.AuthorizationV1Api, question: Question) -> None:
    assert not allowed(reviewer, question)


def test_the_state_of_a_namespace_is_read_by_the_operator_alone_and_nothing_more(
    showing: client.AuthorizationV1Api,
) -> None:
    assert [one for one in SHOWN if not allowed(showing, one)] == []
    assert [one for one in NOT_SHOWN if allowed(showing, one)] == []
