"""The image that was built here: every process starts in it, and it holds nothing that no process needs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from email import parser
from pathlib import Path

import pytest

from hack.cluster import layout
from hack.image import build
from hack.packages import PACKAGES
from tests.container import Container, opened
from tests.hack import imports


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    if os.environ.get("IMAGE") or os.environ.get("KUBECONFIG"):
        pytest.skip("the image was not built here")
    with opened("jervis") as made:
        yield made


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        ("kopf run --help", 0, "--standalone"),
        ("JERVIS_ROUTER_PORT=x python -m router", 2, "router: setting port"),
        ("JERVIS_KB_PORT=x python -m kb", 2, "JERVIS_KB_PORT"),
        ("python -m orchestrator_job", 1, '"exit_reason": "InvalidInput"'),
        ("python -m cli --help", 0, "submit"),
        ("python -m crds", 0, "CustomResourceDefinition"),
    ],
)
def test_every_process_starts(container: Container, command: str, status: int, says: str) -> None:
    done = container.run("/bin/sh", "-c", command)
    assert done.returncode == status, done.stderr
    assert says in done.stdout + done.stderr


def test_every_module_can_be_imported(container: Container) -> None:
    done = container.run("python", "-", ",".join(PACKAGES), stdin=Path(imports.__file__).read_text())
    assert done.returncode == 0, done.stderr
    ours = [path for package in PACKAGES for path in (layout.CHECKOUT / package).rglob("*.py")]
    assert int(done.stdout) == len(ours) - len(PACKAGES)


def test_nothing_is_there_that_no_process_needs(container: Container) -> None:
    for program in ("gcc", "pip"):
        assert container.run("/bin/sh", "-c", f"command -v {program}").returncode != 0, program
    [libraries] = (container.root / "opt/jervis/lib").glob("python3*/site-packages")
    kinds = ("**/tests", "**/*.pyi", "**/*.pyx", "**/*.[ch]", "pip", "setuptools", "kubernetes/aio")
    assert [str(found) for kind in kinds for found in libraries.glob(kind)] == []
    # 16 of them are grammars (decision 0127), 11 come with the client of the Model Context Protocol and the scanner of
    # secrets, 6 read parts of mails (docs/dependencies.md).
    assert len(list(libraries.glob("*.dist-info"))) <= 142
    packages = (container.root / "var/lib/dpkg/status").read_text().strip().split("\n\n")
    names = {parser.HeaderParser().parsestr(package)["Package"] for package in packages}
    assert "python3" in names
    # The sources process reads repositories (decision 0113); git brings perl along.
    assert {"git", "openssh-client"} <= names
    assert "gcc" not in names
    assert len(names) <= 140
    # What a licence asks to go along.
    assert (container.root / "usr/share/doc/libc6/copyright").is_file()


def test_labels_say_what_it_is(container: Container) -> None:
    inspected = json.loads(container.store.buildah("inspect", container.name, quiet=True))
    labels = inspected["OCIv1"]["config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == "Jervis"
    assert labels["org.opencontainers.image.version"] == build.project()["version"]
