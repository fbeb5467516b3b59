"""Real runs: the kubelet's part for Jobs whose container is `python -m orchestrator_job`, each a process of its own.

The environment is the Job's own, as the operator wrote it; only what a container finds at another address (knowledge
base, router, the file of the termination message) is given by the test.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controllers.pendingtask import job
from tests.nursery import children
from tests.operator.conftest import Space


class Runs:
    """`says` of a `kubelet.Kubelet`. `statuses` holds the exit status of each run that has ended, in order."""

    def __init__(self, space: Space, folder: Path, services: Mapping[str, str]) -> None:
        self._space, self._folder, self._services = space, folder, services
        self._children: dict[tuple[str, int], Any] = {}
        self.statuses: list[int] = []

    def __call__(self, name: str, attempt: int) -> dict[str, Any] | int | None:
        """Start the run of that attempt when it is new; its termination message once it has ended."""
        key = (name, attempt)
        if key not in self._children:
            start = children.of("orchestrator_job", "orchestrator_job.run.graph").start
            self._children[key] = start(self._environment(name, attempt), self._folder / f"log-{name}-{attempt}")
        status = self._children[key].poll()
        if status is None:
            return None
        self.statuses.append(status)
        text = self._message(name, attempt).read_text()
        return {**json.loads(text), "exitCode": status} if text else status

    def close(self) -> None:
        """End what still runs."""
        for child in self._children.values():
            child.kill()

    def _environment(self, name: str, attempt: int) -> dict[str, str]:
        (made,) = [
            one
            for one in self._space.jobs()
            if one.metadata.labels[job.TASK_LABEL] == name and one.metadata.labels[job.ATTEMPT_LABEL] == str(attempt)
        ]
        (container,) = made.spec.template.spec.containers
        own = {one.name: one.value or self._secret(one, made) for one in container.env}
        self._message(name, attempt).write_text("")
        # A path in the container leads nowhere here, and the services of the test want no token.
        kept = {key: value for key, value in own.items() if not key.endswith("_FILE")}
        return kept | dict(self._services) | {"JERVIS_TERMINATION_LOG": str(self._message(name, attempt))}

    def _secret(self, variable: Any, made: Any) -> str:
        reference = variable.value_from.secret_key_ref if variable.value_from else None
        if reference is None:
            return ""
        found: Any = self._space.core.read_namespaced_secret(reference.name, made.metadata.namespace)
        return base64.b64decode(found.data[reference.key]).decode()

    def _message(self, name: str, attempt: int) -> Path:
        return self._folder / f"termination-{name}-{attempt}"
