"""`logs`: the apiserver is real and fetches the log from a kubelet of ours."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client

from cli import kube, waiting
from cli.output import Format, Output
from cli.session import Session
from crds import labels
from hack.cluster import certificates
from router.client import trials
from tests import waiting as wait
from tests.cli import outside, site

pytestmark = pytest.mark.apiserver


@pytest.fixture
def kubelet(place: site.Site) -> Iterator[outside.Kubelet]:
    """A node of the cluster whose kubelet is ours."""
    authority = certificates.Authority(place.kubeconfig.parent / "certificates")
    pair = authority.issue("kubelet", "/CN=kubelet", ("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with outside.Kubelet().in_thread(tls=context) as server:
        node = f"node-{place.namespace}"
        place.core.create_node({"metadata": {"name": node}})
        endpoint = {"kubeletEndpoint": {"Port": server.port}}
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        status = {"status": {"daemonEndpoints": endpoint, "addresses": addresses}}
        place.core.patch_node_status(node, status, _content_type="application/merge-patch+json")
        place.core.create_namespaced_service_account(place.namespace, {"metadata": {"name": "default"}})
        yield server
        server.more.set()


def pod(place: site.Site, name: str, uid: str, attempt: int, state: Any, namespace: str = "") -> None:
    """A pod of a run on that node; `state` is its container's. `namespace`: the release's, if it is another one."""
    container = {"name": labels.CONTAINER, "image": "i"}
    marks = {labels.TASK_UID: uid, labels.ATTEMPT: str(attempt)}
    spec = {"containers": [container], "nodeName": f"node-{place.namespace}", "tolerations": [{"operator": "Exists"}]}
    where = namespace or place.namespace
    place.core.create_namespaced_pod(where, {"metadata": {"name": name, "labels": marks}, "spec": spec})
    running(place, name, state, where)


def running(place: site.Site, name: str, state: Any, namespace: str = "", container: str = labels.CONTAINER) -> None:
    """Say what the pod's container does."""
    told = {"name": container, "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    status = {"status": {"phase": "Running", "containerStatuses": [told]}}
    place.core.patch_namespaced_pod_status(
        name, namespace or place.namespace, status, _content_type="application/strategic-merge-patch+json"
    )


_TRIALS = {"app.kubernetes.io/part-of": "jervis", "jervis.dev/trials": "true"}


def trial(task: str, verdict: str) -> bytes:
    result = {"role": "planner", "model": "m", "task": task, "language": "en", "verdict": verdict, "tries": 1}
    return f"{trials.MARK}{json.dumps(result)}\n".encode()


def test_models_are_asked_by_a_job_of_the_release(place: site.Site, kubelet: outside.Kubelet) -> None:
    """The Job is made from the CronJob; the test plays its controller."""
    announced = f"{trials.COUNT}2\n".encode()
    kubelet.log = (announced + trial("a plan", "Right"), b"something else\n" + trial("a call", "Wrong"))
    batch: Any = client.BatchV1Api(place.core.api_client)
    pod_spec = {"containers": [{"name": "trials", "image": "i"}], "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": pod_spec}}}
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": template}
    asked = place.start("models", "--check", "-o", "json")
    site.ended(asked).refused("has no CronJob with the labels")
    batch.create_namespaced_cron_job(place.namespace, {"metadata": {"name": "check", "labels": _TRIALS}, "spec": spec})
    asked = place.start("models", "--check", "-o", "json")
    [job] = wait.until(lambda: batch.list_namespaced_job(place.namespace).items, "the Job is made")
    assert job.metadata.name.startswith("check-")
    assert (job.metadata.labels["a"], job.metadata.owner_references[0].kind) == ("b", "CronJob")
    made = {**pod_spec, "nodeName": f"node-{place.namespace}", "tolerations": [{"operator": "Exists"}]}
    marks = {"batch.kubernetes.io/job-name": job.metadata.name}
    place.core.create_namespaced_pod(place.namespace, {"metadata": {"name": "t", "labels": marks}, "spec": made})
    running(place, "t", {"running": {}}, container="trials")
    kubelet.more.set()
    complete = [{"type": word, "status": "True"} for word in ("SuccessCriteriaMet", "Complete")]
    at = "2026-03-02T08:00:00Z"
    status = {"status": {"startTime": at, "completionTime": at, "succeeded": 1, "conditions": complete}}
    batch.patch_namespaced_job_status(
        job.metadata.name, place.namespace, status, _content_type="application/merge-patch+json"
    )
    done = site.ended(asked)
    assert (done.code, [result["task"] for result in done.json["results"]]) == (1, ["a plan", "a call"])
    told = [line.split() for line in done.err.splitlines() if not line.startswith("The Job waits")]
    assert told == [["1", "Right", "planner:", "a", "plan"], ["2", "Wrong", "planner:", "a", "call"]]
    assert site.ended(place.start("models", "--check", "--model", "m")).code == 1


