"""Names of Events: the same for a repeated post, different for each step of one write."""

from __future__ import annotations

from controllers import events
from tests.controllers.build import NOW, UID

ABOUT = {
    "apiVersion": "jervis.dev/v1alpha1",
    "kind": "PendingTask",
    "metadata": {"name": "mail-1", "namespace": "ns", "uid": UID, "resourceVersion": "41"},
}


def name(step: int) -> str:
    made = events.manifest(ABOUT, "Accepted", "Waiting.", warning=False, at=NOW, step=step)
    assert made["involvedObject"]["resourceVersion"] == "41"
    return str(made["metadata"]["name"])


def test_each_step_of_a_write_has_an_event_of_its_own() -> None:
    assert [name(step) for step in range(3)] == [
        "mail-1.0f9a1c2e.41",
        "mail-1.0f9a1c2e.41.1",
        "mail-1.0f9a1c2e.41.2",
    ]
    assert name(1) == name(1)
