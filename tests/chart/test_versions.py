"""The oldest Kubernetes: what the chart takes, what is tested and what is written are one version. And two of Helm."""

from __future__ import annotations

import re

import pytest
import yaml

from hack.cluster import binaries, progress
from tests.chart.rendering import CHART, VARIANTS, Chart

DOCS = CHART.parents[1] / "docs"


def oldest() -> tuple[int, int]:
    """Major and minor of the oldest apiserver that `make test-versions` runs."""
    major, minor, _ = binaries.APISERVERS["oldest"].version.removeprefix("v").split(".")
    return int(major), int(minor)


def test_the_chart_takes_the_oldest_version_that_is_tested_and_none_before(chart: Chart) -> None:
    major, minor = oldest()
    wanted = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    assert wanted == f">={major}.{minor}-0"
    for version, taken in ((f"{major}.{minor}.0", True), (f"{major}.{minor - 1}.99", False)):
        found = chart.run("template", "jervis", str(CHART), "-n", "jervis", "--kube-version", version)
        assert (found.returncode == 0) is taken, found.stderr


@pytest.mark.skipif(binaries.helm() is binaries.HELM, reason="JERVIS_TEST_HELM names no second version")
@pytest.mark.parametrize("variant", VARIANTS)
def test_both_versions_of_helm_render_the_same(chart: Chart, variant: str) -> None:
    older = Chart(binaries.program(binaries.HELM, "helm", progress.Progress()))
    # The key is random where the release makes it.
    arguments = (*VARIANTS[variant], "--set", "runToken.existingSecret=keys")
    assert chart.render(*arguments) == older.render(*arguments)


def test_the_documents_name_that_version() -> None:
    version = "{}.{}".format(*oldest())
    testing = (DOCS / "testing.md").read_text()
    assert re.findall(r"^([0-9.]+) is the oldest supported version", testing, flags=re.MULTILINE) == [version]
    assert re.findall(r"builds the kube-apiserver of (\S+)", testing) == [
        binaries.APISERVERS["oldest"].version.removeprefix("v")
    ]
    for path in (DOCS / "admission.md", CHART / "README.md"):
        assert re.findall(r"Kubernetes ([0-9.]+) or newer", path.read_text()) == [version], path.name
