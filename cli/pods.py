"""Which pod is the current run's. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from cli.reading import Object
from crds import labels


def attempt(pod: Object) -> int:
    """The number of its run; 0 when it does not say."""
    said = pod["metadata"].get("labels", {}).get(labels.ATTEMPT, "")
    return int(said) if said.isascii() and said.isdigit() else 0


def choose(found: Iterable[Object], wanted: int | None) -> Object | None:
    """The youngest pod of the wanted run, or of the latest."""
    fitting = [pod for pod in found if wanted is None or attempt(pod) == wanted]
    return max(fitting, key=lambda pod: (attempt(pod), pod["metadata"].get("creationTimestamp", "")), default=None)


def readable(pod: Object, name: str = labels.CONTAINER) -> bool:
    """Has the container of that name run, so that there is a log?"""
    return not {"running", "terminated"}.isdisjoint(_state(pod, name))


def running(pod: Object, name: str = labels.CONTAINER) -> bool:
    """Does the container of that name run?"""
    return "running" in _state(pod, name)


def _state(pod: Object, name: str) -> Object:
    containers = pod.get("status", {}).get("containerStatuses", ())
    return next((container.get("state", {}) for container in containers if container["name"] == name), {})


def trouble(pod: Object) -> str:
    """Why there is no log yet, in the words of the kubelet or the scheduler."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return f"{waiting.get('reason', 'Waiting')} {waiting.get('message', '')}".strip()
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason', 'Unscheduled')} {condition.get('message', '')}".strip()
    return str(status.get("phase", "Pending"))
