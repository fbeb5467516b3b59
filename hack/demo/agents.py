"""A run that delegates: an agent proposes an issue, a person approves it, and the trace shows who did what.

The models of this part are scripted: it is for the simulators, and for the Gitea of `connected`.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from crds import flags, pendingtask, phases
from hack.demo import errors, expectation, forward, inputs, planted, plugin, servers, settings, stream, submit
from hack.demo.kubectl import Kubectl

ORDER = "Create an issue: the volume tank-3 needs a limit of 50 TiB before the end of the year."
TITLE = "Raise the limit of tank-3 to 50 TiB"
_ISSUE = {"title": TITLE, "text": "The limit is 40 TiB. It has to be 50 TiB before the end of the year."}
_PLAN, _AGENT = "job.plan_delegations/v1", "IssueTracker"
_SIMULATORS, _PORT = (f"{settings.RELEASE}-ollama-gpu", f"{settings.RELEASE}-ollama-cpu"), 11434
_CHOSEN = (flags.Flag.DELEGATION_GRAPH, flags.Flag.SPECIALIST_AGENTS)
_REPORT = f"""STATUS: 1
RESULT: The issue was created: {TITLE}.
ARTIFACTS: none
ISSUES: none
CONFIDENCE: 0.9
NEEDS_VERIFICATION: false"""


def values(namespace: str) -> dict[str, Any]:
    """Values of the release: tasks of its namespace may choose the flags, and agents use the Connection `issues`."""
    return {
        "admission": {"namespaces": {namespace: {"taskFlags": True}}},
        "job": {"tools": {"trackerConnection": "issues"}},
    }


def manifest(run: str, client: str = settings.CLIENT) -> dict[str, Any]:
    """The PendingTask object. The order names no repository, so that a person decides where the issue goes."""
    item = inputs.Item(
        "order", "an order for an agent", pendingtask.Type.USER_TASK, ORDER, frozenset({phases.Phase.COMPLETED}),
        mode=pendingtask.Mode.FOREGROUND,
    )  # fmt: skip
    made = submit.manifest(item, run, client)
    made["metadata"]["annotations"] = {one.annotation: "true" for one in _CHOSEN}
    return made


def script() -> dict[str, list[dict[str, Any]]]:
    """What the simulated models say of this order, and of no other: tests/fakes/ollama/script.py."""
    delegation = {"agent": _AGENT, "task": ORDER, "expectedOutput": "", "constraints": [], "dependsOn": []}
    plan = {"domain": "PROJECT_MANAGEMENT", "delegations": [delegation]}
    return {
        _PLAN: [{"when": ORDER, "answer": plan}],
        f"job.agent.{_AGENT}/v1": [
            {"when": '<document source="create_issue"', "answer": _REPORT},
            {"when": ORDER, "answer": {"toolCalls": [{"name": "create_issue", "arguments": _ISSUE}]}},
        ],
    }


@dataclass(frozen=True)
class Order:
    """Of one run, on `console`: `place` applies it, and it is worked on while something else is shown; `show` says what
    became of it."""

    console: Console
    cluster: Kubectl
    wanted: settings.Settings
    run: str
    client: str = settings.CLIENT

    @property
    def name(self) -> str:
        """The task's."""
        return str(manifest(self.run)["metadata"]["name"])

    def place(self) -> None:
        """Script the simulators and apply the task. Raises errors.Failure."""
        self._scripted(script())
        self.cluster.apply([manifest(self.run, self.client)])

    def show(self, there: servers.Servers) -> None:
        """Wait for the request, approve it, look for the issue, print the trace. Raises errors.Failure."""
        self.console.print("\n[bold]an agent works, and a person approves[/]")
        self._print(f"  {ORDER}")
        asked = self._until(phases.Phase.USER_TASK).status.user_task
        if asked is None or not asked.effects:
            raise errors.Failure(f"{self.name} waits for a person, and not with an effect")
        for effect in asked.effects:
            self._print(f"  {effect.agent} wants {effect.tool}; {effect.why}")
        if self._filed(there):
            raise errors.Failure(f"{self.name} has filed its issue before it was approved")
        self._jervis("approve", "--all")
        self._until(phases.Phase.COMPLETED)
        number = self._filed(there)
        if not number:
            raise errors.Failure(f"{self.name} is completed, and there is no issue {TITLE!r} in {planted.REPOSITORY}")
        self._print(f"  filed: {planted.urn(number)} {TITLE}")
        drawn = self._jervis("trace")
        if _AGENT not in drawn:
            raise errors.Failure(f"the trace of {self.name} is without {_AGENT}")
        self._scripted({})

    def _until(self, phase: phases.Phase) -> pendingtask.PendingTask:
        """The task in that phase, each new phase in a line."""
        began, seen = time.monotonic(), ""
        for task in stream.tasks(self.cluster, submit.selector(self.run), began + self.wanted.timeout):
            if task is None or task.metadata.name != self.name:
                continue
            found = expectation.phase(task)
            if found != seen:
                self._print(f"  [{time.monotonic() - began:5.1f}s] {self.name:<28} {found}")
                seen = found
            if task.status.phase is phase:
                return task
            if task.status.phase in phases.TERMINAL:
                break
        raise errors.Failure(f"{self.name} has not become {phase.value}: {seen or 'it is not there'}")

    def _filed(self, there: servers.Servers) -> int:
        """The number of the issue; 0: there is none."""
        found = there.ask("GET", f"repos/{planted.REPOSITORY}/issues?type=issues&state=open")
        return next((int(one["number"]) for one in found if one["title"] == TITLE), 0)

    def _scripted(self, answers: Mapping[str, Any]) -> None:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for simulator in _SIMULATORS:
            with forward.opened(self.cluster, simulator, _PORT) as url:
                request = urllib.request.Request(  # noqa: S310 -- our own address
                    f"{url}/simulator/script", json.dumps(answers).encode(), {"Content-Type": "application/json"},
                    method="PUT",
                )  # fmt: skip
                direct.open(request, timeout=30).close()

    def _jervis(self, command: str, *flags: str) -> str:
        self.console.print(f"[bold]$ kubectl jervis {' '.join((command, self.name, *flags))}[/]")
        said = plugin.run(self.cluster, command, self.name, *flags)
        self._print(said.rstrip())
        return said

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
