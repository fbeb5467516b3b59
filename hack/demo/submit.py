"""Items become PendingTasks by server-side apply, mails with files by `kubectl jervis submit`, which stores those.

What an earlier run left behind goes away first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crds import API_VERSION
from hack.demo import forward, inputs, plugin, settings
from hack.demo.kubectl import Kubectl

RUN_LABEL = f"{settings.LABEL}-run"
KB_READ, KB_WRITE, KB_PORT = f"{settings.RELEASE}-kb-read", f"{settings.RELEASE}-kb-write", 8080


def name(item: inputs.Item, run: str) -> str:
    """The task's name in that run."""
    return f"{item.name}-{run}"


def selector(run: str) -> str:
    """Selects the tasks of one run."""
    return f"{RUN_LABEL}={run}"


def spec(item: inputs.Item) -> dict[str, Any]:
    """The task's spec, but for whose it is."""
    given: dict[str, Any] = {"type": item.type.value, "mode": item.mode.value, "content": item.content}
    if item.source_urn is not None:
        given["sourceUrn"] = item.source_urn
    return given


def manifest(item: inputs.Item, run: str, client: str = settings.CLIENT) -> dict[str, Any]:
    """The PendingTask object."""
    owner = {"clientId": client, "projectId": settings.PROJECT, "correlationId": f"demo-{run}"}
    return {
        "apiVersion": API_VERSION,
        "kind": "PendingTask",
        "metadata": {"name": name(item, run), "labels": {settings.LABEL: "true", RUN_LABEL: run}},
        "spec": {**owner, **spec(item)},
    }


def apply(kubectl: Kubectl, items: Sequence[inputs.Item], run: str) -> None:
    """Hand the items over. Raises errors.Refused with the apiserver's words."""
    if plain := [manifest(item, run) for item in items if not item.message]:
        kubectl.apply(plain)
    for item in items:
        if item.message:
            _send(kubectl, item, run)


def _send(kubectl: Kubectl, item: inputs.Item, run: str) -> None:
    labels = (f"{settings.LABEL}=true", f"{RUN_LABEL}={run}")
    with tempfile.TemporaryDirectory() as folder, forward.opened(kubectl, KB_WRITE, KB_PORT) as url:
        file = Path(folder) / f"{item.name}.eml"
        file.write_bytes(item.message)
        owner = ("--client", settings.CLIENT, "--project", settings.PROJECT)
        plugin.run(kubectl, "submit", str(file), *owner, "--name", name(item, run), "--kb", url)
    kubectl.run("label", "pendingtask", name(item, run), *labels)


def clear(kubectl: Kubectl) -> int:
    """Delete the tasks of earlier runs with their Jobs; returns how many there were."""
    deleted = kubectl.run(
        "delete", "pendingtasks", "-l", f"{settings.LABEL}=true", "--ignore-not-found", "-o", "name", seconds=120
    )
    return sum(line.startswith("pendingtask.") for line in deleted.splitlines())
