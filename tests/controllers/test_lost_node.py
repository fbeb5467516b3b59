"""How long a lost node holds its runs up, from the shipped numbers: docs/slots.md states the sum.

From the last heartbeat of the kubelet until the task is dispatched again, with a free slot.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import yaml

from controllers import settings
from controllers.pendingtask import job as jobs
from controllers.pendingtask import views
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import ObservedState
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, UID, after, apply, job, pod, routed, task

ROOT = Path(__file__).resolve().parents[2]
MONITOR_GRACE = {"before 1.32": 40, "since 1.32": 50}
"""`--node-monitor-grace-period` of kube-controller-manager in seconds, by the version of Kubernetes. Source:
https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/"""
MONITOR_PERIOD = 5
"""`--node-monitor-period` of the same in seconds: how often it compares."""


def toleration() -> int:
    """Seconds for which a run's pod stays on a node that does not answer, by its Job as shipped."""
    template = settings.Settings(_env_file=None).template()
    pod_spec = jobs.manifest(task(), 1, jobs.name("mail-1", UID, 1), template)["spec"]["template"]["spec"]
    (found,) = {one["tolerationSeconds"] for one in pod_spec["tolerations"]}
    assert pod_spec["terminationGracePeriodSeconds"] == grace(), "the chart's default is the operator's own"
    return int(found)


def grace() -> int:
    """Seconds that the chart gives a run to end; the apiserver adds them to a pod's deletionTimestamp."""
    return int(yaml.safe_load((ROOT / "charts/jervis/values.yaml").read_text())["job"]["graceSeconds"])


def again() -> int:
    """Seconds from the moment at which the pod counts as given up until `decide` dispatches the next run.

    The Job is gone by the next look; a watch tells that sooner.
    """
    stuck, current, now, there = pod(given_up_at=NOW), routed(Phase.ORCHESTRATING), NOW, True
    for version in range(8, 40):
        made = decide(current, ObservedState(job=job() if there else None, pods=(stuck,), slots=GPU), now)
        there = there and not made.effects
        if made.phase is Phase.DISPATCHED_GPU:
            assert after(current, made).attempt == 2
            return round((now - NOW).total_seconds())
        if made.status_patch:
            current = apply(current, made.status_patch, version)
        now += timedelta(seconds=made.requeue_after or 0)
    raise AssertionError(f"it is {current.status.phase}, and not dispatched again")


def test_the_page_states_the_time_until_the_next_run() -> None:
    steps = {
        "monitor": MONITOR_GRACE["since 1.32"] + MONITOR_PERIOD,
        "toleration": toleration(),
        "grace": grace(),
        "overdue": round(views.OVERDUE.total_seconds()),
        "again": again(),
    }
    page = (ROOT / "docs/slots.md").read_text()
    section = page.split("## A node that is lost", 1)[1].split("\n## ", 1)[0]
    stated = [int(one) for one in re.findall(r"^\| [^|]+ \| (?:up to )?(\d+) s", section, re.MULTILINE)]
    assert stated == [*steps.values(), sum(steps.values())]
    shorter = MONITOR_GRACE["since 1.32"] - MONITOR_GRACE["before 1.32"]
    assert f"{shorter} s less before Kubernetes 1.32" in section
