"""Decimal arithmetic on expressions and tables, so that no figure is a model's guess. Pure.

Numbers are `decimal.Decimal`, as they are written: 0.1 is a tenth. An amount may have a unit, a currency of three
letters (ISO 4217) or `%`; amounts of two currencies are never added, compared or divided. Expressions are parsed by
`ast` and evaluated here: no names but those given, no calls but the functions below, bounded in length, number of parts
and digits.
"""

from __future__ import annotations

import ast
import decimal
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from orchestrator_job.effects.tools import bounds, port

DIGITS = 60
MOST_PARTS, MOST_ROWS, MOST_COLUMNS = 400, 2000, 50
_MOST_POWER = 100
_CONTEXT = decimal.Context(
    prec=DIGITS, rounding=decimal.ROUND_HALF_UP, Emin=-999, Emax=999,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)  # fmt: skip
_AMOUNT = re.compile(r"(?P<before>[A-Z]{3})?\s*(?P<number>[-+]?[0-9][0-9.,'\s]*)\s*(?P<after>[A-Z]{3}|%)?")
_SPACES = re.compile(r"[\s' ]")
_GROUPED = re.compile(r"[0-9]{1,3}(?:_[0-9]{3})+|[0-9]+")


class Wrong(Exception):  # noqa: N818  # what the model is answered
    """It cannot be calculated; the text says why."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with its unit, "" for none."""

    value: Decimal
    unit: str = ""

    def __str__(self) -> str:
        return f"{plain(self.value)} {self.unit}".strip()


def plain(value: Decimal) -> str:
    """Without an exponent and without zeros at the end of a fraction."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def amount(text: str, mark: str) -> Amount:
    """An amount as people write it: `1 234,50 CZK` with the decimal mark `,`, `EUR 1,234.50` with `.`.

    The other mark, spaces and apostrophes may stand between groups of three digits alone. Raises Wrong.
    """
    found = _AMOUNT.fullmatch(text.strip()) if len(text) <= 200 else None
    if found is None or (found["before"] and found["after"]):
        raise Wrong(f"{text[:60]!r} is no amount such as 1234.50 or 1234.50 EUR")
    sign = "-" if found["number"].startswith("-") else ""
    whole, point, fraction = found["number"].lstrip("+-").strip().partition(mark)
    grouped = _SPACES.sub("_", whole.replace("." if mark == "," else ",", "_"))
    if not _GROUPED.fullmatch(grouped) or (point and not re.fullmatch("[0-9]+", fraction)):
        raise Wrong(f"{text[:60]!r} is no number with the decimal mark {mark!r}: say which mark it has")
    number = Decimal(f"{sign}{grouped.replace('_', '')}.{fraction or '0'}")
    if len(number.as_tuple().digits) > DIGITS:
        raise Wrong(f"{text[:60]!r} has more than {DIGITS} digits")
    return Amount(number if fraction else number.to_integral_value(), found["before"] or found["after"] or "")


def evaluate(expression: str, given: Mapping[str, Amount]) -> Amount:
    """The value of an expression: + - * / // % **, parentheses, names of `given`, and sum, avg, min, max, abs, round.

    Raises Wrong.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Wrong(f"the expression cannot be read: {getattr(error, 'msg', None) or error}") from error
    if sum(1 for _ in ast.walk(tree)) > MOST_PARTS:
        raise Wrong(f"the expression has more than {MOST_PARTS} parts; use a table")
    try:
        with decimal.localcontext(_CONTEXT):
            return _value(tree.body, expression.strip(), given)
    except decimal.DivisionByZero as error:
        raise Wrong("it divides by zero") from error
    except decimal.Overflow as error:
        raise Wrong("a number becomes too large") from error
    except (decimal.InvalidOperation, RecursionError) as error:
        raise Wrong("it has no value, or one with too many digits") from error


def _value(node: ast.expr, text: str, given: Mapping[str, Amount]) -> Amount:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            # Of the text and not of the float, which has other digits.
            return Amount(_CONTEXT.create_decimal((ast.get_source_segment(text, node) or "").replace("_", "")))
        raise Wrong(f"{node.value!r} is no number")
    if isinstance(node, ast.Name):
        if node.id not in given:
            raise Wrong(f"{node.id!r} has no value: give it in values")
        return given[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        one = _value(node.operand, text, given)
        return Amount(-one.value if isinstance(node.op, ast.USub) else one.value, one.unit)
    if isinstance(node, ast.BinOp):
        return _pair(node.op, _value(node.left, text, given), _value(node.right, text, given))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node.func.id, [_value(one, text, given) for one in node.args])
    raise Wrong(f"{type(node).__name__} is not calculated; use + - * / // % **, sum, avg, min, max, abs and round")


