"""A default of the settings is that of what it bounds, which tests and measurements use without settings.

Where the process is put together, each call that passes a setting to a parameter with a default is compared.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import kb
from codegraph.extract import budget
from kb import settings
from kb.ingest import document
from kb.service import assembly

ROOT = Path(kb.__file__).parent
USUAL = settings.Settings(_env_file=None)
VALUES = (bool, int, float, str, timedelta)
DIFFERENT: dict[tuple[str, str], tuple[Any, Any]] = {
    # The contents of one request, while a client waits; measurements read a whole repository in one pass.
    ("budget.Budget", "seconds"): (300.0, 60.0),
    # A page as it was drawn, where what serves the model is not asked for more.
    ("served.Served", "pixels"): (0, 1_400_000),
}
"""(callee, parameter): (default of the parameter, what the settings pass)."""


@dataclass(frozen=True)
class Repeated:
    """A parameter whose default a setting repeats."""

    callee: str
    parameter: str
    names: frozenset[str]
    default: Any
    passed: Any


def repeated() -> Iterator[Repeated]:
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text())
        if path.stem != "settings" and any(names_of(node) for node in ast.walk(tree)):
            name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
            module = importlib.import_module(name)
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from of(function, module)


def of(function: ast.FunctionDef | ast.AsyncFunctionDef, module: ModuleType) -> Iterator[Repeated]:
    """What the calls of a function repeat; its own imports, and what it assigns from settings, are known."""
    known = {**vars(module), "config": USUAL, "ground": SimpleNamespace(config=USUAL)}
    local: dict[str, frozenset[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.ImportFrom):
            exec(ast.unparse(node), known)
        elif isinstance(node, ast.Assign) and names_of(node.value):
            for target, value in pairs(node):
                if isinstance(target, ast.Name) and plain(value):
                    known[target.id], local[target.id] = evaluated(value, known), names_of(value)
    for call in ast.walk(function):
        if isinstance(call, ast.Call):
            for parameter, argument in arguments(call, known):
                names = names_of(argument) | {
                    name for node in ast.walk(argument) if isinstance(node, ast.Name) for name in local.get(node.id, ())
                }
                if names and isinstance(parameter.default, VALUES):
                    passed = evaluated(argument, known)
                    yield Repeated(ast.unparse(call.func), parameter.name, names, parameter.default, passed)


def plain(node: ast.expr) -> bool:
    """Whether it calls nothing and names nothing but settings: its value is known, whatever else the process has."""
    inside = list(ast.walk(node))
    names = {one.id for one in inside if isinstance(one, ast.Name)}
    return names <= {"config", "ground"} and not any(isinstance(one, ast.Call) for one in inside)


def pairs(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    (target,) = node.targets
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        return list(zip(target.elts, node.value.elts, strict=True))
    return [(target, node.value)]


def arguments(call: ast.Call, known: dict[str, Any]) -> list[tuple[inspect.Parameter, ast.expr]]:
    """The arguments of a call of what a module has, with its parameters."""
    try:
        parameters = inspect.signature(evaluated(call.func, known)).parameters
    except (NameError, AttributeError, TypeError, ValueError):
        return []
    named = [(parameters[one.arg], one.value) for one in call.keywords if one.arg and one.arg in parameters]
    return [*zip(parameters.values(), call.args, strict=False), *named]


def evaluated(node: ast.expr, known: dict[str, Any]) -> Any:
    return eval(ast.unparse(node), known)


def names_of(node: ast.AST) -> frozenset[str]:
    """The settings in it: `config.NAME` or `ground.config.NAME`."""
    return frozenset(
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute)
        and one.attr in settings.Settings.model_fields
        and ast.unparse(one.value) in ("config", "ground.config")
    )


def test_defaults_of_the_settings_are_those_of_what_they_bound() -> None:
    found = list(repeated())
    wrong = [
        one for one in found
        if (one.default, one.passed) != DIFFERENT.get((one.callee, one.parameter), (one.passed, one.passed))
    ]  # fmt: skip
    assert wrong == []
    assert {(one.callee, one.parameter) for one in found} >= DIFFERENT.keys()
    names = {name for one in found for name in one.names}
    assert names >= {
        "agent_enough", "agent_hits", "agent_interpreted", "agent_iterations", "agent_parallel",
        "agent_seconds", "agent_tokens", "alpha", "answer_threshold", "chunk_chars", "chunk_overlap",
        "code_file_bytes", "code_files", "code_memory_bytes", "code_seconds", "code_total_bytes",
        "crawl_parallel", "fold_diacritics", "history_versions", "hops", "inside_images", "lane_width",
        "links_per_document", "max_buffered_bytes", "max_chars", "max_file_bytes", "pdf_page_chars",
        "pdf_pages", "qualify_tools", "queue_workers", "session_days", "turn_seconds", "visual_pages",
        "visual_pixels", "visual_prompt",
    }  # fmt: skip


def test_of_documents_as_a_whole() -> None:
    assert assembly.limits(USUAL) == document.Limits()
    usual = budget.Budget(seconds=DIFFERENT["budget.Budget", "seconds"][1])
    assert assembly.source_limits(USUAL) == usual
