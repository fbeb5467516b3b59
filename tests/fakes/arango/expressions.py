"""Expressions: closures over one row of variables. Source: the AQL manual, "Operators"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tests.fakes.arango.tokens import RESERVED, Tokens
from tests.fakes.arango.values import (
    FUNCTIONS,
    Expression,
    Operation,
    Refused,
    Row,
    attribute,
    each,
    item,
    rank,
    truth,
)

_STARTS = ("FOR", "LET", "RETURN")


def answers(operations: list[Operation], row: Row) -> list[Any]:
    rows: list[Row] = [row]
    for operation in operations:
        rows = operation(rows)
    return [one["$answer"] for one in rows if "$answer" in one]


class Expressions(Tokens, ABC):
    """Reads expressions."""

    @abstractmethod
    def query(self) -> list[Operation]:
        """Operations up to the end of the query, or of the parenthesis that a subquery stands in."""

    def _expression(self) -> Expression:
        wanted = self._either()
        if not self._if("?"):
            return wanted
        yes = self._expression()
        self._take(":")
        no = self._expression()
        return lambda row: yes(row) if truth(wanted(row)) else no(row)

    def _either(self) -> Expression:
        parts = [self._both()]
        while self._if("OR"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda row: any(truth(part(row)) for part in parts)

    def _both(self) -> Expression:
        parts = [self._compared()]
        while self._if("AND"):
            parts.append(self._compared())
        return parts[0] if len(parts) == 1 else lambda row: all(truth(part(row)) for part in parts)

    def _compared(self) -> Expression:
        left = self._reached()
        sign = self.peek()
        if sign == "ANY" and self.peek(1) == "IN":
            self._at += 2
            right = self._reached()
            return lambda row: any(one in right(row) for one in left(row))
        if sign not in ("==", "!=", "<", "<=", ">", ">=", "IN"):
            return left
        self._take()
        right = self._reached()
        tests: dict[str, Callable[[Any, Any], bool]] = {
            "==": lambda a, b: rank(a) == rank(b),
            "!=": lambda a, b: rank(a) != rank(b),
            "<": lambda a, b: rank(a) < rank(b),
            "<=": lambda a, b: rank(a) <= rank(b),
            ">": lambda a, b: rank(a) > rank(b),
            ">=": lambda a, b: rank(a) >= rank(b),
            "IN": lambda a, b: isinstance(b, list) and any(rank(a) == rank(one) for one in b),
        }
        return lambda row: tests[sign](left(row), right(row))

    def _reached(self) -> Expression:
        value = self._simple()
        while True:
            if self._if("."):
                value = attribute(value, self._take())
            elif self._if("[*]"):
                inner: Expression = lambda row: row["$one"]  # noqa: E731 -- made longer below
                while self._if("."):
                    inner = attribute(inner, self._take())
                value = each(value, inner)
            elif self._if("["):
                value = item(value, self._expression())
                self._take("]")
            else:
                return value

    def _simple(self) -> Expression:
        kind, token = self._kind(), self._take()
        if kind == "number":
            return lambda row: int(token)
        if kind == "text":
            return lambda row: token[1:-1]
        if kind == "bound":
            value = self._value(token)
            if token.startswith("@@"):
                collection = self._collections(value, False)
                return lambda row: collection
            return lambda row: value
        if token == "(":
            made = self._inner() if self.peek() in _STARTS else self._expression()
            self._take(")")
            return made
        if token == "[":
            items = self._list("]")
            return lambda row: [item(row) for item in items]
        if token == "{":
            return self._object()
        if token in ("null", "true", "false"):
            return lambda row: {"null": None, "true": True, "false": False}[token]
        if kind != "word" or RESERVED.fullmatch(token):
            raise Refused(1501, f"syntax error near {token!r}")
        if self._if("("):
            return self._call(token)

        def look(row: Row) -> Any:
            if token not in row:
                raise Refused(1512, f"unknown variable {token!r}")
            return row[token]

        return look

    def _inner(self) -> Expression:
        operations = self.query()
        return lambda row: answers(operations, row)

    def _list(self, end: str) -> list[Expression]:
        items: list[Expression] = []
        while not self._if(end):
            items.append(self._expression())
            if not self._if(","):
                self._take(end)
                break
        return items

    def _object(self) -> Expression:
        fields: dict[str, Expression] = {}
        while not self._if("}"):
            name = self._take()
            # A name alone is the variable of that name.
            fields[name] = self._expression() if self._if(":") else attribute(lambda row: row, name)
            if not self._if(","):
                self._take("}")
                break
        return lambda row: {name: value(row) for name, value in fields.items()}

    def _call(self, name: str) -> Expression:
        if self.peek() in _STARTS:
            arguments = [self._inner()]
            self._take(")")
        else:
            arguments = self._list(")")
        if name not in FUNCTIONS:
            raise Refused(1540, f"unknown function {name!r}")
        function = FUNCTIONS[name]
        return lambda row: function(*(one(row) for one in arguments))
