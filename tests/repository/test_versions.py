"""docs/dependencies.md lists the versions that are locked, built and started; hack.versions reads its dates."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack import versions
from hack.cluster import binaries

ROOT = Path(__file__).resolve().parents[2]
PAGE = versions.PAGE.read_text()
AS_OF = date(2026, 11, 30)
"""The page has the dates of November 2026."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
UNLOCKED = "visual"
"""The extra that is in no lock file."""
README, INSTALL = ((ROOT / name).read_text() for name in ("README.md", "docs/install.md"))


def only(*found: str) -> str:
    """The one version that all these places have."""
    [version] = set(found)
    return version


def match(path: str, pattern: str) -> str:
    """What the pattern's group finds in a file, the same wherever it does."""
    return only(*re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE))


def module(tool: str, path: str) -> str:
    """The version of a Go module that a tool is built from."""
    return match(f"hack/tools/{tool}/go.mod", rf"^\t?(?:require )?{re.escape(path)} v(\S+)")


def kubernetes(name: str) -> str:
    """The version that a kube-apiserver reports, and that of the module that it is built from."""
    tool = binaries.APISERVERS[name]
    return only(tool.version.removeprefix("v"), module(tool.module, "k8s.io/kubernetes"))


def oldest() -> str:
    """The chart takes it and none before."""
    version = kubernetes("oldest")
    chart = yaml.safe_load((ROOT / "charts/jervis/Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={version.rpartition('.')[0]}-0"
    return version


def image(name: str) -> str:
    """The tag of an image in the examples and in the services of the kind path."""
    files = [*sorted((ROOT / "examples/data").glob("*.yaml")), ROOT / "hack/demo/services.yaml"]
    return only(*re.findall(rf"image: \S+/{name}:(\S+)", "\n".join(path.read_text() for path in files)))


def tika() -> str:
    """The chart's tag has a fourth number."""
    values: dict[str, Any] = yaml.safe_load((ROOT / "charts/jervis/values.yaml").read_text())
    version = java("tika-server-standard", "tika")
    assert values["tika"]["image"]["tag"].startswith(f"{version}.")
    return version


def java(artifact: str, tool: str) -> str:
    return match(f"hack/tools/{tool}/pom.xml", rf"<artifactId>{artifact}</artifactId>\s*<version>(\S+)</version>")


def locked(name: str, *files: str) -> str:
    """The version of a library in every lock file that has it."""
    names = files or ("runtime", "fakes", "dev")
    text = "\n".join((ROOT / f"requirements/{file}.txt").read_text() for file in names)
    return only(*re.findall(rf"^{re.escape(normal(name))}(?:\[\S+\])?==(\S+)", text, re.MULTILINE))


def normal(name: str) -> str:
    """As PyPA's name normalization has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def python() -> str:
    image = match("Dockerfile", r"^ARG BASE=\S+/python:([\d.]+)-slim")
    return only(PROJECT["requires-python"].removeprefix(">="), image)


def debian() -> str:
    return {"bookworm": "12"}[match("hack/image/debian.py", r'^_SUITE = "(\w+)"')]


PINS: dict[str, Callable[[], str]] = {
    "Kubernetes (oldest)": oldest,
    "Kubernetes (local cluster)": lambda: kubernetes(""),
    "etcd": lambda: module("kubernetes", "go.etcd.io/etcd/server/v3"),
    "Helm 3": lambda: module("helm", "helm.sh/helm/v3"),
    "Helm 4": lambda: module("helm-newest", "helm.sh/helm/v4"),
    "MongoDB": lambda: image("mongo"),
    "mongo-java-server": lambda: java("mongo-java-server(?:-h2-backend)?", "mongodb"),
    "Weaviate": lambda: only(image("weaviate"), module("weaviate", "github.com/weaviate/weaviate")),
    "Apache Tika": tika,
    "ArangoDB": lambda: "none",
    "Ollama": lambda: module("ollama", "github.com/ollama/ollama"),
    "llama-cpp-python": lambda: locked("llama-cpp-python", "llama-cpp"),
    "Python": python,
    "Debian (local base image)": debian,
    "Motor": lambda: locked("motor"),
}
"""Each row with an end of life -> its version in the code."""


def libraries(*columns: str) -> list[tuple[str, str]]:
    """(name, version) of the table with these columns."""
    [table] = [table for table in versions.tables(PAGE) if tuple(table[0]) == columns]
    return [(row["library"], row["version"]) for row in table]


def declared(requirements: list[str]) -> list[tuple[str, str]]:
    names = [re.match(r"[\w.-]+", requirement)[0] for requirement in requirements]  # type: ignore[index]
    return [(name, locked(name)) for name in names]


def row(page: str, what: str) -> str:
    lines: list[str] = re.findall(rf"^\| {what} \|.*", page, re.MULTILINE)
    return only(*lines)


def test_versions_with_an_end_of_life_are_those_of_the_code() -> None:
    found = {version.what: version.version for version in versions.listed(PAGE)}
    assert found == {what: pin() for what, pin in PINS.items()}


def test_libraries_are_those_of_the_lock_files() -> None:
    runtime = libraries("library", "version", "released", "for", "imported in", "instead")
    assert runtime == declared(PROJECT["dependencies"])
    extras = [one for extra, group in PROJECT["optional-dependencies"].items() if extra != UNLOCKED for one in group]
    assert libraries("library", "version", "released", "for") == declared(extras)


def test_tools_in_the_image_of_a_release_are_named() -> None:
    extras = [one for extra, group in PROJECT["optional-dependencies"].items() if extra != UNLOCKED for one in group]
    runtime = (ROOT / "requirements" / "runtime.txt").read_text()
    there = {name for name, _ in declared(extras) if re.search(rf"(?m)^{re.escape(normal(name))}==", runtime)}
    [said] = re.findall(r"none of these for its own sake: (.*?) comes? with", " ".join(PAGE.split()))
    assert set(re.split(r", | and ", said)) == there


def test_what_is_past_or_near_its_end_has_a_reason_to_stay() -> None:
    section = PAGE.split("## What needs a decision")[1].split("\n## ")[0]
    reasons = re.findall(r"^(?:- \*\*|\| )([A-Z].*?)(?:\.\*\*| \|)", section, re.MULTILINE)
    late = [one for one in versions.listed(PAGE) if one.finding(AS_OF)]
    assert len(late) >= 3
    assert [one.what for one in late if one.what not in reasons] == []


def test_modules_that_are_named_exist() -> None:
    named = {name for name in re.findall(r"`([a-z_]+/[\w/.]+)`", PAGE) if not name.startswith("requirements/")}
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", [README, INSTALL], ids=["README.md", "install.md"])
def test_the_pages_name_the_versions_that_are_tested(page: str) -> None:
    tested = {
        "Kubernetes": ["Kubernetes (local cluster)", "Kubernetes (oldest)"],
        "Helm": ["Helm 3", "Helm 4"],
    }
    if page is INSTALL:
        tested |= {"MongoDB": ["MongoDB"], "Weaviate": ["Weaviate"], "a model server": ["Ollama"]}
    for what, names in tested.items():
        for name in names:
            assert re.search(rf"(?<![\d.]){re.escape(PINS[name]())}(?![\d.]*\d)", row(page, what)), name


_TABLE = """
| what | version | end of life | note |
| -- | -- | -- | -- |
| `one` | 1.0 | 2026-05-14; fixes go on | |
| two | 2.0 | 2027-02-10 | |
| three | 3.0 | 2027-10 | |
| four | 4.0 | ended without a date | |
| five | 5.0 | no date | |

| library | version |
| -- | -- |
| six | 6.0 |
"""


@pytest.mark.parametrize(
    ("today", "found"),
    [
        ("2026-02-12", ["past its end of life: four 4.0"]),
        ("2026-02-13", ["near its end of life: one 1.0, on 2026-05-14 (in 90 days)", "past its end of life: four 4.0"]),
        ("2026-05-14", ["near its end of life: one 1.0, on 2026-05-14 (in 0 days)", "past its end of life: four 4.0"]),
        ("2026-05-15", ["past its end of life: one 1.0, since 2026-05-14 (1 days)", "past its end of life: four 4.0"]),
        (
            "2027-10-31",
            [
                "past its end of life: one 1.0, since 2026-05-14 (535 days)",
                "past its end of life: two 2.0, since 2027-02-10 (263 days)",
                "near its end of life: three 3.0, on 2027-10-31 (in 0 days)",
                "past its end of life: four 4.0",
            ],
        ),
    ],
)
def test_what_is_past_or_near_its_end_is_reported(today: str, found: list[str]) -> None:
    assert versions.findings(_TABLE, date.fromisoformat(today)) == found


def test_exit_status_is_of_what_is_past(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(_TABLE.replace("ended without a date", "2099-12-31"))
    said: list[str] = []

    def run(*arguments: str) -> int:
        said.clear()
        return versions.main(list(arguments), date(2026, 5, 14), page, said.append)

    assert (run(), len(said)) == (0, 1)
    assert (run("--days", "0", "--today", "2026-05-13"), said) == (0, [])
    assert (run("--today", "2026-05-15"), len(said)) == (1, 1)
    page.write_text(_TABLE.replace("2027-02-10", "soon"))
    assert run() == 1
    assert said == ["error: dependencies.md, two: `soon` begins with neither a date nor `ended` nor `no date`"]
