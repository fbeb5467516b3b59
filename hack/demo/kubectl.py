"""kubectl as a program: what a user would type, with the answer parsed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crds import pendingtask
from hack.cluster import binaries, progress
from hack.demo import errors

_FIELD_MANAGER = "jervis-demo"
Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Kubectl:
    """Calls of one cluster and namespace."""

    program: Path
    kubeconfig: str
    namespace: str

    def command(self, *arguments: str) -> list[str]:
        """The whole command line of `kubectl ARGUMENTS`."""
        return [str(self.program), f"--namespace={self.namespace}", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which `command` talks to this cluster."""
        return {**os.environ, "KUBECONFIG": self.kubeconfig}

    def run(self, *arguments: str, stdin: str | None = None, seconds: float = 60) -> str:
        """Standard output of the call. Raises errors.Refused with what kubectl said."""
        done = self.attempt(*arguments, stdin=stdin, seconds=seconds)
        if done.returncode != 0:
            raise errors.Refused(f"kubectl {' '.join(arguments)}", done.stderr or done.stdout)
        return done.stdout

    def attempt(
        self, *arguments: str, stdin: str | None = None, seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """The call with its exit status, whatever that is. Raises errors.Refused when it does not end in time."""
        try:
            return subprocess.run(
                self.command(*arguments),
                env=self.environment,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            text = f"no answer within {seconds:.0f} s"
            raise errors.Refused(f"kubectl {' '.join(arguments)}", text) from late

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get ARGUMENTS -o json`."""
        parsed: dict[str, Any] = json.loads(self.run("get", *arguments, "-o", "json"))
        return parsed

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """The objects of a list."""
        found: list[dict[str, Any]] = self.get(*arguments)["items"]
        return found

    def tasks(self, *arguments: str) -> list[pendingtask.PendingTask]:
        """PendingTasks, parsed."""
        return [pendingtask.PendingTask.model_validate(item) for item in self.items("pendingtasks", *arguments)]

    def task(self, name: str) -> pendingtask.PendingTask:
        """One PendingTask, parsed. Raises errors.Refused when there is none of that name."""
        return pendingtask.PendingTask.model_validate(self.get("pendingtask", name))

    def apply(self, manifests: Iterable[Manifest]) -> str:
        """Server-side apply; conflicts with other field managers are an error, as they should be."""
        whole = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        return self.run(
            "apply", "--server-side", f"--field-manager={_FIELD_MANAGER}", "-f", "-", stdin=json.dumps(whole)
        )


def find(report: progress.Progress) -> Path:
    """kubectl of the PATH, else the one built for the local cluster."""
    found = shutil.which("kubectl")
    return Path(found) if found else binaries.program(binaries.KUBERNETES, "kubectl", report)


def helm(report: progress.Progress) -> Path:
    """helm of the PATH, else the one built for the local cluster."""
    found = shutil.which("helm")
    return Path(found) if found else binaries.program(binaries.HELM, "helm", report)
