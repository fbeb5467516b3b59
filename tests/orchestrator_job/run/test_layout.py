"""What the code of runs must not do: import LangGraph elsewhere, or interrupt a graph within a node."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.orchestrator_job import recording

_PACKAGE = Path(__file__).resolve().parents[3] / "orchestrator_job"
_ALLOWED = {"graph.py", "checkpoints.py"}
_INTERRUPTS = {"interrupt", "interrupt_before", "interrupt_after", "NodeInterrupt", "GraphInterrupt"}
_ASKING = {"consent.py", "finalize.py", "errors.py", "ledger.py", "inflight_effects.py"}
"""Where a person's decision may end a run: two nodes, and what says that an effect may have happened."""


def _files() -> list[Path]:
    return sorted(_PACKAGE.rglob("*.py"))


def _imported(tree: ast.AST) -> set[str]:
    names = {one.name for each in ast.walk(tree) if isinstance(each, ast.Import) for one in each.names}
    return names | {each.module or "" for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}


def _raised(tree: ast.AST) -> set[str]:
    calls = (each.exc.func for each in ast.walk(tree) if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call))
    return {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in calls}


@pytest.mark.parametrize("path", _files(), ids=lambda one: str(one.relative_to(_PACKAGE)))
def test_no_module_imports_langgraph_or_interrupts(path: Path) -> None:
    tree = ast.parse(path.read_text())
    if path.name not in _ALLOWED or path.parent != _PACKAGE / "run":
        assert not {one for one in _imported(tree) if one.split(".")[0] in ("langgraph", "langchain_core")}
    used = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    used |= {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    used |= {each.arg or "" for each in ast.walk(tree) if isinstance(each, ast.keyword)}
    assert not used & _INTERRUPTS
    if _raised(tree) & {"NeedsApproval", "MayHaveHappened"}:
        assert path.name in _ASKING


@pytest.mark.parametrize("path", sorted(recording.CORPUS.glob("*.json")), ids=lambda path: path.stem)
def test_what_a_run_keeps_names_no_module(path: Path) -> None:
    """A module may be moved while a task waits for its next run."""
    kept = recording.contents(path)
    assert b"orchestrator_job" not in kept
    assert b"task_uid" in kept or b"taskUid" in kept


def test_the_node_that_asks_has_no_effect_but_the_request() -> None:
    """`consent` ends a run; what would happen before that in its node would happen again in the next one."""
    tree = ast.parse((_PACKAGE / "run" / "consent.py").read_text())
    settled = [
        each.args[2]
        for each in ast.walk(tree)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "settle"
    ]
    assert [ast.unparse(one.func) for one in settled if isinstance(one, ast.Call)] == ["results.SaveResult"]
    called = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    assert not called & {"act", "effect", "perform", "ask", "work"}
