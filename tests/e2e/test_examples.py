"""Every object in examples/ is accepted by a real apiserver, and the tasks among them end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from crds import conditions
from crds.phases import TERMINAL, Phase
from kb.agent import decision
from tests.e2e.simulator import Simulator
from tests.e2e.site import LABEL, SUITE, Site
from tests.examples.test_examples import EXAMPLES, files

_FILES = files()
# A task that asks stays until a person answers; one that is scheduled stays until its day.
_ENDS = TERMINAL - {Phase.ERROR} | {Phase.USER_TASK, Phase.SCHEDULED}


class _Loader(yaml.SafeLoader):
    """Leaves dates as they are written, as Kubernetes does."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def documents(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file."""
    yield from (document for document in yaml.load_all(path.read_text(), _Loader) if document)


def test_there_are_examples_of_every_kind() -> None:
    kinds = {document["kind"] for path in _FILES for document in documents(path)}
    assert {"PendingTask", "Connection", "GpuBackend"} <= kinds


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_is_accepted(site: Site, path: Path) -> None:
    site.kubectl.run("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(path))


@pytest.fixture(scope="session", autouse=True)
def submitted(site: Site, owner: str) -> list[dict[str, Any]]:
    """All tasks at once, of this session's client; one whose content is kept elsewhere is left out. They work while the
    other tests of this file run."""
    tasks = []
    for document in (document for path in _FILES for document in documents(path)):
        if document["kind"] == "PendingTask" and "contentRef" not in document["spec"]:
            name = f"example-{document['metadata']['name']}"
            annotations = document["metadata"].get("annotations", {})
            labels = {LABEL: "examples", SUITE: "true"}
            document["metadata"] = {"name": name, "labels": labels, "annotations": annotations}
            document["spec"]["clientId"] = owner
            tasks.append(document)
    site.kubectl.apply(tasks)
    return tasks


def test_the_tasks_end(site: Site, services: httpx.Client, submitted: list[dict[str, Any]]) -> None:
    assert len(submitted) >= 8
    held = [task["metadata"]["name"] for task in submitted if task["spec"].get("suspend")]
    # The site of the link does not answer here, and is tried for 75 seconds.
    ends = {task["metadata"]["name"]: _ENDS for task in submitted if not task["spec"].get("suspend")}
    # Its Connection is not here, and is waited for.
    [analyzed] = [task["metadata"]["name"] for task in submitted if "git" in task["spec"]]
    ends[analyzed] = frozenset({Phase.READY_FOR_QUALIFICATION})
    site.ends("examples", ends, seconds=180)
    assert {name: site.kubectl.task(name).status.phase or Phase.NEW for name in held} == dict.fromkeys(held, Phase.NEW)
    found = conditions.find(site.kubectl.task(analyzed).status.conditions, "CodeAnalyzed")
    assert found is not None
    assert "storage-commits" in found.message
    # The annotation of one of them has the decision agent answer.
    simulators = [Simulator(services, f"jervis-ollama-{name}") for name in ("gpu", "cpu")]
    asked = [one for each in simulators for one in each.requests(tag=decision.DECIDE)]
    assert asked
    assert all("operating voltage of the pump P-7" in str(one["body"]) for one in asked)
