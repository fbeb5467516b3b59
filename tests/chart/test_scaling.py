"""How many pods there are, and how many may be missing: autoscalers and disruption budgets."""

from __future__ import annotations

import pytest

from tests.chart import policies, rendering
from tests.chart.rendering import Chart, Manifest

DISTRIBUTED = "kb.profile=distributed,arangodb.url=http://graph:8529,tika.enabled=true"
AUTOSCALED = f"{DISTRIBUTED},kb.read.autoscaling.enabled=true,tika.autoscaling.enabled=true"


def test_an_autoscaler_has_the_number_of_pods_to_itself(chart: Chart) -> None:
    numbers = "kb.read.autoscaling.minReplicas=3,kb.read.autoscaling.maxReplicas=9"
    rendered = chart.render("--set", f"{AUTOSCALED},{numbers},kb.read.autoscaling.targetCPUUtilizationPercentage=70")
    autoscalers = rendering.of_kind(rendered, "HorizontalPodAutoscaler")
    deployments = rendering.of_kind(rendered, "Deployment")
    assert set(autoscalers) == {"jervis/jervis-kb-read", "jervis/jervis-tika"}
    for name, autoscaler in autoscalers.items():
        spec = autoscaler["spec"]
        assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": name.split("/")[1]}
        # A number in the Deployment would be set back at each upgrade.
        assert "replicas" not in deployments[name]["spec"]
        # Utilization is relative to what each container asks for.
        for container in rendering.containers(deployments[name]["spec"]["template"]):
            assert container["resources"]["requests"]["cpu"]
    spec = autoscalers["jervis/jervis-kb-read"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (3, 9)
    target = {"type": "Utilization", "averageUtilization": 70}
    assert spec["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def test_without_an_autoscaler_the_number_is_the_values(chart: Chart) -> None:
    rendered = chart.render("--set", f"{DISTRIBUTED},kb.read.replicas=5,tika.replicas=4")
    deployments = rendering.of_kind(rendered, "Deployment")
    assert deployments["jervis/jervis-kb-read"]["spec"]["replicas"] == 5
    assert deployments["jervis/jervis-tika"]["spec"]["replicas"] == 4
    assert not rendering.of_kind(rendered, "HorizontalPodAutoscaler")


@pytest.mark.parametrize("values", ["tika.enabled=true", AUTOSCALED], ids=["local", "distributed"])
def test_every_workload_has_one_budget(chart: Chart, values: str) -> None:
    rendered = chart.render("--set", values)
    budgets = rendering.of_kind(rendered, "PodDisruptionBudget")
    workloads: dict[str, Manifest] = {
        key: one for kind in ("Deployment", "StatefulSet") for key, one in rendering.of_kind(rendered, kind).items()
    }
    assert set(budgets) == set(workloads)
    for name, workload in workloads.items():
        labels = workload["spec"]["template"]["metadata"]["labels"]
        found = [key for key, one in budgets.items() if policies.selects(one["spec"]["selector"], labels)]
        assert found == [name]
