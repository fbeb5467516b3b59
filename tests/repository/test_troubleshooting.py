"""docs/troubleshooting.md has an entry for every reason that a condition of ours can have, and none that it cannot.

The reasons are read from the code: the argument of each call that makes a condition or hands a reason on to one. What
is computed there stands in `COMPUTED` with the values that it can have; a new one fails until it does.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from contracts.api import queue_api
from crds import exit_reasons, pendingtask
from sources.core import state

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
KINDS = {
    "PendingTask": ("controllers/pendingtask", "controllers/admission.py"),
    "Connection": ("controllers/connection", "controllers/unreadable.py"),
    "GpuBackend": ("controllers/gpubackend", "controllers/unreadable.py"),
}
# Which argument of the call is the reason.
CALLS = {
    "condition": 3, "make": 2, "_condition": 2, "to": 2, "to_user": 2, "_back": 1, "_interrupted": 1, "over": 1,
    "Failure": 0, "Finding": 1, "Refusal": 0, "_still_open": 1,
}  # fmt: skip
MAKERS = ("crds.conditions", "controllers.pendingtask.policy.user_task", "controllers.pendingtask.policy.interruption")
COMPUTED: dict[str, Iterable[str]] = {
    "asked.kind.value": pendingtask.UserTaskKind,
    "chosen.decision.value": pendingtask.Decision,
    "decisions[0].verdict.value": pendingtask.Verdict,
    "outcome.exit_reason.value": exit_reasons.ExitReason,
    "reason.value": queue_api.Reason,
    "why.reason.value": (pendingtask.NotAllowed.CLIENT, pendingtask.NotAllowed.UNKNOWN),
    "state.reason": state.REASONS,
    "last.outcome": state.OUTCOMES,
    # Copied from a condition or an Event that is made by another of these calls.
    "cond.reason": (),
    "found.reason": (),
    "sending.reason": (),
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
    for node in (one for one in ast.walk(function) if isinstance(one, ast.Assign)):
        values = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
        for target, value in itertools.product(node.targets, values):
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


def section(kind: str) -> str:
    """The part of the page about that kind."""
    found = re.search(rf"^## {kind}$(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, kind
    return found[1]


def headed(kind: str) -> Iterator[tuple[str, str]]:
    """(reasons, text) of the entries with a heading of their own."""
    level = "####" if kind == "PendingTask" else "###"
    parts = re.split(r"^(#{3,4} .+)$", section(kind), flags=re.MULTILINE)[1:]
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        marks, _, words = heading.partition(" ")
        if marks == level and re.fullmatch(r"\w+(, \w+)*", words):
            yield words, text


def entries(kind: str) -> Counter[str]:
    """How often each reason has an entry."""
    listed = re.findall(r"^\| (`.+?`) \|", section(kind), re.MULTILINE)
    return Counter(
        [*(one for words, _ in headed(kind) for one in words.split(", "))]
        + [one for cell in listed for one in re.findall(r"`(\w+)`", cell)]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_reason_has_an_entry_and_the_other_way_round(kind: str) -> None:
    assert entries(kind) == Counter(set(reasons(kind)))


def test_the_reader_of_the_code_finds_reasons_of_each_form() -> None:
    found = set(reasons("PendingTask"))
    assert {"Stale", "CircuitOpen", "TokenNotWritten", "Rejected", "NeedsInput", "BackendGone"} <= found
    assert {"NotOpenAI", "SecretNotFound", "Unreadable"} <= set(reasons("GpuBackend"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_has_a_cause_a_command_and_a_fix(kind: str) -> None:
    for words, text in headed(kind):
        assert re.fullmatch(r"\n+[^\s#][^\0]+?\n\n```\n(\S.*\n)+```\n\nFix: [^\0]+", text), words


@pytest.mark.parametrize("page", ["troubleshooting.md", "runbooks.md", "metrics.md"])
def test_links_lead_to_headings(page: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", (PAGE.parent / page).read_text()):
        name, _, anchor = target.partition("#")
        file = PAGE.parent / (name or page)
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}, target


@pytest.mark.parametrize("page", ["troubleshooting.md", "runbooks.md"])
def test_values_that_are_named_are_values_of_the_chart(page: str) -> None:
    schema = json.loads((ROOT / "charts" / "jervis" / "values.schema.json").read_text())
    roots = "|".join(schema["properties"])
    named = set(re.findall(rf"`((?:{roots})\.[A-Za-z.]+)[`:=]", (PAGE.parent / page).read_text()))
    assert len(named) > 5
    for path in named:
        node = schema
        for part in path.split("."):
            node = schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
            node = node.get("properties", {}).get(part) or node.get("additionalProperties")
            assert node, path
