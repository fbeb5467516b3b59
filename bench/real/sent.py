"""What answers are worth as they were sent, before anything is repaired or asked again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import jsonschema

from bench.qualify import spy


def problem(call: spy.Call) -> str:
    """Why the answer is not valid; "" for one that is. Only for calls with a schema.

    It is held against the schema that was sent, bounds included which a grammar does not enforce.
    """
    if call.status != 200:
        return f"HTTP {call.status}"
    try:
        answer = json.loads(call.answer)
    except ValueError:
        return "no JSON"
    try:
        jsonschema.validate(answer, call.shape)
    except jsonschema.ValidationError as error:
        return f"{'.'.join(str(part) for part in error.schema_path if isinstance(part, str))}"
    return ""


def count(calls: Iterable[spy.Call]) -> dict[str, Any]:
    """Answers with a schema by prompt, the valid ones among them, and what is wrong with the others."""
    asked: Counter[str] = Counter()
    valid: Counter[str] = Counter()
    problems: Counter[str] = Counter()
    for call in calls:
        if call.shape is None:
            continue
        asked[call.tag] += 1
        wrong = problem(call)
        valid[call.tag] += not wrong
        if wrong:
            problems[f"{call.tag}: {wrong}"] += 1
    total = asked.total()
    return {
        "answers": total,
        "valid": valid.total(),
        "validShare": round(valid.total() / total, 4) if total else None,
        "byPrompt": {tag: [valid[tag], asked[tag]] for tag in sorted(asked)},
        "problems": dict(problems.most_common(20)),
    }
