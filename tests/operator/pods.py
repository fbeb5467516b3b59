"""What plays the pods of the warm pool for its tests: they ask the operator for their task, and work when they may."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from kubernetes import client

from contracts.api import warm_assignment
from controllers import settings
from controllers.pendingtask import job, warm, warm_pool
from controllers.runtime import clients
from crds import labels
from tests.fakes import nodes
from tests.operator.conftest import Space
from tests.operator.process import Operator, Start
from tests.waiting import until

CHAT = {"type": "UserInputProcessing", "mode": "Foreground"}


class Asking:
    """Asks for the task of each pod, as the program in it does; `mute` pods ask once, and those of `cut` never."""

    def __init__(self, space: Space) -> None:
        self._space, self._tokens = space, dict[str, str]()
        self.port, self.mute, self.cut = 0, False, False

    def __call__(self, pod: dict[str, Any]) -> None:
        asked = labels.HANDOVER in pod["metadata"].get("annotations", {})
        if not self.port or self.cut or (asked and self.mute):
            return
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if uid not in self._tokens:
            self._tokens[uid] = bound(self._space, name, uid)
        with contextlib.suppress(httpx.HTTPError):  # an operator that is gone: it asks again
            ask(self.port, self._tokens[uid])


def bound(space: Space, name: str, uid: str) -> str:
    """A token for the handover that is bound to a pod, as the kubelet gets one."""
    pod = client.V1BoundObjectReference(kind="Pod", api_version="v1", name=name, uid=uid)
    wanted = client.V1TokenRequestSpec(audiences=[warm_assignment.AUDIENCE], bound_object_ref=pod)
    made: Any = space.core.create_namespaced_service_account_token(
        "default", space.name, client.AuthenticationV1TokenRequest(spec=wanted)
    )
    return str(made.status.token)


def ask(port: int, token: str, wait: int = 0) -> httpx.Response:
    """One request of a pod."""
    url, headers = f"http://127.0.0.1:{port}{warm_assignment.PATH}", {"Authorization": f"Bearer {token}"}
    return httpx.get(url, headers=headers, params={"wait": wait}, timeout=120, verify=False)


def waiting(space: Space) -> list[Any]:
    """Jobs that no run has."""
    return [one for one in space.jobs() if one.metadata.labels[labels.TASK_UID] == labels.NO_TASK]


def claimed(space: Space) -> list[Any]:
    """Warm Jobs that a run has."""
    return [
        one
        for one in space.jobs()
        if warm.named(one.metadata.name) and one.metadata.labels[labels.TASK_UID] != labels.NO_TASK
    ]


def ready(operator: Operator, size: int) -> None:
    """Return once so many pods wait."""
    until(lambda: operator.metric("jervis_warm_pool_idle") == size, f"{size} pods wait")


@pytest.fixture
def asking(space: Space) -> Asking:
    return Asking(space)


@pytest.fixture
def start(start: Start, asking: Asking) -> Start:
    """The operator, which the pods ask."""
    return functools.partial(reachable, start, asking)


@contextlib.asynccontextmanager
async def leading(space: Space, **own: Any) -> AsyncIterator[tuple[settings.Settings, clients.Clients]]:
    """Clients that hold the Lease. `own`: settings."""
    config = settings.Settings(namespace=space.name, warm_pool=1, **own)
    to = clients.Clients(config)
    to.lease.start()
    await to.acquired.wait()
    try:
        yield config, to
    finally:
        await to.close()


@contextlib.contextmanager
def reachable(start: Start, asking: Asking, **own: object) -> Iterator[Operator]:
    """An operator that the pods ask."""
    with start(**{"JOB_SERVICE_ACCOUNT": "default", **own}) as operator:
        asking.port = operator.history_port
        yield operator


def pool_of(
    to: clients.Clients, template: job.Template, monotonic: Callable[[], float] = lambda: 0.0
) -> warm_pool.WarmPool:
    """A pool of one pod."""
    return warm_pool.WarmPool(
        to.api,
        template,
        size=1,
        url="http://operator",
        token=lambda: to.lease.token,
        measured=to.metrics,
        wall=lambda: datetime.now(UTC),
        monotonic=monotonic,
    )


def pod_of(made: dict[str, Any]) -> dict[str, Any]:
    """The pod of a warm Job as the Job controller creates it."""
    return nodes.pod(made, f"{made['metadata']['name']}-abcde")


def running(made: dict[str, Any], pod: dict[str, Any] | None = None) -> dict[str, Any]:
    """The pod of a warm Job as the kubelet reports it, once it has asked."""
    meta = made["metadata"]
    new = {
        "namespace": meta["namespace"],
        "uid": "pod",
        "resourceVersion": "1",
        "creationTimestamp": meta["creationTimestamp"],
    }
    known = pod or {"metadata": {**pod_of(made)["metadata"], **new}}
    return {
        "metadata": {**known["metadata"], "annotations": {labels.HANDOVER: warm.ASKED}},
        "status": nodes.pod_status("Running", nodes.running()),
    }
