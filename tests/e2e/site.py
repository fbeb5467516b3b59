"""What a test on the whole cluster holds in its hands: kubectl, MongoDB, and a way to wait for tasks."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pymongo.database import Database
from rich.console import Console

from crds import API_VERSION, pendingtask
from crds.phases import TERMINAL, Phase
from hack.cluster import progress
from hack.demo import diagnosis, expectation, kubectl, settings, watch

Document = dict[str, Any]
SUITE = "jervis.dev/e2e"
LABEL = "jervis.dev/test"
UID_LABEL = "jervis.dev/task-uid"
ATTEMPT_LABEL = "jervis.dev/attempt"
ENDS = TERMINAL | {Phase.SCHEDULED, Phase.USER_TASK}
"""Phases in which nothing goes on."""


@dataclass(frozen=True)
class Site:
    """One installation."""

    kubectl: kubectl.Kubectl
    wanted: settings.Settings
    database: Database[Document]

    def apply(self, test: str, specs: Mapping[str, Mapping[str, Any]], client: str = "e2e") -> None:
        """PendingTasks by name, labelled with the test."""
        self.kubectl.apply(
            {
                "apiVersion": API_VERSION,
                "kind": "PendingTask",
                "metadata": {"name": name, "labels": {LABEL: test, SUITE: "true"}},
                "spec": {"clientId": client, **spec},
            }
            for name, spec in specs.items()
        )

    def upgrade(self, *values: str) -> None:
        """The release with other values (NAME=VALUE as of `helm --set`), once its processes have them."""
        command = [str(kubectl.helm(progress.Progress())), "upgrade", settings.RELEASE]
        command += [str(self.wanted.checkout / "charts/jervis"), f"--namespace={self.kubectl.namespace}"]
        given = [word for value in values for word in ("--set", value)]
        subprocess.run(
            [*command, "--reuse-values", *given, "--wait", "--timeout=180s"],
            env=self.kubectl.environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def ends(
        self, test: str, expected: Mapping[str, Phase | Collection[Phase]], seconds: float = 120
    ) -> dict[str, pendingtask.PendingTask]:
        """Wait until each of the test's tasks is where it has to be; fails with the table and the surroundings."""
        wanted = [
            expectation.Expectation(name, "", frozenset([phases] if isinstance(phases, Phase) else phases))
            for name, phases in expected.items()
        ]
        console = Console(file=sys.stdout, width=160, force_terminal=False)
        seen = watch.follow(self.kubectl, f"{LABEL}={test}", wanted, seconds, watch.Lines(console, wanted))
        verdicts = expectation.judge(wanted, seen)
        if not all(verdict.ok for verdict in verdicts):
            console.print(diagnosis.table(verdicts))
            diagnosis.explain(console, self.kubectl)
        wrong = [f"{v.task}: {v.actual} instead of {v.expected} ({v.because})" for v in verdicts if not v.ok]
        assert not wrong, "\n".join(wrong)
        return {name: seen[name] for name in expected}

    def jobs(self, tasks: Iterable[pendingtask.PendingTask]) -> Counter[tuple[str, int]]:
        """How many Jobs there are per task's uid and attempt. Tasks and runs are in the release's namespace here."""
        uids = {task.metadata.uid for task in tasks}
        labels = [job["metadata"].get("labels", {}) for job in self.kubectl.items("jobs", "-l", UID_LABEL)]
        return Counter((one[UID_LABEL], int(one[ATTEMPT_LABEL])) for one in labels if one[UID_LABEL] in uids)

    def results(self, task: pendingtask.PendingTask) -> list[Document]:
        """What the store holds as results of that task."""
        return list(self.database["task_results"].find({"taskUid": task.metadata.uid}))

    def pods(self, selector: str) -> list[Document]:
        """Pods that are not on their way out."""
        return [pod for pod in self.kubectl.items("pods", "-l", selector) if "deletionTimestamp" not in pod["metadata"]]

    def component(self, name: str) -> Document:
        """The one pod of a component of the chart."""
        (pod,) = self.pods(f"app.kubernetes.io/component={name}")
        return pod
