"""A map of a repository: what others use most, as an outline within a number of tokens. Pure.

Files are ranked by the calls and imports that lead to them (PageRank over files); with `near`, by the way there from
those. Of each file the declarations that are called most stand in the order of the source.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from codegraph.answer.index import Index, is_test
from codegraph.resolve.project import Target

_ROUNDS, _DAMPING = 30, 0.85
_CHARS = 4
"""Of one token, roughly, in source code."""
_SIGNATURE = 160


def ranks(index: Index, near: Collection[str] = ()) -> dict[str, float]:
    """How much a file matters, summing up to 1; `near` are paths."""
    files = sorted(index.project.files)
    if not files:
        return {}
    links: dict[str, Counter[str]] = defaultdict(Counter)
    for edge in index.project.calls.edges:
        if edge.caller_file != edge.callee_file:
            links[edge.caller_file][edge.callee_file] += 1
    for path, imports in index.project.imports.items():
        for one, _ in imports:
            if one.path != path:
                links[path][one.path] += 1
    if near:
        # What those use and what uses them.
        for path, targets in list(links.items()):
            for target, count in list(targets.items()):
                links[target][path] += count
    start = {path: 1.0 / len(near) if path in near else 0.0 for path in files} if near else {}
    start = start or {path: (0.1 if is_test(path) else 1.0) for path in files}
    whole = sum(start.values())
    start = {path: value / whole for path, value in start.items()}
    rank = dict(start)
    for _ in range(_ROUNDS):
        after = {path: (1 - _DAMPING) * value for path, value in start.items()}
        loose = 0.0
        for path, value in rank.items():
            used = links.get(path)
            if not used:
                loose += value
                continue
            each = _DAMPING * value / sum(used.values())
            for target, count in used.items():
                after[target] += each * count
        for path, value in start.items():
            after[path] += _DAMPING * loose * value
        rank = after
    return rank


def draw(index: Index, tokens: int, near: Collection[str] = ()) -> tuple[str, int]:
    """The outline, and how many files it shows. It has as many characters as `tokens` allow, and no file by half."""
    rank, room = ranks(index, near), tokens * _CHARS
    shown: list[str] = []
    for path in sorted(rank, key=lambda one: (-rank[one], one)):
        part = _file(index, path)
        while part and sum(map(len, part)) + len(part) > room and len(part) > 1:
            part = _less(index, path, part)
        size = sum(map(len, part)) + len(part)
        if size > room:
            break
        room -= size
        shown.append("\n".join(part))
    return "\n".join(shown), len(shown)


def _file(index: Index, path: str) -> list[str]:
    lines = [f"{path}:"]
    for one in index.project.files[path].symbols:
        said = (one.signature or f"{one.kind} {one.name}")[:_SIGNATURE]
        lines.append(f"{'  ' * (one.qname.count('.') + 1)}{one.line}: {said}")
    return lines


def _less(index: Index, path: str, part: list[str]) -> list[str]:
    """The half of the declarations that are called most, in the order of the source."""
    symbols = index.project.files[path].symbols
    uses = {one.line: len(index.callers.get(Target(path, one.qname), ())) for one in symbols}

    def used(line: str) -> int:
        return uses.get(int(line.strip().partition(":")[0]), 0)

    keep = sorted(range(1, len(part)), key=lambda number: (-used(part[number]), number))[: (len(part) - 1) // 2]
    return [part[0], *(part[number] for number in sorted(keep))]
