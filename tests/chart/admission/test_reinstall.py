"""The release is removed with its namespace and installed again, while the apiserver goes on running.

With the last binding that names a built-in kind the apiserver stops following that kind's objects, and it does not
begin again when the next one comes: what it knows of Leases is what it knew then (kubernetes/kubernetes#130887).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.chart import cluster as clusters
from tests.chart.admission import callers
from tests.chart.admission.callers import HOME, Caller
from tests.chart.admission.test_jobs import LEASE, create, lead, send, written
from tests.chart.rendering import CHART, Chart

pytestmark = pytest.mark.apiserver


def test_the_next_installation_is_not_held_up_by_the_lease_of_the_last_one(chart: Chart, tmp_path: Path) -> None:
    """On an apiserver of its own, which is not the same afterwards."""
    with clusters.running(chart, tmp_path) as cluster, callers.administrator(cluster.kubeconfig) as admin:
        cluster.kubectl("create", "namespace", HOME)
        account = f"system:serviceaccount:{HOME}:jervis-operator"
        cluster.kubectl("create", "clusterrolebinding", "operator", "--clusterrole=cluster-admin", f"--user={account}")
        operator = Caller(admin.http, account)

        cluster.helm("install", "jervis", str(CHART), "-n", HOME)
        first = lead(admin, 6)
        callers.refused_soon(partial(create, operator, "late", 5, written(first), dry=True))
        cluster.helm("uninstall", "jervis", "-n", HOME)
        callers.accepted_soon(partial(create, operator, "late", 5, written(first), dry=True))
        callers.succeed(send(admin, "DELETE", LEASE, {}))

        cluster.helm("install", "jervis", str(CHART), "-n", HOME)
        second = lead(admin, 1)
        callers.refused_soon(partial(create, operator, "late", 0, written(first), dry=True))
        callers.succeed(create(operator, "run", 1, written(second)))
