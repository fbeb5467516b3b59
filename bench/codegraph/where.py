"""How often the files and functions that a change touched are ranked first for its text, beside plain BM25.

Rows:

    where       codegraph.answer.where
    plain       BM25 (k1 1.2, b 0.75) over all words of a file (path, names, signatures, documentation, calls, imports),
                and over those of a function; no fields, no mentions, no calls

`measure` takes commits of this repository: the first half (`--seed 129 --commits 40 --until bd8b95a`) served to tune
the weights, the second was held out. `releases` takes release notes of libraries, on which no weight was tuned. A part
`named` is those of its texts that say a path or a name of code, as issues with a stack trace do.
"""

from __future__ import annotations

import functools
import json
import math
import os
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from bench.codegraph import history
from bench.codegraph import releases as libraries
from codegraph.answer import mentions, where
from codegraph.answer.index import Index
from codegraph.resolve.project import Target
from hack.cluster import progress

TARGETS = {"file_at_5": 0.9, "function_at_10": 0.7}
SECONDS = {"build": 20.0, "ask": 1.0}
"""Of processor time, the longest of all trees."""
JUDGED = "matched"
"""The part of releases that has the targets."""
_FILES, _FUNCTIONS = 5, 10
_Key = TypeVar("_Key", bound=Hashable)
Ranked = tuple[list[str], list[Target]]


class Hits:
    """Counts of one row."""

    def __init__(self) -> None:
        self.files = self.functions = self.of_files = self.of_functions = 0

    def add(self, case: history.Case, ranked: Ranked) -> None:
        """One case: the best files and functions."""
        self.of_files += 1
        self.files += bool(case.files & set(ranked[0][:_FILES]))
        if case.functions:
            self.of_functions += 1
            self.functions += bool(case.functions & set(ranked[1][:_FUNCTIONS]))

    def document(self) -> dict[str, Any]:
        """The figures."""
        return {
            "texts": self.of_files,
            "file_at_5": round(self.files / max(1, self.of_files), 3),
            "texts_with_functions": self.of_functions,
            "function_at_10": round(self.functions / max(1, self.of_functions), 3),
        }


class Plain:
    """BM25 over the words of files and of functions, the same words as `codegraph.answer.where` has."""

    def __init__(self, index: Index) -> None:
        """Counts them."""
        fields = where.Fields(index)
        self._files = _Bm25({path: _flat(fields.file(path)) for path in index.project.files})
        self._functions = _Bm25({one: _flat(fields.function(one)) for one in index.symbols})

    def rank(self, text: str) -> Ranked:
        """The best files and functions."""
        asked = where.split(text)
        return self._files.best(asked, _FILES), self._functions.best(asked, _FUNCTIONS)


class _Bm25:
    def __init__(self, documents: Mapping[Any, Sequence[str]]) -> None:
        self._lengths = {key: len(terms) for key, terms in documents.items()}
        self._mean = sum(self._lengths.values()) / max(1, len(documents)) or 1.0
        self._counts: dict[str, dict[Any, int]] = defaultdict(dict)
        for key, terms in documents.items():
            for term, count in Counter(terms).items():
                self._counts[term][key] = count

    def best(self, asked: Sequence[str], most: int) -> list[Any]:
        scores: dict[Any, float] = defaultdict(float)
        for term in asked:
            found = self._counts.get(term, {})
            idf = math.log(1 + (len(self._lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for key, count in found.items():
                scores[key] += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * self._lengths[key] / self._mean))
        return sorted(scores, key=lambda key: (-scores[key], key))[:most]


def _flat(fields: Mapping[str, Sequence[str]]) -> list[str]:
    return [term for terms in fields.values() for term in terms]


class _Report:
    """Figures by part and row, and the longest times."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Hits]] = defaultdict(lambda: defaultdict(Hits))
        self.files: list[int] = []
        self.seconds = {"build": 0.0, "ask": 0.0}

    def add(self, cases: Mapping[str, Sequence[history.Case]], index: Index) -> float:
        """The cases of parts in one tree; the seconds that the counts took."""
        ranks, built = _timed(functools.partial(where.Where, index))
        plain, known = Plain(index), mentions.Mentions(index)
        self.files.append(len(index.project.files))
        self.seconds["build"] = max(self.seconds["build"], built)
        for part, some in cases.items():
            for case in some:
                ranked, asked = _timed(functools.partial(ranks.rank, case.text, 10))
                self.seconds["ask"] = max(self.seconds["ask"], asked)
                best = {
                    "where": ([path for path, _ in ranked.files], [one for one, _ in ranked.functions]),
                    "plain": plain.rank(case.text),
                }
                for row, found in best.items():
                    for name in (part, *([f"{part}_named"] if known.find(case.text) else [])):
                        self.rows[name][row].add(case, found)
        return built

    def document(self, judged: str) -> dict[str, Any]:
        """The figures; the targets are those of the part `judged`."""
        figures = {part: {row: hits.document() for row, hits in some.items()} for part, some in self.rows.items()}
        reached = figures.get(judged, {}).get("where", {})
        seconds = {key: round(spent, 3) for key, spent in self.seconds.items()}
        missed = [key for key, wanted in TARGETS.items() if reached.get(key, 0.0) < wanted]
        missed += [f"seconds_{key}" for key, most in SECONDS.items() if seconds[key] > most]
        return {"load": round(os.getloadavg()[0], 1), "files": statistics.median(self.files or [0]), "seconds": seconds,
                **figures, "missed": missed}  # fmt: skip


def measure(count: int, seed: int, until: str) -> dict[str, Any]:
    """Figures of `count` commits up to `until`."""
    report, figures = progress.Progress(), _Report()
    commits = history.sample(count, seed, until)
    for number, (case, index) in enumerate(history.cases(commits, report)):
        if case.files:  # else the limits left them out
            figures.add({"tuned" if number < len(commits) // 2 else "held_out": [case]}, index)
    return {"until": until, "seed": seed, **figures.document("held_out")}


def releases(names: Sequence[str]) -> dict[str, Any]:
    """Figures of libraries, of all without `names`; `index` is of each library's first tree, all of which was read."""
    report, whole = progress.Progress(), _Report()
    each: dict[str, dict[str, Any]] = {}
    for library in libraries.ALL:
        if names and library.name not in names:
            continue
        own, index, topics = _Report(), dict[str, float](), list[int]()
        for one in libraries.releases(library, report):
            whole.add(one.cases, one.index)
            built = own.add(one.cases, one.index)
            topics += [len(one.cases["entries"])] if "notes" in one.cases else []
            index = index or {"files": one.read, **{key: round(spent, 1) for key, spent in one.seconds.items()},
                              "build": round(built, 1)}  # fmt: skip
        each[library.name] = {"topics": round(statistics.mean(topics or [0]), 1), "index": index,
                              **own.document(JUDGED)}  # fmt: skip
        report.say(json.dumps({library.name: each[library.name]}))
    return {**whole.document(JUDGED), "libraries": each}


_Value = TypeVar("_Value")


def _timed(work: Callable[[], _Value]) -> tuple[_Value, float]:
    begun = time.process_time()
    return work(), time.process_time() - begun