def _pair(operation: ast.operator, left: Amount, right: Amount) -> Amount:
    if isinstance(operation, ast.Add | ast.Sub):
        unit = _same([left, right])
        return Amount(left.value + right.value if isinstance(operation, ast.Add) else left.value - right.value, unit)
    if isinstance(operation, ast.Mult):
        left, right = _ratio(left), _ratio(right)
        if left.unit and right.unit:
            raise Wrong(f"{left.unit} times {right.unit} is no amount")
        return Amount(left.value * right.value, left.unit or right.unit)
    if isinstance(operation, ast.Div | ast.FloorDiv | ast.Mod):
        return _divided(operation, left, _ratio(right))
    if isinstance(operation, ast.Pow):
        power = right.value
        if left.unit or right.unit or power != power.to_integral_value() or abs(power) > _MOST_POWER:
            raise Wrong(f"powers are of plain numbers, and whole ones from -{_MOST_POWER} to {_MOST_POWER}")
        return Amount(left.value ** int(power))
    raise Wrong(f"{type(operation).__name__} is not calculated")


def _divided(operation: ast.operator, left: Amount, right: Amount) -> Amount:
    if right.unit and right.unit != left.unit:
        raise Wrong(f"{left.unit or 'a number'} is not divided by {right.unit}")
    unit = "" if right.unit else left.unit
    if isinstance(operation, ast.FloorDiv):
        return Amount((left.value / right.value).to_integral_value(decimal.ROUND_FLOOR), unit)
    if isinstance(operation, ast.Mod):
        whole = (left.value / right.value).to_integral_value(decimal.ROUND_FLOOR)
        return Amount(left.value - whole * right.value, left.unit)
    return Amount(left.value / right.value, unit)


def _ratio(one: Amount) -> Amount:
    return Amount(one.value / 100) if one.unit == "%" else one


def _same(some: Sequence[Amount]) -> str:
    units = {one.unit for one in some}
    if len(units) > 1:
        named = ", ".join(sorted(unit or "without a currency" for unit in units))
        raise Wrong(f"amounts of different currencies are not put together: {named}")
    return units.pop() if units else ""


def _call(name: str, some: list[Amount]) -> Amount:
    if not some:
        raise Wrong(f"{name} needs amounts")
    if name == "round":
        places = some[1].value if len(some) == 2 else Decimal(0)
        if len(some) > 2 or places != places.to_integral_value() or not 0 <= places <= 20:
            raise Wrong("round takes an amount and a number of places from 0 to 20")
        return Amount(rounded(some[0].value, int(places)), some[0].unit)
    if name == "abs" and len(some) == 1:
        return Amount(abs(some[0].value), some[0].unit)
    if name in _OVER:
        return Amount(_OVER[name]([one.value for one in some]), _same(some))
    raise Wrong(f"there is no function {name!r}; use sum, avg, min, max, abs and round")


def rounded(value: Decimal, places: int) -> Decimal:
    """Half up, as in bookkeeping. Raises decimal.InvalidOperation."""
    return value.quantize(Decimal(1).scaleb(-places), decimal.ROUND_HALF_UP, _CONTEXT)


_OVER: Mapping[str, Callable[[list[Decimal]], Decimal]] = {
    "sum": lambda some: sum(some, Decimal(0)),
    "avg": lambda some: sum(some, Decimal(0)) / len(some),
    "min": min,
    "max": max,
}


class Operation(StrEnum):
    """What is calculated of a column. SHARE: each group's percentage of the sum."""

    SUM = "sum"
    AVERAGE = "avg"
    MINIMUM = "min"
    MAXIMUM = "max"
    COUNT = "count"
    SHARE = "share"


_Cell = Annotated[str, Field(max_length=200)]


