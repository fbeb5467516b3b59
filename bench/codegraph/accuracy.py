"""F1 of declarations and imports, by kind and line, beside the parsers of the languages."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.codegraph import natives, trees
from hack.cluster import errors, progress

CLASSES = {"class": "types", "function": "callables", "method": "callables", "import": "imports"}
TARGETS = {"types": 0.995, "callables": 0.995, "imports": 0.995, "names": 0.95}
Row = Sequence[Any]


class Score:
    """Counts of one language: what both have, what one of them has alone, and names that agree."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.both: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.invented: Counter[str] = Counter()
        self.names = self.equal = self.files = 0
        self.differences: list[str] = []

    def add(self, path: str, ours: Iterable[Row], theirs: Iterable[Row]) -> None:
        """One file's rows (kind, qualified name, line). Those of one kind on a line are paired by name first."""
        self.files += 1
        mine, native = _by_place(ours), _by_place(theirs)
        for place in sorted(mine.keys() | native.keys()):
            kind, line = place
            left, right = mine.get(place, Counter()), native.get(place, Counter())
            same = (left & right).total()
            both = min(left.total(), right.total())
            self.both[kind] += both
            self.missed[kind] += right.total() - both
            self.invented[kind] += left.total() - both
            if kind != "imports":
                self.names += both
                self.equal += same
            if left != right:
                said = f"{sorted((left - right).elements())} instead of {sorted((right - left).elements())}"
                self.differences.append(f"{path}:{line}: {kind}: {said}")

    def f1(self, kind: str) -> float | None:
        """Of one of `types`, `callables`, `imports`; None where neither has any."""
        wrong = self.missed[kind] + self.invented[kind]
        both = 2 * self.both[kind]
        return both / (both + wrong) if both + wrong else None

    def document(self) -> dict[str, Any]:
        """The figures, and which targets are missed."""
        found: dict[str, Any] = {kind: _rounded(self.f1(kind)) for kind in ("types", "callables", "imports")}
        found["names"] = _rounded(self.equal / self.names if self.names else None)
        counted = {"files": self.files, "declarations": self.names, "differences": len(self.differences)}
        missed = [one for one, wanted in TARGETS.items() if found[one] is not None and found[one] < wanted]
        return {**found, **counted, "missed": missed}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def _by_place(rows: Iterable[Row]) -> dict[tuple[str, int], Counter[str]]:
    found: dict[tuple[str, int], Counter[str]] = {}
    for kind, name, line in rows:
        found.setdefault((CLASSES[kind], line), Counter())[name] += 1
    return found


def extracted(folder: Path) -> dict[str, Any]:
    """What the extractor prints of a folder, in a process of its own."""
    command = [sys.executable, "-m", "codegraph", "extract", "--seconds", "600", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=trees.ROOT)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(
    languages: Sequence[str], which: Mapping[bool, bool], most: int, folder: Path | None, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Figures by language; `which` says whether trees that are seen (True) and not seen (False) are read.

    Differences go to `folder`/diff-LANGUAGE.txt.
    """
    report, found = progress.Progress(), dict[str, Any]()
    for language in languages:
        try:
            program = natives.ALL[language](report)
        except (errors.Missing, errors.Failure) as error:
            found[language] = {"absent": str(error)}
            continue
        score, by_tree, rejected, skipped = Score(), dict[str, Any](), 0, Counter[str]()
        for tree in trees.ALL:
            if tree.language != language or not which[tree.seen] or (names and tree.name not in names):
                continue
            own = Score()
            with tempfile.TemporaryDirectory(prefix="bench-codegraph-") as scratch:
                paths = trees.copy(tree, Path(scratch), most, report)
                native = program.read(Path(scratch), paths)
                ours = extracted(Path(scratch))
            rejected += len(native["rejected"])
            skipped.update(reason for _, reason, _ in ours["skipped"])
            for path in native["files"].keys() & ours["files"].keys():
                for one in (score, own):
                    one.add(f"{tree.name}/{path}", ours["files"][path], native["files"][path])
            by_tree[tree.name] = own.document()
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"diff-{language}.txt").write_text("".join(f"{one}\n" for one in sorted(score.differences)))
        first = sorted(score.differences)[:5]
        found[language] = {**score.document(), "rejected": rejected, "skipped": dict(skipped), "first": first,
                           "trees": by_tree}  # fmt: skip
    return found
