"""What a decision is asked for, and what is read of one: by no model."""

from __future__ import annotations

import json
import math
from typing import Any

import pydantic
import pytest

from kb.agent import decision, retrieving, tree
from tests.kb.agent import rig


class Search(tree.Chosen):
    name = "fast_vector_search"
    description = "Passages."
    inputs: type[pydantic.BaseModel] = retrieving.Query

    async def is_tool_available(self, tree_data: tree.TreeData) -> bool:
        return True


class Answer(Search):
    name = decision.ANSWER
    description = "The answer."
    inputs = tree.NoInputs


class Rules(Answer):
    name = "rules"


SOME: Any = [Search(), Rules(), Answer()]
CALL = {"reasoning": "r", "tool": "fast_vector_search", "inputs": {"query": "pump"}}


def test_each_tool_has_a_shape_and_no_flag_stands_beside_it() -> None:
    wire = decision.schema(SOME)
    assert rig.offered({"body": {"format": wire}}) == ["fast_vector_search", "rules", "text_response"]
    search, rules, enough, impossible = (list(shape["properties"]) for shape in wire["anyOf"])
    assert search == ["reasoning", "tool", "inputs", "should_end"]
    assert rules == ["reasoning", "tool", "should_end"]
    assert (enough, impossible) == (["reasoning", "enough"], ["reasoning", "impossible"])
    # Nothing is enough before there is anything to answer from.
    assert "enough" not in json.dumps(decision.schema(SOME[:2]))
    assert "maxLength" not in json.dumps(wire)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(CALL),
        json.dumps(rig.decided("fast_vector_search", query="pump")),
        json.dumps(CALL | {"should_end": "false", "enough": None, "impossible": "no"}),
        json.dumps(CALL | {"reasoning": None}),
        f'<think>I could call rules: {{"tool": "rules"}}</think>{json.dumps(CALL)}',
        f"I choose this:\n```json\n{json.dumps(CALL)}\n```",
    ],
)
def test_a_call_is_read_whatever_stands_around_it(text: str) -> None:
    made = decision.parse(text, SOME)
    assert (made.tool, made.inputs, made.enough, made.impossible) == (
        "fast_vector_search", {"query": "pump"}, False, False,
    )  # fmt: skip


def test_enough_and_impossible_are_read_as_shapes_and_as_flags() -> None:
    for said in ({"reasoning": "r", "enough": True}, rig.decided("rules") | {"enough": "true"}):
        made = decision.parse(json.dumps(said), SOME)
        assert (made.tool, made.enough) == (decision.ANSWER, True)
    first = {
        "enough": False, "missing": "", "tool": "search", "inputs": {}, "reasoning": "The answer is not found yet.",
        "should_end": True, "impossible": True,
    }  # fmt: skip
    for said in ({"reasoning": "Cannot complete: r", "impossible": True}, first):
        assert decision.parse(json.dumps(said), SOME).impossible


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(CALL | {"inputs": '{"query": "pump"}'}),
        json.dumps(CALL | {"inputs": ["pump"]}),
        json.dumps(CALL | {"inputs": {"query": 7}}),
        json.dumps(CALL | {"inputs": {"Query": "pump"}}),
        json.dumps(CALL | {"inputs": {"query": "pump", "more": 1}}),
        json.dumps(CALL | {"tool": "Fast_Vector_Search"}),
        json.dumps(CALL | {"tool": "rm"}),
        # Another query, where JSON has no such number or character.
        json.dumps(CALL | {"inputs": {"query": "pump", "limit": math.nan}}),
        json.dumps(CALL | {"inputs": {"query": "pump \ud83d"}}),
        '{"reasoning": "r", "tool": "fast_vector_search", "inputs": {"query": "pump", "limit": 1e999}}',
        # As deep as an interpreter goes, and deeper.
        *('{"tool": "fast_vector_search", "inputs": ' + '{"k": ' * n + "1" + "}" * (n + 1) for n in (60, 520, 960)),
        # Of a longer query that was cut.
        '{"reasoning": "r", "tool": "fast_vector_search", "inputs": {"query": "pump", "wh',
        '{"reasoning": "r", "enough": true',
        "[]",
        "",
    ],
)
def test_inputs_are_never_repaired(text: str) -> None:
    if "enough" in text:
        assert decision.parse(text, SOME).enough
        return
    with pytest.raises(ValueError, match=r"."):
        decision.parse(text, SOME)


def test_source_code_keeps_its_lines() -> None:
    """Of a tool whose inputs are taken as they are; a query of ours has none."""
    code = "if x:\n\ty"
    for exact, query in ((True, code), (False, "if x:  y")):
        tool: Any = Search()
        tool.exact = exact
        made = decision.parse(json.dumps(CALL | {"inputs": {"query": code}}), [tool])
        assert made.inputs["query"] == query
