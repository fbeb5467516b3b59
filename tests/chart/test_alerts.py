"""The alerts, evaluated by Prometheus' own promtool: two releases of one name in one Prometheus, in two namespaces.

One of them is sick and the other one well. The alert must fire for the sick one, carry its namespace, and stay silent
about the other; then the two change places, so that no order of the releases hides a mistake.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from controllers import settings
from hack.cluster import binaries
from tests import needs
from tests.chart import rendering
from tests.chart.rendering import Chart, Manifest

NAMESPACES = ("one", "two")
_MINUTES = 90
"""Each series has a sample a minute; the alerts are looked at after the last one."""

Series = dict[str, str]
"""{metric{labels}: its samples, in promtool's notation}."""


class Case(NamedTuple):
    """What makes an alert fire, what does not, and which labels the alert has besides its namespace."""

    sick: Series
    well: Series
    labels: str = ""


def differs(series: str, sick: str, well: str, labels: str = "") -> Case:
    """One series tells the sick one from the well one."""
    return Case({series: sick}, {series: well}, labels)


def always(value: float) -> str:
    return f"{value}x{_MINUTES}"


def counting(step: float) -> str:
    return f"0+{step}x{_MINUTES}"


_SILENCE = ["0", "60", "120", "_"]
"""The age of a watch without events, until the operator is restarted and its metrics are there again."""
SILENT_ONCE = " ".join([*["5"] * (_MINUTES - 13), *_SILENCE, *["5"] * 10])
"""Ten minutes ago: the worst moment to look."""
SILENT_AGAIN = " ".join(_SILENCE * (_MINUTES // 4 + 1))

_LEADER, _WATCH = "jervis_operator_leader", 'jervis_operator_watch_age_seconds{watch="pendingtasks"}'
_WAITING, _MOVES = (
    'jervis_operator_waiting{queue="Gpu"}',
    'jervis_operator_transitions_total{source="New",target="Done"}',
)
_READY, _TASKS = 'jervis_operator_gpu_backends{ready="true"}', 'jervis_operator_tasks{phase="ReadyForGpu"}'
_GPU_0, _GPU_1 = (f'jervis_router_backend_healthy{{backend="gpu-{number}"}}' for number in (0, 1))
_QUEUE = 'jervis_router_queue_seconds_bucket{priority="P0",le="%s"}'
_JOBS, _REQUESTS = 'jervis_kb_queue_jobs_total{outcome="%s"}', 'jervis_kb_requests_total{route="/retrieve",status="%s"}'
_ANSWERS = 'jervis_kb_model_answers_total{prompt="extract",origin="%s"}'
_CORRECTIONS = 'jervis_operator_corrections_total{kind="connections",what="missed"}'
_DELEGATIONS = 'jervis_operator_delegations_total{agent="Coding",outcome="%s"}'
_SWEEPS = 'jervis_sources_sweeps_total{type="Email",outcome="%s"}'
_SOURCES = 'jervis_operator_connections{type="Email",ready="%s",reason="%s"}'

CASES: dict[str, list[Case]] = {
    "JervisNoLeader": [
        Case(
            {f'{_LEADER}{{pod="a"}}': always(0), f'{_LEADER}{{pod="b"}}': always(0)},
            {f'{_LEADER}{{pod="a"}}': always(0), f'{_LEADER}{{pod="b"}}': always(1)},
        ),
        Case({}, {_LEADER: always(1)}),
    ],
    "JervisWatchSilent": [differs(_WATCH, SILENT_AGAIN, SILENT_ONCE, 'watch="pendingtasks"')],
    "JervisTasksStandStill": [
        Case({_WAITING: always(3), _MOVES: always(7)}, {_WAITING: always(3), _MOVES: counting(1)}, 'queue="Gpu"')
    ],
    "JervisNoGpuBackend": [
        Case({_READY: always(0), _TASKS: always(1)}, {_READY: always(1), _TASKS: always(1)}),
        Case({_READY: always(0), _TASKS: always(1)}, {_READY: always(0), _TASKS: always(0)}),
    ],
    "JervisDeletionsHeld": [
        Case(
            {_SWEEPS % "TooManyMissing": counting(0.02)},
            {_SWEEPS % "Swept": counting(0.02)},
            'type="Email"',
        ),
    ],
    "JervisConnectionNotPolled": [
        Case(
            {_SOURCES % ("false", "CredentialsRejected"): always(1), _SOURCES % ("true", "Polled"): always(3)},
            {_SOURCES % ("false", "Suspended"): always(1), _SOURCES % ("true", "Polled"): always(3)},
            'type="Email", reason="CredentialsRejected"',
        ),
        differs(
            _SOURCES % ("unknown", "NotPolledYet"),
            always(1),
            f"0x{_MINUTES - 5} 1x5",
            'type="Email", reason="NotPolledYet"',
        ),
    ],
    "JervisNamespaceNotServed": [
        Case(
            {'jervis_operator_namespace{name="team",state="absent"}': always(1)},
            {'jervis_operator_namespace{name="team",state="served"}': always(1)},
            'name="team", state="absent"',
        )
    ],
    "JervisTaskUndecided": [
        differs('jervis_operator_undecided_total{why="failed"}', f"0x{_MINUTES - 30} 1x30", always(1), 'why="failed"')
    ],
    "JervisEventsMissed": [differs(_CORRECTIONS, counting(1), always(1), 'kind="connections", what="missed"')],
    "JervisReconcileFailures": [differs("jervis_operator_reconcile_failures_total", counting(1), always(4))],
    "JervisDispatchPaused": [differs("jervis_operator_dispatch_breaker_open", always(1), always(0))],
    "JervisArchiveAway": [
        Case(
            {
                'jervis_operator_archive_up{pod="leads"}': always(0),
                'jervis_operator_archive_up{pod="stands-by"}': always(1),
            },
            {"jervis_operator_archive_up": always(1)},
        )
    ],
    "JervisTaskNotArchivable": [differs("jervis_operator_archive_rejected", always(2), always(0))],
    "JervisRemovalHeld": [
        differs('jervis_operator_removal_held{what="history"}', always(1), always(0), 'what="history"')
    ],
    "JervisClockSkew": [differs("jervis_operator_clock_skew_seconds", always(-400), always(200))],
    "JervisDelegationsFail": [
        Case(
            {_DELEGATIONS % "failed": counting(0.2), _DELEGATIONS % "completed": counting(0.1)},
            {_DELEGATIONS % "failed": counting(0.1), _DELEGATIONS % "completed": counting(0.2)},
            'agent="Coding"',
        ),
        # Few: a single one is a large share.
        Case(
            {_DELEGATIONS % "failed": counting(1), _DELEGATIONS % "completed": always(0)},
            {_DELEGATIONS % "failed": counting(0.05), _DELEGATIONS % "completed": always(0)},
            'agent="Coding"',
        ),
    ],
    "JervisNoBackend": [
        Case({_GPU_0: always(0), _GPU_1: always(0)}, {_GPU_0: always(0), _GPU_1: always(1)}),
        Case({}, {_GPU_0: always(1)}),
    ],
    "JervisBackendDown": [
        Case({_GPU_0: always(0), _GPU_1: always(1)}, {_GPU_0: always(1), _GPU_1: always(1)}, 'backend="gpu-0"')
    ],
    "JervisPeopleWaitForModels": [
        Case(
            {_QUEUE % "30": always(0), _QUEUE % "60": counting(1), _QUEUE % "+Inf": counting(1)},
            {_QUEUE % "30": counting(100), _QUEUE % "60": counting(100), _QUEUE % "+Inf": counting(100)},
        )
    ],
    "JervisRequestsStarve": [differs("jervis_router_oldest_wait_seconds", always(1000), always(60))],
    "JervisBackendBreaksAnswers": [
        differs(
            'jervis_router_backend_failures_total{backend="gpu-0",phase="body"}',
            counting(8),
            counting(0.1),
            'backend="gpu-0"',
        )
    ],
    "JervisIngestsUnfinished": [differs("jervis_kb_unfinished_ingests", always(2), f"2x{_MINUTES - 30} 0x1 2x28")],
    "JervisKnowledgeBaseMisconfigured": [
        Case({_JOBS % "misconfigured": counting(1)}, {_JOBS % "done": counting(1), _JOBS % "misconfigured": always(1)})
    ],
    "JervisKnowledgeBaseErrors": [
        Case(
            {_REQUESTS % "503": counting(1), _REQUESTS % "200": counting(1)},
            {_REQUESTS % "503": counting(1), _REQUESTS % "200": counting(1000)},
        )
    ],
    "JervisKnowledgeBaseLoopErrors": [
        differs('jervis_kb_loop_errors_total{loop="sweep"}', counting(1), always(3), 'loop="sweep"')
    ],
    "JervisCodeStale": [differs("jervis_kb_code_stale_seconds", always(4000), always(300))],
    "JervisModelAnswersInvalid": [
        Case(
            {_ANSWERS % "invalid": counting(1), _ANSWERS % "model": counting(1)},
            {_ANSWERS % "invalid": counting(1), _ANSWERS % "model": counting(1000)},
            'prompt="extract"',
        )
    ],
}


@pytest.fixture(scope="module")
def promtool() -> Path:
    """Prometheus' tool of the cache."""
    return needs.program(binaries.PROMTOOL, "promtool")


@pytest.fixture(scope="module")
def rules(chart: Chart) -> dict[str, Manifest]:
    """What the chart gives to Prometheus, of a release in each of the namespaces."""
    found = {}
    for namespace in NAMESPACES:
        objects = chart.render("--set", "monitoring.prometheusRule.enabled=true", namespace=namespace)
        found[namespace] = rendering.of_kind(objects, "PrometheusRule")[f"{namespace}/jervis"]["spec"]
    return found


def of(namespace: str, series: Series) -> Iterator[dict[str, str]]:
    """The series as they arrive from that namespace."""
    for name, values in series.items():
        metric, _, labels = name.rstrip("}").partition("{")
        more = f",{labels}" if labels else ""
        yield {"series": f'{metric}{{namespace="{namespace}"{more}}}', "values": values}


def stages(alert: str, severity: str) -> Iterator[dict[str, object]]:
    """One test of promtool for each case of the alert and each order of the two releases."""
    for number, case in enumerate(CASES[alert]):
        for sick, well in (NAMESPACES, NAMESPACES[::-1]):
            more = f", {case.labels}" if case.labels else ""
            fires = (
                f'ALERTS{{alertname="{alert}", alertstate="firing", severity="{severity}", namespace="{sick}"{more}}}'
            )
            yield {
                "name": f"{alert} {number}: {sick} is sick",
                "interval": "1m",
                "input_series": [*of(sick, case.sick), *of(well, case.well)],
                "promql_expr_test": [
                    {
                        "expr": 'ALERTS{alertstate="firing"}',
                        "eval_time": f"{_MINUTES}m",
                        "exp_samples": [{"labels": fires, "value": 1}],
                    }
                ],
            }


def alerts(rule: Manifest) -> dict[str, Manifest]:
    """By name."""
    return {alert["alert"]: alert for group in rule["groups"] for alert in group["rules"]}


def test_every_alert_has_a_case(rules: dict[str, Manifest]) -> None:
    assert set(alerts(rules["one"])) == set(CASES)


def test_each_fires_for_the_sick_release_alone(promtool: Path, rules: dict[str, Manifest], tmp_path: Path) -> None:
    """JSON is YAML, and read by a program without questions of style. One alert at a time: all would take a minute."""
    for alert, of_one in alerts(rules["one"]).items():
        for namespace in NAMESPACES:
            group = {"name": alert, "rules": [alerts(rules[namespace])[alert]]}
            (tmp_path / f"{alert}-{namespace}.json").write_text(json.dumps({"groups": [group]}))
        plan = {
            "rule_files": [f"{alert}-{namespace}.json" for namespace in NAMESPACES],
            "evaluation_interval": "1m",
            "tests": list(stages(alert, of_one["labels"]["severity"])),
        }
        (tmp_path / f"{alert}.json").write_text(json.dumps(plan))
    plans = [f"{alert}.json" for alert in CASES]
    done = subprocess.run([promtool, "test", "rules", *plans], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules(promtool: Path, rules: dict[str, Manifest], tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(rules["one"]))
    # Doubles would be alerts that Prometheus cannot tell apart.
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", file], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def watch_silent(chart: Chart, *values: str) -> Manifest:
    """The alert about a silent watch, of a release in `jervis` with these values."""
    objects = chart.render("--set", "monitoring.prometheusRule.enabled=true", *values)
    return alerts(rendering.of_kind(objects, "PrometheusRule")["jervis/jervis"]["spec"])["JervisWatchSilent"]


def test_a_silence_is_what_the_operator_is_restarted_for(chart: Chart) -> None:
    def limit(*values: str) -> float:
        return float(watch_silent(chart, *values)["expr"].rpartition("> ")[2])

    assert limit() == settings.Settings.model_fields["watch_silence_seconds"].default
    assert limit("--set", "operator.settings.watchSilenceSeconds=200") == 200


@pytest.mark.parametrize("minutes", [1, 10, 30])
def test_silences_of_any_length_that_repeat_are_one_alert(
    promtool: Path, chart: Chart, tmp_path: Path, minutes: int
) -> None:
    """The age grows past the limit, then the operator waits to be started again; it has no metrics meanwhile."""
    rule = watch_silent(chart, "--set", f"operator.settings.watchSilenceSeconds={60 * minutes}")
    silence = [*(str(60 * minute) for minute in range(minutes + 2)), *["_"] * 6]
    well = ["5"] * 20
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "watch", "rules": [rule]}]}))

    def test(name: str, ages: list[str], fires_from: int | None) -> dict[str, object]:
        labels = 'alertname="JervisWatchSilent",severity="critical",namespace="jervis",watch="pendingtasks"'
        fires = [{"labels": f'ALERTS{{alertstate="firing",{labels}}}', "value": 1}]
        return {
            "name": name,
            "interval": "1m",
            "input_series": list(of("jervis", {_WATCH: " ".join(ages)})),
            "promql_expr_test": [
                {
                    "expr": 'ALERTS{alertstate="firing"}',
                    "eval_time": f"{minute}m",
                    "exp_samples": fires if fires_from is not None and minute >= fires_from else [],
                }
                for minute in (range(len(ages)) if fires_from is None else range(fires_from, len(ages)))
            ],
        }

    # From the third silence on it fires without a break.
    tests = [test("once", [*well, *silence, *well * 3], None), test("again", silence * 5, 2 * len(silence))]
    plan = {"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = subprocess.run([promtool, "test", "rules", "plan.json"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
