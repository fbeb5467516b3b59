"""A tenant who may do everything in the own namespace tries what is not the tenant's, on the chart as installed.

What is real and what is played stands in `walls`. Each case is refused where it is tried, or has no effect. Which pods
reach which services is a matter of test_network.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controllers.pendingtask import job
from tests.chart import walls as building
from tests.chart.rendering import Chart
from tests.chart.walls import HOME, OWN, Walls
from tests.operator.test_tenants import forge, paid
from tests.waiting import until

VICTIM = "victim"
VALUES = (
    "--set", f"watchNamespaces={{{OWN}}}", "--set", f"admission.namespaces.{OWN}.clients={{tess}}",
    "--set", f"admission.namespaces.{OWN}.modes={{Background}}",
    "--set", f"admission.namespaces.{OWN}.queuePosition=1000", "--set", "rbac.connectionSecrets={imap}",
)  # fmt: skip
OURS, CORE, BATCH = "/apis/jervis.dev/v1alpha1", "/api/v1", "/apis/batch/v1"
RBAC, LEASES = "/apis/rbac.authorization.k8s.io/v1", "/apis/coordination.k8s.io/v1"
REF = {"store": "gridfs", "key": "the-victim-s", "sha256": "0" * 64, "bytes": 5}


@pytest.fixture(scope="module")
def walls(chart: Chart, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walls]:
    with building.standing(chart, tmp_path_factory.mktemp("walls"), *VALUES) as found:
        yield found


# -- what is refused ---------------------------------------------------------------------------------------------------


def task(**spec: Any) -> dict[str, Any]:
    known = {"type": "EmailProcessing", "clientId": "tess", "mode": "Background", "content": "What do you know?"}
    meta = {"name": "tried", "namespace": spec.pop("namespace", OWN)}
    return {"apiVersion": "jervis.dev/v1alpha1", "kind": "PendingTask", "metadata": meta, "spec": {**known, **spec}}


def connection(url: str, client: str = "tess") -> dict[str, Any]:
    spec = {"type": "Git", "clientId": client, "url": url}
    return {"apiVersion": "jervis.dev/v1alpha1", "kind": "Connection", "metadata": {"name": "tried"}, "spec": spec}


def backend(url: str) -> dict[str, Any]:
    meta = {"name": "tried"}
    return {"apiVersion": "jervis.dev/v1alpha1", "kind": "GpuBackend", "metadata": meta, "spec": {"url": url}}


def pod(**labels: str) -> dict[str, Any]:
    spec = {"restartPolicy": "Never", "containers": [{"name": job.CONTAINER, "image": "fake"}]}
    return {"metadata": {"name": "tried", "labels": labels}, "spec": spec}


def workload() -> dict[str, Any]:
    return {"metadata": {"name": "tried", "labels": {job.UID_LABEL: "u"}}, "spec": {"template": pod()}}


TASKS, CONNECTIONS, BACKENDS = (
    f"{OURS}/namespaces/{OWN}/{one}" for one in ("pendingtasks", "connections", "gpubackends")
)
NOT_ALLOWED = 'cannot {} resource "{}"'
Attempt = tuple[str, str, str, dict[str, Any] | None, str]
"""What is tried, verb, path, body, and the words of the refusal."""
REFUSED: list[Attempt] = [
    ("another client's data", "POST", TASKS, task(clientId=VICTIM), "spec.clientId: victim is not a client"),
    ("another client's source", "POST", CONNECTIONS, connection("https://git.example.com/x", VICTIM), "spec.clientId"),
    ("urgency by mode", "POST", TASKS, task(mode="Foreground"), "spec.mode: Foreground is not for namespace"),
    ("urgency by type", "POST", TASKS, task(type="UserInputProcessing"), "UserInputProcessing is always Foreground"),
    ("the head of the queue", "POST", TASKS, task(queuePosition=1), "spec.queuePosition: 1 is not for namespace"),
    ("a result of one's own", "PATCH", f"{TASKS}/mine/status", {"status": {"phase": "Completed"}}, "written by"),
    ("a working connection", "PATCH", f"{CONNECTIONS}/mine/status", {"status": {"observedGeneration": 9}}, "alone"),
    ("a ready backend", "PATCH", f"{BACKENDS}/mine/status", {"status": {"observedGeneration": 9}}, "alone"),
    ("files of our processes", "POST", CONNECTIONS, connection("file:///etc/passwd"), "file:// is not allowed"),
    *(
        (f"metadata as {host}", "POST", path, made(f"http://{host}/x"), "no other notation of an address is taken")
        for host in ("2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518")
        for path, made in ((CONNECTIONS, connection), (BACKENDS, backend))
    ),
    ("a task elsewhere", "POST", f"{OURS}/namespaces/{HOME}/pendingtasks", task(namespace=HOME),
     NOT_ALLOWED.format("create", "pendingtasks")),
    ("tasks elsewhere", "GET", f"{OURS}/namespaces/{HOME}/pendingtasks", None,
     NOT_ALLOWED.format("list", "pendingtasks")),
    ("tasks everywhere", "GET", f"{OURS}/pendingtasks", None, NOT_ALLOWED.format("list", "pendingtasks")),
    ("a backend that counts", "POST", f"{OURS}/namespaces/{HOME}/gpubackends", backend("http://mine:11434"),
     NOT_ALLOWED.format("create", "gpubackends")),
    ("the release's keys", "GET", f"{CORE}/namespaces/{HOME}/secrets/keys", None, NOT_ALLOWED.format("get", "secrets")),
    ("all Secrets", "GET", f"{CORE}/namespaces/{HOME}/secrets", None, NOT_ALLOWED.format("list", "secrets")),
    ("a run", "POST", f"{BATCH}/namespaces/{HOME}/jobs", workload(), NOT_ALLOWED.format("create", "jobs")),
    ("a pod of a run", "POST", f"{CORE}/namespaces/{HOME}/pods", pod(), NOT_ALLOWED.format("create", "pods")),
    ("logs of runs", "GET", f"{CORE}/namespaces/{HOME}/pods/any/log", None, NOT_ALLOWED.format("get", "pods/log")),
    ("the operator's account", "POST", f"{CORE}/namespaces/{HOME}/serviceaccounts/jervis-operator/token", {"spec": {}},
     NOT_ALLOWED.format("create", "serviceaccounts/token")),
    ("rights elsewhere", "POST", f"{RBAC}/namespaces/{HOME}/rolebindings", {"metadata": {"name": "tried"}, "roleRef":
     {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}},
     NOT_ALLOWED.format("create", "rolebindings")),
    ("leadership", "PATCH", f"{LEASES}/namespaces/{HOME}/leases/jervis-operator", {"spec": {"holderIdentity": "tess"}},
     NOT_ALLOWED.format("patch", "leases")),
    *(
        (f"limits of one's own by {path or 'the object'}", "PATCH", f"{CORE}/namespaces/{OWN}{path}",
         {"metadata": {"annotations": {"jervis.dev/clients": "tess,victim"}}}, "decides whether Jervis serves this")
        for path in ("", "/status")
    ),
]  # fmt: skip


@pytest.mark.apiserver
@pytest.mark.services
@pytest.mark.parametrize(
    ("verb", "path", "body", "words"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED]
)
def test_it_is_refused(walls: Walls, verb: str, path: str, body: Any, words: str) -> None:
    if path.endswith("/mine/status"):
        make(walls, path.split("/")[-3])
    kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
    answer = walls.tess.request(verb, path, json=body, headers={"Content-Type": kind})
    assert answer.status_code in (403, 422), answer.text
    assert words in answer.json()["message"]


def make(walls: Walls, plural: str) -> None:
    """An object `mine` of the tenant's, which the tenant may create."""
    bodies = {
        "pendingtasks": task(suspend=True),
        "connections": connection("https://git.example.com/x"),
        "gpubackends": backend("http://gpu.example.com:11434"),
    }
    body = {**bodies[plural], "metadata": {"name": "mine"}}
    assert walls.tess.post(f"{OURS}/namespaces/{OWN}/{plural}", json=body).status_code in (201, 409)


