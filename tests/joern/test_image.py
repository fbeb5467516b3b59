"""The image with Joern: a real run over `tree`, a query, a bound that is met, and nothing else in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.image import build
from tests.container import Container, opened
from tests.joern import tree

pytestmark = pytest.mark.skipif(
    not os.environ.get("JERVIS_TEST_JOERN"), reason="the image with Joern: see make test-thorough"
)
MOST_MB = 430
"""What Joern and its Java add to the base."""


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    with opened("joern") as made:
        yield made


@pytest.fixture
def work(container: Container) -> Iterator[Path]:
    place = container.root / "workspace"
    for path, text in tree.FILES.items():
        (place / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        (place / "source" / path).write_text(text)
    subprocess.run(["chown", "-R", "10001:10001", str(place)], check=True)
    yield place
    shutil.rmtree(place)


def kept(work: Path, folder: str) -> None:
    """Leave the files below that folder alone."""
    for path in tree.FILES:
        if not path.startswith(folder):
            (work / "source" / path).unlink()


def analyze(container: Container, work: Path, **settings: str) -> dict[str, Any]:
    """What is left in the end, by the names of the files."""
    named = [f"JERVIS_ANALYZE_{name}={value}" for name, value in ({"HEAP": "1g"} | settings).items()]
    done = container.run("env", *named, "/opt/joern/analyze")
    assert done.returncode == 0, done.stderr
    return {one.name: json.loads(one.read_text()) for one in (work / ".jervis").glob("*.json")}


def test_a_real_run_exports_what_is_recorded(container: Container, work: Path) -> None:
    left = analyze(container, work)
    assert list(left) == ["cpg-export.json"]
    assert left["cpg-export.json"] == json.loads(tree.RECORDED.read_text())


def test_a_query_is_answered(container: Container, work: Path) -> None:
    kept(work, "native/")
    query = work / "query.sc"
    query.write_text('cpg.method("shape_area").callee.name.filterNot(_.startsWith("<")).dedup.sorted')
    answer = analyze(container, work, QUERY_FILE="/workspace/query.sc")["query.json"]
    assert (answer["state"], answer["result"]) == ("Succeeded", "checked\nsquared"), answer


def test_too_little_memory_is_said(container: Container, work: Path) -> None:
    kept(work, "src/")
    left = analyze(container, work, HEAP="12m")
    assert {name: said["reason"] for name, said in left.items()} == {"failure.json": "OutOfMemory"}


def test_it_holds_nothing_of_ours_and_no_builder(container: Container) -> None:
    assert not (container.root / "app").exists()
    for program in ("mvn", "javac", "git", "pip"):
        assert container.run("/bin/sh", "-c", f"command -v {program}").returncode != 0, program
    assert container.run("id", "-u").stdout.strip() == "10001"
    layers = container.store.manifest(build.IMAGES["joern"])["layers"]
    assert sum(layer["size"] for layer in layers[1:]) <= MOST_MB * 1_000_000
    inspected = json.loads(container.store.buildah("inspect", container.name, quiet=True))
    assert inspected["OCIv1"]["config"]["Labels"]["org.opencontainers.image.title"] == "Jervis Joern"
