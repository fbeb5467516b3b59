"""What a text names exactly: paths, lines of stack traces, qualified names and names that only code has. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator

from codegraph.answer.index import Index
from codegraph.resolve.project import Target

_FRAME = re.compile(r'File "([^"\n]{1,1000})", line (\d{1,7})')
_TOKEN = re.compile(r"[^\s\"'`(),;<>\[\]{}|=]{2,400}")
_QUOTED = re.compile(r"`([^`\n]{2,400})`")
_PLACE = re.compile(r"(.*?\.\w{1,8})(?:[:#]L?(\d{1,7}))?(?:[:-].*)?", re.DOTALL)
_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::|#|->)[^\W\d][\w$]*)*")
_BETWEEN = re.compile(r"\.|::|#|->")
# A word that no text has unless it is a name: with `_` in it, or with a capital letter behind a small one.
_CODE = re.compile(r"\w*[^\W_]_+[^\W_]\w*|_+\w{3,}|\w*[a-z][A-Z]\w*|[A-Z]{2,}[a-z]\w+")
_OWNERS = frozenset({"self", "this", "cls", "super"})
_MOST = 12
"""Declarations that one name may mean; one of more says nothing."""
_MOST_NAMES = 1_500
"""Different words of a text that are looked up."""


class Mentions:
    """Of one branch."""

    def __init__(self, index: Index) -> None:
        self._index = index
        # With the qualified name behind a dot.
        self._named: dict[str, list[tuple[Target, str]]] = defaultdict(list)
        for target, symbol in index.symbols.items():
            self._named[symbol.name].append((target, f".{index.qualified(target)}"))
        self._based: dict[str, list[str]] = defaultdict(list)
        self._modules: dict[str, list[str]] = defaultdict(list)
        for path in index.project.files:
            self._based[path.rpartition("/")[2]].append(path)
            module = index.qualified(Target(path))
            self._modules[module.rpartition(".")[2]].append(path)

    def find(self, text: str) -> dict[Target, float]:
        """How surely each is meant, from 0 to 1; the qname '' is the file."""
        found: dict[Target, float] = {}
        for target, strength in self._all(text):
            found[target] = max(strength, found.get(target, 0.0))
        return found

    def _all(self, text: str) -> Iterator[tuple[Target, float]]:
        for frame in _FRAME.finditer(text):
            yield from self._place(frame[1], frame[2])
        # A decorator or an annotation is named with its sign.
        names = {(quoted[1].removesuffix("()").lstrip("@"), True): None for quoted in _QUOTED.finditer(text)}
        for match in _TOKEN.finditer(text):
            token = match[0].strip(".:!?*").lstrip("@")
            names[token, text.startswith("()", match.end())] = None
        for token, quoted in itertools.islice(names, _MOST_NAMES):
            place = _PLACE.fullmatch(token)
            if place is not None:
                yield from self._place(place[1], place[2] or "")
            yield from self._name(token, quoted=quoted)

    def _place(self, path: str, line: str) -> Iterator[tuple[Target, float]]:
        parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
        near = [(self._same(one, parts), one) for one in self._based.get(parts[-1] if parts else "", ())]
        best = max((same for same, _ in near), default=0)
        paths = [one for same, one in near if same == best]
        # Not a file of a library that has a name like one of ours.
        if not best or len(paths) > _MOST:
            return
        if not any(best in (len(parts), one.count("/") + 1) for one in paths) and best < 2:
            return
        for one in paths:
            yield Target(one), 1 / math.sqrt(len(paths))
            around = [
                symbol for symbol in self._index.project.files[one].symbols
                if line and symbol.line <= int(line) <= symbol.end_line
            ]  # fmt: skip
            if around:
                inner = max(around, key=lambda symbol: (symbol.line, -symbol.end_line))
                yield Target(one, inner.qname), 1 / math.sqrt(len(paths))

    @staticmethod
    def _same(path: str, parts: list[str]) -> int:
        count = 0
        for mine, said in zip(reversed(path.split("/")), reversed(parts), strict=False):
            if mine != said:
                break
            count += 1
        return count

    def _name(self, said: str, *, quoted: bool) -> Iterator[tuple[Target, float]]:
        if not _NAME.fullmatch(said):
            return
        names = _BETWEEN.split(said)
        while names and names[0] in _OWNERS:
            names = names[1:]
            quoted = True
        if not names:
            return
        alone = quoted or _CODE.fullmatch(names[-1]) is not None
        while names:
            dotted = ".".join(names)
            if len(names) > 1 or alone:
                ends = [one for one, whole in self._named.get(names[-1], ()) if whole.endswith(f".{dotted}")]
                files = [
                    Target(path) for path in self._modules.get(names[-1], ())
                    if f".{self._index.qualified(Target(path))}".endswith(f".{dotted}")
                ] if len(names) > 1 or quoted else []  # fmt: skip
                found = [*ends, *files]
                if found:
                    if len(found) <= _MOST:
                        yield from ((one, 1 / math.sqrt(len(found))) for one in found)
                    return
            names = names[1:]