# -- what has no effect ------------------------------------------------------------------------------------------------


def forged_result(walls: Walls) -> None:
    """A pod that has ended with an answer, under the labels of a task at work."""
    raw = walls.own.submit("worked-on", clientId="tess", mode="Background")
    until(lambda: walls.own.phase("worked-on") == "Orchestrating", "it runs")
    forge(walls.own, raw, 1, **paid())
    walls.fence("after-the-result")
    status = walls.own.status("worked-on")
    assert (status["phase"], "result" in status) == ("Orchestrating", False)
    walls.own.delete("worked-on")
    until(lambda: walls.home.jobs() == [], "its run is removed")


def forged_runs_take_slots(walls: Walls) -> None:
    """Live pods that claim the backend, as many as there are slots."""
    for number in (1, 2):
        held = walls.own.submit(f"claims-{number}", clientId="tess", mode="Background", suspend=True)
        forge(walls.own, held, 1, phase="Running")
    walls.fence("after-the-claims")
    chats = [f"chat-{number}" for number in (1, 2)]
    for name in chats:
        walls.home.submit(name, type="UserInputProcessing", clientId=VICTIM, mode="Foreground")
    until(lambda: {walls.home.phase(one) for one in chats} == {"Orchestrating"}, "every slot is free for the victim")
    for name in chats:
        walls.home.delete(name)
    until(lambda: walls.home.jobs() == [], "their runs are removed")


