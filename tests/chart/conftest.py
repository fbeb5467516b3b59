"""Helm, built once, and the chart rendered in every variant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster import binaries
from tests import needs
from tests.chart import cluster as clusters
from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART, VARIANTS, Chart, Manifest


@pytest.fixture(scope="session")
def helm() -> Path:
    """The Helm program of the tool cache, of the version that JERVIS_TEST_HELM says."""
    return needs.program(binaries.helm(), "helm")


@pytest.fixture(scope="session")
def chart(helm: Path) -> Chart:
    """The chart, to be rendered with any values."""
    return Chart(helm)


@pytest.fixture(scope="session", params=VARIANTS)
def manifests(request: pytest.FixtureRequest, chart: Chart) -> list[Manifest]:
    """The objects of each variant in turn."""
    return chart.render(*VARIANTS[request.param])


@pytest.fixture(scope="package")
def installed(chart: Chart, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The release on a fresh apiserver, with two watched namespaces and a Secret of a Connection; nobody changes it."""
    with clusters.running(chart, tmp_path_factory.mktemp("installed")) as cluster:
        cluster.helm(
            "install", "jervis", str(CHART), "-n", "jervis", "--set", "watchNamespaces={team-a,team-b}",
            "--set", "rbac.connectionSecrets={imap}",
        )  # fmt: skip
        yield cluster
