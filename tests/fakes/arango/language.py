"""The part of AQL that `kb.graph.aql` is written in: read by recursive descent, run over plain documents.

A query is a row of operations, each of which makes new rows of variables from the rows before it; expressions are
closures over one such row. Source: the AQL manual, "High-level operations", "Operators", "Functions".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Expression = Callable[[Row], Any]
Operation = Callable[[Iterable[Row]], list[Row]]

_TOKEN = re.compile(
    r"""\s*(?:(?P<bound>@@?\w+)|(?P<text>"[^"]*")|(?P<number>\d+)|(?P<word>[A-Za-z_]\w*)
    |(?P<sign>\[\*\]|==|!=|<=|>=|[<>=?:,.()\[\]{}]))""",
    re.VERBOSE,
)
_RESERVED = re.compile(
    "AGGREGATE|ALL|AND|ANY|ASC|COLLECT|DESC|DISTINCT|FALSE|FILTER|FOR|GRAPH|IN|INBOUND|INSERT|INTO|K_PATHS|LET|LIKE|"
    "LIMIT|NONE|NOT|NULL|OR|OUTBOUND|REMOVE|REPLACE|RETURN|SORT|TRUE|UPDATE|UPSERT|WINDOW|WITH",
    re.IGNORECASE,
)
_STARTS = ("FOR", "LET", "RETURN")


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


def run(query: str, bound: Mapping[str, Any], collections: Callable[[str, bool], Collection]) -> list[Any]:
    """What a query answers. `collections(name, write)` gives a collection or raises `Refused`."""
    reader = _Reader(query, bound, collections)
    operations = reader.query()
    if reader.peek():
        raise Refused(1501, f"syntax error near {reader.peek()!r}")
    unused = set(bound) - reader.used
    if unused:
        raise Refused(1552, f"bind parameter {sorted(unused)[0]!r} was not declared in the query")
    return _answers(operations, {})


def _answers(operations: list[Operation], row: Row) -> list[Any]:
    rows: list[Row] = [row]
    for operation in operations:
        rows = operation(rows)
    return [one["$answer"] for one in rows if "$answer" in one]


def _same(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


class _Reader:
    def __init__(self, query: str, bound: Mapping[str, Any], collections: Callable[[str, bool], Collection]) -> None:
        self._bound, self._collections = bound, collections
        self.used: set[str] = set()
        self._tokens: list[tuple[str, str]] = []
        place, query = 0, query.rstrip()
        while place < len(query):
            found = _TOKEN.match(query, place)
            if found is None or found.lastgroup is None:
                raise Refused(1501, f"syntax error near {query[place : place + 20]!r}")
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            place = found.end()
        self._at = 0

    # -- tokens --------------------------------------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> str:
        return self._tokens[self._at + ahead][1] if self._at + ahead < len(self._tokens) else ""

    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self, wanted: str = "") -> str:
        found = self.peek()
        if not found or (wanted and found != wanted):
            raise Refused(1501, f"syntax error: {wanted or 'more'} expected near {found!r}")
        self._at += 1
        return found

    def _if(self, wanted: str) -> bool:
        if self.peek() == wanted:
            self._at += 1
            return True
        return False

    def _variable(self) -> str:
        if self._kind() != "word" or _RESERVED.fullmatch(self.peek()):
            raise Refused(1501, f"syntax error: a variable expected near {self.peek()!r}")
        return self._take()

    # -- operations ----------------------------------------------------------------------------------------------------

    def query(self) -> list[Operation]:
        """Operations up to the end of the query or of the parenthesis that it stands in."""
        made: list[Operation] = []
        readers = {
            "FOR": self._for,
            "FILTER": self._filter,
            "LET": self._let,
            "SORT": self._sort,
            "LIMIT": self._limit,
            "COLLECT": self._collect,
            "RETURN": self._return,
            "INSERT": self._insert,
            "UPDATE": self._update,
            "REMOVE": self._remove,
        }
        while self.peek() not in ("", ")"):
            word = self._take()
            if word not in readers:
                raise Refused(1501, f"syntax error near {word!r}")
            made.append(readers[word]())
            if word == "RETURN":
                break
        return made

    def _for(self) -> Operation:
        name = self._variable()
        self._take("IN")
        source = self._expression()

        def work(rows: Iterable[Row]) -> list[Row]:
            made = []
            for row in rows:
                found = source(row)
                items = found.rows() if isinstance(found, Collection) else found
                if not isinstance(items, list):
                    raise Refused(1563, "FOR loops over a list or a collection")
                made += [{**row, name: one} for one in items]
            return made

        return work

    def _filter(self) -> Operation:
        wanted = self._expression()
        return lambda rows: [row for row in rows if _true(wanted(row))]

    def _let(self) -> Operation:
        name = self._variable()
        self._take("=")
        value = self._expression()
        return lambda rows: [{**row, name: value(row)} for row in rows]

    def _sort(self) -> Operation:
        keys = []
        while True:
            key = self._expression()
            downwards = self._if("DESC")
            if not downwards:
                self._if("ASC")
            keys.append((key, downwards))
            if not self._if(","):
                break

        def work(rows: Iterable[Row]) -> list[Row]:
            made = list(rows)
            for key, downwards in reversed(keys):
                made.sort(key=lambda row: rank(key(row)), reverse=downwards)
            return made

        return work

    def _limit(self) -> Operation:
        most = self._expression()
        return lambda rows: list(rows)[: int(most({}))]

    def _collect(self) -> Operation:
        keys = []
        while True:
            name = self._variable()
            self._take("=")
            keys.append((name, self._expression()))
            if not self._if(","):
                break
        into = self._variable() if self._if("INTO") else ""
        kept = self._expression() if into and self._if("=") else None

        def work(rows: Iterable[Row]) -> list[Row]:
            groups: dict[str, Row] = {}
            for row in rows:
                values = {name: value(row) for name, value in keys}
                group = groups.setdefault(_same(values), {**values, **({into: []} if into else {})})
                if into:
                    group[into].append(kept(row) if kept else row)
            # What was a variable before is none any more.
            return sorted(groups.values(), key=lambda group: [rank(group[name]) for name, _ in keys])

        return work

    def _return(self) -> Operation:
        distinct = self._if("DISTINCT")
        value = self._expression()

        def work(rows: Iterable[Row]) -> list[Row]:
            answers = [value(row) for row in rows]
            if distinct:
                answers = list({_same(one): one for one in answers}.values())
            return [{"$answer": one} for one in answers]

        return work

    def _target(self) -> Collection:
        return self._collections(str(self._value(self._take())), True)

    def _changed(self, change: Callable[[Row], dict[str, Any]]) -> Operation:
        """All rows are read before any is changed, as the server does it."""
        value: Expression | None = None
        if self._if("RETURN"):
            value = self._expression()

        def work(rows: Iterable[Row]) -> list[Row]:
            made = [{**row, **change(row)} for row in list(rows)]
            return [{"$answer": value(row)} for row in made] if value else []

        return work

    def _insert(self) -> Operation:
        value = self._expression()
        self._take("INTO")
        target = self._target()
        mode = ""
        if self._if("OPTIONS"):
            mode = self._expression()({})["overwriteMode"]

        def change(row: Row) -> dict[str, Any]:
            made = value(row)
            if made["_key"] in target.documents:
                if mode == "ignore":
                    return {}
                if mode != "replace":
                    raise Refused(1210, "unique constraint violated")
            target.documents[made["_key"]] = dict(made)
            return {"NEW": made}

        return self._changed(change)

    def _update(self) -> Operation:
        name = self._variable()
        self._take("WITH")
        patch = self._reached()  # the IN that follows is not the operator
        self._take("IN")
        target = self._target()

        def change(row: Row) -> dict[str, Any]:
            known = target.documents[row[name]["_key"]]
            target.documents[row[name]["_key"]] = {**known, **patch(row)}
            return {"OLD": known, "NEW": target.documents[row[name]["_key"]]}

        return self._changed(change)

    def _remove(self) -> Operation:
        name = self._variable()
        self._take("IN")
        target = self._target()
        return self._changed(lambda row: {"OLD": target.documents.pop(row[name]["_key"])})

    # -- expressions ---------------------------------------------------------------------------------------------------

    def _expression(self) -> Expression:
        wanted = self._either()
        if not self._if("?"):
            return wanted
        yes = self._expression()
        self._take(":")
        no = self._expression()
        return lambda row: yes(row) if _true(wanted(row)) else no(row)

    def _either(self) -> Expression:
        parts = [self._both()]
        while self._if("OR"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda row: any(_true(part(row)) for part in parts)

    def _both(self) -> Expression:
        parts = [self._compared()]
        while self._if("AND"):
            parts.append(self._compared())
        return parts[0] if len(parts) == 1 else lambda row: all(_true(part(row)) for part in parts)

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
                value = _attribute(value, self._take())
            elif self._if("[*]"):
                inner: Expression = lambda row: row["$one"]  # noqa: E731 -- made longer below
                while self._if("."):
                    inner = _attribute(inner, self._take())
                value = _each(value, inner)
            elif self._if("["):
                value = _item(value, self._expression())
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
        if kind != "word" or _RESERVED.fullmatch(token):
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
        return lambda row: _answers(operations, row)

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
            fields[name] = self._expression() if self._if(":") else _attribute(lambda row: row, name)
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
        if name not in _FUNCTIONS:
            raise Refused(1540, f"unknown function {name!r}")
        function = _FUNCTIONS[name]
        return lambda row: function(*(one(row) for one in arguments))

    def _value(self, token: str) -> Any:
        name = token[1:]
        if name not in self._bound:
            raise Refused(1551, f"no value specified for declared bind parameter {name!r}")
        self.used.add(name)
        return self._bound[name]


def _true(value: Any) -> bool:
    # An empty list is true in AQL.
    return isinstance(value, list | dict) or bool(value)


def _attribute(value: Expression, name: str) -> Expression:
    def look(row: Row) -> Any:
        found = value(row)
        return found.get(name) if isinstance(found, dict) else None

    return look


def _each(value: Expression, inner: Expression) -> Expression:
    return lambda row: [inner({"$one": one}) for one in value(row) or []]


def _item(value: Expression, place: Expression) -> Expression:
    def look(row: Row) -> Any:
        found, at = value(row), place(row)
        return found[at] if isinstance(found, list) and -len(found) <= at < len(found) else None

    return look


def _unique(values: list[Any]) -> list[Any]:
    return list({_same(one): one for one in values}.values())


_FUNCTIONS: dict[str, Callable[..., Any]] = {
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
    "UNION_DISTINCT": lambda *lists: _unique([one for some in lists for one in some]),
    "UNIQUE": _unique,
}
