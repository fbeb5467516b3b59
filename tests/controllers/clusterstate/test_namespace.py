"""What a run sees of a namespace of a real apiserver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

import kube
from contracts.api import cluster_state
from contracts.api.cluster_state import Part
from controllers.clusterstate import reading
from tests import waiting
from tests.conftest import api_client
from tests.controllers.build import present

pytestmark = pytest.mark.apiserver
NAMESPACE, ELSEWHERE = "state-of-a-team", "state-of-another"
CANARIES = ("canary-env", "canary-arg", "canary-secret", "canary-config", "canary-label", "canary-note", "canary-log")
AT = "2026-11-26T10:00:00Z"


def pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"l": "canary-label"}, "annotations": {"n": "canary-note"}},
        "spec": {
            "containers": [
                {
                    "name": "app", "image": "registry.test/app:1", "command": ["/bin/app", "canary-arg"],
                    "args": ["--dsn=canary-arg"], "env": [{"name": "DSN", "value": "canary-env"}],
                    "resources": {"limits": {"memory": "64Mi"}},
                }
            ]
        },
    }  # fmt: skip


def failing() -> dict[str, Any]:
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": AT, "startedAt": AT, "message": "canary-log"}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting /bin/app --dsn=canary-arg"}
    ready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": AT}
    return {
        "phase": "Running",
        "conditions": [ready, {"type": "Initialized", "status": "True", "lastTransitionTime": AT}],
        "containerStatuses": [
            {
                "name": "app", "image": "registry.test/app:1", "imageID": "", "ready": False, "restartCount": 7,
                "state": {"waiting": waiting}, "lastState": {"terminated": ended},
            }
        ],
    }  # fmt: skip


def _fill(api: Any) -> None:
    # Objects are sent as they are written here, and not as the client's classes.
    core: Any = client.CoreV1Api(api)
    apps: Any = client.AppsV1Api(api)
    batch: Any = client.BatchV1Api(api)
    discovery: Any = client.DiscoveryV1Api(api)
    for name in (NAMESPACE, ELSEWHERE):
        core.create_namespace({"metadata": {"name": name}})
        account = {"metadata": {"name": "default"}}
        core.create_namespaced_service_account(name, account)
    core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": "s"}, "stringData": {"k": "canary-secret"}})
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "c"}, "data": {"k": "canary-config"}})
    for name in ("app-1", "app-2"):
        core.create_namespaced_pod(NAMESPACE, pod(name))
    core.create_namespaced_pod(ELSEWHERE, pod("app-of-another"))
    core.patch_namespaced_pod_status("app-2", NAMESPACE, {"status": failing()})
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    apps.create_namespaced_deployment(NAMESPACE, {"metadata": {"name": "app"}, "spec": spec})
    stopped = {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}
    status = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "conditions": [stopped]}
    apps.patch_namespaced_deployment_status("app", NAMESPACE, {"status": status})
    job = {"template": {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}}
    cron = {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": job}}
    batch.create_namespaced_cron_job(NAMESPACE, {"metadata": {"name": "nightly"}, "spec": cron})
    batch.create_namespaced_job(NAMESPACE, {"metadata": {"name": "once"}, "spec": job})
    ports = [{"name": "http", "port": 80}]
    core.create_namespaced_service(NAMESPACE, {"metadata": {"name": "app"}, "spec": {"ports": ports}})
    ends = [{"addresses": ["10.0.0.1"], "conditions": {"ready": one}} for one in (True, False)]
    discovery.create_namespaced_endpoint_slice(
        NAMESPACE,
        {
            "metadata": {"name": "app-x", "labels": {"kubernetes.io/service-name": "app"}},
            "addressType": "IPv4", "endpoints": ends, "ports": [],
        },
    )  # fmt: skip
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    core.create_namespaced_persistent_volume_claim(NAMESPACE, {"metadata": {"name": "data"}, "spec": claim})
    core.create_namespaced_resource_quota(NAMESPACE, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}})
    for number, (kind, name) in enumerate((("Pod", "app-2"), ("Pod", "app-1"), ("Job", "once"))):
        core.create_namespaced_event(
            NAMESPACE,
            {
                "metadata": {"name": f"e{number}"}, "type": "Warning", "reason": "BackOff", "count": number + 1,
                "message": "could not start /bin/app --dsn=canary-arg with canary-env",
                "involvedObject": {"kind": kind, "name": name, "namespace": NAMESPACE},
                "lastTimestamp": f"2026-11-26T1{number}:00:00Z", "source": {"component": "kubelet"},
            },
        )  # fmt: skip


@pytest.fixture(scope="module")
def filled(kubeconfig: Path) -> Path:
    api = api_client(kubeconfig)
    _fill(api)
    api.close()
    return kubeconfig


@pytest.fixture
async def cluster(filled: Path) -> AsyncIterator[kube.Kube]:
    loaded = kube.configuration(str(filled))
    session = kube.session(loaded)
    yield kube.Kube(loaded, session, fence=lambda: None)
    await session.close()


async def read(api: kube.Kube, *logs: str, **asked: Any) -> cluster_state.State:
    reads = reading.Reading(api, reading.Allowed("jervis", logs=frozenset(logs)))
    return await reads.state(reading.Asked(NAMESPACE, **{"parts": tuple(Part), **asked}))


async def test_a_namespace_is_shown_without_what_is_confidential(cluster: kube.Kube) -> None:
    found = await read(cluster)
    text = found.model_dump_json()
    assert [one for one in CANARIES if one in text] == []
    assert ELSEWHERE not in text
    assert "app-of-another" not in text
    sick, well = present(found.pods).items
    assert (sick.name, sick.phase, sick.ready, sick.deleting) == ("app-2", "Running", "0/1", False)
    assert [(one.type, one.reason) for one in sick.conditions] == [("Ready", "ContainersNotReady")]
    [app] = sick.containers
    assert (app.state, app.reason, app.restarts) == ("waiting", "CrashLoopBackOff", 7)
    assert app.message == "back-off restarting /bin/app ***"
    assert app.last == cluster_state.Ended(reason="OOMKilled", exit_code=137, finished_at=AT)
    assert (app.image, app.limits) == ("registry.test/app:1", {"memory": "64Mi"})
    assert (well.name, well.phase) == ("app-1", "Pending")


async def test_a_termination_message_is_a_part_of_the_log(cluster: kube.Kube) -> None:
    shown = await read(cluster, reading.EVERYWHERE, parts=(Part.PODS,))
    last = present(present(shown.pods).items[0].containers[0].last)
    assert last.message == "canary-log"


async def test_workloads_services_volumes_and_quotas_are_as_the_apiserver_has_them(cluster: kube.Kube) -> None:
    found = await read(cluster)
    assert found.workloads is not None
    by_name = {one.name: one for one in found.workloads.items}
    app, cron, once = by_name["app"], by_name["nightly"], by_name["once"]
    assert (app.kind, app.desired, app.ready, app.updated, app.available) == ("Deployment", 2, 1, 2, 0)
    assert (app.observed, app.images) == (True, ("registry.test/app:1",))
    assert [(one.type, one.status) for one in app.conditions] == [("Available", "False")]
    assert (cron.kind, cron.schedule, cron.suspended, cron.images) == (
        "CronJob", "0 3 * * *", True, ("registry.test/app:1",),
    )  # fmt: skip
    assert (once.kind, once.desired, once.ready, once.failed) == ("Job", 1, 0, 0)
    # What has less than it should have comes first.
    assert found.workloads.items[-1].name == "nightly"
    assert found.services is not None
    [service] = found.services.items
    assert (service.name, service.ports, service.ready, service.not_ready) == ("app", ("http:80/TCP",), 1, 1)
    [volume] = present(found.volumes).items
    assert (volume.name, volume.requested, volume.phase) == ("data", "1Gi", "Pending")
    [quota] = present(found.quotas).items
    assert quota.hard == {"pods": "5"}
    assert {one.unread for one in (found.pods, found.workloads, found.services) if one is not None} == {""}


async def test_events_are_the_latest_first_and_found_by_their_object(cluster: kube.Kube) -> None:
    found = await read(cluster, parts=(Part.EVENTS,), limit=2)
    assert found.events is not None
    assert [(one.about, one.count) for one in found.events.items] == [("Job/once", 3), ("Pod/app-1", 2)]
    assert (found.events.left_out, found.pods) == (1, None)
    assert found.events.items[0].message == "could not start /bin/app *** with ***"
    named = await read(cluster, parts=(Part.EVENTS, Part.PODS), name="app-2")
    assert [one.about for one in present(named.events).items] == ["Pod/app-2"]
    assert [one.name for one in present(named.pods).items] == ["app-2"]


async def test_logs_are_of_pods_of_the_namespace_alone(cluster: kube.Kube) -> None:
    reads = reading.Reading(cluster, reading.Allowed("jervis", logs=frozenset({"*"})))
    # Without a node there is none to ask.
    assert (await reads.log(NAMESPACE, "app-1", "", 10, previous=False)).text == ""
    for name in ("app-of-another", "none"):
        with pytest.raises(kube.NotFound):
            await waiting.done(reads.log(NAMESPACE, name, "", 10, previous=False))
