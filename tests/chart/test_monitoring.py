"""Alerts and the dashboard ask for metrics that the processes really have; runbooks and alerts belong together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from controllers import metrics as operator_metrics
from kb import metrics as kb_metrics
from router import metrics as router_metrics
from router import status
from sources import metrics as sources_metrics
from tests.chart import rendering
from tests.chart.rendering import CHART, Chart, Manifest

RUNBOOKS = CHART.parents[1] / "docs" / "runbooks.md"
ON = ("serviceMonitor", "prometheusRule", "dashboard")
_METRIC = re.compile(r"\bjervis_[a-z0-9_]+")
_LABELS = re.compile(r"(jervis_[a-z0-9_]+)\{([^}]*)\}")
# What Prometheus itself puts on every series, and what histograms have.
GIVEN = {"namespace", "le"}


def known() -> dict[str, set[str]]:
    """{series name: its labels} of the four processes."""
    registry = CollectorRegistry()
    operator_metrics.Metrics(registry)
    kb_metrics.Metrics(registry)
    router_metrics.Metrics(registry, now=lambda: 0.0)
    sources_metrics.Metrics(registry)
    found: dict[str, set[str]] = {}
    # Names and labels of families without samples are not public: a plain meter has its labels itself, a collector of
    # the router's has them in the families that it describes.
    for collector, names in registry._collector_to_names.items():
        describe = getattr(collector, "describe", None)
        families = [collector, *(describe() if describe else ())]
        labels = set().union(*(getattr(family, "_labelnames", ()) for family in families))
        found |= dict.fromkeys(names, labels)
    backend = status.Backend(
        name="gpu-0", kind="GPU", url="http://gpu-0", healthy=True, circuit="Closed", in_flight=1, num_parallel=1,
        models=[], loaded=[],
    )  # fmt: skip
    queue = status.Queue(waiting=1, by_priority={"P0": 1}, oldest_seconds=2.0)
    document = status.Status(backends=[backend], queue=queue)
    for family in router_metrics.Gauges(lambda: document, {}, {}).collect():
        labels = set().union(*(sample.labels for sample in family.samples))
        found |= dict.fromkeys([family.name, *(sample.name for sample in family.samples)], labels)
    return found


@pytest.fixture(scope="module")
def rendered(chart: Chart) -> list[Manifest]:
    return chart.render(*(part for name in ON for part in ("--set", f"monitoring.{name}.enabled=true")))


def alerts_of(rendered: list[Manifest]) -> list[Manifest]:
    rule = rendering.of_kind(rendered, "PrometheusRule")["jervis/jervis"]
    return [alert for group in rule["spec"]["groups"] for alert in group["rules"]]


def expressions(rendered: list[Manifest]) -> Iterator[tuple[str, str]]:
    """(where, PromQL) of everything that is asked."""
    for alert in alerts_of(rendered):
        yield alert["alert"], alert["expr"]
    config = rendering.of_kind(rendered, "ConfigMap")["jervis/jervis-dashboard"]
    for panel in json.loads(config["data"]["jervis.json"])["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def test_every_metric_exists_with_its_labels(rendered: list[Manifest]) -> None:
    series = known()
    asked = 0
    for where, expression in expressions(rendered):
        names = _METRIC.findall(expression)
        assert names, where
        for name in names:
            assert name in series, f"{where}: no process exports {name}"
            asked += 1
        for name, selector in _LABELS.findall(expression):
            used = {part.split("=")[0].strip("!~ ") for part in selector.split(",")}
            assert used <= series[name] | GIVEN, f"{where}: {name} has no label {used - series[name]}"
        grouped = {label.strip() for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(",")}
        reachable = GIVEN.union(*(series[name] for name in names))
        assert grouped <= reachable, f"{where}: nothing has {grouped - reachable}"
    assert asked > 40


def test_no_label_is_one_that_prometheus_puts_there_itself() -> None:
    """It would be renamed to exported_..., and alerts would group by where the process runs instead."""
    own = {"namespace", "pod", "container", "service", "endpoint", "instance", "job"}
    assert {name: labels & own for name, labels in known().items() if labels & own} == {}


@pytest.mark.parametrize(
    "name",
    [
        "jervis_operator_namespace",
        "jervis_operator_undecided_total",
        "jervis_operator_corrections_total",
        "jervis_operator_dispatch_breaker_open",
        "jervis_operator_removal_held",
        "jervis_operator_archive_rejected",
    ],
)
def test_a_state_that_needs_a_person_ends_in_an_alert(rendered: list[Manifest], name: str) -> None:
    alerts = [expression for where, expression in expressions(rendered) if where.startswith("Jervis")]
    assert any(name in _METRIC.findall(expression) for expression in alerts)


def test_gauges_of_several_replicas_are_not_added_up(rendered: list[Manifest]) -> None:
    """A replica that stands by knows the same tasks: of the operator's gauges only the leader may be counted."""
    registry = CollectorRegistry()
    operator_metrics.Metrics(registry)
    gauges = {family.name for family in registry.collect() if family.type == "gauge"} - {"jervis_operator_leader"}
    for where, expression in expressions(rendered):
        for name in re.findall(r"sum(?: by \([^)]*\))? ?\((jervis_[a-z0-9_]+)", expression):
            assert name not in gauges, f"{where}: sum of {name}"


