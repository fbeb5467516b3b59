"""How often the files and functions that a commit changed are ranked first for its message, beside plain BM25.

Rows:

    where       kb.code.where
    plain       BM25 (k1 1.2, b 0.75) over all words of a file (path, names, signatures, documentation, calls, imports),
                and over those of a function; no fields, no mentions, no calls

The first half of the commits (`--seed 129 --commits 40 --until bd8b95a`) served to tune the weights, the second was
held out. `named` is the part whose message says a path or a name of code, as issues with a stack trace do.
"""

from __future__ import annotations

import functools
import math
import os
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from bench.codegraph import history
from hack.cluster import progress
from kb.code import mentions, where
from kb.code.index import Index
from kb.code.project import Target

TARGETS = {"file_at_5": 0.9, "function_at_10": 0.7}
SECONDS = {"build": 20.0, "ask": 1.0}
"""Of processor time, the longest of all trees."""
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
            "commits": self.of_files,
            "file_at_5": round(self.files / max(1, self.of_files), 3),
            "commits_with_functions": self.of_functions,
            "function_at_10": round(self.functions / max(1, self.of_functions), 3),
        }


class Plain:
    """BM25 over the words of files and of functions, the same words as `kb.code.where` has."""

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


def measure(count: int, seed: int, until: str) -> dict[str, Any]:
    """Figures of `count` commits up to `until`."""
    report = progress.Progress()
    commits = history.sample(count, seed, until)
    rows: dict[str, dict[str, Hits]] = {part: defaultdict(Hits) for part in ("tuned", "held_out", "named")}
    files, builds, asks = [], [], []
    for number, (case, index) in enumerate(history.cases(commits, report)):
        if not case.files:  # the limits left them out
            continue
        half = "tuned" if number < len(commits) // 2 else "held_out"
        files.append(len(index.project.files))
        ranks, built = _timed(functools.partial(where.Where, index))
        ranked, asked = _timed(functools.partial(ranks.rank, case.text, 10))
        builds.append(built)
        asks.append(asked)
        found: dict[str, Ranked] = {
            "where": ([path for path, _ in ranked.files], [one for one, _ in ranked.functions]),
            "plain": Plain(index).rank(case.text),
        }
        named = bool(mentions.Mentions(index).find(case.text))
        for row, best in found.items():
            for part in (half, *(["named"] if named else [])):
                rows[part][row].add(case, best)
    figures = {part: {row: hits.document() for row, hits in some.items()} for part, some in rows.items()}
    reached = figures["held_out"].get("where", {})
    missed = [key for key, wanted in TARGETS.items() if reached.get(key, 0.0) < wanted]
    seconds = {"build": round(max(builds), 2), "ask": round(max(asks), 3)}
    missed += [f"seconds_{key}" for key, most in SECONDS.items() if seconds[key] > most]
    return {"until": until, "seed": seed, "load": round(os.getloadavg()[0], 1), "files": statistics.median(files),
            "seconds": seconds, **figures, "missed": missed}  # fmt: skip


_Value = TypeVar("_Value")


def _timed(work: Callable[[], _Value]) -> tuple[_Value, float]:
    begun = time.process_time()
    return work(), time.process_time() - begun
