"""Files and functions that a text is about, ranked without a model. Pure.

    Where(index)        counts the words of a branch once: seconds for thousands of files
    Where.rank(text)    ranks: well below a second

Words of names, signatures, documentation, calls and bodies are scored over fields (BM25F, Robertson and Zaragoza 2009,
"The Probabilistic Relevance Framework"). What the text names exactly (`codegraph.answer.mentions`) counts more than all
its words.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from codegraph.answer.index import Index, is_test
from codegraph.answer.mentions import Mentions
from codegraph.resolve.project import Target
from text import words

_Key = TypeVar("_Key", str, Target)
_K1 = 1.2
_FUNCTION = {"name": 1.0, "owner": 1.5, "path": 2.0, "signature": 0.7, "doc": 1.5, "calls": 0.5, "words": 1.0}
_FILE = {
    "name": 3.0, "path": 1.5, "symbols": 1.5, "signatures": 0.3, "docs": 2.0, "calls": 0.3, "imports": 0.5,
    "words": 1.0,
}  # fmt: skip
"""How much a word counts by where it stands."""
_EVEN = {"name": 0.3, "owner": 0.3, "path": 0.3}
_EVEN_TEXT = 0.4
"""How far the length of a field is evened out (b of BM25), by field."""
_MENTION = 1.5
"""What a mention adds; the best score by words is 1."""
_OF_FILE, _OF_FUNCTIONS, _OF_NEIGHBOUR = 1.0, 1.0, 0.05
"""What the file's score adds to its functions, the best functions to their file, a caller or callee to a function."""
_DAMPED = 0.5
_CLASS = 0.8
"""A class beside its methods, which say where in it."""
_SIZE, _LONG = 0.1, 100
_MOST_TERMS = 200
_TITLE = 2.0
"""A word of the first line, beside one of those below."""
_OF_TESTS = re.compile(r"\b(?:tests?|tested|testing|pytest|unittests?|specs?|flaky|fixtures?)\b", re.IGNORECASE)
_GENERATED = re.compile(
    r"(?:^|/)(?:generated|gen)/|(?:^|/)zz_generated|[._]pb2?(?:_grpc)?\.\w+$|[._](?:gen|generated|g)\.\w+$"
    r"|\.designer\.cs$|\.min\.\w+$"
)
_PIECE = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORDS_OF_GRAMMAR = """
a about after all also an and any are as at be because been but by can could did do does each even every few for
from get gets given gives had has have he her here him his how i if in into is it its itself just less made make
makes many may me might more most much must my no not now of off on once one only or other our out over own same
see shall she should so some such than that the their them then there these they this those through to too under
until up us very was we were what when where which while who whose why will with without would yet you your
self cls def func return str int none null true false bool float
"""
_GRAMMAR = frozenset(_WORDS_OF_GRAMMAR.split())


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best first, with scores; those of one list compare with one another."""

    files: tuple[tuple[str, float], ...]
    functions: tuple[tuple[Target, float], ...]


class Where:
    """Of one branch."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._mentions = Mentions(index)
        fields = Fields(index)
        self._files = Scores({path: fields.file(path) for path in index.project.files}, _FILE)
        self._functions = Scores({one: fields.function(one) for one in index.symbols}, _FUNCTION)

    def rank(self, text: str, limit: int) -> Ranking:
        """At most `limit` of each; [] where no word of the text is in the branch."""
        asked, spoken = query(text), _OF_TESTS.search(text) is not None
        factor = {path: _factor(path, tests=spoken) for path in self._index.project.files}
        files = {path: score * factor[path] for path, score in self._files.score(asked).items()}
        functions = {one: score * factor[one.path] for one, score in self._functions.score(asked).items()}
        for one, strength in self._mentions.find(text).items():
            if one.qname:
                functions[one] = functions.get(one, 0.0) + _MENTION * strength
            else:
                files[one.path] = files.get(one.path, 0.0) + _MENTION * strength
        functions = self._spread(functions)
        inside: dict[str, list[float]] = defaultdict(list)
        for one, score in functions.items():
            inside[one.path].append(score)
        whole = dict(files)
        for path, scores in inside.items():
            best = heapq.nlargest(3, scores)
            whole[path] = whole.get(path, 0.0) + _OF_FUNCTIONS * sum(
                score / 2**place for place, score in enumerate(best)
            )
        chosen = {one: (score + _OF_FILE * whole[one.path]) * self._likely(one) for one, score in functions.items()}
        return Ranking(_best(whole, limit), _best(chosen, limit))

    def _likely(self, target: Target) -> float:
        """How likely a change is beside one of another declaration of one line: of what is longer, more."""
        symbol = self._index.symbols[target]
        lines = min(symbol.end_line - symbol.line + 1, _LONG)
        return float((_CLASS if symbol.kind == "class" else 1.0) * lines**_SIZE)

    def _spread(self, functions: Mapping[Target, float]) -> dict[Target, float]:
        spread = dict(functions)
        for one, score in heapq.nsmallest(200, functions.items(), key=lambda row: (-row[1], row[0])):
            near = {Target(edge.callee_file, edge.callee) for edge in self._index.callees.get(one, ())}
            near |= {Target(edge.caller_file, edge.caller) for edge in self._index.callers.get(one, ())}
            near &= self._index.symbols.keys()
            for other in near:
                gained = functions.get(other, 0.0) + _OF_NEIGHBOUR * score / math.sqrt(len(near))
                spread[other] = max(spread.get(other, 0.0), gained)
        return spread


