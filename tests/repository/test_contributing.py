"""What CHANGELOG.md, CONTRIBUTING.md, SECURITY.md and the templates name exists: files, names, targets, settings."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "changelog.d/README.md",
    ".github/pull_request_template.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.md"))),
]
_PATH = re.compile(r"`([\w.-]+(?:/[\w.+*-]+)+/?|[\w-]+\.(?:toml|md|yaml))`")
_MADE = ("dist/", ".venv/")  # by commands on the page
_PATTERN = re.compile(r"[A-Z]{4}|\+")  # `changelog.d/+name.KIND.md` stands for many


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> str:
    """The text of one page."""
    name: str = request.param
    return (ROOT / name).read_text(encoding="utf-8")


def test_files_exist(page: str) -> None:
    named = {*_PATH.findall(page), *re.findall(r"pytest (?:-n 2 )?(tests/\S+)", page)}
    wanted = {name for name in named if not name.startswith(_MADE) and not _PATTERN.search(name)}
    assert not [name for name in wanted if not (ROOT / name).exists()]


def test_words_select_tests(page: str) -> None:
    for name, word in re.findall(r"pytest (tests/\S+) -k (\w+)", page):
        assert re.search(rf"def test_\w*{word}", (ROOT / name).read_text()), word


def test_links_lead_somewhere(page: str) -> None:
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", page) if "://" not in link]
    assert not [link for link in links if not (ROOT / link).exists()]


def test_names_stand_in_the_files_that_are_said_to_hold_them(page: str) -> None:
    said = re.findall(r"`(\w+)`(?: \(or `\w+`\))?\s+in\s+`([\w/.]+\.\w+)`", page)
    assert not [(name, file) for name, file in said if not re.search(rf"\b{name}\b", (ROOT / file).read_text())]


def test_targets_exist(page: str) -> None:
    # In code only: "make" is a word of English too.
    code = "\n".join([*re.findall(r"`([^`]+)`", page), *re.findall(r"^    .+", page, flags=re.MULTILINE)])
    targets = set(re.findall(r"^([a-z0-9-]+):", _makefiles(), flags=re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z0-9-]+)", code)) <= targets


def test_modules_exist(page: str) -> None:
    for name in re.findall(r"python -m ([a-z][\w.]*)", page):
        assert (ROOT / name.replace(".", "/")).is_dir() or (ROOT / f"{name.replace('.', '/')}.py").is_file(), name


def test_settings_exist(page: str) -> None:
    rows = re.findall(r"^\| `([^`]+)`", (ROOT / "charts/jervis/README.md").read_text(), flags=re.MULTILINE)
    for name in re.findall(
        r"`((?:kb|router|admission|networkPolicy|operator|job)\.[a-z]\w+(?:\.\w+)*)(?:: [^`]*)?`", page
    ):
        assert any(f"{row}.".startswith(f"{name}.") for row in rows), name


def test_fragments_are_named_as_towncrier_reads_them(tmp_path: Path) -> None:
    # One with another name is passed over without a word. One of each kind stands beside those that there are.
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    fragments = tmp_path / "changelog.d"
    shutil.copytree(ROOT / "changelog.d", fragments)
    kinds = [
        kind["directory"] for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    ]
    for kind in kinds:
        for name in (f"+short-name.{kind}.md", f"43.{kind}.md", f"43.{kind}.2.md"):
            (fragments / name).write_text(f"The fragment {name} is shown.\n")
    names = [path.name for path in fragments.iterdir() if path.name != "README.md"]
    pattern = re.compile(rf"(?:\+[a-z0-9-]+|\d+)\.(?:{'|'.join(kinds)})(?:\.\d+)?\.md")
    assert [name for name in names if not pattern.fullmatch(name)] == []
    draft = [sys.executable, "-m", "towncrier", "build", "--draft"]
    shown = subprocess.run(draft, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert shown.count("\n- ") == len(names) >= 3 * len(kinds)


def test_the_hooks_run_what_there_is() -> None:
    [repo] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repo["repo"] == "local"
    for hook in repo["hooks"]:
        assert hook["language"] == "system"
        for name in re.findall(r"-m (\S+) --check", hook["entry"]):
            done = subprocess.run([ROOT / ".venv/bin/python", "-m", name, "--check"], cwd=ROOT, capture_output=True)
            assert done.returncode == 0, (hook["id"], done.stderr)


def test_the_hook_and_make_lint_check_the_same_pages() -> None:
    [repo] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    [hook] = [hook for hook in repo["hooks"] if hook["id"] == "mdformat"]
    known = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    lint = subprocess.run(
        ["make", "-n", "-o", ".venv/.ready", "lint"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    [line] = [line for line in lint.splitlines() if hook["entry"] in line]
    pages = line.rpartition(hook["entry"])[2].split()
    assert sorted(pages) == sorted(name for name in known if re.search(hook["files"], name))


def _makefiles() -> str:
    return "\n".join(path.read_text() for path in (ROOT / "Makefile", *sorted((ROOT / "hack").glob("*.mk"))))