def backend_of_ones_own(walls: Walls) -> None:
    """64 slots under the name of the real backend: no more runs than the two real slots, and none is lost by it."""
    body = {**backend(walls.gpu), "metadata": {"name": "gpu-0"}}
    body["spec"]["numParallel"] = 64
    assert walls.tess.post(BACKENDS, json=body).status_code == 201
    until(lambda: "conditions" in walls.own.get("gpu-0", "gpubackends").get("status", {}), "the operator has seen it")
    found = {one["type"]: one for one in walls.own.get("gpu-0", "gpubackends")["status"]["conditions"]}
    assert (found["Ready"]["status"], found["Ready"]["reason"]) == ("False", "WrongNamespace")
    names = [f"mail-{number}" for number in range(3)]
    for name in names:
        walls.own.submit(name, clientId="tess", mode="Background")
    until(lambda: [walls.own.phase(one) for one in names].count("Orchestrating") == 2, "two run")
    until(lambda: [walls.own.phase(one) for one in names].count("ReadyForGpu") == 1, "the third waits")
    walls.fence("after-the-backend")
    assert len(walls.home.jobs()) == 2
    for name in names:
        walls.own.delete(name)
    until(lambda: walls.home.jobs() == [], "their runs are removed")


def sources_of_another_client(walls: Walls) -> None:
    """The victim's sourceUrn and contentRef: they are looked up in the tenant's scope, where they are nothing."""
    walls.own.submit("urn", "INFO", clientId="tess", mode="Background", sourceUrn="email::the-victim-s")
    walls.own.create(
        "pendingtasks", "PendingTask", "ref",
        {"type": "EmailProcessing", "clientId": "tess", "mode": "Background", "contentRef": REF},
    )  # fmt: skip
    until(
        lambda: {"urn", "ref"} <= {name for name, phase in walls.own.phases().items() if phase != "New"},
        "both are read",
    )

    def asked() -> list[Any]:
        found = list(walls.knowledge.requests)
        return [one for one in found if one.source_urn == "email::the-victim-s" or one.content_ref is not None]

    until(lambda: len(asked()) >= 2, "the knowledge base is asked for both")
    assert {one.scope.client_id for one in asked()} == {"tess"}
    walls.own.delete("ref")


def history_of_another_namespace(walls: Walls) -> None:
    """A token of an account that bears the name of the release's, in the tenant's namespace."""
    ticket = walls.own.ticket()
    refused = walls.operator.history(f"/api/v1/history?namespace={HOME}", ticket)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")


NO_EFFECT = [
    forged_result, forged_runs_take_slots, backend_of_ones_own, sources_of_another_client, history_of_another_namespace,
]  # fmt: skip


@pytest.mark.apiserver
@pytest.mark.services
@pytest.mark.parametrize("attempt", NO_EFFECT, ids=lambda one: one.__name__)
def test_it_has_no_effect(walls: Walls, attempt: Callable[[Walls], None]) -> None:
    attempt(walls)
