"""A query cut into tokens, and who looks at them one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.fakes.arango.values import Collection, Refused

_TOKEN = re.compile(
    r"""\s*(?:(?P<bound>@@?\w+)|(?P<text>"[^"]*")|(?P<number>\d+)|(?P<word>[A-Za-z_]\w*)
    |(?P<sign>\[\*\]|==|!=|<=|>=|[<>=?:,.()\[\]{}]))""",
    re.VERBOSE,
)
RESERVED = re.compile(
    "AGGREGATE|ALL|AND|ANY|ASC|COLLECT|DESC|DISTINCT|FALSE|FILTER|FOR|GRAPH|IN|INBOUND|INSERT|INTO|K_PATHS|LET|LIKE|"
    "LIMIT|NONE|NOT|NULL|OR|OUTBOUND|REMOVE|REPLACE|RETURN|SORT|TRUE|UPDATE|UPSERT|WINDOW|WITH",
    re.IGNORECASE,
)


class Tokens:
    """`collections(name, write)` gives a collection or raises `Refused`; `used` are the bound values so far."""

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
        if self._kind() != "word" or RESERVED.fullmatch(self.peek()):
            raise Refused(1501, f"syntax error: a variable expected near {self.peek()!r}")
        return self._take()

    def _value(self, token: str) -> Any:
        name = token[1:]
        if name not in self._bound:
            raise Refused(1551, f"no value specified for declared bind parameter {name!r}")
        self.used.add(name)
        return self._bound[name]
