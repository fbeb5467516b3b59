"""`kubectl get` of real objects fits a terminal: measured with kubectl against the apiserver."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from contracts.api.queue_api import Reason
from crds import connection, exit_reasons, gpubackend, pendingtask, phases
from crds.phases import Phase
from hack.cluster import binaries, progress
from sources.core import state
from tests.cli import site

pytestmark = pytest.mark.apiserver
WIDTH = 160
NAME = "registry-certificates-01"
AGE = 5
"""Characters of an age, which is the last column: `7d23h`."""
LONG_AGO = "2026-01-01T12:00:00Z"
SENTENCE = "a long sentence " * 20


def lines(place: site.Site, *words: str) -> list[str]:
    kubectl = shutil.which("kubectl") or str(binaries.program(binaries.KUBERNETES, "kubectl", progress.Progress()))
    done = subprocess.run([kubectl, *place.flags(), "get", *words], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def width(listed: list[str]) -> int:
    """Of the longest line once the objects are old."""
    return max(len(line.rstrip().rpartition("   ")[0]) for line in listed) + len("   ") + AGE


def fits(place: site.Site, kind: str, url: str) -> None:
    """The URL is a column of the wide table alone."""
    listed, wide = lines(place, kind), lines(place, kind, "-o", "wide")
    assert width(listed) <= 120, listed
    assert width(wide) <= WIDTH, wide
    assert url in wide[1]


def condition(type_: str, reason: str, status: str = "False") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": SENTENCE, "lastTransitionTime": LONG_AGO}


def tasks(place: site.Site, name: str) -> None:
    """One in every phase, with the longest of the words that the operator uses there."""
    spec = {
        "type": max(pendingtask.Type, key=len).value,
        "clientId": "greenhouse-a",
        "mode": max(pendingtask.Mode, key=len).value,
        "queuePosition": 1000,
        "ttlSecondsAfterFinished": 604_800,
    }
    said = {phase: max(Reason, key=len).value for phase in Phase}
    said[Phase.DISPATCHED_GPU] = "ImagePullBackOff"
    said[Phase.USER_TASK] = max(exit_reasons.ExitReason, key=len).value
    for number, phase in enumerate(Phase):
        status: dict[str, Any] = {
            "phase": phase.value,
            "route": {"decision": max(pendingtask.Decision, key=len).value, "reason": SENTENCE},
            "conditions": [condition("Dispatched", said[phase])],
            "retry": {"count": 1, "nextAt": "2027-12-31T23:59:59Z", "reason": SENTENCE},
        }
        if phase is Phase.SCHEDULED:
            status["scheduledFor"] = "2027-12-31T23:59:59Z"
        if phase is Phase.USER_TASK:
            status["userTask"] = {"kind": max(pendingtask.UserTaskKind, key=len).value}
        if phase in phases.HOLDS_SLOT:
            status["dispatch"] = {"backend": "jervis-ollama-gpu", "jobName": f"{name}-1", "threadId": "t"}
        if phase in phases.TERMINAL:
            status["conditions"] = [condition("Dispatched", "Completed"), condition("Succeeded", "Rejected")]
            ended = datetime.now(UTC) - timedelta(days=7, hours=23, minutes=30)
            status["completedAt"] = f"{ended:%Y-%m-%dT%H:%M:%SZ}"
        place.task(f"{name}-{number:02}", {**spec, "suspend": phase is Phase.READY_FOR_GPU}, status)


def test_tasks_in_every_phase_fit_also_with_all_columns(place: site.Site) -> None:
    tasks(place, NAME[:-3])
    listed, wide = lines(place, "pt"), lines(place, "pt", "-o", "wide")
    assert len(listed) == len(wide) == 1 + len(Phase)
    assert width(listed) <= width(wide) <= WIDTH, wide
    assert set(wide[0].split()) - set(listed[0].split()) == {"ENDED"}
    assert "7d23h" in wide[-1]


def test_a_name_that_a_mail_s_file_gave_fits_as_well(place: site.Site) -> None:
    """As `kubectl jervis submit` makes it."""
    tasks(place, "registry-certificate-a4197613")
    assert width(lines(place, "pt")) <= WIDTH


def test_connections_fit(place: site.Site) -> None:
    spec: dict[str, Any] = {
        "type": max((connection.Type.JIRA, connection.Type.CONFLUENCE, connection.Type.EMAIL), key=len).value,
        "clientId": "greenhouse-a",
        "url": "https://greenhouse.atlassian.net/wiki",
        "secretRef": {"name": "atlassian"},
    }
    status = {
        "conditions": [condition("Ready", max(("PollingNotEnabled", *state.REASONS), key=len))],
        "items": {"indexed": 120_000, "failed": 1200},
        "lastSuccessTime": LONG_AGO,
    }
    place.connection(NAME, spec, status)
    fits(place, "conn", spec["url"])


def test_backends_fit(place: site.Site) -> None:
    spec = {"url": "http://jervis-ollama-gpu:11434", "kind": "GPU", "pool": "default", "vram": "24Gi"}
    status = {
        "conditions": [condition("Ready", "SecretKeyMissing")],
        "activeSet": "background",
        "reservation": {"holder": "correction-agent", "until": LONG_AGO},
        "circuit": max(gpubackend.Circuit, key=len).value,
        "version": "0.12.11",
    }
    place.backend(NAME, spec, status)
    fits(place, "gpu", spec["url"])
