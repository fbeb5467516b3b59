"""Fixtures that several rooms share: a stand-alone apiserver with our CRDs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from kubernetes import client

ROOT = Path(__file__).resolve().parent.parent

# How long an example takes says how busy the machine is, and nothing about what the test is for. The same commit draws
# the same examples, so a failure can be repeated; `make test-thorough` draws new ones each time.
_RANDOM = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
settings.register_profile(
    "unhurried", deadline=None, derandomize=not _RANDOM, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason to skip, instead of one for each place in the tests."""
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", ()))
    reasons = Counter(why[2].removeprefix("Skipped: ") if isinstance(why, tuple) else str(why) for why in skipped)
    for reason, number in sorted(reasons.items()):
        terminalreporter.write_line(f"not run: {number} tests, {reason}", yellow=True)


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A real etcd and kube-apiserver on loopback with the three CRDs established."""
    from kubernetes import client

    from hack.cluster import standalone

    with standalone.apiserver(tmp_path_factory.mktemp("apiserver")) as server:
        api = api_client(server.kubeconfig)
        crds = client.ApiextensionsV1Api(api)
        for path in sorted((ROOT / "crds").glob("*.yaml")):
            crds.create_custom_resource_definition(yaml.safe_load(path.read_text()))
        wait_established(crds)
        api.close()
        yield server.kubeconfig


@pytest.fixture
def custom_objects(kubeconfig: Path) -> Iterator[client.CustomObjectsApi]:
    """The API of custom objects as an administrator."""
    from kubernetes import client

    api = api_client(kubeconfig)
    yield client.CustomObjectsApi(api)
    api.close()


def api_client(kubeconfig: Path) -> Any:
    """A client for that kubeconfig; the caller closes it."""
    from kubernetes import config

    return config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]  # kubernetes ships no types


def wait_established(crds: Any, tries: int = 100) -> None:
    """Return once every CRD of ours is served; a refusal of one is shown as the apiserver words it."""
    import time

    for _ in range(tries):
        states = {}
        for crd in crds.list_custom_resource_definition().items:
            conditions = {c.type: c for c in crd.status.conditions or ()}
            states[crd.metadata.name] = conditions
        waiting = [n for n, c in states.items() if "Established" not in c or c["Established"].status != "True"]
        if states and not waiting:
            return
        time.sleep(0.1)
    raise AssertionError(f"CRDs not established: {states}")
