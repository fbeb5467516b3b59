"""The walk finds what there is, and nothing goes to a model beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.packages import PACKAGES
from tests.schemas import foreign, walking

_SHOWN = {
    "crds/schema.py": "of custom resources",
    "kb/agent/servers.py": "of another server's arguments: its letters are counted, and `schema.parameters` reads it",
    "kb/extract/tools/registry.py": "of arguments as /mcp lists them, to programs",
    "router/client/schema.py": "the place that makes them",
}
"""Where a JSON Schema is made of a class: of what."""


def _sources() -> Iterator[tuple[str, ast.Module]]:
    for package in sorted(PACKAGES):
        for path in sorted((walking.ROOT / package).rglob("*.py")):
            yield path.relative_to(walking.ROOT).as_posix(), ast.parse(path.read_text())


@pytest.fixture(name="sources", scope="module")
def _parsed() -> list[tuple[str, ast.Module]]:
    return list(_sources())


def _last(node: ast.expr) -> str:
    """`schema.Shape` -> Shape."""
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def test_every_class_of_an_answer_in_the_code_is_found(sources: list[tuple[str, ast.Module]]) -> None:
    classes = [
        (
            _module(path),
            node.name,
            {_last(base) for base in node.bases if _last(base) == "Shape" or isinstance(base, ast.Name)},
        )
        for path, tree in sources
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    written = set[tuple[str, str]]()
    while (
        more := {
            (module, name)
            for module, name, bases in classes
            if "Shape" in bases or any((module, base) in written for base in bases)
        }
        - written
    ):
        written |= more
    found = {(shape.__module__, shape.__name__) for shape in walking.shapes()}
    assert written - found == set()
    assert len(found) >= 9


def test_the_known_ones_are_found() -> None:
    tools = walking.arguments()
    assert {"job.SendMail", "job.Delegate", "qualify.routeTask", "mcp.ask", "agent.GraphExploreTool"} <= tools.keys()
    assert len(tools) >= 70
    assert {"orchestrator_job.answer.model_answer.Given", "orchestrator_job.plan.run_plan.Draft, chosen"} <= {
        sample.name for sample in walking.answers()
    }
    assert {f"call of foreign {name}" for name in foreign.LISTED} <= {sample.name for sample in walking.calls()}
    assert "Research" in walking.names()["agent"]
    assert "search_knowledge" in walking.names()["tool"]
    assert all(list(walking.EVIDENCE) in walking.enums(sample.schema) for sample in walking.answers() if _cites(sample))


def _cites(sample: walking.Sample) -> bool:
    return sample.name.endswith(", chosen") and '"citations"' in str(sample.schema).replace("'", '"')


def test_every_function_that_makes_what_is_sent_is_tried(sources: list[tuple[str, ast.Module]]) -> None:
    made = [
        f"{_module(path)}.{node.name}"
        for path, tree in sources
        if not path.startswith("router/client/")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
        if node.returns is not None and _last(node.returns) == "Wire"
    ]
    assert made == list(walking.built())


def test_no_schema_is_made_elsewhere(sources: list[tuple[str, ast.Module]]) -> None:
    """mypy compares the types `Wire` and `Parameters`; what is made to look like one of them is found here."""
    around = [
        f"{path}: {ast.unparse(node)[:80]}"
        for path, tree in sources
        if path not in _SHOWN
        for node in ast.walk(tree)
        if _makes_one(node) and not path.startswith("router/client/")
    ]
    assert around == []
    assert [path for path, tree in sources if path in _SHOWN and any(map(_makes_one, ast.walk(tree)))] == list(_SHOWN)


def _makes_one(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        called = _last(node.func)
        # `tools/mcp.py` overrides the first of these: it is called by `schema.parameters`.
        if called in ("model_json_schema", "json_schema", "Wire", "Parameters"):
            return True
        return (
            called == "cast"
            and bool(node.args)
            and ast.unparse(node.args[0]).rpartition(".")[2].strip("'\"")
            in (
                "Wire",
                "Parameters",
            )
        )
    if isinstance(node, ast.Dict):
        named = {
            key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)
        }
        if "parameters" in named and "name" in named:
            value = named["parameters"]
            return not (isinstance(value, ast.Call) and _last(value.func) == "parameters")
        # The body of a request that a client would make by itself.
        return "format" in named and bool(named.keys() & {"messages", "prompt"})
    return False


def _module(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize(
    ("code", "around"),
    [
        ("Answer.model_json_schema()", True),
        ("pydantic.TypeAdapter(Answer).json_schema()", True),
        ("schema.Wire({'type': 'object'})", True),
        ("cast('schema.Wire', made)", True),
        ("typing.cast(Parameters, made)", True),
        ("{'name': 'a', 'parameters': made}", True),
        ("{'name': 'a', 'parameters': schema.parameters(made)}", False),
        ("{'model': 'a', 'messages': [], 'format': made}", True),
        ("{'format': 'png'}", False),
        ("schema.wire(Answer)", False),
    ],
)
def test_a_way_around_is_seen(code: str, around: bool) -> None:
    assert any(map(_makes_one, ast.walk(ast.parse(code)))) is around
