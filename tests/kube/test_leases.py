"""The Lease object itself: what the apiserver keeps, and what routers of the former version write and read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kube
from kube import lease
from tests import waiting
from tests.conftest import api_client

pytestmark = pytest.mark.apiserver
NOW = datetime(2027, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)


@pytest.fixture(name="leases")
def _leases(kubeconfig: Path) -> Iterator[Any]:
    from kubernetes import client

    api = api_client(kubeconfig)
    yield client.CoordinationV1Api(api)
    api.close()


def record(holder: str, transitions: int = 0, version: str = "") -> lease.Record:
    return lease.Record(holder, 3.0, NOW, NOW, transitions, version)


def test_what_is_written_is_read_and_an_old_version_is_refused(kubeconfig: Path) -> None:
    store = kube.LeaseStore(kube.configuration(str(kubeconfig)), "default", "written")
    assert store.read() is None
    first = store.write(record("one"))
    assert store.read() == first
    assert (first.holder, first.duration, first.acquired, first.renewed) == ("one", 3.0, NOW, NOW)
    assert first.created.endswith("Z")
    with pytest.raises(lease.ContestedError):
        store.write(record("two"))
    second = store.write(record("two", 1, first.version))
    with pytest.raises(lease.ContestedError):
        store.write(record("one", 1, first.version))
    assert store.read() == second
    store.close()


def test_one_that_was_deleted_is_made_anew_by_its_holder_and_not_over_another_s(kubeconfig: Path, leases: Any) -> None:
    store = kube.LeaseStore(kube.configuration(str(kubeconfig)), "default", "gone")
    held = store.write(record("one", 4))
    leases.delete_namespaced_lease("gone", "default")
    again = store.write(held)
    assert (again.holder, again.transitions) == ("one", 4)
    leases.delete_namespaced_lease("gone", "default")
    store.write(record("two", 5))
    with pytest.raises(lease.ContestedError):
        store.write(again)
    store.close()


def test_an_apiserver_that_is_away_is_unavailable(kubeconfig: Path) -> None:
    loaded = kube.configuration(str(kubeconfig))
    loaded.host = "https://127.0.0.1:1"
    away = kube.LeaseStore(loaded, "default", "gone")
    with pytest.raises(kube.Unavailable):
        away.read()
    away.close()


def test_a_router_of_the_former_version_and_one_of_this_read_each_other(kubeconfig: Path, leases: Any) -> None:
    """During an update both compete. The former one writes no acquireTime, and takes a holder of "" for none."""
    from kubernetes import client

    store = kube.LeaseStore(kube.configuration(str(kubeconfig)), "default", "mixed")
    spec = client.V1LeaseSpec(
        holder_identity="old_1@10.0.0.1:11430", lease_duration_seconds=3, renew_time=NOW, lease_transitions=7
    )
    leases.create_namespaced_lease("default", client.V1Lease(metadata={"name": "mixed"}, spec=spec))
    found = store.read()
    assert found is not None
    assert (found.holder, found.duration, found.acquired) == ("old_1@10.0.0.1:11430", 3.0, None)
    store.write(lease.claimed(found, "new_2@[fd00::2]:11430", lease.Terms(duration=3.0), NOW))
    read = leases.read_namespaced_lease("mixed", "default")
    assert (read.spec.holder_identity, read.spec.lease_duration_seconds) == ("new_2@[fd00::2]:11430", 3)
    assert (read.spec.renew_time, read.spec.lease_transitions) == (NOW, 8)
    read.spec.holder_identity = ""  # it leaves
    leases.replace_namespaced_lease("mixed", "default", read)
    left = store.read()
    assert lease.Watcher().vacant(left, 0.0)
    store.close()


def test_the_thread_takes_renews_and_gives_back_a_lease_of_the_apiserver(kubeconfig: Path) -> None:
    loaded = kube.configuration(str(kubeconfig))
    store = kube.LeaseStore(loaded, "default", "threaded")
    won = threading.Event()
    one = lease.Lease(
        store,
        "one",
        lease.Terms(duration=30.0, renew_every=0.01),
        monotonic=time.monotonic,
        lost=lambda reason: pytest.fail(reason),
        acquired=won.set,
    )
    other = kube.LeaseStore(loaded, "default", "threaded")
    one.start()
    assert won.wait(waiting.PATIENCE)
    first = other.read()
    assert first is not None
    while (now := other.read()) is not None and now.version == first.version:
        assert one.alive()
    one.release()
    last = other.read()
    assert last is not None
    assert (last.holder, last.transitions) == ("", first.transitions)
    other.close()
