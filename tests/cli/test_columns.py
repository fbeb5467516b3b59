"""`kubectl get pt` of real tasks fits a terminal: measured with kubectl against the apiserver."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from crds import definitions, pendingtask
from crds.phases import Phase
from crds.waits import Reason
from hack.cluster import binaries, progress
from tests.cli import site

pytestmark = pytest.mark.apiserver
WIDTH = 160
NAME = "registry-certificate-a4197613"
"""As `kubectl jervis submit` makes it of a mail's file name."""


def test_a_list_of_tasks_in_every_phase_fits_a_terminal(place: site.Site) -> None:
    longest = {
        "type": max(pendingtask.Type, key=len).value,
        "clientId": "greenhouse-ag",
        "mode": max(pendingtask.Mode, key=len).value,
    }
    for number, phase in enumerate(Phase):
        reason = max(Reason, key=len).value
        conditions = [
            {"type": type_, "status": "False", "reason": reason, "lastTransitionTime": "2027-03-01T12:00:00Z"}
            for type_ in ("Dispatched", "Succeeded")
        ]
        status = {
            "phase": phase.value,
            "route": {"decision": max(pendingtask.Decision, key=len).value, "reason": "a long sentence " * 20},
            "conditions": conditions,
            "scheduledFor": "2027-12-31T23:59:59Z",
            "dispatch": {"backend": "jervis-ollama-gpu", "jobName": f"{NAME}-1", "threadId": "t"},
        }
        place.task(f"{NAME}-{number}", longest, status)
    kubectl = shutil.which("kubectl") or str(binaries.program(binaries.KUBERNETES, "kubectl", progress.Progress()))
    listed = subprocess.run(
        [kubectl, *place.flags(), "get", "pt"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert len(listed) == 1 + len(Phase)
    assert max(map(len, listed)) <= WIDTH, listed[1]


def test_no_column_holds_free_text() -> None:
    """`-o wide` has no room for a sentence; `kubectl describe` and `kubectl jervis get` have."""
    columns = {column.path for column in definitions.ALL[0].columns}
    assert not {".status.route.reason", ".status.result.summary", ".status.retry.reason"} & columns