class Fields:
    """The words of files and of declarations, by where they stand."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._called: dict[Target, list[str]] = defaultdict(list)
        for edge in index.project.calls.edges:
            self._called[Target(edge.caller_file, edge.caller)].append(edge.callee.rpartition(".")[2])
        for one in index.project.calls.unresolved:
            self._called[Target(one.file, one.caller)].append(one.name)
        self._bodies: dict[Target, list[str]] = defaultdict(list)
        for path, file in index.project.files.items():
            for symbol, body in zip(file.symbols, file.words, strict=False):
                self._bodies[Target(path, symbol.qname)].append(body)

    def function(self, target: Target) -> dict[str, list[str]]:
        """Of a declaration."""
        symbol = self._index.symbols[target]
        return {
            "name": split(symbol.name),
            "owner": split(symbol.container),
            "path": split(target.path),
            "signature": split(symbol.signature),
            "doc": split(symbol.doc),
            "calls": _all(self._called.get(target, ())),
            "words": _all(self._bodies.get(target, ())),
        }

    def file(self, path: str) -> dict[str, list[str]]:
        """Of a file."""
        file = self._index.project.files[path]
        folder, _, name = path.rpartition("/")
        inside = [Target(path), *(Target(path, one.qname) for one in file.symbols)]
        return {
            "name": split(name.rpartition(".")[0] or name),
            "path": split(folder),
            "symbols": _all(one.name for one in file.symbols),
            "signatures": _all(one.signature for one in file.symbols),
            "docs": _all(one.doc for one in file.symbols),
            "calls": _all(name for one in inside for name in self._called.get(one, ())),
            "words": _all(file.words),
            "imports": _all(f"{one.module} {' '.join(name for name, _ in one.names)}" for one in file.imports),
        }


class Scores(Generic[_Key]):
    """The weights of the words of documents with fields."""

    def __init__(self, documents: Mapping[_Key, Mapping[str, Sequence[str]]], weights: Mapping[str, float]) -> None:
        self._keys: list[_Key] = sorted(documents)
        lengths = {
            field: sum(len(one[field]) for one in documents.values()) / max(1, len(documents)) or 1.0
            for field in weights
        }
        self._places: dict[str, array[int]] = defaultdict(lambda: array("I"))
        self._weights: dict[str, array[float]] = defaultdict(lambda: array("f"))
        for place, key in enumerate(self._keys):
            found: dict[str, float] = defaultdict(float)
            for field, terms in documents[key].items():
                even = _EVEN.get(field, _EVEN_TEXT)
                each = weights[field] / (1 - even + even * len(terms) / lengths[field])
                for term, count in Counter(terms).items():
                    found[term] += each * count
            for term, weight in found.items():
                self._places[term].append(place)
                self._weights[term].append(weight / (_K1 + weight))

    def score(self, asked: Mapping[str, float]) -> dict[_Key, float]:
        """From 0 to 1, the best has 1; documents without any of the words are left out."""
        weighed = {
            term: weight * math.log(1 + len(self._keys) / len(self._places[term]))
            for term, weight in asked.items()
            if term in self._places
        }
        found: dict[int, float] = defaultdict(float)
        for term in sorted(weighed, key=lambda one: (-weighed[one], one))[:_MOST_TERMS]:
            for place, weight in zip(self._places[term], self._weights[term], strict=True):
                found[place] += weighed[term] * weight
        most = max(found.values(), default=1.0)
        return {self._keys[place]: score / most for place, score in found.items()}


def query(text: str) -> dict[str, float]:
    """The words of an issue's text, with how much each is said; those of its first line count more."""
    title, _, rest = text.strip().partition("\n")
    said = Counter(split(rest))
    found = {term: 1 + math.log(count) for term, count in said.items()}
    for term, count in Counter(split(title)).items():
        found[term] = max(found.get(term, 0.0), 0.0) + _TITLE * (1 + math.log(count))
    return found


@functools.lru_cache(maxsize=262_144)
def _split(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for piece in _PIECE.findall(_HUMP.sub(" ", text)):
        word = piece.casefold()
        if words.unspaced(word):
            found += map("".join, itertools.pairwise(word))
        elif len(word) > 1 and word not in _GRAMMAR:
            found.append(words.stem(word))
    return tuple(found)


def split(text: str) -> list[str]:
    """The stems of the words of a name or a text: `readHTTPBody2` has read, HTTP, body and 2 in it."""
    return list(_split(text)) if len(text) <= 200 else [term for part in text.split() for term in _split(part)]


def _all(texts: Iterable[str]) -> list[str]:
    return [term for text in texts for term in split(text)]


def _factor(path: str, *, tests: bool) -> float:
    if _GENERATED.search(path):
        return _DAMPED
    return _DAMPED if is_test(path) and not tests else 1.0


def _best(scores: Mapping[_Key, float], limit: int) -> tuple[tuple[_Key, float], ...]:
    best = heapq.nsmallest(limit, scores.items(), key=lambda row: (-row[1], row[0]))
    return tuple((one, round(score, 4)) for one, score in best)
