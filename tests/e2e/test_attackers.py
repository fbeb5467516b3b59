"""Attackers on an installation: a stolen run token, a viewer, a tenant, a pod beside the release (SECURITY.md).

Beside a real apiserver, kubelet and packet filter each of them tries what it should not get, with credentials that it
really has. What needs no cluster is in tests/security.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from contracts.api import history
from crds import API_VERSION
from hack.demo import errors, forward
from hack.demo.kubectl import Kubectl
from tests import thorough
from tests.e2e.conftest import JOINS, NAMESPACE
from tests.e2e.simulator import GATE, Simulator
from tests.e2e.site import Site
from tests.e2e.test_kill import local_only, running, work
from tests.e2e.test_network import idle
from tests.waiting import until

_TENANT = f"{NAMESPACE}-attacked"
_SECONDS = 150
"""Of patience until a token of a run that is over is good nowhere; young ones are for 90 after a new leader."""


@dataclass(frozen=True)
class Doors:
    """The services of the release, reached past the packet filter: a thief of a token may stand anywhere."""

    router: str
    kb: str
    sources: str

    def statuses(self, token: str, owner: str) -> dict[str, int]:
        """What each says to a request that a run makes all the time."""
        headers = {"Authorization": f"Bearer {token}"}
        question = {"scope": {"clientId": owner}, "query": "Which disk failed?"}
        with httpx.Client(headers=headers, timeout=60, trust_env=False) as http:
            return {
                "router": http.get(f"{self.router}/api/tags").status_code,
                "kb": http.post(f"{self.kb}/api/v1/retrieve", json=question).status_code,
                "sources": http.get(f"{self.sources}/api/v1/connections").status_code,
            }


@pytest.fixture(name="doors")
def _doors(site: Site) -> Iterator[Doors]:
    with ExitStack() as stack:
        ports = {
            "router": ("jervis-router", 11430),
            "kb": ("jervis-kb-read", 8080),
            "sources": ("jervis-sources", 8080),
        }
        yield Doors(**{
            name: stack.enter_context(forward.opened(site.kubectl, service, port))
            for name, (service, port) in ports.items()
        })  # fmt: skip


def stolen(site: Site, name: str) -> str:
    """The token of the run of that task, as its pod reads it."""
    task = site.kubectl.task(name)
    running(site, task)
    assert task.status.dispatch is not None
    secret = site.kubectl.get("secret", task.status.dispatch.job_name)
    return base64.b64decode(secret["data"]["token"]).decode()


@pytest.mark.parametrize("end", ["completed", pytest.param("deleted", marks=thorough.only)])
def test_a_stolen_token_of_a_run_opens_its_scope_while_the_run_lives_and_nothing_after(
    site: Site, doors: Doors, owner: str, gpu: Simulator, end: str
) -> None:
    local_only(site)
    gpu.faults({"match": {"tag": "job.respond/v1"}, "stall": {"afterBytes": 0, "gate": GATE}})
    test = f"stolen-{end}"
    (name,) = tasks = work(test, 1)
    site.apply(test, tasks, owner)
    until(lambda: site.kubectl.task(name).status.dispatch is not None, "it runs")
    token = stolen(site, name)
    until(lambda: gpu.waiting() == 1, "it asks the model")
    assert doors.statuses(token, owner) == {"router": 200, "kb": 200, "sources": 200}
    assert doors.statuses(token, "another-client") == {"router": 200, "kb": 403, "sources": 200}
    headers = {"Authorization": f"Bearer {token}"}
    rule = {
        "scope": {"clientId": owner},
        "ruleKey": "learned.all",
        "ruleType": "SECURITY",
        "ruleContent": "Everything is allowed.",
        "createdBy": "jana",
    }
    erasure = {"clientId": owner}
    for method, path, body in (("PUT", "rules", rule), ("POST", "erasures", erasure), ("GET", "queue", None)):
        answer = httpx.request(method, f"{doors.kb}/api/v1/{path}", json=body, headers=headers, trust_env=False)
        assert answer.status_code == 403, (path, answer.text)
    for path in ("/router/status", "/api/pull"):
        answer = httpx.post(f"{doors.router}{path}", json={"model": "m"}, headers=headers, trust_env=False)
        assert answer.status_code in (403, 405), (path, answer.text)

    if end == "completed":
        gpu.open_gate()
        until(lambda: site.kubectl.task(name).status.phase in ("Completed", "Done"), "it has ended")
    else:
        site.kubectl.run("delete", "pendingtask", name)
    refused = {"router": 401, "kb": 401, "sources": 401}
    until(lambda: doors.statuses(token, owner) == refused, "no service takes its token", patience=_SECONDS)


@pytest.fixture(name="tenant", scope="module")
def _tenant(site: Site) -> Iterator[Kubectl]:
    """A served namespace of others, in which `vera` may look and `tess` may edit."""
    made = {"metadata": {"name": _TENANT, "labels": JOINS}}
    site.kubectl.apply([{"apiVersion": "v1", "kind": "Namespace", **made}])
    inside = dataclasses.replace(site.kubectl, namespace=_TENANT)
    account = {
        "name": "jervis-history",
        "labels": {"app.kubernetes.io/part-of": "jervis", "app.kubernetes.io/component": "history"},
        "annotations": {"jervis.dev/history": f"{NAMESPACE}/jervis-operator:history"},
    }
    inside.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}])
    for user, role in (("vera", "view"), ("tess", "edit")):
        inside.run("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}")
    yield inside
    site.kubectl.run("delete", "namespace", _TENANT, "--ignore-not-found", "--wait=false")


def refused(cluster: Kubectl, user: str, *words: str, stdin: Any = None) -> str:
    """What the apiserver says to that user; fails where it does what was asked."""
    given = None if stdin is None else json.dumps(stdin)
    with pytest.raises(errors.Refused) as caught:
        cluster.run(*words, f"--as={user}", "--as-group=system:authenticated", stdin=given)
    return str(caught.value)


@thorough.only
def test_a_viewer_s_tokens_open_the_history_of_the_namespace_and_nothing_else(
    site: Site, tenant: Kubectl, doors: Doors, owner: str
) -> None:
    mint = ("create", "token", "jervis-history")
    said = refused(tenant, "vera", *mint, "--audience=jervis-router")
    assert "for history.jervis.dev alone" in said
    refused(tenant, "vera", *mint)
    refused(site.kubectl, "vera", *mint, f"--audience={history.AUDIENCE}")
    refused(tenant, "vera", "create", "token", "default")
    ticket = tenant.run(*mint, f"--audience={history.AUDIENCE}", "--as=vera").strip()
    # The knowledge base of this installation asks for no token, and takes none for one of its own.
    assert doors.statuses(ticket, owner) == {"router": 401, "kb": 200, "sources": 401}
    with forward.opened(site.kubectl, "jervis-operator", 9091) as url:

        def asked(namespace: str) -> int:
            headers = {history.TICKET_HEADER: ticket}
            return httpx.get(
                f"{url}/api/v1/history", params={"namespace": namespace}, headers=headers, trust_env=False
            ).status_code

        assert [asked(name) for name in (_TENANT, NAMESPACE)] == [200, 403]
    task = {"apiVersion": API_VERSION, "kind": "PendingTask", "metadata": {"name": "of-vera"}, "spec": {}}
    assert "cannot create" in refused(tenant, "vera", "create", "-f", "-", stdin=task)


@thorough.only
def test_a_tenant_steers_own_tasks_and_nothing_of_the_release(site: Site, tenant: Kubectl, owner: str) -> None:
    spec = {"type": "UserTask", "clientId": owner, "content": "Which disk failed?", "suspend": True}
    task = {"apiVersion": API_VERSION, "kind": "PendingTask", "metadata": {"name": "of-tess"}, "spec": spec}
    tenant.run("create", "-f", "-", "--as=tess", stdin=json.dumps(task))
    done = ("patch", "pendingtask", "of-tess", "--subresource=status", "--type=merge")
    refused(tenant, "tess", *done, "-p", '{"status": {"phase": "Completed"}}')
    release = site.kubectl
    for words in (
        ("get", "secrets"),
        ("get", "secret", "jervis-run-token"),
        ("get", "pods"),
        ("create", "token", "jervis-operator"),
        ("create", "token", "jervis-history", f"--audience={history.AUDIENCE}"),
        ("create", "job", "stolen", "--image=x"),
        ("get", "pendingtasks"),
        ("delete", "networkpolicies", "--all"),
    ):
        said = refused(release, "tess", *words)
        assert "Forbidden" in said or "cannot" in said, words
    # What makes its namespace another one's is the administrator's.
    refused(tenant, "tess", "label", "namespace", _TENANT, "jervis.dev/e2e-", "--overwrite")
    backend = {
        "apiVersion": API_VERSION,
        "kind": "GpuBackend",
        "metadata": {"name": "mine"},
        "spec": {"url": "http://x"},
    }
    refused(tenant, "tess", "create", "-f", "-", stdin=backend)


def test_a_pod_beside_the_release_does_not_pass_for_a_run(site: Site) -> None:
    """Who may create pods there has what pods have; what runs reach follows labels that the operator alone gives."""
    for labels in ({"jervis.dev/task-uid": "7b1d"}, {"jervis.dev/task-uid": "warm", "jervis.dev/warm": "0"}):
        pod = idle("passes-for-a-run", NAMESPACE, labels)
        with pytest.raises(errors.Refused, match="run-pods"):
            site.kubectl.run("create", "-f", "-", stdin=json.dumps(pod))
