"""What a pass is printed as: confusion of the routes, disagreements by item, and the cost."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bench.qualify import passes, spy

_COUNTED = "as the backend counts them; a quarter of the characters where it does not"


def document(outcomes: Sequence[passes.Outcome]) -> dict[str, Any]:
    """Everything of one pass, for JSON."""
    return {
        "items": len(outcomes),
        "rightRoutes": sum(one.right for one in outcomes),
        "rightHints": sum(not one.differences() for one in outcomes),
        "confusion": confusion(outcomes),
        "wrong": [
            {"item": one.item.id, "route": one.route, "expected": _expected(one), "reason": one.reason[:300]}
            for one in outcomes
            if not one.right
        ],
        "hints": [
            {"item": one.item.id, **{name: [str(got), str(want)] for name, (got, want) in one.differences().items()}}
            for one in outcomes
            if one.differences()
        ],
        "cost": cost(outcomes),
        "byLanguage": _by(outcomes, lambda one: one.item.language),
        "byCategory": _by(outcomes, lambda one: one.item.category),
        "byKind": _by(outcomes, lambda one: one.item.kind),
    }


def confusion(outcomes: Iterable[passes.Outcome]) -> dict[str, dict[str, int]]:
    """Expected route -> route -> how many."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for one in outcomes:
        table[_expected(one)][one.route] += 1
    return {expected: dict(sorted(routes.items())) for expected, routes in sorted(table.items())}


def cost(outcomes: Sequence[passes.Outcome]) -> dict[str, Any]:
    """Calls, tokens and seconds of one item, on average; seconds also as p50 and p99."""
    calls = [call for one in outcomes for call in one.calls]
    seconds = sorted(one.seconds for one in outcomes)
    prompts = Counter(call.tag or "(none)" for call in calls)
    return {
        "callsPerItem": _per(len(calls), outcomes),
        "calls": dict(sorted(prompts.items())),
        "byModel": {model: _of_model(calls, model, outcomes) for model in sorted({call.model for call in calls})},
        "promptTokensPerItem": _per(sum(call.prompt_tokens for call in calls), outcomes),
        "answerTokensPerItem": _per(sum(call.answer_tokens for call in calls), outcomes),
        "tokens": _COUNTED,
        "callsWithoutCounts": sum(not call.counted for call in calls),
        "seconds": {
            "mean": round(statistics.fmean(seconds), 4) if seconds else 0.0,
            "p50": percentile(seconds, 50),
            "p99": percentile(seconds, 99),
        },
    }


def percentile(values: Sequence[float], which: int) -> float:
    """Of sorted values, by nearest rank; 0.0 without values."""
    return round(values[max(0, -(-len(values) * which // 100) - 1)], 4) if values else 0.0


def table(outcomes: Sequence[passes.Outcome]) -> str:
    """The confusion table as text: a row for each expected route, a column for each route."""
    found = confusion(outcomes)
    columns = sorted({route for routes in found.values() for route in routes})
    width = max([len(name) for name in (*found, *columns)] + [8]) + 2
    lines = ["expected".ljust(width) + "".join(name.rjust(width) for name in columns)]
    for expected, routes in found.items():
        lines.append(expected.ljust(width) + "".join(str(routes.get(name, ".")).rjust(width) for name in columns))
    right = sum(one.right for one in outcomes)
    lines += ["", f"{right} of {len(outcomes)} routes are right"]
    for one in outcomes:
        if not one.right:
            lines.append(f"{one.item.id}: {one.route}, expected {_expected(one)}: {one.reason[:160]}")
        elif one.differences():
            said = ", ".join(f"{name} {got}, expected {want}" for name, (got, want) in one.differences().items())
            lines.append(f"{one.item.id}: {said}")
    return "\n".join(lines)


def _expected(one: passes.Outcome) -> str:
    return " or ".join(route.value for route in one.item.expected.route)


def _by(outcomes: Sequence[passes.Outcome], key: Callable[[passes.Outcome], str]) -> dict[str, Any]:
    groups: dict[str, list[passes.Outcome]] = defaultdict(list)
    for one in outcomes:
        groups[key(one)].append(one)
    return {
        name: {
            "items": len(group),
            "rightRoutes": sum(one.right for one in group),
            "callsPerItem": cost(group)["callsPerItem"],
            "seconds": cost(group)["seconds"],
        }
        for name, group in sorted(groups.items())
    }


def _of_model(calls: Sequence[spy.Call], model: str, outcomes: Sequence[passes.Outcome]) -> dict[str, float]:
    own = [call for call in calls if call.model == model]
    return {
        "callsPerItem": _per(len(own), outcomes),
        "promptTokensPerItem": _per(sum(call.prompt_tokens for call in own), outcomes),
        "answerTokensPerItem": _per(sum(call.answer_tokens for call in own), outcomes),
    }


def _per(total: int, outcomes: Sequence[passes.Outcome]) -> float:
    return round(total / len(outcomes), 2) if outcomes else 0.0
