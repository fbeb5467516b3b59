"""An installation of the chart with one tenant, who may do everything in the own namespace.

Real: apiserver with RBAC and the chart's policies, the operator with the account, the roles and the limits of the
chart, the tenant's own token. Played: the Job controller and the kubelet of the release's namespace.
"""

from __future__ import annotations

import os
import ssl
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pymongo
import yaml

from tests.chart import cluster as clusters
from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART, Chart
from tests.conftest import api_client
from tests.operator import process
from tests.operator.conftest import Space, ollama
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet
from tests.waiting import until

HOME, OWN = "walls", "walls-tess"
CONTROLLER = "system:serviceaccount:kube-system:job-controller"
FROM_THE_CHART = ("JERVIS_OPERATOR_ADMISSION", "JERVIS_OPERATOR_NAMESPACE_SELECTOR")
"""Variables of the operator that are taken from the installed Deployment."""


@dataclass(frozen=True)
class Walls:
    """The installation. `own` is the tenant's namespace by the tenant's token, `home` the release's by the admin's, and
    `tenant` a kubeconfig with the tenant's token."""

    cluster: Cluster
    home: Space
    own: Space
    tess: httpx.Client
    tenant: Path
    knowledge: Knowledge
    operator: process.Operator
    gpu: str

    def fence(self, name: str) -> None:
        """Return once the operator has taken in what was there before, in the tenant's namespace."""
        self.own.submit(name, "INFO", clientId="tess", mode="Background")
        until(lambda: self.own.phase(name) == "Done", "the operator works")


def access(admin: Path, token: str, to: Path) -> Path:
    """A kubeconfig with that token instead of the administrator's certificate."""
    document = yaml.safe_load(admin.read_text())
    document["users"][0]["user"] = {"token": token}
    to.write_text(yaml.safe_dump(document))
    return to


@contextmanager
def standing(chart: Chart, directory: Path, *values: str, **settings: object) -> Iterator[Walls]:
    """The release with these values in a cluster of its own for the length of the block; `settings` of the operator."""
    uri = os.environ.get("JERVIS_TEST_MONGODB_URI")
    assert uri, "JERVIS_TEST_MONGODB_URI is not set; `python -m hack.cluster services-up`, or -m 'not services'"
    database = f"test_walls_{uuid.uuid4().hex[:8]}"
    with ollama() as gpu, Knowledge().in_thread() as knowledge, clusters.running(chart, directory) as cluster:
        admin = api_client(cluster.kubeconfig)
        home, _ = Space(admin, HOME), Space(admin, OWN)
        cluster.helm("install", "jervis", str(CHART), "-n", HOME, *values)
        cluster.kubectl("create", "serviceaccount", "tess", "-n", OWN)
        everything = ("--clusterrole=cluster-admin", f"--serviceaccount={OWN}:tess")
        cluster.kubectl("create", "rolebinding", "tess", "-n", OWN, *everything)
        cluster.kubectl(
            "create", "clusterrolebinding", "controller", "--clusterrole=cluster-admin", f"--user={CONTROLLER}"
        )
        cluster.kubectl("create", "secret", "generic", "keys", "-n", HOME, "--from-literal=uri=mongodb://everything")
        token = cluster.kubectl("create", "token", "tess", "-n", OWN).strip()
        acting = cluster.kubectl("create", "token", "jervis-operator", "-n", HOME).strip()
        known = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
        tls = ssl.create_default_context(cafile=known["certificate-authority"])
        shown = {"Authorization": f"Bearer {token}"}
        tess = httpx.Client(base_url=known["server"], verify=tls, headers=shown, trust_env=False, timeout=60)
        tenant = access(cluster.kubeconfig, token, directory / "tess")
        own = Space(api_client(tenant), OWN, there=True)
        nodes = api_client(cluster.kubeconfig)
        nodes.set_default_header("Impersonate-User", CONTROLLER)
        served, told = _as_installed(cluster)
        options: dict[str, object] = {
            "KUBECONFIG": access(cluster.kubeconfig, acting, directory / "operator"),
            "NAMESPACE": HOME, "KB_URL": knowledge.url, "MONGODB_URI": uri, "MONGODB_DATABASE": database,
            "IDLE_SECONDS": 0, "PROBE_SECONDS": 1, "ARCHIVE_SECONDS": 3600, **told, **settings,
        }  # fmt: skip
        with (
            Kubelet(nodes, HOME, lambda *_: None),
            process.running(directory / "operator.log", served, **options) as operator,
        ):
            home.backend(gpu.url, slots=2)
            yield Walls(cluster, home, own, tess, tenant, knowledge, operator, gpu.url)
        tess.close()
    with pymongo.MongoClient[dict[str, Any]](uri) as mongo:
        mongo.drop_database(database)


def _as_installed(cluster: Cluster) -> tuple[list[str], dict[str, str]]:
    """Which namespaces the installed operator serves (none: all), and some of its settings."""
    (container,) = next(
        one["spec"]["template"]["spec"]["containers"]
        for one in cluster.items("deployment", "-n", HOME)
        if one["metadata"]["name"] == "jervis-operator"
    )
    served = [flag.removeprefix("--namespace=") for flag in container["args"] if flag.startswith("--namespace=")]
    variables: list[dict[str, Any]] = container["env"]
    told = {one["name"]: one.get("value", "") for one in variables if one["name"] in FROM_THE_CHART}
    return served, {name.removeprefix("JERVIS_OPERATOR_"): value for name, value in told.items()}