def test_every_alert_says_what_to_do(rendered: list[Manifest]) -> None:
    alerts = alerts_of(rendered)
    assert len({alert["alert"] for alert in alerts}) == len(alerts) >= 10
    for alert in alerts:
        assert alert["alert"].startswith("Jervis")
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
        assert re.fullmatch(r"[0-9]+m", alert["for"])
        assert alert["expr"].count("(") == alert["expr"].count(")")


def test_every_selector_names_the_release(chart: Chart) -> None:
    """Where several releases share one Prometheus, each has alerts about itself alone."""
    objects = chart.render("--set", "monitoring.prometheusRule.enabled=true", namespace="team-a")
    rule = rendering.of_kind(objects, "PrometheusRule")["team-a/jervis"]
    assert "$(" not in json.dumps(rule)
    for group in rule["spec"]["groups"]:
        for alert in group["rules"]:
            expression = alert["expr"]
            assert len(_METRIC.findall(expression)) == expression.count('namespace="team-a"'), alert["alert"]


def _sections() -> dict[str, str]:
    """{heading: text} of the runbooks."""
    parts = re.split(r"^### (.+)$", RUNBOOKS.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_alert_has_its_runbook(rendered: list[Manifest]) -> None:
    links = {alert["alert"]: alert["annotations"]["runbook_url"] for alert in alerts_of(rendered)}
    assert set(links) == set(_sections())
    for alert, link in links.items():
        path, _, anchor = link.partition("#")
        assert (CHART.parents[1] / path).samefile(RUNBOOKS)
        assert anchor == alert.lower(), "as the heading is linked to"


def test_every_runbook_says_what_to_look_at_and_what_to_do() -> None:
    series = known()
    for alert, text in _sections().items():
        assert [text.count(f"**{part}.**") for part in ("Means", "Look", "Fix")] == [1, 1, 1], alert
        assert re.search(r"^```\n\S", text.partition("**Look.**")[2].partition("**Fix.**")[0], re.MULTILINE), alert
        assert set(_METRIC.findall(text)) <= set(series), alert


def test_the_runbooks_may_be_elsewhere(chart: Chart) -> None:
    place = "https://wiki.example.com/jervis"
    objects = chart.render(
        "--set", f"monitoring.prometheusRule.enabled=true,monitoring.prometheusRule.runbooks={place}"
    )
    text = json.dumps(rendering.of_kind(objects, "PrometheusRule")["jervis/jervis"])
    assert f"{place}#jervisnoleader" in text
    assert "docs/runbooks.md" not in text


def test_a_service_monitor_takes_what_the_values_give(chart: Chart) -> None:
    given = {
        "interval": "1m",
        "scrapeTimeout": "30s",
        "relabelings": [{"targetLabel": "cluster", "replacement": "west"}],
        "metricRelabelings": [{"sourceLabels": ["__name__"], "regex": ".*_bucket", "action": "drop"}],
    }
    values = {"enabled": True, "labels": {"release": "prometheus"}, **given}
    objects = chart.render("--set-json", f"monitoring.serviceMonitor={json.dumps(values)}")
    monitors = rendering.of_kind(objects, "ServiceMonitor").values()
    assert len(monitors) == 3
    for monitor in monitors:
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        (endpoint,) = monitor["spec"]["endpoints"]
        assert {key: endpoint[key] for key in given} == given


@pytest.mark.parametrize(
    ("values", "warns"),
    [
        ("monitoring.serviceMonitor.enabled=true", True),
        ("monitoring.serviceMonitor.enabled=true,networkPolicy.enabled=false", False),
        (
            "monitoring.serviceMonitor.enabled=true,networkPolicy.monitoring[0].podSelector.matchLabels.app=prometheus",
            False,
        ),
        ("monitoring.serviceMonitor.enabled=false", False),
    ],
    ids=["shut", "without policies", "let in", "off"],
)
def test_the_notes_say_when_no_prometheus_is_let_in(chart: Chart, tmp_path: Path, values: str, warns: bool) -> None:
    said = chart.notes(tmp_path, "--set", values)
    assert ("networkPolicy:\n      monitoring:" in said) is warns


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), {"jervis-operator", "jervis-router", "jervis-kb-write"}),
        (
            ("--set", "kb.profile=distributed,arangodb.url=http://graph:8529"),
            {"jervis-operator", "jervis-router", "jervis-kb-read", "jervis-kb-write"},
        ),
    ],
    ids=["local", "distributed"],
)
def test_every_process_is_scraped_once(chart: Chart, arguments: tuple[str, ...], expected: set[str]) -> None:
    rendered = chart.render("--set", "monitoring.serviceMonitor.enabled=true", *arguments)
    monitors = rendering.of_kind(rendered, "ServiceMonitor")
    assert {m["metadata"]["name"] for m in monitors.values()} == expected
    services = list(rendering.of_kind(rendered, "Service").values())
    for monitor in monitors.values():
        selector = monitor["spec"]["selector"]["matchLabels"].items()
        # The headless Service of a StatefulSet would double its pods.
        hit = [s for s in services if selector <= s["metadata"]["labels"].items()]
        assert [s["metadata"]["name"] for s in hit] == [monitor["metadata"]["name"]]
        ports = {port["name"] for port in hit[0]["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports


def test_nothing_of_it_is_there_by_default(chart: Chart) -> None:
    kinds = {m["kind"] for m in chart.render()}
    assert not kinds & {"ServiceMonitor", "PrometheusRule", "ConfigMap"}
