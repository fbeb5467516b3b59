"""Counts of many histories as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.connectors.history import OURS, Outcome

COUNTS = ("differing", "unnamed", "twice", "wrong")
_RERUN = "python -m bench.connectors histories --seed {} --histories 1 --references 0 --protocols {}"
_SUMS = ("histories", "failed", "events", "kills", "requests", "seconds", *COUNTS)
MOST_SHOWN = 20


def document(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """By protocol and algorithm the sums; `failed`: the histories that ended with anything that should not be.
    `problems`: those of ours, each with what differed and the command that runs it alone."""
    found: dict[str, Any] = {"protocols": {}, "problems": []}
    for one in outcomes:
        names = {kind: list(getattr(one, kind)) for kind in COUNTS}
        wrong = any(names.values())
        said = {
            "histories": 1, "failed": int(wrong), "events": one.events, "kills": one.kills, "requests": one.requests,
            "seconds": one.seconds, **{kind: len(some) for kind, some in names.items()},
        }  # fmt: skip
        _add(found["protocols"].setdefault(one.protocol, {}).setdefault(one.algorithm, {}), said)
        if wrong and one.algorithm == OURS and len(found["problems"]) < MOST_SHOWN:
            rerun = _RERUN.format(one.seed, one.protocol)
            found["problems"].append({"protocol": one.protocol, "seed": one.seed, **names, "rerun": rerun})
    return _rounded(found)


def merged(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Those of several runs, which had other seeds."""
    found: dict[str, Any] = {"protocols": {}, "problems": []}
    for one in documents:
        for protocol, algorithms in one["protocols"].items():
            for algorithm, said in algorithms.items():
                _add(found["protocols"].setdefault(protocol, {}).setdefault(algorithm, {}), said)
        found["problems"] += one["problems"]
    return _rounded(found)


def good(found: Mapping[str, Any]) -> bool:
    """Ours failed nowhere, and each reference somewhere."""
    sums: dict[str, int] = {}
    for algorithms in found["protocols"].values():
        for algorithm, said in algorithms.items():
            sums[algorithm] = sums.get(algorithm, 0) + int(said["failed"])
    return sums.pop(OURS, 0) == 0 and all(sums.values())


def table(found: Mapping[str, Any]) -> str:
    """A table in Markdown; requests and seconds are for a history. Below it the commands that rerun failing ones."""
    lines = [
        "|  | algorithm | histories | events | differing | not named | twice | wrongly deleted | requests | seconds |"
    ]
    lines.append("| -- " * 10 + "|")
    for protocol, algorithms in found["protocols"].items():
        for algorithm, said in algorithms.items():
            count = said["histories"]
            cells = [protocol, algorithm, f"{count:,}", f"{said['events']:,}", *(f"{said[kind]:,}" for kind in COUNTS)]
            cells += [f"{said['requests'] / count:.0f}", f"{said['seconds'] / count:.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    failing = [one["rerun"] for one in found["problems"] if "rerun" in one]  # documents of earlier versions lack it
    return "\n".join([*lines, *(["", *failing] if failing else [])])


def _add(sums: dict[str, Any], said: Mapping[str, Any]) -> None:
    for name in _SUMS:
        sums[name] = sums.get(name, 0) + said[name]


def _rounded(found: dict[str, Any]) -> dict[str, Any]:
    for algorithms in found["protocols"].values():
        for said in algorithms.values():
            said["seconds"] = round(said["seconds"], 1)
    return found
