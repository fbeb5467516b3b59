"""What lock files pin, and which of it OSV records say is vulnerable."""

from __future__ import annotations

import contextlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator_job.effects.tools import lockfiles, osv
from orchestrator_job.effects.tools.lockfiles import Package

LOCKS = {
    "requirements-dev.txt": "# x\nRequests[socks]==2.31.0 \\\n    --hash=sha256:0\nflask>=2\n-r other.txt\nA.B_c===1\n",
    "poetry.lock": '[[package]]\nname = "Jinja2"\nversion = "3.1.2"\n',
    "uv.lock": '[[package]]\nname = "jinja2"\nversion = "3.1.2"\n[[package]]\nname = "own"\n',
    "Cargo.lock": '[[package]]\nname = "time"\nversion = "0.1.42"\n',
    "go.sum": "golang.org/x/net v0.7.0 h1:a=\ngolang.org/x/net v0.7.0/go.mod h1:b=\n",
    "package-lock.json": json.dumps(
        {"packages": {"": {"version": "1"}, "node_modules/a": {"version": "1.0.0"},
                      "node_modules/a/node_modules/@s/b": {"version": "2.0.0"}, "packages/w": {"link": True}}}
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "packages"),
    [
        ("requirements-dev.txt", [Package("PyPI", "requests", "2.31.0"), Package("PyPI", "a-b-c", "1")]),
        ("poetry.lock", [Package("PyPI", "jinja2", "3.1.2")]),
        ("uv.lock", [Package("PyPI", "jinja2", "3.1.2")]),
        ("Cargo.lock", [Package("crates.io", "time", "0.1.42")]),
        ("go.sum", [Package("Go", "golang.org/x/net", "0.7.0")]),
        ("package-lock.json", [Package("npm", "a", "1.0.0"), Package("npm", "@s/b", "2.0.0")]),
    ],
)
def test_lock_files_are_read(path: str, packages: list[Package]) -> None:
    assert lockfiles.read(f"deep/{path}", LOCKS[path]) == packages


def test_the_first_form_of_npm_and_other_names() -> None:
    first = {"dependencies": {"a": {"version": "1", "dependencies": {"b": {"version": "2"}}}}}
    assert lockfiles.read("package-lock.json", json.dumps(first)) == [
        Package("npm", "a", "1"),
        Package("npm", "b", "2"),
    ]
    assert lockfiles.reader("src/lock.json") is None


@pytest.mark.parametrize("path", [*LOCKS][1:])
@pytest.mark.parametrize("text", ["{", "[" * 100_000, "[[package]]\nname = 1", '{"packages": 3}', "a b", "\x00"])
def test_what_is_no_lock_file_is_said_to_be_none(path: str, text: str) -> None:
    with contextlib.suppress(lockfiles.Unreadable):
        assert all(isinstance(one, Package) for one in lockfiles.read(path, text))


def record(name: str, ecosystem: str, *events: dict[str, str], kind: str = "ECOSYSTEM", **more: Any) -> dict[str, Any]:
    entry = {"package": {"ecosystem": ecosystem, "name": name}, "ranges": [{"type": kind, "events": list(events)}]}
    return {"id": f"X-{name}", "summary": "Bad\nthing", "affected": [{**entry, **more}]}


@pytest.mark.parametrize(
    ("ecosystem", "version", "events", "vulnerable"),
    [
        ("PyPI", "2.31.0", [{"introduced": "0"}, {"fixed": "2.32.0"}], True),
        ("PyPI", "2.32.0", [{"introduced": "0"}, {"fixed": "2.32.0"}], False),
        ("PyPI", "2.32.0rc1", [{"introduced": "0"}, {"fixed": "2.32.0"}], True),
        ("PyPI", "10.0", [{"introduced": "9.0"}, {"fixed": "9.5"}, {"introduced": "10.0"}], True),
        ("PyPI", "9.7", [{"introduced": "9.0"}, {"fixed": "9.5"}, {"introduced": "10.0"}], False),
        ("npm", "1.10.0", [{"introduced": "1.2.0"}, {"fixed": "1.9.0"}], False),
        ("npm", "1.9.0-beta.2", [{"introduced": "0"}, {"fixed": "1.9.0"}], True),
        ("npm", "1.9.0-beta.11", [{"introduced": "0"}, {"fixed": "1.9.0-beta.2"}], False),
        ("Go", "0.7.0", [{"introduced": "0"}, {"last_affected": "0.7.0"}], True),
        ("Go", "0.7.1", [{"introduced": "0"}, {"last_affected": "0.7.0"}], False),
        ("Go", "0.0.0-20200101000000-abcdef", [{"introduced": "0"}, {"fixed": "0.1.0"}], True),
        ("crates.io", "weird", [{"introduced": "0"}], False),
    ],
)
def test_ranges_are_compared_as_the_ecosystem_orders_versions(
    tmp_path: Path, ecosystem: str, version: str, events: list[dict[str, str]], vulnerable: bool
) -> None:
    file = tmp_path / "osv.json"
    file.write_text(json.dumps([record("a", ecosystem, *events, kind="SEMVER")]))
    package = Package(ecosystem, "a", version)
    assert [one for one, _ in osv.affected(file, [package])] == ([package] if vulnerable else [])


def test_every_form_of_the_file_is_read_and_withdrawn_records_do_not_count(tmp_path: Path) -> None:
    package = Package("PyPI", "a-b", "1.0")
    good, other = record("A_b", "PyPI", {"introduced": "0"}, {"fixed": "2"}), record("z", "PyPI", versions=["1.0"])
    gone = {**record("a-b", "PyPI", versions=["1.0"]), "withdrawn": "2026-01-01T00:00:00Z"}
    lines, archive = tmp_path / "osv.jsonl", tmp_path / "all.zip"
    lines.write_text("\n".join(json.dumps(one) for one in (good, other, gone)))
    with zipfile.ZipFile(archive, "w") as made:
        for number, one in enumerate((good, other, gone)):
            made.writestr(f"{number}.json", json.dumps(one))
    for file in (lines, archive):
        [(found, said)] = osv.affected(file, [package])
        assert (found, said) == (package, osv.Record("X-A_b", "Bad thing", ("2",)))
    with pytest.raises(osv.Unreadable):
        osv.affected(tmp_path / "none", [package])
    (tmp_path / "bad").write_text("{]")
    with pytest.raises(osv.Unreadable):
        osv.affected(tmp_path / "bad", [package])
