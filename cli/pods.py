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


def readable(pod: Object) -> bool:
    """Has its container run, so that there is a log?"""
    for container in pod.get("status", {}).get("containerStatuses", ()):
        if container["name"] == labels.CONTAINER:
            return "running" in container.get("state", {}) or "terminated" in container.get("state", {})
    return False


def trouble(pod: Object) -> str:
    """Why there is no log yet, in the kubelet's words."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return f"{waiting.get('reason', 'Waiting')} {waiting.get('message', '')}".strip()
    return str(status.get("phase", "Pending"))
