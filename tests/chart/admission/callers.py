"""Who calls the apiserver, and how a task gets to a phase: by the operator's own steps, as the policies want it."""

from __future__ import annotations

import itertools
import json
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import kube
from controllers.pendingtask import phases
from crds import API_VERSION
from crds.phases import Phase
from tests import waiting

Body = Mapping[str, Any]
HOME, TEAM, OUTSIDE = "admission", "admission-team", "admission-outside"
"""The release's namespace, one that it watches, and one that is none of its business."""
TENANT, MARKED = "admission-tenant", "admission-marked"
"""Two more that it watches: one with clients and modes of its own, one with an annotation."""
EPOCH = 5
CONTENT = "Which node has a failed disk?"
_names = (f"task-{number}" for number in itertools.count())


@dataclass(frozen=True)
class Caller:
    """A user of the API; "" is the administrator whose certificate the kubeconfig holds."""

    http: httpx.Client
    user: str = ""

    def create(self, namespace: str, plural: str, body: Body, *, dry: bool = False) -> httpx.Response:
        """POST."""
        return self._send("POST", _path(namespace, plural), body, dry)

    def patch(self, namespace: str, path: str, body: Body, *, dry: bool = False) -> httpx.Response:
        """A merge patch of `PLURAL/NAME[/status]`."""
        return self._send("PATCH", _path(namespace, path), body, dry)

    def delete(self, namespace: str, path: str) -> httpx.Response:
        """DELETE of `PLURAL/NAME`."""
        return self._send("DELETE", _path(namespace, path), {}, dry=False)

    def _send(self, verb: str, path: str, body: Body, dry: bool) -> httpx.Response:
        headers = {"Impersonate-User": self.user} if self.user else {}
        headers["Content-Type"] = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        parameters = {"dryRun": "All"} if dry else {}
        return self.http.request(verb, path, content=json.dumps(body), headers=headers, params=parameters)


@contextmanager
def administrator(kubeconfig: Path) -> Iterator[Caller]:
    """Whom that kubeconfig is for."""
    loaded = kube.configuration(str(kubeconfig))
    context = kube.tls(loaded)
    assert isinstance(context, ssl.SSLContext)
    with httpx.Client(base_url=loaded.host, verify=context, timeout=waiting.PATIENCE) as http:
        yield Caller(http)


def _path(namespace: str, rest: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{rest}"


def task(**spec: Any) -> dict[str, Any]:
    """A PendingTask with a name of its own."""
    content = {} if "contentRef" in spec else {"content": CONTENT}
    wanted = {"type": "UserInputProcessing", "clientId": "acme", **content, **spec}
    return {"apiVersion": API_VERSION, "kind": "PendingTask", "metadata": {"name": next(_names)}, "spec": wanted}


def backend(url: str) -> dict[str, Any]:
    """A GpuBackend with a name of its own."""
    meta = {"name": next(_names)}
    return {"apiVersion": API_VERSION, "kind": "GpuBackend", "metadata": meta, "spec": {"url": url}}


def connection(url: str) -> dict[str, Any]:
    """A Git Connection with a name of its own."""
    spec: dict[str, Any] = {"type": "Git", "clientId": "acme", "url": url}
    if url.startswith("ssh:"):
        spec["secretRef"] = {"name": "key"}
    return {"apiVersion": API_VERSION, "kind": "Connection", "metadata": {"name": next(_names)}, "spec": spec}


def steps(target: Phase) -> list[Phase]:
    """A shortest way from New to `target` through the operator's table, without New."""
    ways: deque[list[Phase]] = deque([[Phase.NEW]])
    while True:
        way = ways.popleft()
        if way[-1] is target:
            return way[1:]
        ways.extend([*way, following] for following in sorted(phases.TRANSITIONS[way[-1]]) if following not in way)


def status(phase: Phase | None = None, epoch: int = EPOCH, **fields: Any) -> dict[str, Any]:
    """A status as the operator writes it."""
    moved = {"phase": phase.value} if phase else {}
    return {"status": {**moved, "leaderEpoch": epoch, **fields}}


def at(operator: Caller, owner: Caller, namespace: str, phase: Phase, **spec: Any) -> str:
    """`pendingtasks/NAME` of a new task that the operator has brought to `phase`.

    A dispatch counts as attempt 1, and what has left Qualifying has a route.
    """
    body = task(**spec)
    succeed(owner.create(namespace, "pendingtasks", body))
    path = f"pendingtasks/{body['metadata']['name']}"
    for step in steps(phase):
        fields: dict[str, Any] = {"attempt": 1} if step is Phase.DISPATCHED_GPU else {}
        if step in (Phase.READY_FOR_GPU, Phase.DONE):
            fields["route"] = {"decision": "Execute"}
        succeed(operator.patch(namespace, f"{path}/status", status(step, **fields)))
    return path


def succeed(answer: httpx.Response) -> dict[str, Any]:
    """The object that came back; fails with the apiserver's own words."""
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refusal(answer: httpx.Response) -> str:
    """The policy's message; fails when the write went through or something else refused it."""
    assert not answer.is_success, "accepted"
    message: str = answer.json()["message"]
    assert "ValidatingAdmissionPolicy" in message, message
    return message


def refused_soon(ask: Callable[[], httpx.Response]) -> None:
    """Ask until a policy refuses: the apiserver takes a policy up a moment after it is stored."""
    refusal(waiting.until(ask, "a policy refuses it", good=lambda answer: not answer.is_success))


def accepted_soon(ask: Callable[[], httpx.Response]) -> None:
    """Ask until it goes through."""

    def problem() -> str:
        answer = ask()
        return "" if answer.is_success else answer.text

    waiting.until(problem, "it is accepted", good=lambda left: not left)
