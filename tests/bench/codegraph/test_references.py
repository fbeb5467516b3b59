"""The references of Python, Go and Java say what the extractor says, and the score tells a difference.

Those of Kotlin, TypeScript and Rust need a download or cargo: `python -m bench.codegraph accuracy` runs them. Beside
TypeScript's compiler stand sources that its grammar does not know."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest

from bench.codegraph import accuracy, hostile, natives, trees
from codegraph.parse import extraction
from hack.cluster import progress

_GO = """package p

import (
	"fmt"
	alias "strings"
)

type Pair[K comparable, V any] struct{ key K }

func (pair *Pair[K, V]) Key() K { return pair.key }

func plain() {
	type local struct{}
	fmt.Println(alias.ToUpper("x"))
}
"""
_JAVA = """package p;

import java.util.*;

/** Documented. */
@Deprecated
public
class Outer<T> {
  Outer() {}

  record Point(int x) {
    Point {
      if (x < 0) throw new IllegalArgumentException();
    }
  }

  Runnable run() {
    return new Runnable() {
      @Override
      public void run() {}
    };
  }
}
"""
_PYTHON = """import os.path as where, sys
from . import (
    beside,
)


class Outer:
    @property
    def name(self):
        def inner(): ...
        return "def no(): pass"
"""
_ROWS = {
    "go": [
        ["import", "fmt", 4], ["import", "strings", 5], ["class", "Pair", 8], ["method", "Pair.Key", 10],
        ["function", "plain", 12], ["class", "plain.local", 13],
    ],
    "java": [
        ["import", "java.util.*", 3], ["class", "Outer", 8], ["method", "Outer.Outer", 9], ["class", "Outer.Point", 11],
        ["method", "Outer.Point.Point", 12], ["method", "Outer.run", 17], ["method", "Outer.run.run", 20],
    ],
    "python": [
        ["import", "os.path", 1], ["import", "sys", 1], ["import", ".", 2], ["class", "Outer", 7],
        ["method", "Outer.name", 9], ["function", "Outer.name.inner", 10],
    ],
}  # fmt: skip
_TEXTS = {"a.go": _GO, "a.java": _JAVA, "a.py": _PYTHON}


@pytest.mark.parametrize(("language", "path"), [("python", "a.py"), ("go", "a.go"), ("java", "a.java")])
def test_a_reference_and_the_extractor_say_the_same_of_a_file(language: str, path: str, tmp_path: Path) -> None:
    (tmp_path / path).write_text(_TEXTS[path])
    (tmp_path / f"broken{path}").write_text("class {{{ func def")
    native = natives.ALL[language](progress.Progress()).read(tmp_path, [path, f"broken{path}"])
    assert sorted(native["files"][path], key=lambda row: (row[2], row[1])) == _ROWS[language]
    assert list(native["rejected"]) == [f"broken{path}"]

    score = accuracy.Score()
    score.add(path, accuracy.extracted(tmp_path)["files"][path], native["files"][path])
    assert score.document() | {"declarations": 0} == {
        "types": 1.0, "callables": 1.0, "imports": 1.0, "names": 1.0, "files": 1, "declarations": 0, "differences": 0,
        "missed": [],
    }  # fmt: skip


def test_python_of_the_standard_library_has_no_difference(tmp_path: Path) -> None:
    paths = [f"{name}.py" for name in ("ast", "dataclasses", "typing", "subprocess", "enum", "tarfile")]
    for path in paths:
        shutil.copy(Path(sysconfig.get_path("stdlib")) / path, tmp_path)
    native, ours = natives.ALL["python"](progress.Progress()).read(tmp_path, paths), accuracy.extracted(tmp_path)
    score = accuracy.Score()
    for path in paths:
        score.add(path, ours["files"][path], native["files"][path])
    assert (score.differences, score.files) == ([], 6)
    assert score.names > 800


def test_a_score_counts_what_is_missed_invented_and_named_otherwise() -> None:
    score = accuracy.Score()
    theirs = [("class", "A", 1), ("method", "A.f", 2), ("method", "A.g", 2), ("import", "x", 9)]
    score.add("a", [("class", "B", 1), ("method", "A.f", 2), ("function", "h", 5), ("import", "y", 9)], theirs)
    assert (score.f1("types"), score.f1("callables"), score.f1("imports")) == (1.0, 0.5, 1.0)
    assert (score.names, score.equal) == (2, 1)
    assert score.document()["missed"] == ["callables", "names"]
    assert [one.partition(": ")[0] for one in score.differences] == ["a:2", "a:5", "a:9", "a:1"]


def test_every_language_has_trees_that_its_queries_were_not_written_with() -> None:
    for language in natives.ALL:
        assert {tree.seen for tree in trees.ALL if tree.language == language} == {True, False}


@pytest.mark.parametrize("path", ["noise.ts", "templates.ts", "brackets.py", "nul.py", "wide.py"])
def test_a_hostile_file_is_reported_and_its_neighbours_are_read(path: str) -> None:
    found = hostile.one(path, hostile.files()[path])
    assert (len(found["said"]), found["good"]) == (1, 20)


_SIGNATURES = """interface Factory {
  name: string
  /** One. */
  <T>(value: T): Factory
  // Two.
  (encoding?: string): Factory
  close(): void
}
const both = dual(
  2,
  <A, B extends Array<Map<A, B>>>(self: A, that: B): A => self
)
function after(): void {}
"""
_TEMPLATE = """const query = () => sql<{ id: number; name: string }>`SELECT ${id} FROM t`.pipe(1)
export interface Parameter {
  name: string
  in: "query" | "path"
  read(): void
}
"""


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (_SIGNATURES, ["Factory", "Factory.close", "after"]),
        (_TEMPLATE, ["query", "Parameter", "Parameter.read"]),
    ],
)
def test_what_the_grammar_does_not_know_hides_no_declaration(source: str, names: list[str]) -> None:
    found = extraction.extract("a.ts", source.encode(), "typescript")
    assert [one.qname for one in found.symbols] == names
    assert not found.has_error
