"""An archivist of the test's own against the real apiserver and MongoDB's wire, with the test's clocks."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from prometheus_client import CollectorRegistry

import kube
from clients import mongo
from controllers import backpressure
from controllers.archive import mongo as archives
from controllers.archive import reconcile, retention, sweep
from controllers.metrics import Metrics
from tests.operator.conftest import Space, database_name
from tests.waiting import until

LEASE = "2027-03-01T12:00:00Z"
"""When the Lease was created under which this archivist works."""


@dataclass
class House:
    """`api` is the test's own client, not counted; `registry` has the archivist's metrics."""

    archivist: reconcile.Archivist
    archive: archives.Archive
    api: kube.Kube
    registry: CollectorRegistry

    def metric(self, name: str, **labels: str) -> float:
        """One sample; 0.0 when there is none."""
        return self.registry.get_sample_value(f"jervis_operator_{name}", labels) or 0.0


@asynccontextmanager
async def house(
    space: Space,
    kubeconfig: Path,
    mongodb_uri: str,
    *,
    namespaces: Sequence[str] = (),
    terms: sweep.Terms | None = None,
    pace: reconcile.Pace | None = None,
    periods: retention.Periods | None = None,
    live: Callable[[str], bool] = lambda uid: False,
    wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    busy: Callable[[], bool] = lambda: False,
    monotonic: Callable[[], float] = lambda: 0.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    counted: Callable[[str, int], None] = lambda verb, code: None,
) -> AsyncIterator[House]:
    """`busy` counts as live work in both senses: tasks wait, and tasks are being processed."""
    await asyncio.to_thread(until, lambda: _listed(space), "tasks can be listed")
    loaded = kube.configuration(str(kubeconfig))
    registry = CollectorRegistry()
    measured = Metrics(registry)
    with closing(mongo.client(mongodb_uri, absent=2.0)) as store:
        archive = archives.Archive(store[database_name(space)], fence=lambda: None)
        async with kube.session(loaded) as http:
            api = kube.Kube(loaded, http, fence=lambda: None, counted=counted)
            kept = retention.Retention(
                api, archive, periods or retention.Periods(), live=live, lease=lambda: LEASE, measured=measured
            )
            archivist = reconcile.Archivist(
                api,
                archive,
                namespaces=namespaces or [space.name],
                runs=space.name,
                terms=terms or sweep.Terms(),
                pace=pace or reconcile.Pace(),
                kept=kept,
                ran=lambda uid: False,
                measured=measured,
                wall=wall,
                throttle=backpressure.Backpressure(busy, monotonic=monotonic, sleep=sleep),
                busy=busy,
                monotonic=monotonic,
                sleep=sleep,
            )
            yield House(archivist, archive, kube.Kube(loaded, http, fence=lambda: None, timeout=60.0), registry)


Open = Callable[..., AbstractAsyncContextManager[House]]


@pytest.fixture
def opened(space: Space, kubeconfig: Path, mongodb_uri: str, database: Any) -> Open:
    """A house over this namespace and its database."""
    return functools.partial(house, space, kubeconfig, mongodb_uri)


def _listed(space: Space) -> bool:
    """429 for a moment after the definitions were made; a sweep then leaves the namespace alone."""
    try:
        space.every()
    except client.ApiException:
        return False
    return True


async def ended(house: House, space: Space, name: str, at: datetime, **spec: object) -> kube.Object:
    """A Completed task, as the operator leaves one."""
    known = {"type": "EmailProcessing", "clientId": "acme", "content": "hello", **spec}
    body = {"apiVersion": "jervis.dev/v1alpha1", "kind": "PendingTask", "metadata": {"name": name}, "spec": known}
    await house.api.create(kube.TASKS, space.name, body)
    stamp = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    status = {"phase": "Completed", "completedAt": stamp, "phaseTimes": {"Completed": stamp}}
    return await house.api.merge(kube.TASKS, space.name, name, {"status": status}, "status")
