"""Values as AQL has them: their order, their truth, parts of them, functions of them.

Source: the AQL manual, "Type and value order", "Functions".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Expression = Callable[[Row], Any]
Operation = Callable[[Iterable[Row]], list[Row]]


class Refused(Exception):  # noqa: N818 -- an answer, not a bug
    """What the server answers with this error number."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


@dataclass
class Collection:
    """Documents by key; `name` makes their ids."""

    name: str
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """As a query sees them."""
        return [{**row, "_id": f"{self.name}/{key}"} for key, row in list(self.documents.items())]


def rank(value: Any) -> tuple[Any, ...]:
    """The order of values: null, bools, numbers, texts, lists, objects; texts by letter and then small before large."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, int | float):
        return (2, value)
    if isinstance(value, str):
        return (3, value.casefold(), value.swapcase())
    if isinstance(value, list):
        return (4, [rank(one) for one in value])
    return (5, [(rank(name), rank(value[name])) for name in sorted(value)])


def same(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def truth(value: Any) -> bool:
    # An empty list is true in AQL.
    return isinstance(value, list | dict) or bool(value)


def attribute(value: Expression, name: str) -> Expression:
    def look(row: Row) -> Any:
        found = value(row)
        return found.get(name) if isinstance(found, dict) else None

    return look


def each(value: Expression, inner: Expression) -> Expression:
    return lambda row: [inner({"$one": one}) for one in value(row) or []]


def item(value: Expression, place: Expression) -> Expression:
    def look(row: Row) -> Any:
        found, at = value(row), place(row)
        return found[at] if isinstance(found, list) and -len(found) <= at < len(found) else None

    return look


def unique(values: list[Any]) -> list[Any]:
    return list({same(one): one for one in values}.values())


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "CONCAT": lambda *parts: "".join(str(part) for part in parts if part is not None),
    "CONTAINS": lambda text, part: str(part) in str(text or ""),
    "FLATTEN": lambda lists: [one for some in lists for one in (some if isinstance(some, list) else [some])],
    "KEEP": lambda row, *names: {name: row[name] for name in names if name in row},
    "LENGTH": lambda value: 0 if value is None else len(value),
    "LOWER": lambda text: str(text).lower(),
    "MERGE": lambda *rows: {name: value for row in rows for name, value in row.items()},
    "NOT_NULL": lambda *values: next((one for one in values if one is not None), None),
    "STARTS_WITH": lambda text, beginning: isinstance(text, str) and text.startswith(beginning),
    "SUM": lambda values: sum(one for one in values if one is not None),
    "UNION": lambda *lists: [one for some in lists for one in some],
    "UNION_DISTINCT": lambda *lists: unique([one for some in lists for one in some]),
    "UNIQUE": unique,
}