def test_following(place: site.Site, kubelet: outside.Kubelet) -> None:
    uid = place.task("q", status={"phase": "Orchestrating", "attempt": 2})["metadata"]["uid"]
    pod(place, "run-1", uid, 1, {"terminated": {"exitCode": 42}})
    pod(place, "run-2", uid, 2, {"running": {}})
    process = place.start("logs", "-f", "q")
    assert process.stdout.readline() == "first line\n"
    # The first line is out while the second is not yet written: it streams.
    kubelet.more.set()
    done = site.ended(process)
    assert (done.code, done.out, done.err) == (0, "poslední\n", "")
    [(path, query)] = kubelet.asked
    assert path == f"/containerLogs/{place.namespace}/run-2/orchestrator"
    assert query["follow"] == "true"


def test_following_waits_for_the_container(place: site.Site, kubelet: outside.Kubelet) -> None:
    uid = place.task("q", status={"phase": "DispatchedGpu", "attempt": 2})["metadata"]["uid"]
    pod(place, "run-1", uid, 1, {"terminated": {"exitCode": 42}})
    connected = kube.connect(str(place.kubeconfig), None, place.namespace, 10.0)
    steps: list[Callable[[], None]] = [
        lambda: pod(place, "run-2", uid, 2, {"waiting": {"reason": "ContainerCreating"}}),
        lambda: running(place, "run-2", {"running": {}}),
    ]
    session = Session(connected, Output(Format.TABLE), sleep=lambda _: steps.pop(0)())
    assert waiting.pod(session, "q", None, follow=True)["metadata"]["name"] == "run-2"
    assert steps == []
    connected.close()


def test_an_earlier_run(place: site.Site, kubelet: outside.Kubelet, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    kubelet.more.set()
    uid = place.task("q", status={"phase": "Completed"})["metadata"]["uid"]
    pod(place, "run-1", uid, 1, {"terminated": {"exitCode": 42}})
    pod(place, "run-2", uid, 2, {"terminated": {"exitCode": 0}})
    done = site.call(capfdbinary, "logs", "q", "--attempt", "1", "--tail", "5", *place.flags()).succeeded()
    assert bytes(done.out) == "first line\nposlední\n".encode()  # type: ignore[arg-type]  # capfdbinary gives bytes
    [(path, query)] = kubelet.asked
    assert path.endswith("/run-1/orchestrator")
    assert query == {"tailLines": "5"}


def test_a_tenants_run_is_in_the_releases_namespace(
    place: site.Site, kubelet: outside.Kubelet, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The chart's account for the history says which one that is."""
    kubelet.more.set()
    home = f"{place.namespace}-release"
    place.core.create_namespace({"metadata": {"name": home}})
    place.core.create_namespaced_service_account(home, {"metadata": {"name": "default"}})
    place.operator(namespace=home)
    uid = place.task("q", status={"phase": "Completed"})["metadata"]["uid"]
    pod(place, "forged", uid, 2, {"terminated": {"exitCode": 0}})
    pod(place, "run-1", uid, 1, {"terminated": {"exitCode": 0}}, home)
    done = site.call(capfdbinary, "logs", "q", *place.flags())
    assert (done.code, bytes(done.out)) == (0, "first line\nposlední\n".encode())  # type: ignore[arg-type]  # bytes
    assert [path for path, _ in kubelet.asked] == [f"/containerLogs/{home}/run-1/orchestrator"]


def test_there_is_no_log(place: site.Site, kubelet: outside.Kubelet, call: site.Call) -> None:
    place.task("new", status={"phase": "ReadyForGpu"})
    call("logs", "new").refused("a run of PendingTask 'new' has no pod (phase ReadyForGpu)")
    uid = place.task("stuck", status={"phase": "DispatchedGpu"})["metadata"]["uid"]
    pod(place, "run", uid, 1, {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
    done = call("logs", "stuck")
    assert "has not started: ImagePullBackOff no such image (phase DispatchedGpu)" in done.err
    # Nobody waits for a log that will not come.
    for phase in ("Done", "UserTask"):
        place.task(phase.lower(), status={"phase": phase})
        call("logs", "-f", phase.lower()).refused()
    assert kubelet.asked == []
