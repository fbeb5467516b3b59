"""Decimal arithmetic: exact, by currency, and bounded whatever is written."""

from __future__ import annotations

import asyncio
import contextlib
import re

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from crds import scope
from orchestrator_job.effects.tools import calculate, port

PLACE = port.Place(scope.Scope(client_id="acme"), "r1.d1", 1, 1, "en")


def asked(**given: object) -> port.Result:
    tool = calculate.Calculate()
    return asyncio.run(tool.read(port.parse(tool, given), PLACE))


@pytest.mark.parametrize(
    ("expression", "values", "answer"),
    [
        ("0.1 + 0.2", {}, "0.3"),
        ("1_000.10 * 3", {}, "3000.3"),
        ("net * 21%100", {"net": "1.00"}, "21"),
        ("net * rate", {"net": "1,234.50 EUR", "rate": "21 %"}, "259.245 EUR"),
        ("net + net * rate", {"net": "EUR 1,234.50", "rate": "21%"}, "1493.745 EUR"),
        ("a / b", {"a": "10 EUR", "b": "4 EUR"}, "2.5"),
        ("round(10 / 3, 2)", {}, "3.33"),
        ("round(2.345, 2) + round(-2.345, 2)", {}, "0"),
        ("sum(1, 2, 3.5) - avg(1, 2) + min(4, 5) + max(1, 9) + abs(-1)", {}, "19"),
        ("-7 // 2", {}, "-4"),
        ("-7 % 3", {}, "2"),
        ("2 ** 64", {}, "18446744073709551616"),
        ("2 ** -1", {}, "0.5"),
    ],
)
def test_an_expression_is_exact(expression: str, values: dict[str, str], answer: str) -> None:
    result = asked(expression=expression, values=values)
    assert (result.failed, result.data.get("value")) == (False, answer), result.text


@pytest.mark.parametrize(
    ("expression", "values", "reason"),
    [
        ("a + b", {"a": "1 EUR", "b": "1 CZK"}, "different currencies"),
        ("a + 1", {"a": "1 EUR"}, "different currencies"),
        ("a * a", {"a": "2 EUR"}, "EUR times EUR"),
        ("1 / a", {"a": "2 EUR"}, "not divided by EUR"),
        ("1 / 0", {}, "divides by zero"),
        ("9**9**9", {}, "powers"),
        ("(10 ** 100) ** 100", {}, "too large"),
        ("10 ** 0.5", {}, "powers"),
        ("x", {}, "'x' has no value"),
        ("__import__('os').system('id')", {}, "not calculated"),
        ("(1).__class__", {}, "not calculated"),
        ("[1 for _ in range(9)]", {}, "not calculated"),
        ("True + 1", {}, "no number"),
        ("1j", {}, "no number"),
        ("'a' * 9", {}, "no number"),
        ("lambda: 1", {}, "not calculated"),
        ("1 +", {}, "cannot be read"),
        ("(" * 900 + "1" + ")" * 900, {}, "cannot be read"),
        ("-" * 1900 + "1", {}, "parts|cannot be read"),
        ("+".join("1" * 1 for _ in range(900)), {}, "more than 400 parts"),
        ("round(1, 10 ** 9)", {}, "0 to 20"),
        ("1 << 9", {}, "LShift is not calculated"),
    ],
)
def test_what_cannot_or_must_not_be_calculated_is_refused(expression: str, values: dict[str, str], reason: str) -> None:
    result = asked(expression=expression, values=values)
    assert result.failed
    assert re.search(reason, result.text), result.text


@pytest.mark.parametrize(
    ("text", "mark", "value"),
    [
        ("1 234,50 CZK", ",", "1234.5 CZK"),
        ("1.234,50", ",", "1234.5"),
        ("1'234.50", ".", "1234.5"),
        ("1\u00a0234\u00a0567", ",", "1234567"),
        ("-3.5 %", ".", "-3.5 %"),
        ("CZK 12", ".", "12 CZK"),
    ],
)
def test_amounts_are_read_as_people_write_them(text: str, mark: str, value: str) -> None:
    assert str(calculate.amount(text, mark)) == value


@pytest.mark.parametrize(
    ("text", "mark"),
    [("1.234,50", "."), ("1,23", "."), ("12,34.5", "."), ("EUR 1 CZK", "."), ("", "."), ("1e9", "."), ("NaN", "."),
     ("1..2", "."), ("9" * 61, "."), ("1,2", ".")],
)  # fmt: skip
def test_a_number_that_may_mean_two_things_is_asked_about(text: str, mark: str) -> None:
    with pytest.raises(calculate.Wrong):
        calculate.amount(text, mark)


TABLE = {
    "columns": ["who", "cost"],
    "rows": [["ann", "10.50 EUR"], ["bob", "2 EUR"], ["ann", "7.50 EUR"], ["bob", ""], ["eve", "100 CZK"]],
}


def table(operation: str, **more: object) -> port.Result:
    return asked(table={**TABLE, "operation": operation, "column": "cost", **more})


def test_a_table_is_summed_by_group_and_never_over_currencies() -> None:
    assert table("sum").data == {"figures": {"CZK": "100 CZK", "EUR": "20 EUR"}, "rows": 4}
    by = table("avg", groupBy="who").data
    assert by["figures"] == {"ann EUR": "9 EUR", "bob EUR": "2 EUR", "eve CZK": "100 CZK"}
    assert "no common sum" in table("share").text
    own = [["ann", "1"], ["bob", "2"]]
    shares = asked(table={**TABLE, "rows": own, "operation": "share", "column": "cost", "groupBy": "who"}, places=2)
    assert shares.data["figures"] == {"ann": "33.33 %", "bob": "66.67 %"}
    assert "has 1 cells" in asked(table={**TABLE, "rows": [["1"]], "operation": "sum", "column": "cost"}).text
    assert "not one column" in asked(table={**TABLE, "operation": "sum", "column": "price"}).text
    zero = asked(table={**TABLE, "rows": [["a", "0"]], "operation": "share", "column": "cost"})
    assert zero.failed


@drawn(st.text(max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    for mark in ".,":
        with contextlib.suppress(calculate.Wrong):
            calculate.amount(text, mark)
    with contextlib.suppress(calculate.Wrong):
        calculate.evaluate(text, {})
