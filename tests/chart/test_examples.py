"""The values of examples/values: each renders, and says what its comments promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from router import settings
from tests.chart import arrows, policies, rendering
from tests.chart.policies import End
from tests.chart.rendering import Chart, Manifest
from tests.conftest import ROOT

VALUES = ROOT / "examples" / "values"
PRODUCTION = VALUES / "production.yaml"


def rendered(chart: Chart, *beside: str) -> list[Manifest]:
    files = [PRODUCTION, *(VALUES / f"{name}.yaml" for name in beside)]
    return chart.render(*(word for path in files for word in ("-f", str(path))))


@pytest.mark.parametrize("path", sorted(VALUES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_renders_beside_production(chart: Chart, path: Path) -> None:
    more = [] if path == PRODUCTION else [path.stem]
    assert rendered(chart, *more) != (rendered(chart) if more else chart.render())


def test_the_secrets_of_production_are_those_that_the_page_makes(chart: Chart) -> None:
    named = {
        entry["valueFrom"]["secretKeyRef"]["name"]
        for _, pod in rendering.pods(rendered(chart))
        for container in rendering.containers(pod)
        for entry in container.get("env", [])
        if "secretKeyRef" in entry.get("valueFrom", {})
    } | {
        volume["secret"]["secretName"]
        for _, pod in rendering.pods(rendered(chart))
        for volume in pod["spec"].get("volumes", [])
        if "secret" in volume
    }
    own = {m["metadata"]["name"] for m in rendered(chart) if m["kind"] == "Secret"}
    page = (ROOT / "docs" / "install.md").read_text()
    made = set(re.findall(r"^\$ kubectl -n jervis create secret generic (\S+)", page, re.MULTILINE))
    assert named - own == made


def test_the_image_of_production_is_the_one_that_the_page_builds(chart: Chart) -> None:
    [built] = re.findall(r"^\$ docker build -t (\S+) \.$", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    images = {c["image"] for _, pod in rendering.pods(rendered(chart)) for c in rendering.containers(pod)}
    assert images == {built}


def test_what_agents_use_stands_in_the_examples(chart: Chart) -> None:
    tools = yaml.safe_load((VALUES / "agents.yaml").read_text())["job"]["tools"]
    documents = [
        document
        for path in (ROOT / "examples" / "connections").glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
    ]
    types = {one["metadata"]["name"]: one["spec"]["type"] for one in documents if one["kind"] == "Connection"}
    used = {name: types[tools[name]] for name in tools if name.endswith("Connection")}
    assert used == {
        "gitConnection": "Git", "mailConnection": "Email", "trackerConnection": "Jira", "wikiConnection": "Confluence",
        "ciConnection": "GitHub",
    }  # fmt: skip
    roles = [one for one in rendered(chart, "agents") if one["kind"] == "Role"]
    readable = {name for one in roles for rule in one["rules"] if "secrets" in rule["resources"]
                for name in rule.get("resourceNames", ())}  # fmt: skip
    specs = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "Connection"}
    assert {specs[tools[name]]["secretRef"]["name"] for name in used} <= readable
    # The task beside them may use each.
    task = yaml.safe_load((ROOT / "examples" / "pendingtasks" / "agents.yaml").read_text())["spec"]
    for name in used:
        for field in ("clientId", "projectId", "groupId"):
            assert specs[tools[name]].get(field) in (None, task[field]), (name, field)


def test_the_data_services_are_where_production_looks(chart: Chart) -> None:
    services = {
        document["metadata"]["name"]: {port["port"] for port in document["spec"]["ports"]}
        for path in (ROOT / "examples" / "data").glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"] == "Service"
    }
    page = (ROOT / "docs" / "install.md").read_text()
    assert re.search(r"@mongodb\.jervis-data\.svc:27017/", page)
    values = yaml.safe_load(PRODUCTION.read_text())
    assert values["weaviate"]["url"] == "http://weaviate.jervis-data.svc:8080"
    assert services == {"mongodb": {27017}, "weaviate": {8080, 50051}}


def _asked(pod: Manifest, replicas: int) -> tuple[int, int]:
    """Millicores and MiB that the replicas of a pod ask for."""
    asked = [container["resources"]["requests"] for container in pod["spec"]["containers"]]
    cpu = sum(int(one["cpu"].removesuffix("m")) for one in asked)
    units = {"Mi": 1, "Gi": 1024}
    return cpu * replicas, sum(int(one["memory"][:-2]) * units[one["memory"][-2:]] for one in asked) * replicas


def test_the_page_has_what_the_release_asks_for(chart: Chart) -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    data = [
        document
        for path in (ROOT / "examples" / "data").glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
    ]
    for manifests in (chart.render(), rendered(chart), data):
        running = [m for m in manifests if m["kind"] in ("Deployment", "StatefulSet")]
        both = [_asked(m["spec"]["template"], m["spec"]["replicas"]) for m in running]
        said = f"{sum(cpu for cpu, _ in both) / 1000} CPU and {sum(memory for _, memory in both)} MiB"
        assert said in " ".join(page.split()), said


def test_teams_have_a_quota_and_limits_of_their_own(chart: Chart) -> None:
    manifests = rendered(chart, "teams")
    quotas = rendering.of_kind(manifests, "ResourceQuota")
    hard = {key.split("/")[0]: quota["spec"]["hard"] for key, quota in quotas.items()}
    assert hard["team-a"]["count/pendingtasks.jervis.dev"] == "500"
    assert hard["team-b"]["count/pendingtasks.jervis.dev"] == "200"
    policies = yaml.safe_dump([m for m in manifests if m["kind"] == "ValidatingAdmissionPolicy"])
    for limit in ("'team-a': ['acme']", "'team-b': ['globex']", "'team-b': ['Background']"):
        assert limit in policies.replace("''", "'"), limit


def test_runs_carry_the_label_of_kueue(chart: Chart) -> None:
    told = rendering.told(rendered(chart, "kueue"), "operator")
    assert "kueue.x-k8s.io/queue-name" in yaml.safe_dump(told)


def test_an_ingress_waits_as_long_as_the_router_and_takes_what_it_takes(chart: Chart) -> None:
    manifests = rendered(chart, "ingress")
    ingresses = rendering.of_kind(manifests, "Ingress")
    assert set(ingresses) == {"jervis/jervis-router", "jervis/jervis-kb-read"}
    assert all(ingress["spec"]["tls"] for ingress in ingresses.values())
    given = {
        key.partition("/")[2]: value
        for key, value in ingresses["jervis/jervis-router"]["metadata"]["annotations"].items()
    }
    router = settings.Settings()
    assert given["proxy-buffering"] == "False"
    seconds = int(given["proxy-read-timeout"].removesuffix("s"))
    # The queue's deadline ends when a backend is asked; then the first byte is waited for.
    answer = max(router.first_byte_seconds, router.cpu_first_byte_seconds, router.whole_answer_seconds)
    assert seconds >= router.deadlines[-1] + answer
    assert int(given["client-max-body-size"].removesuffix("m")) << 20 >= router.max_body_bytes
    page = (ROOT / "docs" / "router.md").read_text()
    for value in (f"nginx.org/{name}: " for name in given):
        assert value in page, value
    timeouts = re.findall(r"(?:-read-timeout|readTimeout)\b[^|]*?\b(\d{3,})s?\b", page)
    assert timeouts == [str(seconds)] * 3
    rules = rendering.of_kind(manifests, "NetworkPolicy").values()
    controller = End("nginx-ingress", {"app": "nginx-ingress"})
    for component, port in (("router", 11430), ("kb", 8080)):
        assert policies.allows(list(rules), controller, arrows.end(manifests, component), port), component


def test_prometheus_may_scrape_what_is_monitored(chart: Chart) -> None:
    manifests = rendered(chart, "monitoring")
    assert rendering.of_kind(manifests, "ServiceMonitor")
    assert rendering.of_kind(manifests, "PrometheusRule")
    for name, policy in rendering.of_kind(manifests, "NetworkPolicy").items():
        if name.endswith(("-operator", "-router", "-kb")):
            assert "monitoring" in yaml.safe_dump(policy["spec"]["ingress"]), name