class Table(port.Arguments):
    """Rows of cells as texts, each with a cell for every column. `column` is calculated, by `groupBy` where given.
    `decimalMark` is that of the cells. Empty cells are left out."""

    columns: Annotated[tuple[_Cell, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    rows: Annotated[tuple[tuple[_Cell, ...], ...], Field(min_length=1, max_length=MOST_ROWS)]
    operation: Operation
    column: _Cell
    group_by: _Cell | None = None


class CalculateArguments(port.Arguments):
    """Either an `expression`, with amounts as texts in `values` (`{"net": "1234.50 EUR"}`), or a `table`. `places`
    rounds the answer, half up."""

    expression: Annotated[str, Field(max_length=2000)] | None = None
    values: Annotated[
        dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,40}$")], _Cell], Field(max_length=100)
    ] = Field(default_factory=dict)
    table: Table | None = None
    decimal_mark: Annotated[str, Field(pattern=r"^[.,]$")] = "."
    places: Annotated[int, Field(ge=0, le=20)] | None = None


class Calculate:
    """The tool."""

    name = "calculate"
    description = "Exact decimal arithmetic: an expression, or sum, average, groups and percentages of a table."
    arguments = CalculateArguments

    async def read(self, given: CalculateArguments, place: port.Place) -> port.Result:
        """The figures; why not, where it cannot be calculated."""
        if (given.expression is None) == (given.table is None):
            return bounds.failed("Give an expression or a table.")
        try:
            if given.table is not None:
                return _tabled(given.table, given.decimal_mark, given.places)
            named = {name: amount(text, given.decimal_mark) for name, text in given.values.items()}
            expression = given.expression or ""
            found = _shown(evaluate(expression, named), given.places)
            return port.Result(f"{expression} = {found}", {"value": found})
        except (Wrong, decimal.DecimalException) as error:
            return bounds.failed(f"It was not calculated: {error}.")


def _shown(found: Amount, places: int | None) -> str:
    if places is None:
        return str(found)
    return f"{format(rounded(found.value, places), 'f')} {found.unit}".strip()


def _tabled(table: Table, mark: str, places: int | None) -> port.Result:
    at = _index(table, table.column)
    by = None if table.group_by is None else _index(table, table.group_by)
    groups: dict[str, list[Amount]] = {}
    for number, row in enumerate(table.rows, 1):
        if len(row) != len(table.columns):
            raise Wrong(f"row {number} has {len(row)} cells, the table has {len(table.columns)} columns")
        if row[at].strip():
            groups.setdefault("" if by is None else row[by].strip(), []).append(amount(row[at], mark))
    if not groups:
        raise Wrong(f"the column {table.column!r} is empty")
    with decimal.localcontext(_CONTEXT):
        lines, data = _figures(table.operation, groups, places)
    used = sum(len(some) for some in groups.values())
    head = f"{table.operation} of {table.column} ({used} of {len(table.rows)} rows)"
    return port.Result(bounds.cut("\n".join([head, *lines])), {"figures": data, "rows": used})


def _index(table: Table, name: str) -> int:
    if table.columns.count(name) != 1:
        raise Wrong(f"there is not one column {name!r} among {', '.join(table.columns)}")
    return table.columns.index(name)


def _figures(
    operation: Operation, groups: Mapping[str, list[Amount]], places: int | None
) -> tuple[list[str], dict[str, JsonValue]]:
    """By group, and within a group by currency."""
    parted = {
        (name, unit): [one.value for one in some if one.unit == unit]
        for name, some in groups.items()
        for unit in sorted({one.unit for one in some})
    }
    found: dict[tuple[str, str], Amount] = {}
    if operation is Operation.SHARE:
        if len({unit for _, unit in parted}) > 1:
            raise Wrong("amounts of different currencies have no common sum, so they have no shares")
        whole = sum((sum(some, Decimal(0)) for some in parted.values()), Decimal(0))
        found = {key: Amount(sum(some, Decimal(0)) / whole * 100, "%") for key, some in parted.items()}
    elif operation is Operation.COUNT:
        found = {key: Amount(Decimal(len(some))) for key, some in parted.items()}
    else:
        found = {key: Amount(_OVER[operation.value](some), key[1]) for key, some in parted.items()}
    data: dict[str, JsonValue] = {
        f"{name} {unit}".strip() or "all": _shown(one, places) for (name, unit), one in found.items()
    }
    return [f"{name}: {figure}" for name, figure in data.items()], data
