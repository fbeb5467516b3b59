"""The part of AQL that `kb.graph.aql` is written in: read by recursive descent, run over plain documents.

A query is a row of operations, each of which makes new rows of variables from the rows before it; expressions are
closures over one such row. Source: the AQL manual, "High-level operations", "Operators", "Functions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.fakes.arango.expressions import Expressions, answers
from tests.fakes.arango.values import Collection, Expression, Operation, Refused, Row, rank, same, truth

__all__ = ["Collection", "Refused", "run"]

_KEY = re.compile(r"[A-Za-z0-9_\-:.@()+,=;$!*'%]{1,254}")
_ID = re.compile(rf"[A-Za-z][A-Za-z0-9_-]*/{_KEY.pattern}")


def run(query: str, bound: Mapping[str, Any], collections: Callable[[str, bool], Collection]) -> list[Any]:
    """What a query answers. `collections(name, write)` gives a collection or raises `Refused`."""
    reader = _Reader(query, bound, collections)
    operations = reader.query()
    if reader.peek():
        raise Refused(1501, f"syntax error near {reader.peek()!r}")
    unused = set(bound) - reader.used
    if unused:
        raise Refused(1552, f"bind parameter {sorted(unused)[0]!r} was not declared in the query")
    return answers(operations, {})


class _Reader(Expressions):
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
        return lambda rows: [row for row in rows if truth(wanted(row))]

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
                group = groups.setdefault(same(values), {**values, **({into: []} if into else {})})
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
                answers = list({same(one): one for one in answers}.values())
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
            if not _KEY.fullmatch(made["_key"]):
                raise Refused(1221, "illegal document key")
            if not all(_ID.fullmatch(made[end]) for end in ("_from", "_to") if end in made):
                raise Refused(1233, "edge attribute missing or invalid")
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
