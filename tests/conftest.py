"""Fixtures that several rooms share: a stand-alone apiserver with our CRDs."""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

from tests import accepting, durations, thorough, waiting

if TYPE_CHECKING:
    from kubernetes import client

ROOT = Path(__file__).resolve().parent.parent

# How long an example takes says how busy the machine is, and nothing about what the test is for. The same commit draws
# the same examples, so a failure can be repeated; `make test-thorough` draws new ones each time.
_RANDOM = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
settings.register_profile(
    "unhurried",
    deadline=None,
    derandomize=not _RANDOM,
    max_examples=thorough.examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unhurried")

_MEMORY, _ROOM = Path("/dev/shm"), 4 << 30  # a file system of Linux in memory; bytes

_LONG = (
    "tests/faults/test_kills.py",
    "tests/kb/erasure/test_killed.py",
    "tests/kb/ingest/test_killed",
    "tests/faults/test_wire.py",
    "tests/orchestrator_job/run/test_crashes.py",
    "tests/limits/test_operator.py",
    "tests/faults/test_leadership.py",
    "tests/kb/qualify_set/",
    "tests/faults/",
    "tests/sources/test_atlassian_histories.py",
    "tests/bench/connectors/test_histories.py",
    "tests/bench/agents/",
    "tests/chart/",
)
"""Files with few tests that take long, the longest first; those that wait between those that compute."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--phase NAME` measures a run."""
    parser.addoption("--phase", help="print and write how long tests and fixtures take (tests/durations.py)")


def pytest_configure(config: pytest.Config) -> None:
    """Files of tests lie in memory, if there is room for them and programs may be run there. The stores wait for the
    disk at each commit; a process that is killed loses nothing that the kernel has, on a disk or not."""
    accepting.repair()
    durations.register(config)
    if not _MEMORY.is_dir():
        return
    found = os.statvfs(_MEMORY)
    if found.f_bavail * found.f_frsize >= _ROOM and not found.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files first, so that no worker is alone with one at the end (with `--no-loadscope-reorder`: otherwise
    pytest-xdist begins with the files that have the most tests)."""

    def place(item: pytest.Item) -> int:
        return next((n for n, name in enumerate(_LONG) if item.nodeid.startswith(name)), len(_LONG))

    items.sort(key=place)
    marked = {item.path for item in items for name in ("apiserver", "services") if item.get_closest_marker(name)}
    silent = [str(path) for path in sorted(marked) if not re.search(r"mark\.(apiserver|services)", path.read_text())]
    if silent:
        raise pytest.UsageError(f"make contract runs files that mark their own tests, unlike {', '.join(silent)}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays until the end: no collection of garbage looks at it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


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


def wait_established(crds: Any) -> None:
    """Return once every CRD of ours is served; a refusal of one is shown as the apiserver words it."""

    def look() -> dict[str, dict[str, Any]]:
        found = crds.list_custom_resource_definition().items
        return {crd.metadata.name: {c.type: c for c in crd.status.conditions or ()} for crd in found}

    def established(states: dict[str, dict[str, Any]]) -> bool:
        return bool(states) and all("Established" in c and c["Established"].status == "True" for c in states.values())

    waiting.until(look, "the CRDs are established", good=established)
