"""The installation that all tests of this folder share: built and started if need be, in a namespace of its own.

JERVIS_E2E_KEEP=1   leave the namespace behind, to look into it
JERVIS_TEST_JOERN=1  with the image in which Joern is, built if need be
KUBECONFIG, IMAGE, FAKES_IMAGE   as for `make demo`; what needs the local machine is then skipped, and says so
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pymongo
import pytest

from hack.cluster import layout, progress
from hack.demo import agents, connected, context, kubectl, release, servers, settings
from hack.image import build
from tests.e2e import site as sites
from tests.e2e.simulator import Simulator
from tests.waiting import until

NAMESPACE = "jervis-e2e"
DATABASE = "jervis_e2e"
JOINS = {"jervis.dev/e2e": "tenant"}
"""Labels of namespaces whose tasks the operator of this installation processes as well."""
JOERN = bool(os.environ.get("JERVIS_TEST_JOERN"))
"""Whether the image with Joern is part of the installation."""
# Nobody watches: what the demonstration slows down for the eye runs at full speed here.
VALUES = {
    # Beside a demonstration: releases that share MongoDB have a database each (charts/jervis/README.md).
    "mongodb": {"database": DATABASE},
    "kb": {"settings": {"index": "e2e"}},
    "operator": {"settings": {"idleSeconds": 1}},
    **({"joern": {"enabled": True, "image": build.IMAGES["joern"], "memory": "3Gi", "heap": "2g"}} if JOERN else {}),
    "watchNamespaceSelector": {"matchLabels": JOINS},
    "simulator": {
        "gpu": {"settings": {"loadSecondsPerGib": 0.02, "tokensPerSecond": 2000}},
        "cpu": {"settings": {"loadSecondsPerGib": 0.02, "tokensPerSecond": 2000}},
    },
}
_FIRST = ("e2e/test_examples.py::test_is", "e2e/test_image.py", "e2e/test_helm.py", "e2e/test_examples.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs the whole cluster. What asks nothing of the release, such as the tests of the
    image, runs before the tests that wait longest for what was begun in their file."""
    for item in items:
        if item.path.is_relative_to(os.path.dirname(__file__)):
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: next((n for n, part in enumerate(_FIRST, -len(_FIRST)) if part in item.nodeid), 0))


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest) -> Iterator[sites.Site]:
    """Jervis with its simulators, freshly configured, without a task."""
    # Progress goes to the real terminal: starting takes longer than a person waits in silence.
    terminal = request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled
    report = progress.Progress()
    wanted = settings.read({**os.environ, "DEMO_NAMESPACE": NAMESPACE})
    with terminal():
        print(file=sys.stderr)
        for command in (
            (("hack.cluster", "up"), ("hack.image", *build.CLUSTER, *(["joern"] if JOERN else [])))
            if wanted.local
            else ()
        ):
            subprocess.run([sys.executable, "-m", *command], stdout=subprocess.DEVNULL, check=True)
        cluster = kubectl.Kubectl(kubectl.find(report), wanted.kubeconfig, NAMESPACE)
        more: dict[str, Any] = VALUES
        if wanted.local:
            connected.trust(cluster, layout.from_environment())
            more = release.overlaid(release.overlaid(VALUES, connected.values()), agents.values(NAMESPACE))
        with report.step(f"installing the chart into {NAMESPACE}"):
            release.install(wanted, cluster, report, more)
        cluster.run("wait", "--for=condition=Ready", "gpubackends", "--all", "--timeout=60s", seconds=90)
        cluster.run("delete", "pendingtasks", "--all", "--ignore-not-found", seconds=120)
    place = layout.environment_of(layout.from_environment())
    with pymongo.MongoClient[sites.Document](wanted.mongodb_uri or place["JERVIS_TEST_MONGODB_URI"]) as mongo:
        yield sites.Site(cluster, wanted, mongo[DATABASE])
    if not os.environ.get("JERVIS_E2E_KEEP"):
        with terminal(), report.step(f"removing {NAMESPACE}"):
            release.remove(wanted, cluster, report)


@pytest.fixture(scope="session")
def owner() -> str:
    """A client of this session alone, so that nothing known from an earlier one answers a question."""
    return f"e2e-{datetime.now(UTC):%Y%m%d%H%M%S}"


@pytest.fixture(scope="session")
def kubeconfig_of_namespace(site: sites.Site) -> str:
    """A kubeconfig whose context names the namespace, as `python -m hack.demo env` writes it."""
    return str(context.write(site.wanted, site.kubectl))


@pytest.fixture(scope="session")
def services(site: sites.Site) -> Iterator[httpx.Client]:
    """HTTP to the namespace's Services, by `NAME:PORT/proxy/PATH`, through the apiserver."""
    with subprocess.Popen(
        site.kubectl.command("proxy", "--port=0"), env=site.kubectl.environment, stdout=subprocess.PIPE, text=True
    ) as proxy:
        assert proxy.stdout is not None
        address = proxy.stdout.readline().split()[-1]
        with httpx.Client(base_url=f"http://{address}/api/v1/namespaces/{NAMESPACE}/services/", timeout=60) as opened:
            yield opened
        proxy.terminate()


@pytest.fixture
def there(site: sites.Site) -> Iterator[servers.Servers]:
    """Both, empty. A demonstration that is up loses its own."""
    if not site.wanted.local:
        pytest.skip("the servers run beside the local cluster")
    place = layout.from_environment()
    connected.clear(site.kubectl)
    try:
        yield servers.start(place, sends=True)
    finally:
        connected.clear(site.kubectl)
        servers.stop(place)


@pytest.fixture
def gpu(site: sites.Site, services: httpx.Client) -> Iterator[Simulator]:
    """The simulated GPU, without faults before and after; what a failed test left unfinished goes with them."""
    yield from _handed(site, Simulator(services, "jervis-ollama-gpu"))


@pytest.fixture
def cpu(site: sites.Site, services: httpx.Client) -> Iterator[Simulator]:
    """The same for the simulated CPU: where the small models answer while the GPU is reserved for a large one."""
    yield from _handed(site, Simulator(services, "jervis-ollama-cpu"))


def _handed(site: sites.Site, simulator: Simulator) -> Iterator[Simulator]:
    simulator.faults()
    simulator.shut_gate()
    simulator.forget()
    yield simulator
    simulator.faults()
    simulator.open_gate()
    unfinished = [task for task in site.kubectl.tasks() if task.status.phase not in sites.ENDS]
    if unfinished:
        site.kubectl.run(
            "delete", "pendingtasks", *(task.metadata.name for task in unfinished), "--ignore-not-found", seconds=120
        )
        # A run that is asked to end may still call a model, and would take what the next test has scripted.
        selector = f"{sites.UID_LABEL} in ({', '.join(task.metadata.uid for task in unfinished)})"
        until(lambda: not site.kubectl.items("pods", "-l", selector), "their runs end")
        until(lambda: simulator.waiting() == 0, "their requests end")
