"""The command of the image, with a Java that behaves as the test says: bounds, failures, what becomes of several."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from codegraph import api
from orchestrator_job.analyze.joern import analyze

PART = {
    "types": [{"name": "A", "file": "a.c", "line": 1}, {"name": "B", "file": "a.c", "line": 2}],
    "methods": [{"name": "f", "type": "A", "file": "a.c", "line": 1, "signature": "int()"}],
    "calls": [[0, 0, 3]], "extends": [[0, 1]], "usesType": [[1, 0]], "truncated": False,
}  # fmt: skip
JAVA = """#!/bin/sh
for last; do :; done
echo "$@" >> {log}
case "$*" in {cases} esac
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "work/source").mkdir(parents=True)
    (tmp_path / "joern/lib").mkdir(parents=True)
    (tmp_path / "joern/lib/joern-cli_3-4.0.379.jar").touch()
    (tmp_path / "joern/query.sc").write_text("begin\n/*QUERY*/\nend\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def run(place: Path, files: list[str], cases: str, **settings: str) -> dict[str, Any]:
    """What is left in the end, by the names of the files."""
    for name in files:
        (place / "work/source" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "work/source" / name).write_text("")
    (place / "part.json").write_text(json.dumps(PART))
    java = place / "bin/java"
    java.write_text(JAVA.format(log=place / "log", cases=cases.replace("PART", str(place / "part.json"))))
    java.chmod(0o755)
    given = {"WORK": str(place / "work"), "JOERN": str(place / "joern")} | settings
    assert analyze.main({f"JERVIS_ANALYZE_{name}": value for name, value in given.items()} | {"PATH": ""}) == 0
    return {one.name: json.loads(one.read_text()) for one in (place / "work/.jervis").glob("*.json")}


def test_the_exports_of_languages_become_one_whose_indexes_fit(place: Path) -> None:
    files = ["a.c", "b.h", "src/C.java", "x.kt", "node_modules/y/z.py"]
    left = run(place, files, '*) cp PART "$last";;')
    assert list(left) == ["cpg-export.json"]
    found = api.CpgExport.model_validate(left["cpg-export.json"])
    assert (found.languages, found.joern) == (["java", "c"], "4.0.379")
    assert [(one.language, one.files, one.reason) for one in found.missing] == [("kotlin", 1, "LanguagesMissing")]
    assert (found.calls, found.extends, found.uses_type) == (
        [(0, 0, 3), (1, 1, 3)], [(0, 1), (2, 3)], [(1, 0), (3, 2)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("case", "settings", "reason"),
    [
        ("exit 3", {}, "OutOfMemory"),
        ("kill -9 $$", {}, "OutOfMemory"),
        ("echo no such thing >&2; exit 1", {}, "JoernFailed"),
        ("sleep 60", {"SECONDS": "3"}, "DeadlineExceeded"),
        ('echo "{" > "$last"', {}, "JoernFailed"),
    ],
)
def test_a_language_that_fails_takes_no_other_with_it(
    place: Path, case: str, settings: Mapping[str, str], reason: str
) -> None:
    # Java, of which there is less, comes first.
    cases = f'*"Export java"*) cp PART "$last";; *"Export c "*) {case};;'
    left = run(place, ["a.c", "b.c", "C.java"], cases, **settings)
    found = api.CpgExport.model_validate(left["cpg-export.json"])
    assert found.languages == ["java"]
    assert [(one.language, one.reason) for one in found.missing] == [("c", reason)]


def test_where_nothing_was_read_it_says_why(place: Path) -> None:
    assert run(place, ["x.kt"], "*) exit 1;;") == {
        "failure.json": {"reason": "LanguagesMissing", "message": "no front end for kotlin"}
    }
    (place / "work/.jervis/failure.json").unlink()
    left = run(place, ["a.c", "x.kt"], "*) echo it broke; exit 1;;")
    assert left == {"failure.json": {"reason": "JoernFailed", "message": "it broke"}}


def test_heap_and_folders_are_those_of_the_settings(place: Path) -> None:
    run(place, ["a.c"], '*) cp PART "$last";;', HEAP="3g")
    [line] = (place / "log").read_text().splitlines()
    assert line.startswith("-Xmx3g ")
    assert f"jervis.Export c {place}/work/source " in line
    assert analyze.main({"JERVIS_ANALYZE_HEAP": "3g -Dx=y"}) == 2


def test_an_export_that_is_too_large_is_cut_and_says_so() -> None:
    method = {"name": "f", "type": "A", "file": "a.c", "line": 1, "signature": "i" * 900}
    whole = {"types": [], "methods": [dict(method) for _ in range(20_000)], "calls": [[0, 19_999, 1]],
             "extends": [], "usesType": [], "truncated": False}  # fmt: skip
    found = analyze.fitting(whole)
    assert found["truncated"]
    assert (len(found["methods"]), found["calls"]) == (20_000, [[0, 19_999, 1]])
    whole |= {"methods": [method | {"file": "a" * 900, "signature": ""} for _ in range(20_000)], "truncated": False}
    found = analyze.fitting(whole)
    assert (len(found["methods"]), found["calls"]) == (2, [[0, 1, 1]])


def test_a_query_is_put_into_its_script_and_answered_by_language(place: Path) -> None:
    query = place / "query.sc"
    query.write_text("cpg.method.name.l")
    answer = 'for one; do case "$one" in answer=*) printf "%s" answered > "${one#answer=}";; esac; done'
    script = f'*"Export "*) :;; *ReplBridge*) {answer};;'
    left = run(place, ["a.c", "b.py"], script, QUERY_FILE=str(query))["query.json"]
    assert (left["state"], left["languages"]) == ("Succeeded", ["c", "python"])
    assert left["result"] == "== c ==\nanswered\n== python ==\nanswered"
    assert (place / "work/.jervis/c.sc").read_text() == "begin\ncpg.method.name.l\nend\n"


def test_a_query_that_does_not_compile_is_refused(place: Path) -> None:
    query = place / "query.sc"
    query.write_text("cpg.nothing(")
    left = run(place, ["a.c"], '*"Export "*) :;; *) echo error;;', QUERY_FILE=str(query))["query.json"]
    assert (left["state"], left["reason"]) == ("Failed", "InvalidQuery")
