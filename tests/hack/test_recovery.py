"""A cluster whose processes were all killed comes back by `up`; `down` leaves nothing of it on the machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster import cgroups, containerd, layout, lifecycle, mounts, netns, process, progress
from tests import thorough

pytestmark = [pytest.mark.e2e, thorough.only]
NAME = "recovery"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[layout.Layout]:
    """A cluster of its own beside the one that other tests use."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    place = layout.of(Path("/tmp") / f"{NAME}-{os.getpid()}", NAME)
    yield place
    cluster(place, "down")
    shutil.rmtree(place.directory)


def cluster(place: layout.Layout, command: str) -> str:
    environment = {**os.environ, "JERVIS_CLUSTER_DIR": str(place.directory), "JERVIS_CLUSTER_NAME": place.name}
    environment.pop("KUBECONFIG", None)
    done = subprocess.run(
        [sys.executable, "-m", "hack.cluster", command],
        cwd=layout.CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def identities(place: layout.Layout) -> list[process.Identity]:
    daemons = [process.Daemon(name, place.daemons).identity() for name in lifecycle.ALL]
    found = [identity for identity in daemons if identity is not None]
    return [*found, *containerd.shims(place), *cgroups.members(place.cgroup)]


def test_killed_whole_it_comes_back_and_goes_without_a_trace(place: layout.Layout) -> None:
    lifecycle.runtime(place, progress.Progress())
    runtime = process.Daemon("containerd", place.daemons)
    early = runtime.identity()
    assert early is not None
    assert containerd.images(place) == {}, "it answers before anything else runs"
    assert cluster(place, "up") == f"export KUBECONFIG={place.kubeconfig}\n"
    assert runtime.identity() == early, "images that are being loaded stay"
    first = identities(place)
    assert len(first) >= len(lifecycle.ALL)
    cluster(place, "up")
    assert {identity.pid for identity in first} == {identity.pid for identity in identities(place)}

    for identity in first:
        os.kill(identity.pid, signal.SIGKILL)
    for identity in first:
        identity.stop(grace=10)
    assert cluster(place, "up") == f"export KUBECONFIG={place.kubeconfig}\n"
    second = identities(place)
    assert len(second) >= len(lifecycle.ALL)
    assert not {identity.pid for identity in first} & {identity.pid for identity in second}
    assert set(lifecycle.status(place).values()) == {"running", "present"}

    cluster(place, "down")
    assert [identity for identity in [*first, *second] if identity.alive()] == []
    assert not netns.exists(place)
    assert not place.namespace_file.exists()
    assert mounts.below([place.run, place.directory]) == []
    assert not place.run.exists()
    assert list(Path("/sys/fs/cgroup").glob(f"**{place.cgroup}")) == []
    links = subprocess.run(["ip", "link"], check=True, capture_output=True, text=True).stdout
    assert place.cable[0] not in links
    assert not (place.directory / "etcd").exists()
