"""The shape of the repository that other things rely on."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[2]

# A driver is imported in the module or package that is named after it and nowhere else (blueprint section 2). Values
# are patterns of paths; the name of a client library may differ from the name of the thing it drives.
DRIVERS = {
    "weaviate": r"(^|/)weaviate/\w+\.py$",
    "arango": r"(^|/)arango/\w+\.py$",
    "motor": r"(^|/)mongo\.py$",
    "pymongo": r"(^|/)mongo\.py$",
    "gridfs": r"(^|/)mongo\.py$",
    "imapclient": r"(^|/)imap(_session)?\.py$",
    "kubernetes": r"^(kube/access|cli/kube)\.py$",
    "pypdfium2": r"^kb/files/(?:rendering|layers)\.py$",
    "kopf": r"^operator/main\.py$",
    "sqlite3": r"(^|/)sqlite(/\w+)?\.py$",
}


# Who opens connections of HTTP, and to what. Servers of others are `clients.http`'s alone, which bounds what they send.
OPENS = {
    "cli/services.py": "services of the release, through the apiserver",
    "clients/http.py": "servers of others",
    "clients/liveruns.py": "the operator",
    "controllers/runtime/clients.py": "the knowledge base and the router",
    "sources/__main__.py": "the knowledge base and the router",
    "kb/service/serving.py": "the router",
    "kube/access.py": "the apiserver",
    "orchestrator_job/__main__.py": "the knowledge base, the router and the sources process",
    "orchestrator_job/analyze/__main__.py": "the knowledge base",
    "orchestrator_job/analyze/clone.py": "the sources process",
    "orchestrator_job/sandbox/__main__.py": "the operator",
    "orchestrator_job/transcribe/__main__.py": "the sources process",
    "router/client/calls.py": "the router",
    "router/client/trials.py": "the router",
    "router/transport.py": "the knowledge base and the router, for processes that make many calls",
}
OPENERS = {
    ("aiohttp", "ClientSession"),
    *((library, name) for library in ("httpx", "httpx2") for name in (
        "AsyncClient", "AsyncHTTPTransport", "Client", "HTTPTransport", "get", "post", "request", "stream",
    )),
    *(("httpcore", name) for name in ("AsyncConnectionPool", "ConnectionPool")),
    *(("http.client", name) for name in ("HTTPConnection", "HTTPSConnection")),
    ("urllib.request", "urlopen"),
}  # fmt: skip


def sources() -> Iterator[Path]:
    for folder in (*PACKAGES, "operator"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """What of `DRIVERS` a module imports."""
    text, roots = path.read_text(), set()
    if not any(driver in text for driver in DRIVERS):
        return set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.add(node.module.split(".")[0])
    return roots & set(DRIVERS)


def test_operator_is_a_folder_of_scripts() -> None:
    # With an __init__.py it would shadow the standard library's `operator` for every Python started in the root, and
    # kopf puts the folder itself first on sys.path.
    names = {path.stem for path in (ROOT / "operator").glob("*.py")}
    assert "__init__" not in names
    assert "main" in names
    assert not names & set(sys.stdlib_module_names)


def opens(path: Path) -> set[str]:
    """What of `OPENERS` a module names, by whatever name it imported it."""
    text = path.read_text()
    if not any(library.partition(".")[0] in text for library, _ in OPENERS):
        return set()
    tree, modules, names = ast.parse(text), dict[str, str](), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    wanted = {f"{library}.{name}" for library, name in OPENERS}
    met = set()
    # Annotations are texts here (`from __future__ import annotations`), but ast reads them as code.
    said = {id(part) for node in ast.walk(tree) for part in _annotations(node)}
    for node in ast.walk(tree):
        if id(node) in said:
            continue
        if isinstance(node, ast.Attribute):
            module, _, name = ast.unparse(node).rpartition(".")
            met.add(f"{modules.get(module, names.get(module, module))}.{name}")
        elif isinstance(node, ast.Name):
            met.add(names.get(node.id, node.id))
    return met & wanted


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    for field in ("annotation", "returns"):
        if isinstance(part := getattr(node, field, None), ast.AST):
            yield from ast.walk(part)


def test_servers_of_others_are_called_by_one_module() -> None:
    opened = {str(path.relative_to(ROOT)): names for path in sources() if (names := opens(path))}
    assert set(opened) == set(OPENS), opened


@pytest.mark.parametrize(
    "text",
    [
        "import httpx\nhttpx.AsyncClient()",
        "import httpx as h\nh.get('http://a')",
        "from httpx import Client as C\nC()",
        "import urllib.request\nurllib.request.urlopen('http://a')",
        "from http import client\nclient.HTTPConnection('a')",
        "import aiohttp\nclass S(aiohttp.ClientSession): ...",
        "import httpx\nmade = [httpx.AsyncHTTPTransport]",
    ],
)
def test_a_module_that_opens_connections_is_seen(tmp_path: Path, text: str) -> None:
    """The reference of the test above."""
    path = tmp_path / "module.py"
    path.write_text(text)
    assert opens(path)
    path.write_text("import httpx\nasync def f(http: httpx.AsyncClient) -> httpx.AsyncClient: ...")
    assert not opens(path)


def test_drivers_stay_in_their_modules() -> None:
    strays = []
    for path in sources():
        relative = path.relative_to(ROOT).as_posix()
        strays += [
            f"{relative} imports {driver}"
            for driver in sorted(imported(path))
            if not re.search(DRIVERS[driver], relative)
        ]
    assert not strays


# A program by itself, in an image that has nothing else of ours.
ALONE = {"orchestrator_job/analyze/joern/analyze.py"}
# Reads nothing: the variables of a task that came later become those of the process, for every settings module.
WRITES = {"orchestrator_job/settings.py"}


def test_each_pure_module_of_a_run_is_kept_from_drivers() -> None:
    named = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "orchestrator_job").rglob("*.py")
        if re.search(r"\bPure\b", ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
    }
    linted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in linted if one["name"] == "pure modules of a run reach no driver"]
    assert set(contract["source_modules"]) == named
    assert not contract.get("allow_indirect_imports")
    assert not contract.get("ignore_imports")


def test_only_settings_read_the_environment() -> None:
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in sources()
        if re.search(r"\bos\.(environ|getenv)\b", path.read_text())
    ]
    assert set(readers) == ALONE | WRITES


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.stem)
def test_lock_has_hashes_and_no_host(path: Path) -> None:
    text = path.read_text()
    assert "http" not in re.sub(r"^[a-z0-9-]*http[a-z0-9-]*==", "", text, flags=re.MULTILINE)
    pins = re.findall(r"^[A-Za-z0-9][^\s]*==[^\s]+", text, flags=re.MULTILINE)
    assert pins
    for block in re.split(r"\n(?=[A-Za-z0-9])", text.strip()):
        assert "--hash=sha256:" in block, block.splitlines()[0]


def test_wheel_carries_the_packages_and_nothing_else(tmp_path: Path) -> None:
    # Built from a copy: setuptools leaves build/ and egg-info beside what it builds.
    source = tmp_path / "source"
    source.mkdir()
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for name in tracked:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-c", "from setuptools import build_meta; print(build_meta.build_wheel('.'))"]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = source.glob("*.whl")
    top = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)


def test_a_package_is_in_the_import_law_and_in_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert sorted(project["tool"]["importlinter"]["root_packages"]) == sorted(PACKAGES)
    copied = re.findall(r"^COPY (\w+) /app/\1$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(PACKAGES) <= set(copied)
