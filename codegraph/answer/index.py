"""A project as questions need it: who calls whom, who extends whom, and what a name means. Pure.

Calls through a base class reach what overrides it: `overridden` and `overriding` say so, and `impact` follows them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from codegraph.parse.facts import Symbol
from codegraph.resolve import keys as naming
from codegraph.resolve.calls.edges import SURE, Edge
from codegraph.resolve.project import Project, Target

_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|spec|testing)/|(?:^|/)(?:test_[^/]*|conftest)\.py$|_test\.(?:go|py)$"
    r"|(?:Test|Tests|IT|Spec)\.(?:java|kt|scala|swift|cs)$|\.(?:test|spec)\.[cm]?[jt]sx?$|_spec\.rb$"
)
MOST_AFFECTED = 20_000
_SHOWN = 10


class UnknownError(LookupError):
    """A name that no declaration has, or several: `candidates` are the nearest or all of them, as qualified names."""

    def __init__(self, name: str, candidates: Sequence[str], *, several: bool) -> None:
        said = "means several declarations" if several else "is no declaration of this branch"
        super().__init__(f"{name!r} {said}")
        self.candidates, self.several = candidates, several


@dataclass(frozen=True, slots=True)
class Step:
    """A target that something reaches: how far away, over what, and from which other one."""

    target: Target
    distance: int
    by: str
    of: Target


class Index:
    """Of one branch; `keys` are those of its nodes."""

    def __init__(self, project: Project, branch: str, project_id: str) -> None:
        self.project = project
        self.keys = naming.Keys(project.files, branch, project_id)
        self.symbols = {Target(path, one.qname): one for path, file in project.files.items() for one in file.symbols}
        self.callers: dict[Target, list[Edge]] = defaultdict(list)
        self.callees: dict[Target, list[Edge]] = defaultdict(list)
        for edge in project.calls.edges:
            if edge.confidence >= SURE:
                self.callers[Target(edge.callee_file, edge.callee)].append(edge)
                self.callees[Target(edge.caller_file, edge.caller)].append(edge)
        self.subclasses: dict[Target, list[Target]] = defaultdict(list)
        for one, bases in project.extends.items():
            for base in bases:
                self.subclasses[base].append(one)
        self.users: dict[Target, list[Target]] = defaultdict(list)
        for one, used in project.uses_type.items():
            for kind in used:
                self.users[kind].append(one)
        self._named: dict[str, list[Target]] = defaultdict(list)
        for target, symbol in self.symbols.items():
            self._named[symbol.name].append(target)

    def find(self, name: str) -> Target:
        """The declaration that a name means: PATH, PATH:NAME, or the end of one qualified name. Raises UnknownError."""
        path, _, inner = name.rpartition(":")
        if name in self.project.files:
            return Target(name)
        if path in self.project.files:
            path_and = Target(path, inner)
            if path_and in self.symbols:
                return path_and
        wanted = name.removesuffix("()")
        last = re.split(r"[.:#]+", wanted)[-1]
        dotted = re.sub(r"[:#]+", ".", wanted)
        found = [one for one in self._named.get(last, ()) if f".{self.qualified(one)}".endswith(f".{dotted}")]
        exact = [one for one in found if self.qualified(one) == dotted]
        chosen = exact or found
        if len(chosen) == 1:
            return chosen[0]
        if chosen:
            # A class before its constructor and other things of its name inside of it.
            types = [one for one in chosen if self.symbols[one].kind == "class"]
            if len(types) == 1 and all(one == types[0] or one.path == types[0].path for one in chosen):
                return types[0]
            raise UnknownError(name, [f"{one.path}:{one.qname}" for one in sorted(chosen)[:_SHOWN]], several=True)
        near = sorted(self._near(last.casefold()))[:_SHOWN]
        raise UnknownError(name, [f"{one.path}:{one.qname}" for one in near], several=False)

    def qualified(self, target: Target) -> str:
        """The qualified name without a path before it."""
        file = self.project.files[target.path]
        return ".".join(part for part in (naming.module(file), target.qname) if part)

    def symbol(self, target: Target) -> Symbol | None:
        """The declaration; None for a file."""
        return self.symbols.get(target)

    def impact(self, start: Target, depth: int) -> list[Step]:
        """What may break when `start` changes, the nearest first, without itself."""
        seen, expanded = {start}, {start}
        found: list[Step] = []
        waiting = deque([(start, 0)])
        while waiting and len(found) < MOST_AFFECTED:
            target, distance = waiting.popleft()
            if distance >= depth:
                continue
            for by, other in sorted(set(self._dependents(target, expanded))):
                if other not in seen:
                    seen.add(other)
                    found.append(Step(other, distance + 1, by, target))
                    waiting.append((other, distance + 1))
        return found

    def path(self, source: Target, target: Target) -> list[Edge]:
        """The shortest way by calls, [] where there is none; from a class, those of its methods are its calls."""
        came: dict[Target, Edge | None] = dict.fromkeys(self._inside(source))
        waiting = deque(came)
        goals = set(self._inside(target))
        entered: set[Target] = set()
        while waiting:
            at = waiting.popleft()
            for edge in sorted(self.callees.get(at, ())):
                callee = Target(edge.callee_file, edge.callee)
                if callee in entered:
                    continue
                entered.add(callee)
                for other in self._inside(callee):
                    if other in came:
                        continue
                    came[other] = edge
                    if other in goals:
                        return self._back(other, came)
                    waiting.append(other)
        return []

    def around(self, start: Target, steps: int) -> list[tuple[Target, str, int]]:
        """What calls `start`, or is called by it, up to so many steps away: (target, caller or callee, steps), the
        nearest first, of those the ones with the most calls to the step before. A class has the calls of its methods.
        """
        mine = self._inside(start)
        seen = set(mine)
        found: list[tuple[Target, str, int]] = []
        waiting = {"caller": mine, "callee": mine}
        for step in range(1, steps + 1):
            for side, of in waiting.items():
                counted = Counter(
                    Target(edge.caller_file, edge.caller) if side == "caller" else Target(edge.callee_file, edge.callee)
                    for one in of
                    for edge in (self.callers if side == "caller" else self.callees).get(one, ())
                )
                new = [one for one, _ in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))]
                waiting[side] = [one for one in new if one not in seen]
                seen.update(waiting[side])
                found += [(one, side, step) for one in waiting[side]]
        return found

    def among(self, start: Target, targets: Iterable[Target]) -> dict[tuple[Target, Target], list[int]]:
        """The lines of the calls among these and `start`, by caller and callee; those of its methods are a class's."""
        of = dict.fromkeys(self._inside(start), start)
        of |= {one: one for one in targets}
        found: dict[tuple[Target, Target], list[int]] = defaultdict(list)
        for one, shown in of.items():
            for edge in self.callees.get(one, ()):
                callee = of.get(Target(edge.callee_file, edge.callee))
                if callee is not None and callee != shown:
                    found[shown, callee].append(edge.line)
        return found

    def tests(self, targets: Iterable[Target]) -> list[str]:
        """The files of tests among these."""
        return sorted({one.path for one in targets if is_test(one.path)})

    def _dependents(self, target: Target, expanded: set[Target]) -> Iterator[tuple[str, Target]]:
        """`expanded` are the bases' methods whose callers are found already: hundreds of classes may override one."""
        for edge in self.callers.get(target, ()):
            yield "calls", Target(edge.caller_file, edge.caller)
        for one in self.subclasses.get(target, ()):
            yield "extends", one
        for one in self.users.get(target, ()):
            yield "uses_type", one
        symbol = self.symbols.get(target)
        if symbol is not None and symbol.kind == "method":
            owner = Target(target.path, target.qname.rpartition(".")[0])
            for base in self._bases(owner):
                overridden = Target(base.path, f"{base.qname}.{symbol.name}")
                if overridden in expanded:
                    continue
                expanded.add(overridden)
                # A call of the base's method may run this one.
                for edge in self.callers.get(overridden, ()):
                    yield "calls", Target(edge.caller_file, edge.caller)
            for one in self.subclasses.get(owner, ()):
                overriding = Target(one.path, f"{one.qname}.{symbol.name}")
                if overriding in self.symbols:
                    yield "overrides", overriding

    def _bases(self, owner: Target) -> Iterator[Target]:
        seen, waiting = {owner}, deque([owner])
        while waiting:
            for base in self.project.extends.get(waiting.popleft(), ()):
                if base not in seen:
                    seen.add(base)
                    waiting.append(base)
                    yield base

    def _inside(self, target: Target) -> list[Target]:
        symbol = self.symbols.get(target)
        if symbol is None or symbol.kind != "class":
            return [target]
        file = self.project.files[target.path]
        return [
            target,
            *(Target(target.path, one.qname) for one in file.symbols if one.qname.startswith(f"{target.qname}.")),
        ]

    def _back(self, end: Target, came: dict[Target, Edge | None]) -> list[Edge]:
        found: list[Edge] = []
        edge = came[end]
        while edge is not None:
            found.append(edge)
            edge = came[Target(edge.caller_file, edge.caller)]
        return found[::-1]

    def _near(self, last: str) -> Iterator[Target]:
        for name, targets in self._named.items():
            if last in name.casefold():
                yield from targets


def is_test(path: str) -> bool:
    """Whether the file at a path is one of tests, by the customs of its language."""
    return _TEST.search(path) is not None
