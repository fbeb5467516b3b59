"""docs/troubleshooting.md has an entry for every reason that a condition of ours can have, and none that it cannot.

The reasons are read from the code: the argument of each call that makes a condition or hands a reason on to one. What
is computed there stands in `COMPUTED` with the values that it can have; a new one fails until it does.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from crds import exits, pendingtask, waits

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
KINDS = {
    "PendingTask": ("controllers/pendingtask",),
    "Connection": ("controllers/connection", "controllers/unreadable.py"),
    "GpuBackend": ("controllers/gpubackend", "controllers/unreadable.py"),
}
# Which argument of the call is the reason.
CALLS = {
    "condition": 3, "make": 2, "_condition": 2, "to": 2, "to_user": 2, "_back": 1, "_interrupted": 1, "over": 1,
    "Failure": 0, "Finding": 1,
}  # fmt: skip
MAKERS = ("crds.conditions", "controllers.pendingtask.policy.user_task", "controllers.pendingtask.policy.interruption")
COMPUTED: dict[str, Iterable[str]] = {
    "asked.kind.value": pendingtask.UserTaskKind,
    "chosen.decision.value": pendingtask.Decision,
    "given.verdict.value": pendingtask.Verdict,
    "outcome.exit_reason.value": exits.ExitReason,
    "reason.value": waits.Reason,
    "found.reason": pendingtask.NotAllowed,
    "why.reason.value": (pendingtask.NotAllowed.CLIENT, pendingtask.NotAllowed.UNKNOWN),
    # Copied from a condition or an Event that is made by another of these calls.
    "cond.reason": (),
    "note.reason": (),
    # The kubelet's own words: see "Pods that do not start".
    "stuck.waiting_reason": (),
}


def reasons(kind: str) -> Iterator[str]:
    """Every reason that the code of that kind can give."""
    for place in KINDS[kind]:
        for path in sorted((ROOT / place).rglob("*.py")) if (ROOT / place).is_dir() else [ROOT / place]:
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            yield from _of(module, ast.parse(path.read_text()))


def _of(module: ModuleType, tree: ast.Module) -> Iterator[str]:
    """Nested functions are looked at with the one around them, whose names they use."""
    for outer in (*tree.body, *(node for one in tree.body if isinstance(one, ast.ClassDef) for node in one.body)):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in ast.walk(outer):
                position = CALLS.get(_called(module, call)) if isinstance(call, ast.Call) else None
                if isinstance(call, ast.Call) and position is not None and len(call.args) > position:
                    yield from _values(module, outer, call.args[position])


def _called(module: ModuleType, call: ast.Call) -> str:
    """The function's name, of this module or of one that it imports; "" for a method."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        owner = getattr(module, call.func.value.id, None)
        return call.func.attr if isinstance(owner, ModuleType) and owner.__name__ in MAKERS else ""
    return ""


def _values(module: ModuleType, function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.IfExp):
        yield from _values(module, function, node.body)
        yield from _values(module, function, node.orelse)
    elif isinstance(node, ast.Name) and node.id in _parameters(function):
        return  # the calls of that function are looked at
    elif isinstance(node, ast.Name) and not hasattr(module, node.id):
        found = list(_assigned(function, node.id))
        assert found, f"{module.__name__}: {node.id}"
        for value in found:
            yield from _values(module, function, value)
    elif (known := _constant(module, node)) is not None:
        yield known
    else:
        text = ast.unparse(node)
        assert text in COMPUTED, f"{module.__name__}: which values has {text}?"
        yield from (str(value) for value in COMPUTED[text])


def _parameters(function: ast.AST) -> set[str]:
    """Its own and those of the functions within it."""
    inner = (node for node in ast.walk(function) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {one.arg for node in inner for one in node.args.args}


def _assigned(function: ast.AST, name: str) -> Iterator[ast.expr]:
    """Every value that the function gives to that name, alone or as one of several."""
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            values = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
            for value in values:
                pairs = [(target, value)]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    pairs = list(zip(target.elts, value.elts, strict=True))
                yield from (given for one, given in pairs if isinstance(one, ast.Name) and one.id == name)


def _constant(module: ModuleType, node: ast.expr) -> str | None:
    """The value of a name of the module, or of one that it imports, such as `interruption.PREEMPTED`."""
    if isinstance(node, ast.Name):
        found = getattr(module, node.id, None)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        found = getattr(getattr(module, node.value.id, None), node.attr, None)
    else:
        return None
    return found if isinstance(found, str) else None


if __name__ == "__main__":
    for k in KINDS:
        print(k, sorted(set(reasons(k))))
